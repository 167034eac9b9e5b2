"""Whether a run begins with a pre-scan, the stretches that it reads, and the partitions that these stand for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dialects
from auditor.compare.comparator import align
from auditor.config import Audit
from auditor.model import NULL_PARTITION, SIDES, Chunk, Partitioning, Plan, Prescan, Side, SidePlan
from auditor.planning import prescan
from auditor.planning.columns import Endpoint
from auditor.planning.prescan import LEAST_ROWS, decide, find_digest_rows, plan_of_stretches, share_read_again
from auditor.run.prescan import join_small, key_spans, partitions_of_stretches
from auditor.sql.prescan import most_bytes
from auditor.summary.arrays import Summaries
from dialects import Kind, Table
from tests.unit.test_chunk_queue import plan as plan_of_keys

RANGE = Partitioning(strategy="range", size=100)
HASH = Partitioning(strategy="hash", buckets=50)


def plan(how: Partitioning = RANGE, rows: int = 100_000, **more: Any) -> Plan:
    side = SidePlan(dialect="mysql", connection="c", label="c: t", table="t", where="", estimate=rows)
    made = plan_of_keys(0, 99_999, 100, 0)
    return replace(made, sides=dict.fromkeys(SIDES, side), partitioning=how, **{"t": 3, **more})


def audit(**more: Any) -> Audit:
    ends = {side: {"connection": side, "table": "t"} for side in SIDES}
    return Audit.model_validate({**ends, "key": ["id"], **more})


@pytest.mark.parametrize(
    ("how", "key", "shares", "used", "why"),
    [
        (RANGE, "integer", (), True, "no earlier run is known to have found a difference"),
        (RANGE, "integer", (0.0,), True, "no partition differed in the last run"),
        (RANGE, "integer", (0.5, 0.0, 0.0, 0.0), True, "no partition differed in the last 3 runs"),
        (RANGE, "integer", (0.001,), True, "by the last run about 2% of a scan would be repeated, and 10% of one is saved"),
        (RANGE, "integer", (0.0, 0.2), False, "by the last 2 runs about 49% of a scan would be repeated, and 10% of one is saved"),
        (HASH, "integer", (0.0, 0.0, 0.5), False, "by the last 3 runs about 14% of a scan would be repeated, and 10% of one is saved"),
        (HASH, "text", (0.0, 0.0, 0.9), True, "by the last 3 runs about 12% of a scan would be repeated, and 35% of one is saved"),
        (HASH, "uuid", (0.9, 1.0), False, "by the last 2 runs about 68% of a scan would be repeated, and 35% of one is saved"),
    ],
)  # fmt: skip
def test_earlier_runs_decide(how: Partitioning, key: str, shares: tuple[float, ...], used: bool, why: str) -> None:
    made = plan(how)
    column = replace(made.columns[0], kind=Kind(key), native=dict.fromkeys(SIDES, Kind(key)))
    made = replace(made, columns=(column, *made.columns[1:]))
    found = decide(made, audit(), shares, tables=described(made, primary_key=()))
    assert (found.used, found.why) == (used, why)
    assert str(found) == f"{'yes' if used else 'no'}, because {why}"


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"method": "counts"}, "the method counts compares more than signatures"),
        ({"method": "minhash"}, "the method minhash compares more than signatures"),
        ({"encoding": "published"}, "the published encoding compares partition by partition"),
        ({"k": 16}, "minhashes are compared partition by partition"),
        ({"bits": 120}, "the signature of a part of the table has 60 bits, and bits is 120"),
        ({"how": HASH, "watermark": "2026-01-01 00:00:00.000000"}, "what is left out as in flight is followed bucket by bucket"),
        (
            {"how": replace(RANGE, size=2), "greatest": 1 << 40},
            "the keys' range has more than 1,048,576 partitions, which would all be listed",
        ),
        ({"snapshot": "per_chunk"}, "each chunk reads a snapshot of its own, so what differs could not be read again as it was"),
    ],
)
def test_what_stretches_cannot_show_is_read_by_the_method(more: dict[str, Any], why: str) -> None:
    assert decide(plan(**more), audit(prescan=True), ()) == Prescan(used=False, why=why)


@pytest.mark.parametrize("wanted", [True, False])
def test_the_audit_decides_if_it_says_so(wanted: bool) -> None:
    for shares in ((), (1.0,)):
        assert decide(plan(rows=3), audit(prescan=wanted), shares) == Prescan(used=wanted, why="the audit says so", partitions=16)


def test_small_tables_and_known_differences_are_read_by_the_method() -> None:
    assert not decide(plan(rows=LEAST_ROWS - 1), audit(), ()).used
    assert str(decide(plan(), audit(), (), found_by="counts")) == "no, because the method counts has found a difference in this run"
    assert not decide(plan(method="signature", t=0), audit(), ()).used, "it would be the same statement with fewer groups"
    buckets = plan(HASH, method="signature", t=0)
    assert decide(buckets, audit(), (), tables=described(buckets)).used, "it hashes no key"


def test_stretches_are_about_64_unions_of_partitions() -> None:
    whole = plan(prescan=decide(plan(), audit(), ()))
    assert plan_of_stretches(whole).partitioning.size == 1600
    assert 60 <= 100_000 / 1600 <= 64
    part = plan(partition_ranges=((0, 10), (500, 600)))
    assert decide(part, audit(), ()).partitions == 2, "a run of a rolling audit reads 110 partitions"
    assert decide(plan(replace(RANGE, size=50_000)), audit(), ()).partitions == 1
    refused = decide(plan(Partitioning(strategy="time")), audit(prescan=True), ())
    assert not refused.used and "partition by time" in refused.why


def described(made: Plan, name: str = "mysql", primary_key: tuple[str, ...] = ("id",), in_order: bool = True) -> dict[Side, Endpoint]:
    """Return both tables as an engine's catalogue has them."""
    dialect = dialects.get(name)
    table = Table("t", (), primary_key, None, (), in_order)
    return {side: Endpoint("c", "c: t", dialect, table) for side in SIDES}


def of_lengths(made: Plan, *natives: Kind) -> Plan:
    """Return a plan of a table with an integer key, quoted as MySQL does, and further columns of these kinds."""
    key = replace(made.columns[0], expression=dict.fromkeys(SIDES, "`id`"))
    others = [replace(key, name=f"c{n}", kind=Kind(native.name), native=dict.fromkeys(SIDES, native)) for n, native in enumerate(natives)]
    return replace(made, columns=(key, *others))


@pytest.mark.parametrize(
    ("natives", "fit"),
    [
        ((Kind("integer"), Kind("timestamp", scale=6)), True),
        ((Kind("text", bytes=80),) * 2, True),
        ((Kind("text", bytes=4000),), False),  # of which 1 MB, the default of a server that was not asked, holds too few
        ((Kind("json"),), False),
        ((Kind("decimal"),), False),
    ],
)
def test_as_many_rows_are_hashed_as_one_as_surely_fit(natives: tuple[Kind, ...], fit: bool) -> None:
    made = of_lengths(plan(), *natives)
    rows, found = find_digest_rows(made, described(made))
    assert (rows > 0) == (found > 0) == fit
    if rows:
        longest = most_bytes(made.columns, "source", made.salt)
        assert longest and rows * longest <= dialects.get("mysql").hashes.MAX_JOINED_BYTES
        assert found * made.rows_per_partition * prescan.ROOM <= rows


def test_digests_need_the_order_of_a_primary_key_on_both_sides() -> None:
    made = of_lengths(plan(), Kind("integer"))
    assert find_digest_rows(made, described(made))[0]
    assert decide(made, audit(), (), tables=described(made)).digest_rows
    assert not decide(made, audit(), ()).digest_rows, "live summaries are sums"
    for tables in (
        described(made, primary_key=()), described(made, primary_key=("id", "c0")), described(made, primary_key=("c0",)),
        described(made, in_order=False), described(made, name="duckdb"),
        {**described(made), "target": described(made, primary_key=())["target"]},
    ):  # fmt: skip
        assert find_digest_rows(made, tables) == (0, 0)
    assert find_digest_rows(replace(made, greatest=1 << 62), described(made)) == (0, 0), "the end of a stretch has 64 bits"
    assert find_digest_rows(replace(made, partitioning=HASH), described(made)) == (0, 0)


def test_rows_are_hashed_as_bytes_where_both_engines_hash_bytes() -> None:
    made = plan(HASH)
    duckdb = described(made, name="duckdb")["target"]
    for tables, wanted in ((described(made), True), ({**described(made), "target": duckdb}, False)):
        found = decide(made, audit(), (), tables=tables)
        assert found.hashes_bytes == plan_of_stretches(replace(made, prescan=found)).hashes_bytes == wanted


def test_digests_allow_what_a_signature_of_60_bits_does_not() -> None:
    made = of_lengths(plan(bits=120), Kind("integer"))
    assert decide(made, audit(), (), tables=described(made)).used
    found = plan_of_stretches(replace(made, prescan=decide(made, audit(), (), tables=described(made))))
    assert found.digest_rows and not found.joins_words


@pytest.mark.parametrize(("name", "keys"), [("mysql", 64 * 1600), ("postgres", 1_048_576)])
def test_statements_of_digests_are_larger_but_list_no_more_than_64_stretches(name: str, keys: int) -> None:
    """The rows of digests are written to no disk; on MySQL each stretch adds to the length of the statement."""
    planned = 262_144 if name == "mysql" else 1_048_576
    made = plan()
    sides = {side: replace(made.sides[side], dialect=name, chunk_keys=planned) for side in SIDES}
    made = replace(made, sides=sides, prescan=Prescan(used=True, why="", partitions=16, digest_rows=2000))
    assert {side.chunk_keys for side in plan_of_stretches(made).sides.values()} == {keys}
    sums = replace(made, prescan=Prescan(used=True, why="", partitions=16))
    assert {side.chunk_keys for side in plan_of_stretches(sums).sides.values()} == {planned}
    few = replace(made, sides={side: replace(made.sides[side], chunk_keys=10_000) for side in SIDES})
    assert {side.chunk_keys for side in plan_of_stretches(few).sides.values()} == {40_000 if name == "mysql" else 10_000}


@pytest.mark.parametrize(("key", "groups"), [("integer", 64), ("uuid", 256), ("text", 256)])
def test_keys_of_buckets_are_read_in_groups(key: str, groups: int) -> None:
    made = plan(HASH)
    column = replace(made.columns[0], kind=Kind(key), native=dict.fromkeys(SIDES, Kind(key)))
    made = replace(made, columns=(column, *made.columns[1:]))
    found = decide(made, audit(), (0.0, 0.02), tables=described(made))
    assert found.groups == groups
    assert plan_of_stretches(replace(made, prescan=found)).partitioning.strategy == "group"
    assert share_read_again(0.02, found, buckets=50) == pytest.approx(1 - (1 - 1 / groups) ** 1.0101, abs=1e-3)
    masked = replace(made, columns=(replace(column, masked=True), *made.columns[1:]))
    refused = Prescan(used=False, why=prescan.NO_STRETCHES)
    assert (decide(masked, audit(), (), tables=described(masked)) == refused) == (key != "integer"), "characters of it would be stored"
    assert decide(made, audit(prescan=True), ()) == refused, "live summaries are sums of buckets"


def summaries(rows: dict[int, tuple[int, int | None, int | None]]) -> Summaries:
    """Return summaries of stretches: by id the rows, the least and the greatest key."""
    count = len(rows)
    counts = np.array([one[0] for one in rows.values()], np.int64)
    least, greatest = np.empty(count, np.object_), np.empty(count, np.object_)
    least[:], greatest[:] = [one[1] for one in rows.values()], [one[2] for one in rows.values()]
    nothing = np.zeros((count, 0), np.int64)
    return Summaries(
        np.array(list(rows), np.int64), counts, counts, least, greatest, np.zeros((count, 2), np.int64), nothing, nothing,
        np.zeros((count, 0), np.object_),
    )  # fmt: skip


def test_equal_stretches_stand_for_the_partitions_that_they_hold() -> None:
    found = summaries({NULL_PARTITION: (4, None, None), -1: (7, -350, -1), 3: (2, 4810, 4950)})
    partition, rows = partitions_of_stretches(align(found, found), plan(prescan=Prescan(used=True, why="", partitions=16)))
    assert partition.tolist() == [NULL_PARTITION, -4, -3, -2, -1, 48, 49]
    assert rows.tolist() == [4, 1, 2, 2, 2, 1, 1]


def test_partitions_that_a_rolling_run_does_not_read_are_not_equal() -> None:
    found = summaries({0: (100, 0, 1599)})
    read = plan(prescan=Prescan(used=True, why="", partitions=16), partition_ranges=((2, 4), (9, 11)))
    partition, rows = partitions_of_stretches(align(found, found), read)
    assert partition.tolist() == [2, 3, 9, 10]
    assert rows.tolist() == [25, 25, 25, 25]


def test_equal_groups_stand_for_the_buckets() -> None:
    for rows, buckets in ((200, 50), (7, 7)):
        found = summaries({0: (rows - 3, None, None), 5: (3, None, None)})
        partition, each = partitions_of_stretches(align(found, found), plan(HASH))
        assert partition.tolist() == list(range(buckets))
        assert int(each.sum()) == rows


@given(st.sets(st.integers(-20, 40), min_size=1), st.integers(0, 5000))
def test_stretches_that_differ_are_read_once_in_few_chunks(numbers: set[int], most: int) -> None:
    wide = plan(prescan=Prescan(used=True, why="", partitions=16))
    spans = key_spans(wide, sorted(numbers))
    assert {key // 1600 for first, end in spans for key in range(first, end, 100)} == numbers
    chunks = join_small([Chunk(first, end) for first, end in spans], most, "id")
    assert sum(chunk.within.count(" OR ") + 1 for chunk in chunks) == len(spans)
    if most:
        joined = [one for one in chunks if one.within]
        assert all(one.within.count(" OR ") < most / 1600 for one in joined), "no chunk reads more keys than a statement may"
    else:
        assert len(chunks) == 1
