"""All tables of a target are merged in one transaction, so that it is always at one moment of the source."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
import pytest
from sqlalchemy import event

from auditor.pipeline.events import TableSchema
from auditor.pipeline.merge import merge_together
from auditor.points import armed
from auditor.store import Store, parts, pipelines
from tests.durations import SetDurations
from tests.live import engine_params
from tests.pipeline.road import PIPELINE, Road
from tests.pipeline_events import announce, batch, insert, note, table, update

ACCOUNTS = [table(f"accounts_{number}", ("id",), id="bigint", amount="bigint") for number in range(4)]
EACH = 100


def begin(road: Road) -> None:
    """Give each account EACH."""
    road.stage(*(batch(announce(one, 1), insert(one, 10, ["1", str(EACH)])) for one in ACCOUNTS))


def transfers(chance: random.Random, amounts: list[int], first: int, count: int) -> list[pa.RecordBatch]:
    """Return the events of transactions that each move an amount from one table to another, by table."""
    events: list[list[pa.RecordBatch]] = [[] for _ in ACCOUNTS]
    for position in range(first, first + count):
        one, other = chance.sample(range(len(ACCOUNTS)), 2)
        moved = chance.randrange(1, 9)
        for number, by in ((one, -moved), (other, moved)):
            rows = (["1", str(amounts[number])], ["1", str(amounts[number] + by)])
            events[number].append(update(ACCOUNTS[number], position, rows))
            amounts[number] += by
    return [batch(*some) for some in events if some]


def total(road: Road) -> int:
    summed = " + ".join(f"(SELECT SUM(amount) FROM {road.dialect.names.table(road.schema, one.table)})" for one in ACCOUNTS)
    return int(road.query(f"SELECT {summed}")[0][0])


def test_no_transaction_of_the_source_is_seen_in_half(road: Road, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merge_together, "MOST_ROWS", 7)
    begin(road)
    loader = road.loader()
    assert loader.merge_all() == len(ACCOUNTS)
    chance, sums, amounts = random.Random(3), list[int](), [EACH] * len(ACCOUNTS)
    for first in range(100, 200, 5):
        road.stage(*transfers(chance, amounts, first, 5))
    with armed("merge.committed", lambda: sums.append(total(road))):
        loader.merge_all()
    assert len(sums) > 5 and set(sums) == {EACH * len(ACCOUNTS)}
    assert [int(road.rows(one.table)[0][1]) for one in ACCOUNTS] == amounts


@pytest.mark.parametrize("engine", engine_params("postgres", "duckdb", "mysql"), indirect=True)
def test_tables_are_merged_one_by_one_where_that_is_asked_for(road: Road) -> None:
    begin(road)
    parts.record_batch(road.store, PIPELINE, [], {}, {"epoch": 0, "file": "binlog.000000", "position": 10})
    loader = road.loader(consistency="table")
    assert loader.merge_all() == len(ACCOUNTS)
    positions = road.dialect.names.table(road.schema, "auditor_positions")
    quoted = road.dialect.names.quote
    said = dict(road.query(f"SELECT {quoted('table_name')}, {quoted('position')} FROM {positions}"))
    [whole] = [int(said[name]) for name in said if not str(name).startswith("shop.accounts_")]
    assert whole == 10, "it also says up to where it holds every table"
    chance, sums, amounts = random.Random(3), list[int](), [EACH] * len(ACCOUNTS)
    road.stage(*transfers(chance, amounts, 100, 20))
    with armed("merge.committed", lambda: sums.append(total(road))):
        loader.merge_all()
    assert len(sums) == len(ACCOUNTS) and len(set(sums)) > 1 and sums[-1] == EACH * len(ACCOUNTS)
    assert [int(road.rows(one.table)[0][1]) for one in ACCOUNTS] == amounts


def test_a_table_that_fails_is_left_out_and_catches_up(road: Road, set_durations: SetDurations) -> None:
    begin(road)
    loader = road.loader()
    loader.merge_all()
    bad = road.dialect.names.table(road.schema, "accounts_1")
    gone = road.dialect.names.table(road.schema, "elsewhere")
    road.execute(f"ALTER TABLE {bad} RENAME TO {gone if road.dialect.name == 'mysql' else 'elsewhere'}")
    loader.close()
    set_durations(target_fresh=0.0)  # as a minute later
    road.stage(*(batch(insert(one, 20 + number, ["2", "5"])) for number, one in enumerate(ACCOUNTS)))
    assert loader.merge_all() == 3
    reports = pipelines.list_merges(road.store, PIPELINE)["wh"]
    assert reports["shop.accounts_1"].state == "stopped" and "rename it back" in reports["shop.accounts_1"].reason
    assert {reports[f"shop.accounts_{number}"].position for number in (0, 2, 3)} == {20, 22, 23}
    road.stage(*(batch(insert(one, 30 + number, ["3", "7"])) for number, one in enumerate(ACCOUNTS)))
    now = [loader.clock() + 1000]
    loader.clock = lambda: now[0]
    road.execute(f"ALTER TABLE {gone} RENAME TO {bad if road.dialect.name == 'mysql' else 'accounts_1'}")
    assert loader.merge_all() == 5, "what the one lacked, and all that came for the others"
    assert {one.state for one in pipelines.list_merges(road.store, PIPELINE)["wh"].values()} == {"merged"}
    assert [len(road.rows(one.table)) for one in ACCOUNTS] == [3, 3, 3, 3]


@pytest.mark.parametrize("engine", engine_params("postgres"), indirect=True)
def test_rows_may_refer_to_rows_of_a_table_that_is_merged_later(road: Road) -> None:
    child, parent = table("a_items", ("id",), id="bigint", parent="bigint"), table("b_orders", ("id",), id="bigint")
    road.stage(batch(announce(child, 1), insert(child, 10, ["1", "1"])), batch(announce(parent, 1), insert(parent, 10, ["1"])))
    loader = road.loader()
    assert loader.merge_all() == 2
    road.execute(f"ALTER TABLE {road.schema}.a_items ADD FOREIGN KEY (parent) REFERENCES {road.schema}.b_orders (id)")
    road.stage(batch(insert(child, 20, ["2", "2"])), batch(insert(parent, 20, ["2"])))
    assert loader.merge_all() == 2
    assert {one.state for one in pipelines.list_merges(road.store, PIPELINE)["wh"].values()} == {"merged"}


@pytest.mark.parametrize("engine", engine_params("postgres", "duckdb"), indirect=True)
def test_events_of_a_table_that_lie_before_those_of_others_are_not_passed_by(road: Road) -> None:
    loader = road.loader()
    begin(road)
    assert loader.merge_all() == len(ACCOUNTS)
    late = table("late", ("id",), id="bigint")
    road.stage(batch(announce(late, 1), insert(late, 5, ["1"])))
    assert loader.merge_all() == 1 and road.rows("late") == [(1,)]


@pytest.mark.parametrize("engine", engine_params("postgres", "duckdb"), indirect=True)
def test_a_changed_table_meets_the_others_where_they_were(road: Road) -> None:
    begin(road)
    loader = road.loader()
    loader.merge_all()
    wide = TableSchema("shop", "accounts_1", table(id="bigint", amount="bigint", note="varchar(9) null").columns, ("id",))
    added = note("change", "accounts_1", 25, {"ops": [{"op": "add", "column": "note", "value": {"text": None}}]})
    before = [batch(announce(one, 20), insert(one, 20, ["2", "5"])) for one in ACCOUNTS]
    after = [batch(announce(one, 30), insert(one, 30, ["3", "5"])) for one in ACCOUNTS if one.table != "accounts_1"]
    road.stage_task(*before, batch(added), batch(announce(wide, 30), insert(wide, 30, ["3", "5", "new"])), *after)
    seen = list[set[int]]()

    def look() -> None:
        seen.append({len(road.rows(one.table)) for one in ACCOUNTS})

    with armed("merge.migrate", look):
        assert loader.merge_all() == 2 * len(ACCOUNTS)
    assert seen == [{2}]
    assert road.rows("accounts_1")[2] == (3, 5, "new")


@pytest.mark.parametrize("engine", engine_params("postgres", "duckdb"), indirect=True)
def test_a_target_that_was_restored_gets_again_what_it_held_of_quiet_tables(road: Road) -> None:
    begin(road)
    loader = road.loader()
    loader.merge_all()
    road.stage(batch(insert(ACCOUNTS[0], 20, ["2", "5"])))
    loader.merge_all()
    loader.close()
    quiet, positions = (road.dialect.names.table(road.schema, name) for name in ("accounts_1", "auditor_positions"))
    road.execute(f"DELETE FROM {quiet}", f"DELETE FROM {positions} WHERE table_name = 'shop.accounts_1'")
    road.stage(batch(insert(ACCOUNTS[0], 30, ["3", "5"])))
    assert loader.merge_all() == 2 and road.rows("accounts_1") == [(1, EACH)]


@pytest.mark.parametrize("engine", engine_params("postgres"), indirect=True)
def test_a_commit_that_fails_stops_the_table_whose_rows_it_refuses(road: Road, set_durations: SetDurations) -> None:
    begin(road)
    loader = road.loader()
    loader.merge_all()
    road.execute(f"ALTER TABLE {road.schema}.accounts_2 ADD UNIQUE (amount) DEFERRABLE INITIALLY DEFERRED")
    set_durations(target_fresh=0.0)  # as a minute later
    road.stage(*(batch(insert(one, 20, ["2", str(EACH)])) for one in ACCOUNTS))
    loader.merge_all()
    reports = pipelines.list_merges(road.store, PIPELINE)["wh"]
    assert {name: one.state for name, one in reports.items() if one.state != "merged"} == {"shop.accounts_2": "stopped"}
    assert [len(road.rows(one.table)) for one in ACCOUNTS] == [2, 2, 1, 2]


@contextmanager
def counted(store: Store) -> Iterator[list[str]]:
    """Collect the statements that a store runs in the block."""
    found: list[str] = []

    def take(_connection: object, _cursor: object, statement: str, *_rest: object) -> None:
        found.append(statement)

    event.listen(store.engine, "before_cursor_execute", take)
    try:
        yield found
    finally:
        event.remove(store.engine, "before_cursor_execute", take)


@pytest.mark.parametrize("engine", engine_params("duckdb"), indirect=True)
def test_a_merge_asks_the_store_as_often_for_many_tables_as_for_few(road: Road) -> None:
    many = [table(f"many_{number}", ("id",), id="bigint") for number in range(30)]
    loader = road.loader()
    road.stage(*(batch(announce(one, 1), insert(one, 10, ["1"])) for one in many))
    loader.merge_all()
    counts = []
    for position, some in ((20, many[:2]), (30, many)):
        road.stage(*(batch(insert(one, position, [str(position)])) for one in some))
        with counted(road.store) as statements:
            assert loader.merge_all() == len(some)
        counts.append(len(statements))
    assert counts[0] == counts[1] < 40, Counter(" ".join(one.split())[:120] for one in statements)
