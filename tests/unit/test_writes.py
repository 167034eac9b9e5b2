"""What the distribution of writes changes of a plan: what is read at once and first, how many differences are decoded, and what stays."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import pytest

from auditor.connections.reader import Reader
from auditor.history.handover import EarlierRuns
from auditor.model import SIDES, Chunk, Plan, Slice, Writes
from auditor.planning import writes
from auditor.planning.chunks import read_first
from auditor.planning.prescan import decide
from auditor.planning.writes import choose_by_writes
from dialects import Kind
from tests.unit.test_prescan import HASH, audit, described, of_lengths, plan

SINCE = dt.datetime(2026, 5, 1, tzinfo=dt.UTC)
NOBODY = cast("Reader", None)
"""No database is asked where a pipeline knows the writes."""

UNIFORM = range(0, 100_000, 50)
HOT = [*range(80_000, 100_000, 10), 5, 50_005]
"""A fifth of the keys, where nearly all writes are."""


def made(rows: int = 100_000, **more: Any) -> Plan:
    """Return the plan of a table whose stretches have digests of about 2,000 rows."""
    return of_lengths(plan(rows=rows, **more), *[Kind("text", bytes=80)] * 2)


def past(keys: Sequence[int] | str = (), share: float = 0.1, **more: Any) -> EarlierRuns:
    values = {"unequal_shares": (share,) * 3, "unequal_keys": (90_000,) if share else (), "verified_through": SINCE}
    return EarlierRuns(**{**values, "events": lambda _, __: keys, **more})


def chosen(earlier: EarlierRuns, drafted: Plan | None = None, found_by: Any = None, **settings: Any) -> Plan:
    drafted = drafted or made()
    tables, asked = described(drafted, primary_key=("id",)), audit(**settings)
    prescan = decide(drafted, asked, earlier.unequal_shares, found_by, tables)
    return choose_by_writes(NOBODY, replace(drafted, prescan=prescan), asked, tables, earlier, found_by)


def of(found: Plan) -> tuple[Any, Writes]:
    assert found.prescan and found.writes
    return found.prescan, found.writes


def test_where_writes_are_hot_they_are_read_at_once_and_the_rest_is_scanned_before() -> None:
    without, _ = of(chosen(past(share=0.1, events=None)))
    assert without.digest_rows and not without.used and "would be repeated" in without.why
    prescan, known = of(found := chosen(past(HOT)))
    width = known.width
    assert prescan.used and prescan.at_once == ((80_000 // width * width, (99_999 // width + 1) * width),)
    assert known.first == ((80_000 // width, 99_999 // width + 1),) and known.total == len(HOT)
    assert str(known) == (
        f"{known.first[0][1] - known.first[0][0]} of {known.spans} parts hold 100% of 2,002 writes since 2026-05-01 00:00:00 UTC"
        " (events that its pipeline staged), and are read first"
    )
    assert prescan.why.endswith("parts, in which they are expected to differ, are read by the method at once")
    assert found.sides == made().sides, "chunks keep their order where ranges are read at once"


def test_uniform_writes_change_nothing() -> None:
    for share in (0.0, 0.001, 0.02, 0.1, 0.9):
        earlier = past(list(UNIFORM), share)
        found, without = chosen(earlier), chosen(replace(earlier, events=None))
        assert (found.prescan, found.t, found.sides) == (without.prescan, without.t, without.sides), share
        assert found.writes and found.writes.first == () and found.writes.total == len(UNIFORM)


def test_without_differences_in_the_last_runs_hot_writes_say_only_what_is_read_first() -> None:
    drafted = made()
    drafted = replace(drafted, sides={side: replace(here, chunk_keys=10_000) for side, here in drafted.sides.items()})
    prescan, known = of(found := chosen(past(HOT, share=0.0), drafted))
    assert prescan.used and not prescan.at_once and prescan.why == "no partition differed in the last 3 runs"
    first = known.first[0][0] * known.width
    assert found.sides["source"].chunks[0].first == first and found.sides["source"].chunks[1] == Chunk(end=first)


def test_without_writes_all_is_scanned_before() -> None:
    """Since the match nothing was written: what the runs before it found is repaired."""
    prescan, known = of(chosen(past([], 0.0, unequal_shares=(0.5, 0.5, 0.0))))
    assert prescan.used and not prescan.at_once and str(known).startswith("none since 2026-05-01")
    assert "50% of a scan is saved" in prescan.why


@pytest.mark.parametrize(
    "keys", [(), tuple(range(100, 80_000, 100))], ids=["the last run's partitions are not known", "they lie where nothing was written"]
)
def test_writes_that_do_not_show_where_the_last_run_found_differences_do_not_decide(keys: tuple[int, ...]) -> None:
    earlier = past(HOT, unequal_keys=keys)
    assert chosen(earlier).prescan == chosen(replace(earlier, events=None)).prescan


def test_settings_that_are_written_are_kept() -> None:
    hot = past(HOT)
    for wanted in (True, False):
        prescan, known = of(chosen(hot, prescan=wanted))
        assert (prescan.used, prescan.at_once, prescan.why) == (wanted, (), "the audit says so")
        assert known.total and not known.first, "one statement reads the table"
    by_ladder, _ = of(chosen(hot, found_by="signature"))
    assert by_ladder.why == "the method signature has found a difference in this run" and not by_ladder.at_once


def test_a_gain_too_small_to_be_measured_leaves_the_choice_of_the_runs() -> None:
    drafted = plan()  # whose columns state no length: signatures of parts, at 0.9 of a scan
    earlier = past(HOT)
    tables = described(drafted, primary_key=())
    prescan = decide(drafted, audit(), earlier.unequal_shares, None, tables)
    found = choose_by_writes(NOBODY, replace(drafted, prescan=prescan), audit(), tables, earlier)
    assert found.prescan == prescan and found.writes and found.writes.total == len(HOT)


@pytest.mark.parametrize(
    ("more", "earlier", "why"),
    [
        ({"method": "minhash"}, {}, "the method minhash reads every part alike"),
        ({"slice": Slice(first=3)}, {}, "the run reads a slice"),
        ({"partitioning": HASH}, {}, "the table is not read in ranges of one integer key"),
        ({"rows": 9_000}, {}, "about 9,000 rows are read at once"),
        ({}, {"verified_through": None}, "no run has seen all of the table equal yet"),
        ({}, {"events": None}, "no pipeline of the store carries the table, and the audit has no settle column"),
        ({}, {"events": lambda _, __: "it is paused"}, "it is paused, and the audit has no settle column"),
    ],
)
def test_what_is_not_known_is_said(more: dict[str, Any], earlier: dict[str, Any], why: str) -> None:
    rows, how = more.pop("rows", 100_000), more.pop("partitioning", None)
    drafted = replace(made(rows), **more, **({"partitioning": how} if how else {}))
    found = choose_by_writes(NOBODY, drafted, audit(), described(drafted), past(HOT, **earlier))
    assert found.writes and str(found.writes) == f"not known, because {why}"
    assert replace(found, writes=None) == drafted


def test_many_hot_places_are_few_ranges() -> None:
    counts = tuple((number * number, 1 + number % 7) for number in range(44))
    known = Writes(origin="events", why="", since=SINCE, width=10, spans=2000, counts=counts)
    ranges = writes._hottest_first(known, [number for number, _ in counts])
    assert 10 < len(ranges) <= writes.MOST_RANGES
    assert {number for number, _ in counts} <= {number for low, end in ranges for number in range(low, end)}


def test_chunks_are_read_in_another_order_and_hold_the_same_keys() -> None:
    here = replace(plan().sides["source"], chunk_keys=100, chunks=(Chunk(end=500), Chunk(first=500), Chunk(null_key=True)))
    found = read_first(here, [(700, 800), (400, 600)]).chunks
    assert found == (
        Chunk(700, 800), Chunk(400, 500), Chunk(500, 600), Chunk(end=400), Chunk(600, 700), Chunk(first=800), Chunk(null_key=True),
    )  # fmt: skip
    alone = replace(here, chunk_keys=0)
    assert read_first(alone, [(700, 800)]) == alone, "one statement reads it"
    assert set(SIDES) == {"source", "target"}
