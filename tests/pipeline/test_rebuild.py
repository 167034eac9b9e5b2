"""What is known of a table at a position from the parts that are kept, and how it is written; events are made by hand."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from auditor.api_models.pipeline import RebuiltTable
from auditor.cli import main
from auditor.errors import ColumnRefused, ConfigError, NoKey, NotStaged, PartDamaged, PartsGone, RebuildRefused, ValueRefused
from auditor.pipeline.events import Position
from auditor.pipeline.merge import positions
from auditor.pipeline.rebuild import outputs, scratch
from auditor.service.rebuilds import rebuild
from auditor.store import parts, pipelines, refreshes, schema_changes, table_notes
from auditor.store.refreshes import RefreshScope
from tests.live import engine_params
from tests.pipeline.conftest import EVERY
from tests.pipeline.road import PIPELINE, Road
from tests.pipeline_events import T0, announce, batch, delete, insert, note, refresh, table, update

ORDERS = table(id="bigint", item="varchar(40) null")
FILE = "binlog.000000"
NOTHING = [None, None]
on_duckdb = pytest.mark.parametrize("engine", engine_params("duckdb"), indirect=True)


def read_through(road: Road, place: int, epoch: int = 0) -> None:
    """Let the stream have been read up to a place."""
    parts.record_batch(road.store, PIPELINE, [], {}, {"epoch": epoch, "file": FILE, "position": place, "server": "server"})


def change(road: Road, position: int, *ops: dict[str, object], name: str = "orders", reason: str = "") -> None:
    """Stage a statement on a table."""
    body: dict[str, object] = {"ops": list(ops)} | ({"stage": "statement", "reason": reason} if reason else {"advances": True})
    if not reason and not any(op["op"] in ("clear", "create", "moved") or (op["op"] == "gone" and "to" in op) for op in ops):
        del body["advances"]
    road.stage_task(batch(note("change", name, position, body)))


def make(road: Road, position: int = 5) -> None:
    change(road, position, {"op": "create", "sure": True})


def at(road: Road, place: int | str, name: str = "orders", **more: Any) -> RebuiltTable:
    """Rebuild a table into a file."""
    path = road.folder / f"{len(list(road.folder.glob('*.parquet')))}.parquet"
    text = f"{FILE}:{place}" if isinstance(place, int) else place
    return rebuild(road.settings, road.config_file, road.store, PIPELINE, name, text, **({"output": path} | more))


def rows(done: RebuiltTable) -> list[tuple[Any, ...]]:
    found = pq.read_table(done.written)
    return [tuple(row.values()) for row in found.to_pylist()]


def send(road: Road, begin: int, end: int, name: str = "shop.orders") -> None:
    """Store a refresh of all rows that wrote between two places of the log."""
    asked = refreshes.request_refresh(road.store, PIPELINE, name, RefreshScope(), "ada")
    progress = {"begin": [FILE, begin, "server", 0], "end": [FILE, end, "server", 0]}
    refreshes.save_progress(road.store, asked.refresh, "done", progress)


@contextmanager
def refused(*words: str) -> Iterator[None]:
    with pytest.raises(RebuildRefused) as failure:
        yield
    assert [word for word in words if word not in str(failure.value)] == [], str(failure.value)


@pytest.fixture
def made(road: Road) -> Road:
    """A table that was made at 5, with rows at 10, 20 and 30."""
    make(road)
    road.stage(batch(announce(ORDERS, 1), insert(ORDERS, 10, ["1", "a"], ["2", "b"])))
    road.stage(batch(update(ORDERS, 20, (["1", "a"], ["1", "A"])), delete(ORDERS, 30, ["2", "b"])))
    read_through(road, 40)
    return road


@on_duckdb
def test_each_position_has_its_rows(made: Road) -> None:
    assert [rows(at(made, place)) for place in (10, 19, 20, 30, 40)] == [
        [(1, "a"), (2, "b")], [(1, "a"), (2, "b")], [(1, "A"), (2, "b")], [(1, "A")], [(1, "A")],
    ]  # fmt: skip
    done = at(made, 20, "shop.orders")
    assert (done.table, done.place, done.since, done.begins, done.events, done.rows, done.names) == (
        "shop.orders", f"{FILE}:20", f"{FILE}:5", "create", 3, 2, ["shop.orders"],
    )  # fmt: skip
    about = pq.read_metadata(done.written).metadata
    assert about[b"auditor_position"] == f"{FILE}:20".encode() and about[b"auditor_table"] == b"shop.orders"
    assert Path(done.written).stat().st_mode & 0o077 == 0


@on_duckdb
def test_a_table_without_rows_has_its_columns(made: Road) -> None:
    done = at(made, 7)
    assert (done.rows, done.events, pq.read_table(done.written).column_names) == (0, 0, ["id", "item"])
    change(made, 50, {"op": "clear"})
    read_through(made, 60)
    done = at(made, 55)
    assert (done.rows, done.begins, pq.read_table(done.written).column_names) == (0, "clear", ["id", "item"])


@on_duckdb
def test_rows_of_before_the_pipeline_are_not_known_but_for_a_refresh(road: Road) -> None:
    road.stage(batch(announce(ORDERS, 1), insert(ORDERS, 10, ["3", "c"])))
    road.stage(batch(refresh(ORDERS, 30, ["1", "a"], bounds=(NOTHING, ["1", None]))))
    road.stage(batch(update(ORDERS, 35, (["1", "a"], ["1", "A"])), refresh(ORDERS, 38, ["3", "c"], bounds=(["1", None], NOTHING))))
    read_through(road, 60)
    with refused(
        "it may have had rows before", "no position of it can be rebuilt yet", "auditor pipeline refresh shop --table shop.orders"
    ):
        at(road, 60)
    send(road, 20, 40)
    with refused("it may have had rows before", f"it can be rebuilt from {FILE}:40 on"):
        at(road, 39)
    done = at(road, 40)
    assert rows(done) == [(1, "A"), (3, "c")] and (done.begins, done.since) == ("refresh", f"{FILE}:20")
    assert not schema_changes.list_migrations(road.store, PIPELINE)


@on_duckdb
def test_a_table_that_may_have_been_there_is_not_known(road: Road) -> None:
    change(road, 5, {"op": "create", "sure": False})
    road.stage(batch(announce(ORDERS, 1), insert(ORDERS, 10, ["1", "a"])))
    change(road, 20, {"op": "gone"})
    change(road, 22, {"op": "create", "sure": False})
    road.stage(batch(insert(ORDERS, 30, ["2", "b"])))
    read_through(road, 40)
    with refused("it may have had rows before", f"it can be rebuilt from {FILE}:22 on"):
        at(road, 15)
    with refused(f"dropped, or renamed to a name that the pipeline does not read, at {FILE}:20"):
        at(road, 21)
    assert rows(at(road, 35)) == [(2, "b")]


@on_duckdb
def test_deleted_parts_are_named_with_the_first_position_that_is_left(made: Road) -> None:
    change(made, 50, {"op": "clear"})
    made.stage(batch(insert(ORDERS, 60, ["7", "g"])))
    read_through(made, 70)
    news = {"shop.orders": pipelines.MergeNews(10, "merged")}
    pipelines.report_merges(made.store, PIPELINE, "wh", news)
    assert len(parts.delete_passed(made.store, PIPELINE, -1, targets=["wh"])) == 1
    with refused(f"parts of it up to {FILE}:10 were deleted", f"it can be rebuilt from {FILE}:50 on"):
        at(made, 40)
    assert rows(at(made, 65)) == [(7, "g")]


@on_duckdb
def test_parts_that_are_deleted_meanwhile_are_missed(made: Road, monkeypatch: pytest.MonkeyPatch) -> None:
    def delete_first(*given: Any) -> Any:
        pipelines.report_merges(made.store, PIPELINE, "wh", {"shop.orders": pipelines.MergeNews(30, "merged")})
        assert parts.delete_passed(made.store, PIPELINE, -1, targets=["wh"])
        return read(*given)

    read = positions.read_schemas
    monkeypatch.setattr("auditor.pipeline.rebuild.scratch.read_schemas", delete_first)
    with pytest.raises(PartsGone, match="were deleted while the table was rebuilt"):
        at(made, 40)


@on_duckdb
def test_a_reset_meanwhile_leaves_no_table(made: Road, monkeypatch: pytest.MonkeyPatch) -> None:
    def reset(*given: Any) -> Any:
        parts.forget(made.store, PIPELINE, schemas=False)  # as with --from-targets: else the schema is missed
        pipelines.forget(made.store, PIPELINE)
        pipelines.begin(made.store, PIPELINE)
        return read(*given)

    pipelines.begin(made.store, PIPELINE)
    read = positions.read_schemas
    monkeypatch.setattr("auditor.pipeline.rebuild.scratch.read_schemas", reset)
    with pytest.raises(PartsGone, match="was reset while"):
        at(made, 40)
    assert not list(made.folder.glob("*.parquet"))


@on_duckdb
def test_a_damaged_part_is_named(made: Road) -> None:
    [path, *_] = [made.root / part.path for part in parts.list_parts(made.store, PIPELINE, "shop.orders", 0)]
    path.write_bytes(path.read_bytes()[:-40] + b"\0" * 40)
    with pytest.raises(PartDamaged):
        at(made, 40)


@on_duckdb
def test_what_is_not_staged_yet_is_refused(made: Road) -> None:
    with pytest.raises(NotStaged, match=rf"staged its source's log up to {FILE}:40"):
        at(made, 41)
    later = (T0 + dt.timedelta(seconds=30)).isoformat()
    with pytest.raises(NotStaged, match="may still be to come"):
        at(made, later)
    with pytest.raises(ConfigError, match="neither a position nor a time"):
        at(made, "yesterday")


@on_duckdb
def test_of_a_time_what_was_committed_later_does_not_count(made: Road) -> None:
    """Events of the tests are committed as many seconds after T0 as their positions are."""
    assert [rows(at(made, (T0 + dt.timedelta(seconds=seconds)).isoformat())) for seconds in (9.999, 10, 19, 20, 29.9)] == [
        [], [(1, "a"), (2, "b")], [(1, "a"), (2, "b")], [(1, "A"), (2, "b")], [(1, "A"), (2, "b")],
    ]  # fmt: skip
    assert at(made, "2026-11-01T01:00:20+01:00").place == f"{FILE}:29"
    assert at(made, "2026-11-01 00:00:20").place == f"{FILE}:29"
    items = table("items", id="bigint")
    made.stage(batch(announce(items, 50), insert(items, 51, ["1"])))
    assert rows(at(made, (T0 + dt.timedelta(seconds=45)).isoformat())) == [(1, "A")]
    change(made, 60, {"op": "clear"})
    made.stage(batch(insert(items, 71, ["2"])))
    assert [at(made, (T0 + dt.timedelta(seconds=seconds)).isoformat()).rows for seconds in (59, 60)] == [1, 0]


@on_duckdb
def test_renames_are_followed_back(made: Road) -> None:
    old = table("old", id="bigint", item="varchar(40) null")
    body: dict[str, object] = {"ops": [{"op": "moved", "from": "shop.orders"}], "advances": True}
    gone: dict[str, object] = {"ops": [{"op": "gone", "to": "shop.old"}], "advances": True}
    made.stage_task(batch(note("change", "old", 40, body)), batch(note("change", "orders", 40, gone)))
    make(made, 42)
    made.stage(batch(announce(ORDERS, 44), insert(ORDERS, 45, ["8", "new"])), batch(announce(old, 46), insert(old, 47, ["9", "i"])))
    read_through(made, 60)
    done = at(made, 60, "old")
    assert rows(done) == [(1, "A"), (9, "i")] and done.names == ["shop.orders", "shop.old"] and done.since == f"{FILE}:5"
    assert rows(at(made, 41, "old")) == [(1, "A")]
    assert rows(at(made, 60)) == [(8, "new")]
    assert rows(at(made, 39)) == [(1, "A")]
    with refused("there was no such table, which was renamed to shop.old"):
        at(made, 41)
    with refused("it may have had rows before"):
        at(made, 39, "old")


@on_duckdb
def test_columns_follow_and_are_not_guessed(made: Road) -> None:
    wide = table(id="bigint", item="varchar(40) null", price="decimal(10,2) null")
    change(made, 50, {"op": "add", "column": "price", "value": {"text": "1.50"}})
    read_through(made, 60)
    with refused("a statement changed its columns", "try again once a row was written"):
        at(made, 60)
    assert rows(at(made, 49)) == [(1, "A")]
    made.stage(batch(announce(wide, 70), insert(wide, 71, ["3", "c", "2.25"])))
    assert rows(at(made, 60)) == [(1, "A", Decimal("1.50"))]
    assert rows(at(made, 71)) == [(1, "A", Decimal("1.50")), (3, "c", Decimal("2.25"))]
    change(made, 80, {"op": "drop", "column": "item"})
    change(made, 81, {"op": "rename", "from": "price", "to": "cost"})
    read_through(made, 90)
    thin = table(id="bigint", cost="decimal(10,2) null")
    made.stage(batch(announce(thin, 91), insert(thin, 92, ["4", "3.00"])))
    with refused("a statement changed its columns", "came behind another such statement"):
        at(made, 80)
    assert pq.read_table(at(made, 81).written).column_names == ["id", "cost"]
    assert rows(at(made, 92)) == [(1, Decimal("1.50")), (3, Decimal("2.25")), (4, Decimal("3.00"))]
    assert not schema_changes.list_migrations(made.store, PIPELINE), "they are no target's"


@on_duckdb
def test_columns_that_changed_before_an_empty_stretch_follow(made: Road) -> None:
    wide = table(id="bigint", item="varchar(40) null", price="decimal(10,2) null")
    change(made, 50, {"op": "add", "column": "price", "value": {"text": "1.50"}})
    change(made, 52, {"op": "clear"})
    made.stage(batch(announce(wide, 60), insert(wide, 61, ["3", "c", "2.25"])))
    for place in (51, 55):
        assert pq.read_table(at(made, place).written).column_names == ["id", "item", "price"]
    assert [at(made, place).rows for place in (51, 55, 61)] == [1, 0, 1]


@on_duckdb
def test_columns_that_changed_right_before_a_rename_are_not_guessed(made: Road) -> None:
    new = table("new", id="bigint", thing="varchar(40) null")
    change(made, 50, {"op": "rename", "from": "item", "to": "thing"})
    change(made, 52, {"op": "gone", "to": "shop.new"})
    change(made, 52, {"op": "moved", "from": "shop.orders"}, name="new")
    made.stage(batch(announce(new, 60), insert(new, 61, ["3", "c"])))
    assert rows(at(made, 45, "orders")) == [(1, "A")]
    with refused("a statement changed its columns, and it was renamed before a row told the stream of them"):
        at(made, 61, "new")


@on_duckdb
def test_values_that_changed_without_events_are_refused(made: Road) -> None:
    about = {"op": "modify", "column": "item", "strict": False, "nullable": True, "charset": ""}
    change(made, 50, {**about, "type": "varchar(1)"})
    change(made, 51, {**about, "type": "varchar(40)"})
    made.stage(batch(insert(ORDERS, 60, ["3", "c"])))
    with refused("item", "or choose a position before that, or one behind a refresh of all its rows"):
        at(made, 60)
    with refused("item"):
        at(made, 55)
    assert rows(at(made, 40)) == [(1, "A")]


@on_duckdb
def test_an_event_that_stops_the_table_stops_it_by_name(made: Road) -> None:
    reason = "the row has bytes that are no utf8mb4"
    made.stage_task(batch(note("poison", "orders", 50, {"stage": "decoding", "reason": reason}, events=1)))
    made.stage(batch(insert(ORDERS, 60, ["3", "c"])))
    assert rows(at(made, 49)) == [(1, "A")]
    with refused(f"shop.orders cannot be rebuilt beyond {FILE}:30", reason):
        at(made, 60)
    [stop] = [one for one in table_notes.list_notes(made.store, PIPELINE) if one.stops]
    table_notes.skip(made.store, PIPELINE, [stop], by="ada", reason="a test row")
    done = at(made, 60)
    assert rows(done) == [(1, "A"), (3, "c")]
    assert done.warnings == ["shop.orders: 1 event was skipped at 000000:50:0 by ada: a test row"]


@on_duckdb
def test_rows_that_a_statement_brought_are_no_beginning(road: Road) -> None:
    change(road, 5, {"op": "create", "sure": True}, {"op": "rows", "why": "CREATE TABLE ... SELECT"}, reason="rows that are not in the log")
    road.stage(batch(announce(ORDERS, 6), insert(ORDERS, 10, ["1", "a"])))
    with refused("it may have had rows before"):
        at(road, 10)


@on_duckdb
def test_a_failover_on_the_way_is_said(made: Road) -> None:
    place = Position(1, 0, 50).pack()
    [event] = insert(ORDERS, 45, ["3", "c"])
    made.stage(batch([{**event, "position": place - 5}]))
    read_through(made, 50, epoch=1)
    done = at(made, 50)
    assert rows(done) == [(1, "A"), (3, "c")] and "failed over" in done.warnings[0]
    assert (at(made, f"0/{FILE}:20").place, at(made, f"0/{FILE}:20").warnings) == (f"0/{FILE}:20", [])


@on_duckdb
def test_tables_that_no_target_can_hold_are_refused(road: Road) -> None:
    keyless, shape = table("keyless", (), id="bigint"), table("shapes", id="bigint", shape="geometry null")
    days = table("days", id="bigint", day="date null")
    for one, values in ((keyless, ["1"]), (shape, ["1", "00"]), (days, ["1", "0000-00-00"])):
        change(road, 5, {"op": "create", "sure": True}, name=one.table)
        road.stage(batch(announce(one, 6), insert(one, 7, values)))
    for name, error in (("keyless", NoKey), ("shapes", ColumnRefused), ("days", ValueRefused)):
        with pytest.raises(error):
            at(road, 7, name)
    assert not list(road.folder.glob("*.parquet*")) and not list(road.folder.glob(".*parquet*"))


TYPES = {
    "id": "bigint unsigned", "num": "int null", "dec": "decimal(38,10) null", "f": "float null", "d": "double null", "t": "text null",
    "b": "varbinary(40) null", "day": "date null", "at": "datetime(6) null", "stamp": "timestamp(3) null", "clock": "time(3) null",
    "y": "year null", "e": "enum('a','b') null", "s": "set('a','b') null", "j": "json null", "bits": "bit(5) null", "u": "uuid null",
}  # fmt: skip
VALUES: list[list[str | None]] = [
    ["18446744073709551615", "-7", "1234567890123456789012345678.0123456789", "1.1", "-1.5e-15", "Füller 🖋 \\ \" ' \t",
     "00ff0a", "2024-02-29", "2024-02-29 23:59:59.000001", "2026-03-01 12:00:00.125", "23:59:59.500", "2024", "a", "a,b",
     '{"a": 1}', "21", "12345678-1234-1234-1234-123456789abc"],
    ["1", *[None] * 16],
]  # fmt: skip


@on_duckdb
def test_a_file_has_the_types_of_a_lake(road: Road) -> None:
    typed = table("typed", **TYPES)
    change(road, 5, {"op": "create", "sure": True}, name="typed")
    road.stage(batch(announce(typed, 6), insert(typed, 7, *VALUES)))
    found = pq.read_table(at(road, 7, "typed").written)
    assert {name: str(found.schema.field(name).type) for name in found.column_names} == {
        "id": "decimal128(20, 0)", "num": "int64", "dec": "decimal128(38, 10)", "f": "float", "d": "double", "t": "string", "b": "binary",
        "day": "date32[day]", "at": "timestamp[us]", "stamp": "timestamp[us, tz=UTC]", "clock": "time64[us]", "y": "int16", "e": "string",
        "s": "string", "j": "string", "bits": "string", "u": "string",
    }  # fmt: skip
    assert found["id"].to_pylist() == [1, 18446744073709551615] and found["bits"].to_pylist() == [None, "10101"]


@pytest.mark.quick_for("mysql", "postgres", "duckdb")
@pytest.mark.parametrize("engine", EVERY, indirect=True)
def test_a_table_of_a_connection_equals_what_a_pipeline_loads_there(road: Road) -> None:
    types = {name: kind for name, kind in TYPES.items() if name not in ("u", "bits") or road.dialect.name in ("postgres", "duckdb")}
    typed = table("typed", **types)
    values = [[value for name, value in zip(TYPES, row, strict=True) if name in types] for row in VALUES]
    if road.dialect.name == "mysql":
        types["id"] = "bigint"
    change(road, 5, {"op": "create", "sure": True}, name="typed")
    road.stage(batch(announce(typed, 6), insert(typed, 7, *values)))
    road.loader().merge_all()
    done = at(road, 7, "typed", output=None, into=("warehouse", f"{road.schema}.again"))
    assert done.rows == 2 and done.written == f"warehouse: {road.schema}.again"
    assert road.rows("again") == road.rows("typed") and len(road.rows("again")) == 2
    names = {str(row[0]) for row in road.query(f"SELECT table_name FROM information_schema.tables WHERE table_schema = '{road.schema}'")}
    assert not [name for name in names if name.startswith("auditor_stage_") and "again" in name]
    with pytest.raises(ConfigError, match="already, and a rebuilt table replaces none"):
        at(road, 7, "typed", output=None, into=("warehouse", f"{road.schema}.typed"))
    assert len(road.rows("typed")) == 2


@pytest.mark.parametrize("engine", engine_params("duckdb", "mysql", slow=["mysql"]), indirect=True)
def test_a_table_that_cannot_be_filled_is_dropped(made: Road, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ValueRefused("a value that it does not take")

    made.loader().merge_all()
    monkeypatch.setattr(outputs, "_load", fail)
    with pytest.raises(ValueRefused):
        at(made, 40, output=None, into=("warehouse", f"{made.schema}.again"))
    names = made.query(f"SELECT table_name FROM information_schema.tables WHERE table_schema = '{made.schema}'")
    assert "again" not in {str(name) for (name,) in names} and made.rows() == [(1, "A")]


@on_duckdb
def test_many_rows_are_written_in_pieces(made: Road, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outputs, "ROWS_AT_ONCE", 100)
    monkeypatch.setattr(outputs, "ARROW_ROWS", 60)
    monkeypatch.setattr(scratch, "MOST_ROWS", 300)
    for number in range(10):
        made.stage(batch(insert(ORDERS, 50 + number, *([str(1000 * number + row + 10), "x"] for row in range(150)))))
    made.loader().merge_all()
    read_through(made, 60)
    done = at(made, 60, output=None, into=("warehouse", f"{made.schema}.again"))
    assert done.rows == 1501 and made.rows("again") == made.rows()
    assert at(made, 60).rows == 1501


@on_duckdb
@pytest.mark.parametrize(
    ("into", "words"),
    [
        (("nowhere", "shop.t"), "there is no connection 'nowhere'"),
        (("source", "shop.t"), "may only read"),
        (("warehouse", "t"), "write its schema"),
    ],
)
def test_places_that_take_no_table(made: Road, into: tuple[str, str], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        at(made, 40, output=None, into=into)


@on_duckdb
def test_the_command_says_what_it_wrote(made: Road, capsys: pytest.CaptureFixture[str]) -> None:
    given = ["pipeline", "rebuild", PIPELINE, "orders", "--at", f"{FILE}:20", "--config", str(made.config_file)]
    path = made.folder / "orders.parquet"
    assert main([*given, "--output", str(path)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"shop.orders at {FILE}:20: 2 rows, written into {path}",
        f"  from 3 events behind {FILE}:5, where it was made",
    ]
    assert main([*given, "--output", str(path)]) == 2
    assert "there is a file" in capsys.readouterr().err
    into = [*given, "--into", "warehouse", "--table", "main.again"]
    assert main(into) == 0
    assert capsys.readouterr().out.splitlines()[0] == (
        f"shop.orders at {FILE}:20: 2 rows, not written into warehouse: add --apply to write them"
    )
    assert made.query("SELECT COUNT(*) FROM duckdb_tables() WHERE table_name = 'again'") == [(0,)]
    assert main([*given, "--output", str(path), "--apply"]) == 2
    assert "--apply writes into a connection; leave it out with --output" in capsys.readouterr().err
    assert main([*into, "--apply", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"] == 2
    assert made.query("SELECT * FROM main.again ORDER BY id") == [(1, "A"), (2, "b")]
    assert main([*given, "--into", "warehouse"]) == 2
    assert "write both" in capsys.readouterr().err
