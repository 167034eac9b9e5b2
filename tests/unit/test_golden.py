"""Golden SQL: the rendered text of each template on each engine, for reviewers to read.

`pytest --update-golden tests/unit/test_golden.py` rewrites the files. They show what changed; only a live engine proves that it is
right.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
import sqlglot
from sqlglot import exp

import dialects
import sql_templates
from auditor import service
from auditor.model import SIDES, Chunk, Plan, Prescan, Side
from auditor.pipeline.dump import dump_columns
from auditor.planning import target_schema
from auditor.planning.prescan import plan_of_stretches
from auditor.sql import render, table_copy
from auditor.sql.merge import Bound, MergeStatements, Positions
from auditor.sql.row_changes import MarkStatements, RowStatements
from auditor.sql.shared_stage import SharedStage
from auditor.sql.table_copy import BootstrapStatements, read_lines
from auditor.sql.table_definition import table_keys
from auditor.testing.statements import CHUNK, COLUMNS, plan_of
from auditor.testing.statements import render_statements as render_statements_of_audits
from dialects import Column, Dialect, Kind
from dialects.table_form import TableKey

GOLDEN = Path(__file__).parents[1] / "golden"
COMMON = "sql_templates"
OF_ENGINES = sorted({f"{COMMON}.{path.parent.name}" for path in Path(sql_templates.__file__).parent.glob("*/*.sql")})
TEMPLATES = {package: sql_templates.templates(package) for package in (COMMON, *OF_ENGINES)}
REFRESH = sorted(name for name in TEMPLATES[f"{COMMON}.mysql"] if name.startswith("refresh_"))
CARRY = [name for name in TEMPLATES[f"{COMMON}.postgres"] if name.startswith("bootstrap_")]
HEARTBEAT = ("heartbeat_create", "heartbeat_write", "heartbeat_read")
NO_CATALOGUE = {
    "merge_at_once",
    "merge_shared_create",
    "merge_shared_count",
    "merge_shared_delete",
    "merge_shared_insert",
    "merge_shared_drop",
    "merge_stage_lock",
    "merge_update",
    "bootstrap_rename",
    "signature_joined",
    "stretch",
    "stretches",
    *REFRESH,
    *CARRY,
    *HEARTBEAT,
}
CATALOGUE = sorted({name for package in OF_ENGINES for name in TEMPLATES[package]} - TEMPLATES[COMMON].keys() - NO_CATALOGUE)
SCRIPTS = ("merge", "patch", "bootstrap", "refresh", "heartbeat")
"""Golden files of several statements, some of which change something."""

CHANGES = ("CREATE", "DELETE", "INSERT", "UPDATE", "MERGE", "DROP", "TRUNCATE")
"""How statements begin that change something and return nothing."""


def engines() -> list[Dialect]:
    return [dialects.get(name) for name in dialects.names()]


@cache
def render_statements(dialect: Dialect) -> dict[str, str]:
    """Render every statement of an engine, keyed by the name of its golden file."""
    found = render_statements_of_audits(dialect)
    found["console"] = service.console_script(plan_of(dialect, "signature", "range"), "source", dialect, 3600.0)
    ranges = replace(plan_of(dialect, "exact", "range"), prescan=Prescan(used=True, why="", partitions=16))
    found["prescan_range"] = render.summary(plan_of_stretches(ranges), "source", dialect, CHUNK)
    if dialect.hashes.MAX_JOINED_BYTES:
        digested = replace(plan_of(dialect, "exact", "range"), prescan=Prescan(used=True, why="", partitions=16, digest_rows=20_000))
        digested = replace(digested, least=0, greatest=99_999)
        found["prescan_digests"] = render.summary(plan_of_stretches(digested), "source", dialect, Chunk(first=16_000, end=48_000))
    grouped = replace(plan_of(dialect, "exact", "hash"), prescan=Prescan(used=True, why="", groups=256))
    found["prescan_groups"] = render.summary(plan_of_stretches(grouped), "source", dialect, Chunk())
    if dialect.hashes.MAX_JOINED_BYTES:
        as_bytes = replace(grouped, prescan=Prescan(used=True, why="", groups=256, hashes_bytes=True))
        found["prescan_cuts"] = _statement_between_cuts(dialect)
        found["prescan_bytes"] = render.summary(plan_of_stretches(as_bytes), "source", dialect, Chunk())
    exact = plan_of(dialect, "exact", "range")
    found["dump_rows"] = _dump_statement(dialect)
    found["counted"] = dialect.counted(render.summary(exact, "source", dialect, CHUNK))
    counted = {"table": "t", "within": "1 = 1", "condition": "(price > 2)"}
    found["bare_count"] = sql_templates.fill(dialect.template("bare_count"), counted)
    if dialect.is_written:
        found["patch"] = ";\n".join(_patch_statements(dialect, exact))
    if dialect.is_written and "bootstrap_stage_create" not in dialect.UNAVAILABLE_TEMPLATES:
        found["bootstrap"] = ";\n".join(_bootstrap_statements(dialect, exact))
    if dialect.is_written:
        found["merge"] = ";\n".join(_merge_statements(dialect))
    if dialect.name == "mysql":
        found["refresh"] = ";\n".join(_refresh_statements(dialect))
    if dialect.name in ("mysql", "postgres"):
        table = {"table": dialect.names.table("shop", "auditor_heartbeat")}
        found["heartbeat"] = ";\n".join(sql_templates.fill(dialect.template(name), table).strip() for name in HEARTBEAT)
    for name in CATALOGUE:
        try:
            template = dialect.template(name)
        except LookupError:
            continue
        values = {
            "database": dialect.names.literal("live"),
            "schema": dialect.names.literal("shop"),
            "table": dialect.names.literal("orders"),
            "tables": dialect.names.literal("orders"),
            "folded": dialect.catalogue.FOLDED.format(dialect.names.literal("orders")),
            "column": dialect.names.literal("price"),
        }
        values |= {"sessions": "41, 42", "seconds": "60", "number": "0", "statements": "SELECT 0 AS number\nUNION ALL\nSELECT 1 AS number"}
        values |= {"query": "(SELECT id FROM orders) read_query", "types": "(0, CAST(20 AS oid), -1, CAST(0 AS oid), 0)"}
        values |= {"collations": "(0, pg_collation_for(read_query.name))"}
        found[name] = sql_templates.fill(template, {hole: values[hole] for hole in sql_templates.holes(template)})
    return found


def _statement_between_cuts(dialect: Dialect) -> str:
    """Return the statement of digests between cuts of a key."""
    cuts: dict[Side, tuple[str, ...]] = dict.fromkeys(SIDES, ("1", "34", "67", "100"))
    plan = replace(plan_of(dialect, "exact", "hash"), prescan=Prescan(used=True, why="", groups=3, digest_rows=20_000, cuts=cuts))
    return render.summary(plan_of_stretches(plan), "source", dialect, Chunk())


def _dump_statement(dialect: Dialect) -> str:
    """Return the statement that reads rows for a dump."""
    kinds = {"id": Kind("integer"), "weight": Kind("float64"), "price": Kind("decimal", 10, 2), "at": Kind("timestamp", scale=6)}
    columns = dump_columns(dialect, [Column(name, str(kind), kind, name != "id") for name, kind in kinds.items()])
    where = f"{dialect.names.quote('id')} >= 7"
    return table_copy.read_rows(dialect, dialect.names.table("shop", "orders"), [column.value for column in columns], where)


def _refresh_statements(dialect: Dialect) -> list[str]:
    """Return the statements by which existing rows enter a source's log."""
    names = {"chunks": "chunks", "refresh_table": "refresh_0123", "table": "orders", "schema": "auditor_refresh"}
    values = {name: dialect.names.literal(name) for name in ("refresh", "pipeline", "attempt", "body")}
    values |= {"number": "3", "columns": "id", "engine": "BLACKHOLE", "condition": "id >= 7 AND (id > 7 OR (id = 7 AND FALSE))"}
    values |= {"texts": "CAST(id AS CHAR)", "key": "id", "offset": "499", "known": "7", "most": "5000", **names}
    values |= {"rows": "('refresh', 'pipeline', 'attempt', 0, '')", "refreshes": "'refresh', 'other'"}
    found = []
    for name in REFRESH:
        template = dialect.template(name)
        own = {"columns": "id bigint NULL"} if name == "refresh_table_create" else {}
        own |= {one: dialect.names.literal(names[one]) for one in ("schema", "table")} if name == "refresh_columns" else {}
        found.append(sql_templates.fill(template, {hole: {**values, **own}[hole] for hole in sql_templates.holes(template)}))
    return [statement.strip() for statement in found]


def _bootstrap_statements(dialect: Dialect, plan: Plan) -> list[str]:
    """Return the statements of a bootstrap of a table."""
    stage, old = dialect.names.table("shop", "auditor_new"), dialect.names.table("shop", "orders_old")
    statements = BootstrapStatements(plan, dialect, stage, old, [dialect.names.quote(name) for name, _ in COLUMNS])
    swap = [statements.rename()] if dialect.writing.SWAPS_BY_RENAME else []
    swap += [statements.copy(statements.target, old, Chunk()), statements.clear(statements.target, CHUNK), statements.drop(stage)]
    plain = [column for column in plan.columns if column.name != "name"]  # a text's line feeds are written as they are
    return [statements.create(stage), read_lines(plan, plain, dialect, dialect, CHUNK), *swap]


def _merge_statements(dialect: Dialect) -> list[str]:
    """Return every statement by which a pipeline brings changes into a target, in their order."""
    loose = ["name"] if dialect.writing.EQUAL_TEXTS_DIFFER else []
    names = ["id", "name", "price"]
    apart = ["price"] if dialect.writing.MERGES_BY_UPDATE else []
    table = MergeStatements(dialect, "dwh", "shop", "shop.orders", dialect.names.table("dwh", "orders"), names, names[:2], loose, apart)
    positions = Positions(dialect, "dwh", "shop")
    described = [Column("id", "bigint", Kind("integer"), False), Column("name", "varchar(40)", Kind("text"), False)]
    types = {column.name: target_schema.native_type(dialect, column, in_key=True) for column in described}
    types["price"] = dialect.types.native_type(Kind("decimal", 10, 2))
    keys: dict[TableKey, list[str]] = {"dist": ["id"], "sort": ["name", "id"]} if dialect.TABLE_FORM.table_keys else {}
    clauses = table_keys(dialect, "shop.orders", names, keys)
    known = [positions.create(), positions.list(), positions.list_others()]
    before = [*known, table.create_target(types, ["price"], clauses), *table.create_stage()]
    chunk = [table.list_bounds("a1", [Kind("integer"), Kind("text")]), *table.merge("a1", [Bound(4096, 2, ["7"])])]
    written = positions.write({"shop.orders": (4096, "0123456789ab"), "shop.items": (4097, "ba9876543210")})
    inside = [*positions.lock(), *table.lock_stage(), table.count_staged("a1"), *written, *chunk]
    at_once = replace(table, replacing=(), at_once=True).merge("a1")
    shared = _shared_merge_statements(dialect, table) if dialect.writing.LOADS == "by files" else []
    by_key = (
        [([["1", "'a'"], ["2", "'b'"]], table), ([["1"], ["2"]], replace(table, key=["id"]))] if dialect.writing.MERGES_LITERALS else []
    )
    return [*before, *inside, *(one for one in at_once if "MERGE INTO" in one), *(one.delete_keys(rows) for rows, one in by_key), *shared]


def _shared_merge_statements(dialect: Dialect, table: MergeStatements) -> list[str]:
    """Return the statements by which small tables are merged that were loaded together."""
    stage = SharedStage(dialect)
    kinds = [Kind("integer"), Kind("text"), Kind("decimal", 10, 2), Kind("binary"), Kind("json"), Kind("timestamp", scale=6)]
    columns = ["id", "name", "price", "code", "body", "at"]
    merged = stage.merge(7, replace(table, columns=columns), dict(zip(columns, kinds, strict=True)))
    return [stage.create(), stage.count(), *merged, stage.drop()]


def _patch_statements(dialect: Dialect, plan: Plan) -> list[str]:
    """Return the statements of one batch of a patch, with its mark."""
    rows = RowStatements(plan, dialect)
    old, new = ["7", "draft", "1.50", "0", "2026-11-22 10:30:00", "1"], ["7", "sent", None, "0", "2026-11-22 10:30:00", "1"]
    marks = MarkStatements(dialect, "shop", "0123456789abcdef0123456789abcdef")
    changes = [rows.insert(new), rows.update(old, new, "ab" * 32, ["name", "price"]), rows.delete(old, "ab" * 32)]
    return [marks.create(), marks.insert(1), *changes, marks.count(1), marks.delete()]


CASES = [pytest.param(path.parent.name, path.stem, id=f"{path.parent.name}-{path.stem}") for path in sorted(GOLDEN.rglob("*.sql"))]


def test_each_statement_has_a_golden_file_and_no_file_is_unused(request: pytest.FixtureRequest) -> None:
    rendered = {f"{dialect.name}/{name}.sql": sql for dialect in engines() for name, sql in render_statements(dialect).items()}
    if request.config.getoption("--update-golden"):
        for name, sql in rendered.items():
            (GOLDEN / name).parent.mkdir(parents=True, exist_ok=True)
            (GOLDEN / name).write_text(sql.rstrip() + "\n", encoding="utf-8")
    written = {str(path.relative_to(GOLDEN)) for path in GOLDEN.rglob("*.sql")}
    assert written == set(rendered), "run pytest --update-golden and review what it writes; remove files that no statement has any more"


@pytest.mark.parametrize(("engine_name", "name"), CASES)
def test_rendered_sql_equals_the_golden_file(engine_name: str, name: str) -> None:
    sql = render_statements(dialects.get(engine_name))[name].rstrip() + "\n"
    path = GOLDEN / engine_name / f"{name}.sql"
    assert path.read_text(encoding="utf-8") == sql, f"{path} differs; if the new SQL is right, run pytest --update-golden"


@cache
def parsed_once(sql: str, sqlglot_name: str) -> exp.Expr:
    """Return the tree of a statement, which several tests look at and none changes."""
    return sqlglot.parse_one(sql, dialect=sqlglot_name)


def selects(dialect: Dialect, name: str) -> list[str]:
    """Return the statements that return rows, of a script the one among others."""
    sql = render_statements(dialect)[name]
    statements = sql_templates.body(sql).split(";\n") if name in ("console", *SCRIPTS) else [sql]
    return [statement for statement in statements if statement.startswith(("SELECT", "SHOW", "WITH"))]


@pytest.mark.parametrize(("engine_name", "name"), CASES)
def test_every_statement_is_complete_and_parsable(engine_name: str, name: str) -> None:
    """No hole is left unfilled, no parameter is bound, and sqlglot can parse it."""
    dialect = dialects.get(engine_name)
    assert "${" not in render_statements(dialect)[name]
    parsed = [parsed_once(statement, dialect.sqlglot_dialect) for statement in selects(dialect, name)]
    merging = 4 + dialect.writing.LOCK_POSITIONS.startswith("SELECT") if dialect.is_written else 0
    merging += dialect.is_written and dialect.writing.LOADS == "by files"
    assert len(parsed) == {"merge": merging, "refresh": 6}.get(name, 1)
    every = render_statements(dialect)[name].split(";\n")
    changes = [parsed_once(one, dialect.sqlglot_dialect) for one in every if one.startswith(CHANGES)]
    assert bool(changes) == (name in SCRIPTS)
    assert not any(statement.find(exp.Placeholder, exp.Parameter) for statement in [*parsed, *changes])


@pytest.mark.parametrize(("engine_name", "name"), CASES)
def test_every_column_of_a_derived_table_has_a_type(engine_name: str, name: str) -> None:
    """Redshift does not find one for a bare NULL or text: failed to find conversion function from "unknown" to text."""
    dialect = dialects.get(engine_name)
    assert [found for sql in selects(dialect, name) for found in untyped_columns(sql, dialect)] == []


def untyped_columns(sql: str, dialect: Dialect) -> list[str]:
    """Return the columns of derived tables that are a bare NULL or text."""
    derived = parsed_once(sql, dialect.sqlglot_dialect).find_all(exp.Subquery, exp.CTE)
    values = [one.unalias().unnest() for table in derived for select in table.this.find_all(exp.Select) for one in select.expressions]
    return [one.sql() for one in values if isinstance(one, exp.Null) or (isinstance(one, exp.Literal) and one.is_string)]


def test_a_column_without_a_type_is_found() -> None:
    plain = dialects.get("redshift")
    assert untyped_columns("SELECT MIN(k) FROM (SELECT NULL AS k, 'a' AS t, ('b') AS u, CAST(NULL AS BIGINT) AS v FROM t) z", plain) == [
        "NULL", "'a'", "'b'",
    ]  # fmt: skip


@pytest.mark.parametrize(("package", "name"), [(package, name) for package, found in TEMPLATES.items() for name in found])
def test_every_template_documents_its_rows(package: str, name: str) -> None:
    text = TEMPLATES[package][name]
    if sql_templates.body(text).startswith(("SELECT", "SHOW", "WITH")):
        assert sql_templates.comment(text).startswith("One row")
    else:
        assert name.startswith(("merge_", "patch_", "bootstrap_", "refresh_", "heartbeat_", "live_sums_", "ledger_", "evidence_heads_"))
        assert sql_templates.body(text).startswith((*CHANGES, "LOCK", "RENAME"))
        assert re.match("[A-Z][a-z]+s ", sql_templates.comment(text)), "it does not begin with what the statement does"
