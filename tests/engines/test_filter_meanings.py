"""Filters on columns whose own rules differ from the portable language's: collations, odd dates, narrow types, other character sets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

import dialects
from auditor.config import Audit, ConnectionSettings
from auditor.connections.reader import Reader
from auditor.model import SIDES, Report, Side, Verdict
from auditor.planning import introspect, planner
from auditor.run.audit_run import run
from auditor.sql import render
from dialects import Kind, Session
from tests import tables
from tests.live import Engines, LiveEngine, LivePair, chosen_pairs, engine_params

pytestmark = pytest.mark.engines_in_turn

STATUS = ["draft", "Draft", "DRAFT", "draft ", "dräft", "open", "Open", "closed", "", " ", "naïve", "nai\u0308ve", None]


def definition(where: Any) -> Audit:
    ends = {side: {"connection": side, "table": "kept"} for side in SIDES}
    return Audit.model_validate({**ends, "key": ["id"], "where": where, "allow_empty": True})


def connections(source: LiveEngine, target: LiveEngine) -> dict[str, ConnectionSettings]:
    return {"source": ConnectionSettings(url=source.url), "target": ConnectionSettings(url=target.url)}


def audit(source: LiveEngine, target: LiveEngine, where: Any) -> Report:
    return run("kept", definition(where), connections(source, target))


def check_selected(source: LiveEngine, target: LiveEngine, wanted: Mapping[str, Sequence[int]]) -> None:
    """Assert which ids each filter selects on both sides, in one statement for each side."""
    with Reader("kept", {side: side for side in SIDES}, connections(source, target)).open() as reader:
        ends = introspect.describe_tables(reader, definition(None))
        plans = [planner.draft("kept", definition(where), ends) for where in wanted]

        def select(side: Side, session: Session) -> dict[str, list[int]]:
            answers = ", ".join(f"CASE WHEN {plan.sides[side].where} THEN 1 ELSE 0 END AS f{index}" for index, plan in enumerate(plans))
            ids, *found = zip(*session.query(f"SELECT id, {answers} FROM {ends[side].table.sql} ORDER BY id"), strict=True)
            return {
                where: [int(id) for id, answer in zip(ids, column, strict=True) if answer]
                for where, column in zip(wanted, found, strict=True)
            }

        for side, found in reader.ask_each(select).items():
            assert found == dict(wanted), side


@pytest.mark.parametrize("pair", chosen_pairs("mysql-postgres", "mariadb-duckdb", "mysql-redshift"), indirect=True)
def test_a_case_insensitive_source_is_filtered_as_its_target_is(pair: LivePair) -> None:
    """The source's own ``status <> 'draft'`` would leave out Draft, DRAFT and, where trailing blanks mean nothing, 'draft ' too."""
    columns = [("id", Kind("integer")), ("status", Kind("text"))]
    rows = [[number, status] for number, status in enumerate(STATUS)]
    tables.make(pair.source, "kept", columns, rows)
    tables.make(pair.target, "kept", columns, [row for row in rows if row[1] is not None and row[1] != "draft"])
    report = audit(pair.source, pair.target, "status <> 'draft'")
    assert report.verdict is Verdict.MATCH, report.reasons
    assert report.comparison and report.comparison.rows == {"source": len(STATUS) - 2, "target": len(STATUS) - 2}
    assert report.plan
    told = [note for note in report.plan.notes if "is compared by its exact characters" in note]
    assert len(told) == 1 and told[0].startswith(
        "where: status is compared by its exact characters, unlike under the source's collation utf8mb4_"
    )


@pytest.mark.parametrize("engine", engine_params("mysql", "mariadb"), indirect=True)
def test_mysql_columns_of_every_character_set_are_compared_by_their_characters(engine: LiveEngine) -> None:
    types = {
        "a": "VARCHAR(20) CHARACTER SET latin1", "b": "VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci",
        "c": "VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin", "d": "CHAR(20) CHARACTER SET utf16",
        "e": "VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci",
    }  # fmt: skip
    natives = ", ".join(f"{name} {native}" for name, native in types.items())
    values = ["é", "É", "e", "x", "Größe", "Grösse"]
    literals = (f"({number}, {', '.join([_literal(value)] * len(types))})" for number, value in enumerate(values))
    create = f"CREATE TABLE kept (id INT PRIMARY KEY, {natives})"
    tables.execute(engine, "DROP TABLE IF EXISTS kept", create, f"INSERT INTO kept VALUES {', '.join(literals)}")
    wanted = {
        "{} = 'é'": [0], "{} IN ('É', 'Größe', '日本')": [1, 4], "{} LIKE 'Gr_ß%'": [4], "{} < 'x'": [2, 4, 5],
        "{} >= b": [0, 1, 2, 3, 4, 5], "{} <> 'e' AND {} NOT IN ('x')": [0, 1, 4, 5],
    }  # fmt: skip
    check_selected(engine, engine, {where.replace("{}", name): ids for name in types for where, ids in wanted.items()})


def _literal(text: str) -> str:
    return dialects.get("mysql").names.string_literal(text)


@pytest.mark.parametrize("engine", engine_params("mysql", "mariadb"), indirect=True)
def test_a_zero_date_is_not_null(engine: LiveEngine) -> None:
    """In a NOT NULL column, IS NULL is true of 0000-00-00 on MySQL. https://dev.mysql.com/doc/refman/9.4/en/comparison-operators.html"""
    with tables.open_writable(engine) as session:
        session.execute("SET SESSION sql_mode = ''")
        session.execute("DROP TABLE IF EXISTS kept")
        session.execute("CREATE TABLE kept (id INT PRIMARY KEY, day DATE NOT NULL, at DATETIME NOT NULL)")
        session.execute("INSERT INTO kept VALUES (1, '0000-00-00', '0000-00-00'), (2, '2026-01-01', '2026-01-01')")
        assert session.query("SELECT COUNT(*) FROM kept WHERE day IS NULL")[0][0] == 1, "the trap"
    wanted = {"day IS NULL": [], "at IS NULL": [], "at IS NOT NULL": [1, 2], "day < DATE '2025-01-01'": [1], "day = at": [1, 2]}
    check_selected(engine, engine, wanted)


@pytest.mark.parametrize("engine", engine_params("mysql", "mariadb", "postgres"), indirect=True)
def test_an_index_on_the_text_still_serves(engine: LiveEngine) -> None:
    columns = [("id", Kind("integer")), ("status", Kind("char", 12)), ("v", Kind("text"))]
    tables.make(engine, "kept", columns, [[number, f"s{number}", "x" * 100] for number in range(5000)], ["id"])
    tables.execute(
        engine, "CREATE INDEX kept_status ON kept (status)", "ANALYZE TABLE kept" if engine.dialect == "mysql" else "ANALYZE kept"
    )
    filters = ["status = 's77'", "status IN ('s77', 's4000')", "v <> 'y' AND status = 's77'"]
    filters += ["status LIKE 's77%'"] if engine.dialect == "mysql" else []
    session = dialects.connect(engine.url)
    for where in filters:
        report = audit(engine, engine, where)
        assert report.plan and report.verdict is Verdict.MATCH, report.reasons
        side = report.plan.sides["source"]
        scan = session.dialect.server.estimate_scan(session, render.count(session.dialect, side.table, side.where))
        assert scan and not scan.full_scan and scan.rows < 100, (where, side.where, scan)
    session.close()


@pytest.mark.parametrize("engine", engine_params("postgres"), indirect=True)
def test_nondeterministic_collations_of_postgres_are_told_and_overruled(engine: LiveEngine) -> None:
    with tables.open_writable(engine) as session:
        if not session.query("SELECT 1 FROM pg_collation WHERE collprovider = 'i'"):
            pytest.skip("this PostgreSQL was built without ICU")
        session.execute("DROP TABLE IF EXISTS kept")
        session.execute("DROP COLLATION IF EXISTS loose")
        session.execute("CREATE COLLATION loose (provider = icu, locale = 'und-u-ks-level1', deterministic = false)")
        session.execute("CREATE TABLE kept (id INT PRIMARY KEY, status TEXT COLLATE loose)")
        session.execute("INSERT INTO kept VALUES (1, 'draft'), (2, 'Draft'), (3, 'dräft')")
        assert session.query("SELECT COUNT(*) FROM kept WHERE status = 'draft'")[0][0] == 3, "the trap"
    wanted = {"status = 'draft'": [1], "status <> 'draft'": [2, 3], "status LIKE 'dr%'": [1, 3], "status IN ('DRAFT', 'Draft')": [2]}
    check_selected(engine, engine, wanted)
    report = audit(engine, engine, "status = 'draft'")
    assert (
        report.plan and "where: status is compared by its exact characters, unlike under the target's collation loose" in report.plan.notes
    )


ODD = [
    ("n", "INT", [2**31 - 1, -(2**31), 5, 6, None]),
    ("rate", "DECIMAL(12,4)", ["1.0050", "1.0049", "-1.0050", "2.0000", None]),
    ("moved", "DATETIME(6)",
     ["2026-03-31 23:59:59.999999", "2026-04-01 00:00:00", "2026-03-31 00:00:00", "2026-04-02", None]),
]  # fmt: skip


@pytest.mark.slow_on("spark")
@pytest.mark.parametrize("pair", chosen_pairs("mysql-postgres", "mysql-spark", "mariadb-duckdb", "mysql-redshift"), indirect=True)
def test_narrow_and_coarse_types_do_not_change_what_is_selected(pair: LivePair) -> None:
    """Sums of 32-bit integers do not overflow, decimals are compared as the target rounds them, times by their date if it holds dates."""
    rows = [[number, *values] for number, values in enumerate(zip(*(values for *_, values in ODD), strict=True))]
    natives = ", ".join(f"{name} {native}" for name, native, _ in ODD)
    literals = (f"({', '.join('NULL' if value is None else repr(value) for value in row)})" for row in rows)
    create = f"CREATE TABLE kept (id INT PRIMARY KEY, {natives})"
    tables.execute(pair.source, "DROP TABLE IF EXISTS kept", create, f"INSERT INTO kept VALUES {', '.join(literals)}")
    there = dialects.get(pair.target.dialect)
    kinds = ["INT", there.types.native_type(Kind("decimal", 10, 2)), "DATE"]
    stored = [("2147483647", "1.01", "2026-03-31"), ("-2147483648", "1.00", "2026-04-01"), ("5", "-1.01", "2026-03-31"),
              ("6", "2.00", "2026-04-02")]  # fmt: skip
    lines = [f"({number}, {n}, {rate}, DATE '{day}')" for number, (n, rate, day) in enumerate(stored)] + ["(4, NULL, NULL, NULL)"]
    columns = ", ".join(
        f"{there.names.quote(name)} {kind}" for name, kind in zip(("id", "n", "rate", "moved"), ["INT", *kinds], strict=True)
    )
    tables.execute(
        pair.target, "DROP TABLE IF EXISTS kept", f"CREATE TABLE kept ({columns})", f"INSERT INTO kept VALUES {', '.join(lines)}"
    )
    wanted = {
        "n + n > 0": [0, 2, 3], "n * n * 0.1 > 3": [0, 1, 3], "n - 2147483647 < -2147483647": [1], "-n > 2147483647": [1],
        "rate > 1": [0, 3], "rate = 1": [1], "rate = 1.01": [0], "rate < -1.005": [2], "rate * 100 = 101": [0], "rate < n": [0, 2, 3],
        "moved = DATE '2026-03-31'": [0, 2], "moved <= DATE '2026-03-31'": [0, 2], "moved > TIMESTAMP '2026-03-31 12:00:00'": [1, 3],
        "moved <> DATE '2026-04-01'": [0, 2, 3], "moved IN (DATE '2026-04-01', DATE '2026-04-02')": [1, 3], "moved IS NULL": [4],
        "NOT moved < DATE '2026-04-01'": [1, 3], "moved - INTERVAL '1' day >= DATE '2026-03-31'": [1, 3],
    }  # fmt: skip
    check_selected(pair.source, pair.target, wanted)
    plan = audit(pair.source, pair.target, "rate > 1 AND moved > now").plan
    assert plan and "where: rate of the source is rounded to 2 digits after the point, as the target holds it" in plan.notes
    assert "where: moved is compared by its date, since the target holds dates" in plan.notes


@pytest.mark.duckdb
def test_a_filter_is_refused_before_any_row_is_read(engines: Engines) -> None:
    duckdb = engines.live("duckdb")
    tables.make(duckdb, "kept", [("id", Kind("integer")), ("status", Kind("text"))], [[1, "draft"]])
    report = audit(duckdb, duckdb, "SOUNDEX(status) = 'draft'")
    assert report.verdict is Verdict.UNKNOWN and report.exit_code == 2
    assert 'write where: {source: "...", target: "..."}, each in its own dialect' in report.reasons[0]
