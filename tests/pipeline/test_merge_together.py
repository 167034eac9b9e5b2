"""All tables of a target are merged in one transaction, so that it is always at one moment of the source."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pytest
from sqlalchemy import event

from auditor.connections.writer import open_writer
from auditor.model import Part
from auditor.pipeline.events import TableSchema
from auditor.pipeline.merge import target_table
from auditor.pipeline.merge.target_identity import Identity, read_identities
from auditor.points import armed
from auditor.sql.merge import POSITIONS
from auditor.store import Store, parts, pipelines
from tests.durations import SetDurations
from tests.live import engine_params
from tests.pipeline.road import PIPELINE, Road
from tests.pipeline_events import announce, batch, delete, insert, note, table, update

pytestmark = pytest.mark.engines_in_turn

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


def test_no_transaction_of_the_source_is_seen_in_half(road: Road) -> None:
    begin(road)
    loader = road.loader(max_transaction=7)
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


@pytest.mark.few
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


def test_part_of_many_rows_lets_no_table_stay_behind(road: Road) -> None:
    """The second part of a table has rows up to the next place, and is larger with the first one than a transaction is meant to be."""
    one, other = ACCOUNTS[:2]
    road.stage(*(batch(announce(each, 1), insert(each, 10, ["1", "10"])) for each in (one, other)))
    loader, seen = road.loader(max_transaction=4), list[tuple[int, int]]()
    loader.merge_all()

    def changed(each: TableSchema, places: list[int]) -> pa.RecordBatch:
        return batch(*(update(each, place, (["1", str(place - 1)], ["1", str(place)])) for place in places))

    road.stage(changed(one, [11, 12]), changed(other, [11, 14]))
    road.stage(changed(one, [13, 14, 15, 16]))
    with armed("merge.committed", lambda: seen.append((int(road.rows(one.table)[0][1]), int(road.rows(other.table)[0][1])))):
        while loader.merge_all():
            pass
    assert seen == [(14, 14), (16, 14)]


def test_transaction_that_is_too_large_is_merged_by_itself_and_the_others_are_said_to_wait(road: Road) -> None:
    begin(road)
    loader = road.loader(max_transaction=10)
    loader.merge_all()
    large = [insert(ACCOUNTS[0], 20, *([str(number), "1"] for number in range(2, 30)))]
    road.stage(batch(*large), batch(update(ACCOUNTS[1], 30, (["1", str(EACH)], ["1", "7"]))))
    said = list[str]()

    def look() -> None:
        said.extend(report.reason for report in pipelines.list_merges(road.store, PIPELINE)["wh"].values() if report.state == "delayed")

    with armed("merge.merge", look, nth=1):
        loader.merge_all()
    assert said == [
        "waits for 28 rows that are merged together, more than max_transaction: one transaction of the source, or one part"
    ] * len(said)
    assert len(said) == 2 and len(road.rows(ACCOUNTS[0].table)) == 29 and road.rows(ACCOUNTS[1].table) == [(1, 7)]
    assert {report.state for report in pipelines.list_merges(road.store, PIPELINE)["wh"].values()} == {"merged"}


def said(road: Road) -> Identity:
    """What the target says of the pipeline as a whole."""
    with open_writer("warehouse", road.settings.connections["warehouse"]) as session:
        found = read_identities(session, road.loaders[-1].where, ["shop.accounts_0"])[road.schema]
    assert found
    return found


def test_target_says_up_to_where_it_holds_all_tables_and_which_it_does_not(road: Road) -> None:
    begin(road)
    loader = road.loader()
    loader.merge_all()
    assert (said(road).through, said(road).apart) == (10, [])
    there, away = (road.dialect.names.table(road.schema, name) for name in ("accounts_2", "away"))
    road.execute(f"ALTER TABLE {there} RENAME TO {away if road.dialect.name == 'mysql' else 'away'}")
    road.stage(*(batch(update(one, 20, (["1", str(EACH)], ["1", "7"]))) for one in ACCOUNTS))
    loader = road.loader()
    loader.merge_all()
    assert (said(road).through, said(road).apart) == (20, ["shop.accounts_2"])
    road.execute(f"ALTER TABLE {away} RENAME TO {there if road.dialect.name == 'mysql' else 'accounts_2'}")
    road.stage(batch(update(ACCOUNTS[0], 30, (["1", "7"], ["1", "8"]))))
    loader = road.loader()
    while loader.merge_all():
        pass
    assert [int(road.rows(one.table)[0][1]) for one in ACCOUNTS] == [8, 7, 7, 7]
    road.stage(batch(update(ACCOUNTS[3], 40, (["1", "7"], ["1", "9"]))))
    loader.merge_all()
    assert (said(road).through, said(road).apart) == (40, [])


def test_loader_that_starts_looks_at_nothing_that_the_target_holds(road: Road, monkeypatch: pytest.MonkeyPatch) -> None:
    """A quiet table with a new event has an old position; what the others had since then is not listed again."""
    begin(road)
    for position in range(20, 40):
        road.stage(batch(update(ACCOUNTS[0], position, (["1", str(EACH)], ["1", str(EACH)]))))
    road.loader().merge_all()
    road.stage(batch(update(ACCOUNTS[1], 50, (["1", str(EACH)], ["1", "7"]))))
    listed, read = list[int](), parts.list_parts_of_all

    def counted(store: Store, pipeline: str, after: int, through: int, limit: int) -> list[Part]:
        found = read(store, pipeline, after, through, limit)
        listed.append(len(found))
        return found

    monkeypatch.setattr(parts, "list_parts_of_all", counted)
    assert road.loader().merge_all() == 1 and listed == [1]


def test_what_another_version_wrote_is_refused(road: Road) -> None:
    begin(road)
    road.loader().merge_all()
    positions = road.dialect.names.table(road.schema, POSITIONS)
    road.execute(f"UPDATE {positions} SET schema_id = REPLACE(schema_id, '\"format\": 1', '\"format\": 2') WHERE table_name = ''")
    road.stage(batch(update(ACCOUNTS[0], 20, (["1", str(EACH)], ["1", "7"]))))
    loader = road.loader()
    assert loader.merge_all() == 0
    reasons = {report.reason for report in pipelines.list_merges(road.store, PIPELINE)["wh"].values()}
    assert len(reasons) == 1 and "writes positions in format 2, and this one reads format 1; use that version, or" in reasons.pop()


@pytest.mark.parametrize("engine", engine_params("duckdb"), indirect=True)
def test_tables_that_fail_are_reported_together(road: Road) -> None:
    counts = []
    for number in (3, 30):
        without_key = [table(f"no_key_{number}_{one}", (), id="bigint") for one in range(number)]
        road.stage(*(batch(announce(one, 1), insert(one, 10 + number, ["1"])) for one in without_key))
        with counted(road.store) as statements:
            assert road.loader().merge_all() == 0
        counts.append(sum("auditor_merges" in one for one in statements))
        reports = pipelines.list_merges(road.store, PIPELINE)["wh"]
        assert {reports[f"shop.{one.table}"].state for one in without_key} == {"stopped"}
        assert "has no primary key" in reports[f"shop.{without_key[0].table}"].reason
    assert counts[0] <= counts[1] <= counts[0] + 1, "one more where some are reported for the second time"


@pytest.mark.parametrize("engine", engine_params("duckdb"), indirect=True)
def test_few_changes_of_many_tables_arrive_as_those_that_are_staged(road: Road) -> None:
    """A table that is merged by itself gets a staging table; of those that are merged together the statements hold the values."""
    columns = {
        "id": "bigint", "code": "varbinary(9)", "at": "datetime(6)", "price": "decimal(12,2) null", "day": "date null",
        "ratio": "double null", "flags": "bit(5) null", "body": "json null", "note": "varchar(90) null",
    }  # fmt: skip
    rows: list[list[str | None]] = [
        ["1", "00ff27", "2024-02-29 23:59:59.000001", "-0.50", "1969-12-31", "0.1", "21", '{"a": "it\'s"}', 'it\'s \\ "x"\n${note}'],
        ["-9223372036854775808", "", "1000-01-01 00:00:00.000000", "9999999999.99", None, "-1e300", None, None, ""],
        ["3", "5c", "2024-01-01 00:00:00.500000", None, "0001-01-01", None, "0", "[]", None],
    ]
    moved, gone = ["4", "5d", "2024-01-02 00:00:00.000000", *rows[0][3:-1], "NULL"], rows[1]
    keys = [("id",), ("code",), ("code", "id"), ("id", "at")]
    alone, together = ([table(f"{name}_{number}", key, **columns) for number, key in enumerate(keys)] for name in ("alone", "together"))
    loader, staged = road.loader(), list[int]()

    def merge(some: list[TableSchema], position: int) -> None:
        for one in some:
            position += 5 if some is alone else 0
            if position < 60:
                road.stage(batch(announce(one, 1), insert(one, position, *rows)))
            else:
                again = insert(one, position + 2, gone), delete(one, position + 3, gone)
                changed = [*rows[2][:3], "7.00", *rows[2][4:]]
                changes = update(one, position + 1, (rows[0], moved)), *again, update(one, position + 4, (rows[2], changed))
                road.stage(batch(delete(one, position, gone), *changes))
            if some is alone:
                loader.merge_all()
        loader.merge_all()

    with armed("merge.stage", lambda: staged.append(1)):
        for position in (10, 60):
            merge(alone, position)
            assert len(staged) == len(alone)
            merge(together, position + 30)
            assert len(staged) == len(alone), "these need no staging table"
            staged.clear()
    for one, other in zip(alone, together, strict=True):
        assert road.rows(one.table) == road.rows(other.table)
        assert len(road.rows(other.table)) == 2 and sorted(row[0] for row in road.rows(other.table)) == [3, 4]


@pytest.mark.parametrize("engine", engine_params("duckdb"), indirect=True)
def test_a_value_that_a_statement_cannot_write_stops_its_table_alone(road: Road) -> None:
    begin(road)
    loader = road.loader()
    loader.merge_all()
    narrow = road.dialect.names.table(road.schema, "accounts_2")
    road.execute(f"CREATE UNIQUE INDEX one_of_each ON {narrow} (amount)")
    road.stage(*(batch(insert(one, 20, ["2", "7"], ["3", "7"])) for one in ACCOUNTS))
    assert loader.merge_all() == 6, "of the other tables"
    reports = pipelines.list_merges(road.store, PIPELINE)["wh"]
    assert {name for name, one in reports.items() if one.state == "stopped"} == {"shop.accounts_2"}
    assert [len(road.rows(one.table)) for one in ACCOUNTS] == [3, 3, 1, 3]


@pytest.mark.parametrize("engine", engine_params("postgres", "duckdb", "mysql"), indirect=True)
def test_tables_are_examined_again_only_where_their_catalogue_has_changed(road: Road, monkeypatch: pytest.MonkeyPatch) -> None:
    examined: list[str] = []
    examine = target_table.examine

    def noted(*given: Any) -> Any:
        examined.append(given[3].table)
        return examine(*given)

    monkeypatch.setattr("auditor.pipeline.merge.table_merge.examine", noted)
    begin(road)
    loader, now = road.loader(), [time.monotonic()]
    monkeypatch.setattr(target_table, "monotonic", lambda: now[0])

    def merge_later(position: int) -> list[str]:
        """Return which tables are examined by merges over two minutes, in whose middle nothing else happens."""
        examined.clear()
        for step in range(8):
            now[0] += 15
            road.stage(*(batch(update(one, position + step, (["1", str(EACH)], ["1", str(EACH)]))) for one in ACCOUNTS))
            assert loader.merge_all() == len(ACCOUNTS)
        return sorted(set(examined))

    assert loader.merge_all() == len(ACCOUNTS)
    assert merge_later(100) == [one.table for one in ACCOUNTS], "when it looked first, they were not made yet"
    assert merge_later(150) == []
    road.execute(f"CREATE TABLE {road.dialect.names.table(road.schema, 'by_others')} (id int PRIMARY KEY)")
    assert merge_later(200) == [one.table for one in ACCOUNTS], "as anything may have changed"
    assert merge_later(300) == []
    now[0] += 3600
    assert merge_later(400) == [one.table for one in ACCOUNTS], "they are not believed for ever"
    assert merge_later(500) == []
