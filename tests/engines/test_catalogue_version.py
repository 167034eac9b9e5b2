"""A schema's version changes with everything that `describe` and `hazards` say of its tables, and with nothing else."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing

import pytest

import dialects
from dialects import Session
from tests import tables
from tests.live import LiveEngine, engine_params

SCHEMA, OTHER = "versioned", "versioned_other"
CHANGED = f"{SCHEMA}.changed"

EVERYWHERE = (
    f"ALTER TABLE {CHANGED} ADD COLUMN later int",
    f"ALTER TABLE {CHANGED} ALTER COLUMN later SET DEFAULT 3",
    f"ALTER TABLE {CHANGED} DROP COLUMN later",
    f"CREATE UNIQUE INDEX words ON {CHANGED} (word)",
    f"CREATE TABLE {SCHEMA}.new (id int PRIMARY KEY)",
    f"DROP TABLE {SCHEMA}.new",
)
ON_SERVERS = (
    f"CREATE TABLE {OTHER}.child (id int PRIMARY KEY, parent bigint, FOREIGN KEY (parent) REFERENCES {CHANGED} (id) ON DELETE CASCADE)",
    f"DROP TABLE {OTHER}.child",
)
OWN = {
    "duckdb": (
        f"DROP INDEX {SCHEMA}.words",
        f"ALTER TABLE {CHANGED} ALTER COLUMN word SET NOT NULL",
        f"CREATE VIEW {SCHEMA}.seen AS SELECT 1 AS id",
    ),
    "postgres": (
        f"ALTER TABLE {CHANGED} ALTER COLUMN word SET NOT NULL",
        f"ALTER TABLE {CHANGED} ALTER COLUMN amount ADD GENERATED ALWAYS AS IDENTITY",
        f"ALTER TABLE {CHANGED} ALTER COLUMN word TYPE varchar(80)",
        f"CREATE FUNCTION {SCHEMA}.stamp() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$;"
        f" CREATE TRIGGER stamp BEFORE INSERT ON {CHANGED} FOR EACH ROW EXECUTE FUNCTION {SCHEMA}.stamp()",
        f"ALTER TABLE {CHANGED} DISABLE TRIGGER stamp",
        f"DROP TRIGGER stamp ON {CHANGED}",
        f"CREATE RULE quiet AS ON INSERT TO {CHANGED} DO INSTEAD NOTHING",
        f"DROP RULE quiet ON {CHANGED}",
        f"ALTER TABLE {CHANGED} ENABLE ROW LEVEL SECURITY",
        f"ALTER TABLE {CHANGED} FORCE ROW LEVEL SECURITY",
        f"ALTER TABLE {CHANGED} ADD CONSTRAINT apart EXCLUDE USING btree (word WITH =)",
        f"ALTER TABLE {CHANGED} RENAME COLUMN word TO term",
        f"ALTER TABLE {CHANGED} RENAME TO altered",
        f"CREATE TABLE {SCHEMA}.parted (id int) PARTITION BY RANGE (id)",
        f"CREATE TABLE {SCHEMA}.rest PARTITION OF {SCHEMA}.parted FOR VALUES FROM (0) TO (10)",
        f"CREATE TABLE {OTHER}.part PARTITION OF {SCHEMA}.parted DEFAULT",
        f"CREATE TRIGGER stamp BEFORE INSERT ON {OTHER}.part FOR EACH ROW EXECUTE FUNCTION {SCHEMA}.stamp()",
        f"CREATE TABLE {OTHER}.heir () INHERITS ({SCHEMA}.altered)",
        f"CREATE TRIGGER stamp BEFORE UPDATE ON {OTHER}.heir FOR EACH ROW EXECUTE FUNCTION {SCHEMA}.stamp()",
    ),
    "mysql": (
        f"ALTER TABLE {CHANGED} MODIFY word varchar(80) NOT NULL",
        f"ALTER TABLE {CHANGED} MODIFY word varchar(80) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL",
        f"ALTER TABLE {CHANGED} MODIFY amount int GENERATED ALWAYS AS (id + 1) STORED",
        f"CREATE TRIGGER {SCHEMA}.stamp BEFORE INSERT ON {CHANGED} FOR EACH ROW SET NEW.word = 'x'",
        f"DROP TRIGGER {SCHEMA}.stamp",
        f"ALTER TABLE {CHANGED} ADD moment timestamp NOT NULL DEFAULT now() ON UPDATE now()",
        f"ALTER TABLE {CHANGED} ADD parent bigint, ADD CONSTRAINT own FOREIGN KEY (parent) REFERENCES {CHANGED} (id)",
        f"ALTER TABLE {CHANGED} RENAME COLUMN word TO term",
        f"ALTER TABLE {CHANGED} RENAME TO {SCHEMA}.altered",
        f"CREATE TABLE {SCHEMA}.parted (id int) PARTITION BY RANGE (id) (PARTITION p1 VALUES LESS THAN (10))",
        f"ALTER TABLE {SCHEMA}.parted ADD PARTITION (PARTITION p2 VALUES LESS THAN MAXVALUE)",
        f"CREATE VIEW {SCHEMA}.seen AS SELECT 1 AS id",
        f"CREATE TABLE {SCHEMA}.stored (id int)",
        f"ALTER TABLE {SCHEMA}.stored ENGINE = MyISAM",
    ),
}
"""What changes only there, by dialect."""


@pytest.fixture
def session(engine: LiveEngine) -> Iterator[Session]:
    cascade = "" if engine.dialect == "mysql" else " CASCADE"
    drop = [f"DROP SCHEMA IF EXISTS {name}{cascade}" for name in (OTHER, SCHEMA)]
    tables.execute(engine, *drop, *(f"CREATE SCHEMA {name}" for name in (SCHEMA, OTHER)))
    tables.execute(engine, f"CREATE TABLE {CHANGED} (id bigint PRIMARY KEY, word varchar(40), amount int NOT NULL)")
    with closing(dialects.connect(engine.url, 60.0, 10.0)) as found:
        yield found
    tables.execute(engine, *drop)


@pytest.mark.parametrize("engine", engine_params("duckdb", "postgres", "mysql", "mariadb"), indirect=True)
def test_each_change_of_a_definition_is_another_version(engine: LiveEngine, session: Session) -> None:
    versions = [session.dialect.catalogue.version(session, SCHEMA)]
    for statement in (*EVERYWHERE, *(ON_SERVERS if engine.dialect != "duckdb" else ()), *OWN[engine.dialect]):
        tables.execute(engine, statement)
        version = session.dialect.catalogue.version(session, SCHEMA)
        assert version != versions[-1], statement
        versions.append(version)
    assert None not in versions


@pytest.mark.parametrize("engine", engine_params("postgres", "mysql", "mariadb"), indirect=True)
def test_what_was_dropped_and_made_again_is_another_version(engine: LiveEngine, session: Session) -> None:
    """A table that was described in between is another one than the version before and after would say."""
    if engine.dialect == "mysql":
        made = f"CREATE TRIGGER {SCHEMA}.stamp BEFORE INSERT ON {CHANGED} FOR EACH ROW SET NEW.word = 'x'"
        dropped = f"DROP TRIGGER {SCHEMA}.stamp"
    else:
        made = f"CREATE UNIQUE INDEX words ON {CHANGED} (word)"
        dropped = f"DROP INDEX {SCHEMA}.words"
    tables.execute(engine, made)
    version = session.dialect.catalogue.version(session, SCHEMA)
    time.sleep(0.02)  # servers state hundredths of a second
    tables.execute(engine, dropped, made)
    assert session.dialect.catalogue.version(session, SCHEMA) != version


@pytest.mark.parametrize("engine", engine_params("mysql", "mariadb"), indirect=True)
def test_a_default_is_told_from_none(engine: LiveEngine, session: Session) -> None:
    tables.execute(engine, f"ALTER TABLE {CHANGED} MODIFY word varchar(40) NOT NULL DEFAULT 'none'")
    version = session.dialect.catalogue.version(session, SCHEMA)
    tables.execute(engine, f"ALTER TABLE {CHANGED} MODIFY word varchar(40) NOT NULL")
    assert session.dialect.catalogue.version(session, SCHEMA) != version


@pytest.mark.parametrize("engine", engine_params("duckdb", "postgres", "mysql", "mariadb"), indirect=True)
def test_a_schema_of_which_nothing_is_known_has_no_version(engine: LiveEngine, session: Session) -> None:
    assert session.dialect.catalogue.version(session, "nobody_made_it") is None


@pytest.mark.parametrize("engine", engine_params("duckdb", "postgres", "mysql", "mariadb"), indirect=True)
def test_rows_statistics_and_other_schemas_change_no_version(engine: LiveEngine, session: Session) -> None:
    version = session.dialect.catalogue.version(session, SCHEMA)
    tables.execute(
        engine,
        f"INSERT INTO {CHANGED} VALUES (1, 'a', 1), (2, 'b', 2)",
        f"UPDATE {CHANGED} SET word = 'c'",
        f"DELETE FROM {CHANGED} WHERE id = 1",
        f"ANALYZE{' TABLE' if engine.dialect == 'mysql' else ''} {CHANGED}",
        f"CREATE TABLE {OTHER}.apart (id int PRIMARY KEY)",
    )
    assert session.dialect.catalogue.version(session, SCHEMA) == version


@pytest.mark.parametrize("engine", engine_params("redshift", "delta", "iceberg"), indirect=True)
def test_engines_that_have_none_say_so(engine: LiveEngine) -> None:
    with closing(dialects.connect(engine.url, 60.0, 10.0)) as session:
        assert session.dialect.catalogue.version(session, "public") is None
