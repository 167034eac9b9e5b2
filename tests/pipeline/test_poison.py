"""An event that cannot be decoded, staged or merged stops its table where it stands, and no other."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from auditor.config import Audit
from auditor.errors import ConfigError
from auditor.pipeline.merge import table_merge
from auditor.service import pipelines as service
from auditor.service import stored_runs
from auditor.service.pipeline_status import status
from auditor.store import pipelines
from tests.live import engine_params
from tests.pipeline.conftest import quick_on_target
from tests.pipeline.road import PIPELINE, Road
from tests.pipeline_events import announce, batch, delete, insert, note, table, update

pytestmark = pytest.mark.engines_in_turn

ORDERS = table(id="bigint", item="varchar(40) null")
GUESTS = table("guests", id="int", born="date null")
HEALTHY = table("healthy", id="int")
REASON = "a row of shop.orders cannot be decoded (the test's own); leave the table out and report this"


def healthy(position: int) -> Any:
    return batch(announce(HEALTHY, position), insert(HEALTHY, position, [str(position)]))


def state(road: Road, name: str) -> str:
    found = pipelines.list_merges(road.store, PIPELINE)["wh"][f"shop.{name}"]
    return found.state


def stopped(road: Road) -> list[tuple[str, str, str, int]]:
    found = status(road.settings, road.store, PIPELINE, look=False).stopped
    return [(stop.table, stop.place, stop.stage, stop.events) for stop in found]


def skip(road: Road, name: str, place: str) -> None:
    service.skip(road.settings, road.store, PIPELINE, name, place, "an empty row", by="ann")


@quick_on_target("duckdb")
def test_what_cannot_be_decoded_stops_its_table_until_it_is_skipped(road: Road) -> None:
    now = [0.0]
    loader = road.loader(clock=lambda: now[0])
    poison = note("poison", "orders", 20, {"stage": "decoding", "reason": REASON}, last=22, events=2)
    road.stage_task(
        batch(announce(ORDERS, 1), insert(ORDERS, 10, ["1", "a"]), poison, insert(ORDERS, 30, ["2", "b"])),
        healthy(25),
    )
    loader.merge_all()
    road.stage_task(batch(announce(ORDERS, 40), insert(ORDERS, 40, ["3", "c"])), healthy(45))
    now[0] += 100
    assert loader.merge_all() == 1
    assert road.rows() == [(1, "a")] and road.rows("healthy") == [(25,), (45,)]
    assert state(road, "orders") == "stopped" and state(road, "healthy") == "merged"
    assert stopped(road) == [("shop.orders", "binlog.000000:20:0", "decoding", 2)]
    tables = status(road.settings, road.store, PIPELINE, look=False).targets["wh"].tables
    assert tables["shop.orders"].reason == REASON and tables["shop.orders"].pending_events > 0
    with pytest.raises(ConfigError, match=r"nothing stops orders at binlog.000000:21; what stops it: shop.orders at binlog.000000:20:0"):
        skip(road, "orders", "binlog.000000:21")
    with pytest.raises(ConfigError, match=r"nothing stops orders at binlog.000000:20:1; what stops it"):
        skip(road, "orders", "binlog.000000:20:1")
    skip(road, "orders", "binlog.000000:20:0")
    now[0] += 100
    assert loader.merge_all() == 2
    assert road.rows() == [(1, "a"), (2, "b"), (3, "c")] and stopped(road) == []
    [skipped] = status(road.settings, road.store, PIPELINE, look=False).skipped
    assert (skipped.events, skipped.skipped_by, skipped.skip_reason) == (2, "ann", "an empty row")


@quick_on_target("postgres")
def test_a_replayed_batch_leaves_what_was_skipped(road: Road) -> None:
    poison = note("poison", "orders", 20, {"stage": "decoding", "reason": REASON}, events=1)
    changes = batch(announce(ORDERS, 1), insert(ORDERS, 10, ["1", "a"]), poison)
    road.stage_task(changes)
    skip(road, "shop.orders", "other.000000:20")
    road.stage_task(changes)
    assert stopped(road) == []


@quick_on_target("postgres")
def test_rows_on_which_the_filter_fails_stop_their_table_alone(road: Road) -> None:
    rows = [["1", "1999-01-01"], ["2", "2024-00-10"], ["3", "2021-01-01"], ["4", "1998-01-01"]]
    events = [insert(GUESTS, 10 * number, row) for number, row in enumerate(rows, 1)]
    [found] = road.stage_task(batch(announce(GUESTS, 1), *events), healthy(25))
    assert (found.position, found.last, found.events, found.body["stage"]) == (20, 20, 1, "staging")
    assert "2024-00-10" not in found.reason and "cannot be evaluated on a row of shop.guests" in found.reason
    loader = road.loader()
    loader.merge_all()
    assert [row[0] for row in road.rows("guests")] == [1] and road.rows("healthy") == [(25,)]
    skip(road, "guests", "binlog.000000:20")
    road.loader().merge_all()
    assert [row[0] for row in road.rows("guests")] == [1, 4]


@quick_on_target("duckdb")
def test_a_rule_that_no_longer_fits_stops_its_table_alone(road: Road) -> None:
    ageless = table("guests", id="int", name="text null")
    [found] = road.stage_task(batch(announce(ageless, 1), insert(ageless, 10, ["1", "a"], ["2", "b"])), healthy(25))
    assert (found.table, found.position, found.last, found.events, found.body["stage"]) == ("shop.guests", 10, 10, 2, "staging")
    assert road.loader().merge_all() == 1
    assert stopped(road) == [("shop.guests", "binlog.000000:10:0", "staging", 2)]


def test_a_value_that_the_target_cannot_hold_is_found_among_others(road: Road) -> None:
    now, schema = [0.0], table("t", id="int", at="date null")
    loader = road.loader(clock=lambda: now[0])
    wrong = "2026-13-01" if road.dialect.types.ZERO_DATES else "0000-00-00"
    rows = [[str(n), "2026-01-01" if n != 17 else wrong] for n in range(40)]
    road.stage(batch(announce(schema, 1), *(insert(schema, 10 + n, row) for n, row in enumerate(rows))), healthy(25))
    later = [update(schema, 60, (rows[39], ["39", None])), delete(schema, 61, rows[0])]
    road.stage(batch(*later))
    loader.merge_all()
    assert [row[0] for row in road.rows("t")] == list(range(17))
    assert stopped(road) == [("shop.t", "000000:27:0", "merge", 1)]
    now[0] += 100
    loader.merge_all()
    assert [row[0] for row in road.rows("t")] == list(range(17)), "it is tried again, and nothing behind it"
    skip(road, "t", "binlog.000000:27:0")
    now[0] += 100
    loader.merge_all()
    assert [row[0] for row in road.rows("t")] == [n for n in range(1, 40) if n != 17]
    assert road.rows("t")[-1][1] is None and stopped(road) == []


@pytest.mark.parametrize("engine", engine_params("postgres", "duckdb", "redshift", slow=["duckdb", "redshift"]), indirect=True)
@pytest.mark.parametrize("step", [1, 2, 3, 4, 5], ids="merge {} of the search".format)
def test_an_event_that_is_skipped_while_it_is_searched_for_blames_no_other(road: Road, step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    merges = itertools.count(1)

    def merge_next(*given: Any) -> object:
        if next(merges) == step:
            skip(road, "t", "binlog.000000:10:2")
        return table_merge.merge_next(*given)

    now, schema = [0.0], table("t", id="int", at="date null")
    loader = road.loader(clock=lambda: now[0])
    rows = [[str(number), "2026-01-01" if number != 2 else "0000-00-00"] for number in range(8)]
    road.stage(batch(announce(schema, 1), insert(schema, 10, *rows)))
    loader.merge_all()
    assert stopped(road) == [("shop.t", "000000:10:2", "merge", 1)]
    now[0] += 100
    monkeypatch.setattr("auditor.pipeline.merge.loader.merge_next", merge_next)
    loader.merge_all()
    assert next(merges) > step and stopped(road) == []
    now[0] += 100
    loader.merge_all()
    assert [row[0] for row in road.rows("t")] == [0, 1, 3, 4, 5, 6, 7]


def test_a_target_that_was_altered_goes_on_by_itself(road: Road) -> None:
    now, schema = [0.0], table("t", id="int", v="varchar(10) null")
    loader = road.loader(clock=lambda: now[0])
    road.stage(batch(announce(schema, 1), insert(schema, 10, ["1", "a"])))
    loader.merge_all()
    make_anew = f"CREATE TABLE {road.schema}.t (id BIGINT PRIMARY KEY, v VARCHAR(20)"
    road.execute(f"DROP TABLE {road.schema}.t", f"{make_anew} CHECK (length(v) < 3))")
    road.stage(batch(insert(schema, 20, ["2", "b"]), insert(schema, 21, ["3", "long"]), insert(schema, 22, ["4", "d"])))
    now[0] += 100
    loader.merge_all()
    assert road.rows("t") == [(2, "b")] and [one[1:3] for one in stopped(road)] == [("000000:21:0", "merge")]
    assert "long" not in str(status(road.settings, road.store, PIPELINE, look=False))
    road.execute(f"DROP TABLE {road.schema}.t", f"{make_anew})")
    now[0] += 100
    loader.merge_all()
    assert road.rows("t") == [(3, "long"), (4, "d")] and stopped(road) == []


@quick_on_target("postgres")
def test_audits_of_the_table_say_what_was_skipped(road: Road) -> None:
    sides = {
        "source": {"connection": "source", "table": "orders"},
        "target": {"connection": "warehouse", "table": f"{road.schema}.orders"},
    }
    audit = Audit.model_validate(sides)
    poison = note("poison", "orders", 20, {"stage": "decoding", "reason": REASON}, events=1)
    road.stage_task(batch(announce(ORDERS, 1), insert(ORDERS, 10, ["1", "a"]), poison), healthy(25))
    assert stored_runs.notes_on_pipelines(road.settings, road.store, audit) == (
        f"pipeline shop: the target stands still at binlog.000000:20:0: {REASON}",
    )
    skip(road, "orders", "binlog.000000:20")
    said = ("pipeline shop: 1 event was skipped at binlog.000000:20:0 by ann: an empty row",)
    assert stored_runs.notes_on_pipelines(road.settings, road.store, audit) == said
    other = {**sides, "target": {"connection": "warehouse", "table": f"{road.schema}.healthy"}}
    assert stored_runs.notes_on_pipelines(road.settings, road.store, Audit.model_validate(other)) == ()


def test_rows_of_a_transaction_are_skipped_one_by_one_or_all_together(road: Road) -> None:
    now, schema = [0.0], table("t", id="int", v="varchar(10) null")
    loader = road.loader(clock=lambda: now[0])
    road.stage(batch(announce(schema, 1), insert(schema, 10, ["0", "a"])))
    loader.merge_all()
    road.execute(
        f"DROP TABLE {road.schema}.t", f"CREATE TABLE {road.schema}.t (id BIGINT PRIMARY KEY, v VARCHAR(20) CHECK (length(v) < 3))"
    )
    first, second = ([[str(number), "long" if number in bad else "b"] for number in range(40)] for bad in ((17, 30), (5, 6)))
    road.stage(batch(insert(schema, 20, *first)))
    road.stage(batch(insert(schema, 30, *second), insert(schema, 40, ["99", "c"])))

    def goes_on() -> list[int]:
        now[0] += 1000
        loader.merge_all()
        return [row[0] for row in road.rows("t")]

    assert goes_on() == [], "a transaction is merged as a whole, or not at all"
    assert stopped(road) == [("shop.t", "000000:20:17", "merge", 1)]
    skip(road, "t", "000000:20:17")
    assert goes_on() == [] and stopped(road) == [("shop.t", "000000:20:30", "merge", 1)]
    skip(road, "t", "000000:20:30")
    assert goes_on() == [number for number in range(40) if number not in (17, 30)]
    assert stopped(road) == [("shop.t", "000000:30:5", "merge", 1)]
    skip(road, "t", "000000:30")
    assert goes_on() == [*(number for number in range(40) if number not in (17, 30)), 99] and stopped(road) == []
    skipped = [(skip.place, skip.events) for skip in status(road.settings, road.store, PIPELINE, look=False).skipped]
    assert skipped == [("000000:20:17", 1), ("000000:20:30", 1), ("000000:30", 40)]


@quick_on_target("duckdb")
def test_rows_of_a_transaction_that_cannot_be_staged_are_told_apart(road: Road) -> None:
    rows = [["1", "1999-01-01"], ["2", "2024-00-10"], ["3", "1998-01-01"], ["4", "2024-00-11"]]
    found = road.stage_task(batch(announce(GUESTS, 1), insert(GUESTS, 10, *rows), insert(GUESTS, 20, ["5", "1997-01-01"])))
    assert [(one.position, one.row, one.events) for one in found] == [(10, 1, 1), (10, 3, 1)]
    assert [one[1] for one in stopped(road)] == ["binlog.000000:10:1", "binlog.000000:10:3"]
    skip(road, "guests", "binlog.000000:10:1")
    assert stopped(road) == [], "what follows for the same reason goes with it"
    road.loader().merge_all()
    assert [row[0] for row in road.rows("guests")] == [1, 3, 5]
