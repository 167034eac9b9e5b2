"""What a patch refuses, each with its sentence and nothing written."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update

from auditor.errors import (
    AuditorError,
    ColumnRefused,
    ConfigError,
    PatchFailed,
    PatchRefused,
    RunOutdated,
    UnknownPatch,
    UnknownRun,
    ValueRefused,
)
from auditor.repair.keys import Selection
from auditor.service import patches
from auditor.store import patches as stored_patches
from auditor.store.schema import runs as run_table
from tests import tables
from tests.live import Engines, LiveEngine, engine_params
from tests.repair import small

ON_POSTGRES = pytest.mark.parametrize("engine", engine_params("postgres"), indirect=True)
ON_MARIADB = pytest.mark.parametrize("engine", engine_params("mariadb"), indirect=True)

SOURCE = ("CREATE TABLE s (id INTEGER PRIMARY KEY, name VARCHAR)", "INSERT INTO s VALUES (1, 'a'), (2, 'b'), (3, 'c')")
CLEAN = ("DROP TABLE IF EXISTS child", "DROP TABLE IF EXISTS t", "DROP TABLE IF EXISTS beneath")
PLAIN = ("CREATE TABLE t (id INTEGER PRIMARY KEY, name VARCHAR(20))", "INSERT INTO t VALUES (1, 'a'), (2, 'x'), (4, 'd')")


@dataclass(frozen=True)
class Case:
    """A target that is refused: its statements, what the sentence says, and what is accepted to have it patched all the same."""

    name: str
    target: tuple[str, ...]
    says: str
    error: type[AuditorError] = PatchRefused
    accept: str = ""
    audit: dict[str, Any] = field(default_factory=dict)
    source: tuple[str, ...] = SOURCE
    after: str = ""
    """A statement that removes what a later case could not."""

    @property
    def marks(self) -> list[pytest.MarkDecorator]:
        """A normal run takes a few cases, each of another check."""
        return [] if self.name in ("view", "trigger", "cascade", "default", "generated", "NUL", "MyISAM", "label") else [pytest.mark.slow]


POSTGRES = (
    Case(
        "view",
        ("CREATE TABLE beneath (id INTEGER PRIMARY KEY, name VARCHAR(20))", "CREATE VIEW t AS SELECT * FROM beneath"),
        "t is a view; audit and patch the table beneath it",
        after="DROP VIEW t",
    ),
    Case("no unique key", ("CREATE TABLE t (id INTEGER, name VARCHAR(20))",), "has no primary or unique key of id"),
    Case(
        "trigger",
        (
            *PLAIN,
            "CREATE OR REPLACE FUNCTION shout() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.name := UPPER(NEW.name); RETURN NEW; END'",
            "CREATE TRIGGER loud BEFORE INSERT OR UPDATE ON t FOR EACH ROW EXECUTE FUNCTION shout()",
        ),
        "has the triggers loud, which act on every write",
    ),
    Case("rule", (*PLAIN, "CREATE RULE deaf AS ON UPDATE TO t DO INSTEAD NOTHING"), "has the triggers deaf"),
    Case(
        "cascade",
        (*PLAIN, "CREATE TABLE child (of INTEGER REFERENCES t (id) ON DELETE CASCADE)"),
        "rows of child would be deleted or changed with those of",
        accept="cascades",
    ),
    Case(
        "identity",
        ("CREATE TABLE t (id INTEGER GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name VARCHAR(20))",),
        "the server numbers id of",
        accept="identity",
    ),
    Case(
        "default",
        ("CREATE TABLE t (id INTEGER PRIMARY KEY, name VARCHAR(20), kind VARCHAR(9) DEFAULT 'new')",),
        "would get the defaults of kind, which the audit does not compare",
        accept="defaults",
    ),
    Case(
        "required",
        ("CREATE TABLE t (id INTEGER PRIMARY KEY, name VARCHAR(20), kind VARCHAR(9) NOT NULL)",),
        "a new row of public.t needs a value of kind; let the audit compare it too",
    ),
    Case(
        "generated",
        ("CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT GENERATED ALWAYS AS ('row ' || id) STORED)", "INSERT INTO t (id) VALUES (1)"),
        "id = 1: the target computes name itself, from other columns",
        ValueRefused,
    ),
    Case(
        "NUL",
        (PLAIN[0],),
        "id = 1: the column 'name' has a text with the character U+0000",
        ValueRefused,
        source=(SOURCE[0], "INSERT INTO s VALUES (1, 'a' || chr(0))"),
    ),
    Case(
        "clock",
        ("CREATE TABLE t (id INTEGER PRIMARY KEY, name NUMERIC(10,2))",),
        "id = 1: the column 'name' has more digits after the point than the 2 of its column, which would be rounded in silence",
        ValueRefused,
        source=("CREATE TABLE s (id INTEGER PRIMARY KEY, name DOUBLE)", "INSERT INTO s VALUES (1, 1.005)"),
    ),
    Case(
        "expression",
        PLAIN,
        "the column 'name' cannot be written: the audit compares the result of an expression there",
        ValueRefused,
        audit={"columns": {"override": {"name": {"expr": "LOWER(name)", "kind": "text"}}}},
    ),
    Case(
        "levelled key",
        ("CREATE TABLE t (id VARCHAR(9) PRIMARY KEY, name VARCHAR(20))",),
        "no row can be patched by its key 'id': the audit compares it levelled",
        ColumnRefused,
        audit={"columns": {"override": {"id": {"trim": True}}}},
        source=("CREATE TABLE s (id VARCHAR PRIMARY KEY, name VARCHAR)", "INSERT INTO s VALUES ('1', 'a')"),
    ),
    Case(
        "masked key",
        PLAIN,
        "no row can be patched by its key 'id': it is masked",
        ColumnRefused,
        audit={"columns": {"override": {"id": {"mask": True}}}},
    ),
)  # fmt: skip

MARIADB = (
    Case("MyISAM", (f"{PLAIN[0]} ENGINE = MyISAM", PLAIN[1]), "is stored by MyISAM, which has no transactions"),
    Case("Aria", (f"{PLAIN[0]} ENGINE = Aria", PLAIN[1]), "is stored by Aria, which has no transactions"),
    Case(
        "label",
        ("CREATE TABLE t (id INTEGER PRIMARY KEY, name ENUM('x', 'y'))",),
        "id = 1: the column 'name' has a label that its enum does not list",
        ValueRefused,
        source=(SOURCE[0], "INSERT INTO s VALUES (1, '2')"),
    ),
    Case(
        "NaN",
        ("CREATE TABLE t (id INTEGER PRIMARY KEY, name DOUBLE)",),
        "id = 1: the column 'name' has NaN or an infinity: FLOAT and DOUBLE hold finite numbers only",
        ValueRefused,
        source=("CREATE TABLE s (id INTEGER PRIMARY KEY, name DOUBLE)", "INSERT INTO s VALUES (1, 'nan')"),
    ),
    Case(
        "era",
        ("CREATE TABLE t (id INTEGER PRIMARY KEY, name DATE)",),
        "id = 1: the column 'name' has a date beyond the years 0 to 9999",
        ValueRefused,
        source=("CREATE TABLE s (id INTEGER PRIMARY KEY, name DATE)", "INSERT INTO s VALUES (1, '0044-03-15 (BC)')"),
    ),
    Case(
        "trigger",
        (*PLAIN, "CREATE TRIGGER loud BEFORE UPDATE ON t FOR EACH ROW SET NEW.name = UPPER(NEW.name)"),
        "has the triggers loud, which act on every write",
    ),
)  # fmt: skip


def refuse(case: Case, engine: LiveEngine, folder: Path) -> None:
    both = small.make(folder, engine, case.source, (*CLEAN, *case.target), **case.audit)
    before = both.rows()
    with pytest.raises(case.error) as refused:
        both.apply()
    assert case.says in str(refused.value)
    assert both.rows() == before
    both.on_target(*([case.after] if case.after else []))
    if case.accept:
        assert both.apply(accepted=(case.accept,)).patched.patch
        assert {row[0] for row in both.rows()} == {1, 2, 3}


@ON_POSTGRES
@pytest.mark.parametrize("case", [pytest.param(case, id=case.name, marks=case.marks) for case in POSTGRES])
def test_what_postgres_would_do_otherwise_than_printed_is_refused(case: Case, engine: LiveEngine, tmp_path: Path) -> None:
    refuse(case, engine, tmp_path)


@ON_MARIADB
@pytest.mark.parametrize("case", [pytest.param(case, id=case.name, marks=case.marks) for case in MARIADB])
def test_what_mariadb_would_do_otherwise_than_printed_is_refused(case: Case, engine: LiveEngine, tmp_path: Path) -> None:
    refuse(case, engine, tmp_path)


@ON_MARIADB
def test_what_a_trigger_changes_is_found_before_the_commit(engine: LiveEngine, tmp_path: Path) -> None:
    both = small.make(tmp_path, engine, SOURCE, (*CLEAN, *MARIADB[-1].target))
    before = both.rows()
    with pytest.raises(PatchFailed, match="id = 2: the column 'name' holds 'B' after its statement, not 'b'; the batch was rolled back"):
        both.apply(accepted=("triggers",))
    assert both.rows() == before


@pytest.fixture
def duck(tmp_path: Path) -> small.Small:
    """Two tables of one DuckDB file, which differ in three rows."""
    engine = LiveEngine("duckdb", "duckdb", f"duckdb:///{tmp_path}/source.duckdb")
    return small.make(tmp_path, engine, SOURCE, PLAIN, source=engine)


def test_more_rows_than_allowed_are_refused(tmp_path: Path) -> None:
    engine = LiveEngine("duckdb", "duckdb", f"duckdb:///{tmp_path}/source.duckdb")
    both = small.make(tmp_path, engine, SOURCE, PLAIN, source=engine, write={"max_rows": 2, "max_share": "1%"})
    with pytest.raises(PatchRefused, match="3 rows are to be changed, and one patch may change 2; use --limit or --keys"):
        both.apply()
    assert both.apply(Selection(limit=2, delete_extra=True)).patched.counts.total() == 2, "ten rows are always allowed"


def test_a_share_of_the_table_beyond_the_limit_is_refused(tmp_path: Path) -> None:
    engine = LiveEngine("duckdb", "duckdb", f"duckdb:///{tmp_path}/source.duckdb")
    filled = "INSERT INTO {} SELECT i, {} FROM range(50) AS r(i)"
    both = small.make(
        tmp_path, engine, (SOURCE[0], filled.format("s", "'a'")), (PLAIN[0], filled.format("t", "CASE WHEN i < 11 THEN 'b' ELSE 'a' END")),
        source=engine, write={"max_share": "10%"},
    )  # fmt: skip
    with pytest.raises(PatchRefused, match=r"11 of 50 rows are to be changed, and one patch may change 0\.1 of a table"):
        both.apply()


def test_unknown_runs_and_patches_are_refused(duck: small.Small) -> None:
    with pytest.raises(UnknownRun, match="there is no run and no audit that ran called 'nobody'"):
        patches.apply_patch(duck.settings, duck.store, "nobody", small.EVERYTHING)
    with pytest.raises(UnknownPatch, match="there is no patch 'nobody'"):
        patches.undo_patch(duck.settings, duck.store, "nobody")


def test_a_run_that_is_too_old_is_refused(duck: small.Small) -> None:
    run = duck.run().run
    old = dt.datetime.now(dt.UTC) - dt.timedelta(days=2)
    duck.store.write(lambda connection: connection.execute(update(run_table).values(ended=old)) and None)
    with pytest.raises(RunOutdated, match="is 48 hours old, and patches are made of runs of the last 24 hours; run small again"):
        patches.apply_patch(duck.settings, duck.store, run, small.EVERYTHING)


def test_a_run_before_a_change_of_columns_is_refused(duck: small.Small) -> None:
    run = duck.run().run
    duck.on_target("ALTER TABLE t ALTER name TYPE CHAR(3)", "ALTER TABLE t RENAME name TO name2", "ALTER TABLE t RENAME name2 TO name")
    tables.execute(duck.target, "ALTER TABLE t DROP COLUMN name", "ALTER TABLE t ADD COLUMN name BLOB")
    with pytest.raises(AuditorError) as refused:
        patches.apply_patch(duck.settings, duck.store, run, small.EVERYTHING)
    assert refused.value.exit_code == 2


def test_a_run_of_other_settings_is_refused(duck: small.Small) -> None:
    run = duck.run().run
    audit = duck.settings.audits["small"].model_copy(update={"t": 4})
    with pytest.raises(RunOutdated, match="the settings of small, or the databases of its connections, changed since run"):
        patches.apply_patch(duck.settings.model_copy(update={"audits": {"small": audit}}), duck.store, run, small.EVERYTHING)


def test_a_connection_that_may_not_write_is_refused(duck: small.Small, tmp_path: Path) -> None:
    run = duck.run().run
    for write, says in (
        (None, "may only read; add write:"),
        ({"url": f"duckdb:///{tmp_path}/other.duckdb"}, "leads to another database than url"),
    ):
        connection = type(duck.settings.connections["b"]).model_validate({"url": duck.target.url, "write": write})
        settings = duck.settings.model_copy(update={"connections": {**duck.settings.connections, "b": connection}})
        with pytest.raises(ConfigError, match=says):
            patches.apply_patch(settings, duck.store, run, small.EVERYTHING)


def test_a_run_that_named_no_rows_is_refused(duck: small.Small) -> None:
    audit = duck.settings.audits["small"].model_copy(update={"method": "signature"})
    duck.settings = duck.settings.model_copy(update={"audits": {"small": audit}})
    with pytest.raises(PatchRefused, match="named no rows; run small with the method exact"):
        duck.script()
    with pytest.raises(PatchRefused, match="named no rows"):
        duck.apply()


def test_a_masked_column_is_applied_and_never_printed_nor_journalled(tmp_path: Path) -> None:
    engine = LiveEngine("duckdb", "duckdb", f"duckdb:///{tmp_path}/source.duckdb")
    both = small.make(tmp_path, engine, SOURCE, PLAIN, source=engine, columns={"override": {"name": {"mask": True}}})
    with pytest.raises(PatchRefused, match="the column 'name' is masked, and a masked column is never printed; write --apply"):
        both.script()
    patched = both.apply().patched
    assert both.rows() == [(1, "a"), (2, "b"), (3, "c")]
    assert b"'x'" not in b"".join(repr(batch.rows).encode() for batch in stored_patches.list_batches(both.store, patched.patch))
    with pytest.raises(PatchRefused, match="cannot be undone: its journal has not all rows"):
        patches.undo_patch(both.settings, both.store, patched.patch)


def test_a_patch_is_applied_once_and_undone_once(duck: small.Small) -> None:
    run = duck.run().run
    first = patches.apply_patch(duck.settings, duck.store, run, small.EVERYTHING).patched
    with pytest.raises(PatchRefused, match=f"run {run} was patched already, by patch {first.patch}, and nothing differs by now"):
        patches.apply_patch(duck.settings, duck.store, run, small.EVERYTHING)
    duck.on_target("UPDATE t SET name = 'later' WHERE id = 2")
    undone = patches.undo_patch(duck.settings, duck.store, first.patch).patched
    assert undone.counts == {"inserted": 1, "deleted": 1, "left": 1}
    assert duck.rows() == [(1, "a"), (2, "later"), (4, "d")]
    with pytest.raises(PatchRefused, match="was undone already"):
        patches.undo_patch(duck.settings, duck.store, first.patch)


def test_selections_that_fit_nothing_are_refused(duck: small.Small) -> None:
    with pytest.raises(PatchRefused, match="the audit compares no column 'nome'; it compares id, name"):
        duck.apply(Selection(columns=("nome",)))


@pytest.mark.slow
@pytest.mark.spark
def test_tables_of_spark_are_refused_by_name(engines: Engines, tmp_path: Path) -> None:
    engine = engines.live("spark")
    target = ("DROP TABLE IF EXISTS t", "CREATE TABLE t (id INT, name STRING) USING parquet", "INSERT INTO t VALUES (1, 'z')")
    both = small.make(tmp_path, engine, SOURCE, target)
    with pytest.raises(PatchRefused, match="the rows of spark's tables cannot be changed one by one; copy the range again"):
        both.script()
    with pytest.raises(ConfigError, match="the rows of spark's tables cannot be changed one by one; copy the range again"):
        both.apply()


@pytest.mark.slow
@pytest.mark.parametrize("engine", engine_params("redshift"), indirect=True)
def test_several_rows_of_one_key_are_refused_where_keys_are_not_enforced(engine: LiveEngine, tmp_path: Path) -> None:
    twice = ("CREATE TABLE t (id INTEGER, name VARCHAR(20))", "INSERT INTO t VALUES (1, 'a'), (2, 'x'), (2, 'x'), (3, 'c')")
    both = small.make(tmp_path, engine, SOURCE, (*CLEAN, *twice))
    before = both.rows()
    with pytest.raises(PatchRefused, match="the target has several rows of the key id = 2; repair these by hand, then run again"):
        both.apply()
    assert both.rows() == before
