"""Key ranges are read through an index, as EXPLAIN shows; a large table without one is not scanned."""

from __future__ import annotations

import typing
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

import pytest

import dialects
from auditor.config import ConnectionSettings
from auditor.errors import ScanRefused
from auditor.model import SIDES, Chunk, ColumnPlan, Method, Partitioning, Plan, SidePlan
from auditor.run import scan
from auditor.sql import render
from dialects import Kind, Session
from tests import tables
from tests.live import LiveEngine, engine_params
from tests.tables import execute

pytestmark = pytest.mark.engines_in_turn

ROWS = 20_000
INTEGER, TEXT = Kind("integer"), Kind("text")
CHUNK = Chunk(first=6_000, end=7_000)

INDEXED = {
    "primary": lambda name: f"ALTER TABLE {name} ADD PRIMARY KEY (id)",
    "secondary": lambda name: f"CREATE INDEX {name}_by_id ON {name} (id)",
    "first of two": lambda name: f"CREATE INDEX {name}_by_both ON {name} (id, other)",
}
USELESS: dict[str, Callable[[str], str]] = {
    "none": lambda name: "SELECT 1",
    "second of two": lambda name: f"CREATE INDEX {name}_by_other ON {name} (other, id)",
}
USELESS_BY_ENGINE: dict[str, dict[str, Callable[[str], str]]] = {
    "mysql": {"invisible": lambda name: f"CREATE INDEX {name}_hidden ON {name} (id) INVISIBLE"},
    "mariadb": {"ignored": lambda name: f"CREATE INDEX {name}_hidden ON {name} (id) IGNORED"},
    "postgres": {
        "partial": lambda name: f"CREATE INDEX {name}_some ON {name} (id) WHERE other > 7",
        "an expression's": lambda name: f"CREATE INDEX {name}_sum ON {name} ((id + other))",
        "hash": lambda name: f"CREATE INDEX {name}_hash ON {name} USING hash (id)",
    },
}


def make_table(engine: LiveEngine, *indexes: str) -> None:
    """Create a table whose rows are not stored in key order, with these indexes, and update its statistics."""
    if not _created.get(engine.name):
        rows = [(number * 2_003 % ROWS, number % 97, f"row {number}") for number in range(ROWS)]
        tables.make(engine, "scanned_rows", [("id", INTEGER), ("other", INTEGER), ("label", TEXT)], rows)
        _created[engine.name] = True
    create = "CREATE TABLE scanned AS SELECT id, other, label FROM scanned_rows"
    analyse = "ANALYZE TABLE scanned" if engine.dialect == "mysql" else "ANALYZE scanned"
    not_null = "" if engine.dialect == "mysql" else "ALTER TABLE scanned ALTER COLUMN id SET NOT NULL"
    modify = "ALTER TABLE scanned MODIFY id BIGINT NOT NULL" if engine.dialect == "mysql" else not_null
    execute(engine, "DROP TABLE IF EXISTS scanned", create, modify, *indexes, analyse)


_created: dict[str, bool] = {}


def make_plan(session: Session, method: Method, strategy: str, chunk_keys: int = 1_000) -> Plan:
    dialect = session.dialect
    native = dialect.types.kind("bigint") or INTEGER
    columns = [
        ColumnPlan(
            name=name, kind=kind, native=dict.fromkeys(SIDES, kind), expression=dict.fromkeys(SIDES, dialect.names.quote(name)),
            types=dict.fromkeys(SIDES, "bigint"), why="",
        )
        for name, kind in (("id", native), ("other", native), ("label", TEXT))
    ]  # fmt: skip
    how = {"range": Partitioning(strategy="range", size=100), "hash": Partitioning(strategy="hash", buckets=64)}[strategy]
    (table,) = dialect.catalogue.describe(session, dialects.Place(("scanned",)))
    side = SidePlan(
        dialect=dialect.name, connection="shop", label="shop: scanned", table=table.sql, where="", chunk_keys=chunk_keys, estimate=ROWS
    )
    return Plan(
        audit="scanned", method=method, sides=dict.fromkeys(SIDES, side), columns=tuple(columns), key=1, partitioning=how,
        prefix="a_", least=0, greatest=ROWS - 1, k=4 if method == "minhash" else 0, t=3 if method == "exact" else 0,
    )  # fmt: skip


@contextmanager
def open_session(engine: LiveEngine) -> Iterator[Session]:
    with closing(dialects.connect(engine.url)) as session:
        yield session


def only(*names: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("engine", engine_params(*names), indirect=True)


@only("mysql", "mariadb", "postgres")
@pytest.mark.parametrize("index", INDEXED)
@pytest.mark.few
def test_chunk_is_read_through_the_index_of_the_key(engine: LiveEngine, index: str) -> None:
    """For every method and partitioning the plan reads about as many rows as the chunk has, without a full scan."""
    make_table(engine, INDEXED[index]("scanned"))
    with open_session(engine) as session:
        for strategy in ("range", "hash"):
            for method in typing.get_args(Method):
                plan = make_plan(session, method, strategy)
                expected = session.dialect.server.estimate_scan(session, render.summary(plan, "source", session.dialect, CHUNK))
                assert expected and not expected.full_scan, (method, strategy)
                assert 500 <= expected.rows <= 2_000, (method, strategy)


@only("mysql", "mariadb", "postgres")
def test_chunk_without_an_index_is_a_full_scan(engine: LiveEngine) -> None:
    make_table(engine)
    with open_session(engine) as session:
        plan = make_plan(session, "signature", "range")
        expected = session.dialect.server.estimate_scan(session, render.summary(plan, "source", session.dialect, CHUNK))
    assert expected and expected.full_scan


@only("mysql", "mariadb", "postgres")
def test_full_index_scan_counts_as_a_full_scan(engine: LiveEngine) -> None:
    make_table(engine, INDEXED["secondary"]("scanned"))
    with open_session(engine) as session:
        whole = session.dialect.server.estimate_scan(session, "SELECT id FROM scanned ORDER BY id")
        assert whole and whole.full_scan and ROWS * 0.8 <= whole.rows <= ROWS * 1.2
        found = session.dialect.server.estimate_scan(session, "SELECT label FROM scanned WHERE id = 17")
        assert found == dialects.ScanEstimate(1, False)


@only("mysql", "mariadb", "postgres")
@pytest.mark.parametrize("index", INDEXED)
@pytest.mark.few
def test_index_that_begins_with_the_key_is_found(engine: LiveEngine, index: str) -> None:
    make_table(engine, INDEXED[index]("scanned"))
    with open_session(engine) as session:
        table = make_plan(session, "signature", "range").sides["source"].table
        assert session.dialect.server.leading_index_columns(session, table) == {"id"}


USELESS_CASES = [
    pytest.param(engine, create, id=f"{engine}-{what}", marks=getattr(pytest.mark, engine))
    for engine, more in USELESS_BY_ENGINE.items()
    for what, create in {**USELESS, **more}.items()
]


@pytest.mark.parametrize(("engine", "index"), USELESS_CASES, indirect=["engine"])
def test_index_that_cannot_serve_key_ranges_is_ignored(engine: LiveEngine, index: Callable[[str], str]) -> None:
    make_table(engine, index("scanned"))
    with open_session(engine) as session:
        plan = make_plan(session, "exact", "range")
        assert "id" not in (session.dialect.server.leading_index_columns(session, plan.sides["source"].table) or set())
        statement = render.summary(plan, "source", session.dialect, CHUNK)
        limits = ConnectionSettings.model_validate({"url": engine.url, "limits": {"scan_rows": ROWS - 1}})
        with pytest.raises(ScanRefused) as caught:
            scan.check_scan(plan, "source", session, limits, statement)
        assert str(caught.value) == (
            f"no index of {plan.sides['source'].table} begins with its key id, so each key range would read the whole table,"
            " about 20,000 rows, and scan_rows is 19,999; add one, or write force: true under the limits of connection shop"
        )
        with pytest.raises(ScanRefused):
            scan.check_scan(plan, "source", session, limits)
        for permissive in ({"scan_rows": ROWS}, {"scan_rows": 0, "force": True}):
            limits = ConnectionSettings.model_validate({"url": engine.url, "limits": permissive})
            note = scan.check_scan(plan, "source", session, limits, statement)
            assert note and note.startswith("source: no index of") and "reads the whole table, about 20,000 rows" in note


@only("mysql", "mariadb", "postgres")
def test_note_names_the_index_and_the_rows_of_a_chunk(engine: LiveEngine) -> None:
    make_table(engine, INDEXED["primary"]("scanned"))
    limits = ConnectionSettings.model_validate({"url": engine.url, "limits": {"scan_rows": 0}})
    with open_session(engine) as session:
        plan = make_plan(session, "exact", "range")
        table = plan.sides["source"].table
        assert scan.check_scan(plan, "source", session, limits) == f"source: an index serves the key ranges of {table} by id"
        note = scan.check_scan(plan, "source", session, limits, render.summary(plan, "source", session.dialect, CHUNK))
        assert note and note.startswith(f"source: an index serves the key ranges of {table} by id; one of them reads about ")
        assert note.endswith(" of 20,000 rows")


@only("mysql", "mariadb", "postgres")
def test_scan_is_refused_if_the_server_would_not_use_the_index(engine: LiveEngine) -> None:
    make_table(engine, INDEXED["secondary"]("scanned"))
    limits = ConnectionSettings.model_validate({"url": engine.url, "limits": {"scan_rows": 0}})
    with open_session(engine) as session:
        plan = make_plan(session, "exact", "range")
        statement = f"SELECT id, other, label FROM {plan.sides['source'].table} WHERE id + 0 >= 6000 AND id + 0 < 7000"
        with pytest.raises(ScanRefused, match=r"the server would not use the index of .* that begins with its key id.*; analyse the table"):
            scan.check_scan(plan, "source", session, limits, statement)


@only("mysql", "mariadb", "postgres")
def test_table_read_in_one_statement_needs_no_index(engine: LiveEngine) -> None:
    make_table(engine)
    limits = ConnectionSettings.model_validate({"url": engine.url, "limits": {"scan_rows": 0}})
    with open_session(engine) as session:
        assert scan.check_scan(make_plan(session, "signature", "hash", chunk_keys=0), "source", session, limits) is None


@only("redshift", "duckdb")
def test_engines_without_indexes_are_not_checked(engine: LiveEngine) -> None:
    tables.make(engine, "scanned", [("id", INTEGER), ("other", INTEGER), ("label", TEXT)], [(1, 1, "a")])
    limits = ConnectionSettings.model_validate({"url": engine.url, "limits": {"scan_rows": 0}})
    with open_session(engine) as session:
        assert scan.check_scan(make_plan(session, "signature", "range"), "source", session, limits) is None
        assert session.dialect.server.estimate_scan(session, "SELECT 1") is None


@only("postgres")
def test_partitioned_table_is_read_through_the_indexes_of_its_partitions(engine: LiveEngine) -> None:
    make_table(engine)
    execute(
        engine,
        "DROP TABLE IF EXISTS scanned_whole",
        "CREATE TABLE scanned_whole (id BIGINT PRIMARY KEY, other BIGINT, label TEXT) PARTITION BY RANGE (id)",
        "CREATE TABLE scanned_low PARTITION OF scanned_whole FOR VALUES FROM (MINVALUE) TO (6500)",
        "CREATE TABLE scanned_high PARTITION OF scanned_whole FOR VALUES FROM (6500) TO (MAXVALUE)",
        "INSERT INTO scanned_whole SELECT id, other, label FROM scanned_rows",
        "ANALYZE scanned_whole",
    )
    with open_session(engine) as session:
        assert session.dialect.server.leading_index_columns(session, '"public"."scanned_whole"') == {"id"}
        expected = session.dialect.server.estimate_scan(session, "SELECT label FROM scanned_whole WHERE id >= 6000 AND id < 7000")
    assert expected and not expected.full_scan and 500 <= expected.rows <= 2_000


@only("mysql", "mariadb", "postgres")
def test_impossible_condition_reads_no_rows(engine: LiveEngine) -> None:
    make_table(engine, INDEXED["primary"]("scanned"))
    with open_session(engine) as session:
        found = session.dialect.server.estimate_scan(session, "SELECT label FROM scanned WHERE 1 = 0")
    assert found == dialects.ScanEstimate(0, False)
