"""Many tables are described by as many statements as one, and each as if it were alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing

import pytest

import dialects
from dialects import Place, Session, base
from dialects.errors import NoSuchObject
from tests import tables
from tests.live import LiveEngine, engine_params

SCHEMA = "together"
NAMES = [f"table_{number}" for number in range(7)]
KEYS = {"table_0": "k, id", "table_1": "id, k", "table_2": "word"}
"""The primary keys of those that have one, in an order that is not the columns'."""


@pytest.fixture
def session(engine: LiveEngine) -> Iterator[Session]:
    """A session beside a schema of several tables, of which some have the name of a table in the schema that needs no name."""
    word = "String" if engine.dialect == "clickhouse" else "varchar(40)"
    statements = [f"DROP TABLE IF EXISTS {prefix}{name}" for name in NAMES for prefix in (f"{SCHEMA}.", "")]
    made = "DATABASE" if engine.dialect in ("mysql", "clickhouse") else "SCHEMA"
    statements = [f"CREATE {made} IF NOT EXISTS {SCHEMA}", *statements]
    for number, name in enumerate(NAMES):
        columns = f"k int NOT NULL, id bigint NOT NULL, word {word} NOT NULL, own_{number} int"
        statements.append(f"CREATE TABLE {SCHEMA}.{name} ({columns}{_key(engine, name)}")
    statements.append(f"CREATE TABLE {NAMES[0]} (other int NOT NULL, id int NOT NULL{_key(engine, '')}")
    tables.execute(engine, *statements)
    with closing(dialects.connect(engine.url)) as opened:
        yield opened
    tables.execute(engine, *(f"DROP TABLE {SCHEMA}.{name}" for name in NAMES), f"DROP TABLE {NAMES[0]}", f"DROP {made} {SCHEMA}")


def _key(engine: LiveEngine, name: str) -> str:
    """Return how the statement that makes a table ends."""
    key = KEYS.get(name)
    if engine.dialect == "clickhouse":
        return f") ENGINE = {'Replacing' if key else ''}MergeTree ORDER BY {f'({key})' if key and ',' in key else key or 'id'}"
    return f", PRIMARY KEY ({key}))" if key else ")"


def _places(session: Session) -> Sequence[Place]:
    asked = [name.upper() if number % 2 else name for number, name in enumerate(NAMES)]
    return [
        *(Place((SCHEMA, name)) for name in asked),
        Place((NAMES[0],)),
        Place((SCHEMA, "absent")),
        Place((NAMES[1],)),
        Place((SCHEMA, NAMES[0])),
    ]


@pytest.mark.parametrize("engine", engine_params("mysql", "mariadb", "postgres", "redshift", "duckdb", "clickhouse"), indirect=True)
@pytest.mark.parametrize("at_once", [500, 2])
def test_tables_described_together_are_as_described_alone(session: Session, at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = KEYS
    if session.dialect.name == "redshift":  # no index of it has another order than the table's
        keys = {**KEYS, "table_1": "k, id"}
    monkeypatch.setattr(base, "LISTED_AT_ONCE", at_once)
    places = _places(session)
    catalogue = session.dialect.catalogue
    together = catalogue.describe_each(session, places)
    assert together == [catalogue.describe(session, place) for place in places]
    named = dict(zip(places, together, strict=True))
    for number, name in enumerate(NAMES):
        [table] = named[places[number]]
        assert [column.name for column in table.columns] == ["k", "id", "word", f"own_{number}"]
        assert table.names == (SCHEMA, name) and ", ".join(table.primary_key) == keys.get(name, "")
    [beside] = named[Place((NAMES[0],))]
    assert [column.name for column in beside.columns] == ["other", "id"] and beside.names[0] != SCHEMA
    assert named[Place((SCHEMA, "absent"))] == named[Place((NAMES[1],))] == []


@pytest.mark.parametrize("engine", engine_params("mysql", "mariadb", "postgres", "redshift", "duckdb", "clickhouse"), indirect=True)
def test_many_tables_take_as_many_statements_as_one(session: Session) -> None:
    catalogue = session.dialect.catalogue
    counts = []
    for names in (NAMES[:1], NAMES):
        before = session.statements
        catalogue.describe_each(session, [Place((SCHEMA, name)) for name in names])
        counts.append(session.statements - before)
    assert counts[0] == counts[1] <= 4


@pytest.mark.parametrize("engine", engine_params("duckdb"), indirect=True)
def test_a_place_that_is_no_table_of_the_database_is_refused_among_others(session: Session) -> None:
    with pytest.raises(NoSuchObject, match="another database"):
        session.dialect.catalogue.describe_each(session, [Place((SCHEMA, NAMES[0])), Place(("elsewhere", "main", NAMES[0]))])
