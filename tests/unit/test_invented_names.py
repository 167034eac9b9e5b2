"""No name that a statement gives to a table or a column of its own can be taken for a column of a user's table, nor the other way round.

Every statement that reads a user's table is rendered over tables whose columns bear such names, in each place in which a column can stand,
and resolved by sqlglot's scopes. What is quoted is the user's, and what is not is ours. No engine's own rules are followed, which differ (a
lateral alias, an alias in GROUP BY or ORDER BY): wherever two names could be mistaken for each other by any of them, it is a fault.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache

import pytest
import sqlglot
from sqlglot import exp
from sqlglot.optimizer.scope import Scope, traverse_scope

import dialects
import sql_templates
from auditor import service
from auditor.model import SIDES, Chunk, ColumnPlan, Followed, Plan, Prescan, Side, Versions
from auditor.planning import planner
from auditor.planning.columns import Endpoint
from auditor.planning.prescan import plan_of_stretches
from auditor.sql import distributions, render, row_text, table_copy, user_sql
from auditor.sql.prescan import count_writes, key_ends, read_stretches
from auditor.sql.relation import hidden_rows
from auditor.sql.row_changes import RowStatements
from auditor.sql.table_copy import BootstrapStatements, read_lines
from auditor.testing.statements import CHUNK, METHODS, PARTITIONINGS, plan_of
from dialects import Column, Dialect, Kind, Table
from tests import invented_names
from tests.unit.test_golden import CATALOGUE, render_statements, selects

PLACES = ("key", "value", "filter", "expr", "time", "mask")
"""What the columns of a plan are: the key, or the first of a composite one; a value; one of the filter; one that an expression is made of;
a time by which rows settle and are partitioned; and one whose values are masked."""

PLAIN = tuple(f"column of {place}" for place in PLACES)
"""Names that cannot be mistaken for any other."""

OF_OTHER_TABLES = ("merge_", "refresh_", "live_sums", "ledger", "patch_marker", "heartbeat_")
"""How the templates' names begin that read or write tables of the auditor alone."""

WITHOUT_NAMES = {
    "bare_count",  # nothing but the table is in its scope
    "counted",  # nothing but the result of another statement is
    "key_crossing",  # nothing but the table is, and values
    "bootstrap_drop",
    "bootstrap_stage_create",
    "bootstrap_whole_create",
    "bootstrap_rename",
    "bootstrap_bound",
    "bootstrap_carry",
}
WITHOUT_NAMES |= {"bootstrap_keys", "evidence_heads_create", "evidence_heads_insert", *CATALOGUE}
"""Templates that name no column of a user's table."""

CUTS: dict[Side, tuple[str, ...]] = dict.fromkeys(SIDES, ("1", "34", "67", "100"))


def plan_of_places(dialect: Dialect, method: str, strategy: str, names: Sequence[str], key: int = 1) -> Plan:
    """Return a plan whose columns have these names, and stand in these places."""
    plan = plan_of(dialect, method, strategy)
    quoted = [dialect.names.quote(name) for name in names]
    columns = [
        replace(column, name=name, expression=dict.fromkeys(SIDES, sql))
        for column, name, sql in zip(plan.columns, names, quoted, strict=True)
    ]
    columns[3] = _computed(columns[3], f"({quoted[3]} + 0)")
    columns[5] = replace(columns[5], masked=True)
    where, settled = f"({quoted[2]} >= 1 OR {quoted[1]} IS NULL)", f"{quoted[4]} < {dialect.names.timestamp_literal('2026-11-22 10:30:00')}"
    sides = {side: replace(one, where=where, settled=settled) for side, one in plan.sides.items()}
    return replace(plan, columns=tuple(columns), sides=sides, key=key, least=0, greatest=9999)


def _computed(column: ColumnPlan, sql: str) -> ColumnPlan:
    whole = Kind("integer")
    return replace(column, kind=whole, native=dict.fromkeys(SIDES, whole), expression=dict.fromkeys(SIDES, sql))


def statements_of(dialect: Dialect, names: Sequence[str]) -> dict[str, str]:
    """Return every statement that reads or writes rows of a user's table with these columns, by what it is."""
    found: dict[str, str] = {}
    for key in (1, 2):
        for strategy in PARTITIONINGS if key == 1 else ["hash"]:
            plans = {method: plan_of_places(dialect, method, strategy, names, key) for method in METHODS}
            chunk = CHUNK if strategy == "range" and key == 1 else Chunk(within=f"{dialect.names.quote(names[0])} <> 7")
            for method, plan in plans.items():
                found[f"{method} {strategy} {key}"] = render.summary(plan, "source", dialect, chunk, console="audit")
            exact = plans["exact"]
            found[f"levels {strategy} {key}"] = render.summary(replace(exact, t=8, bits=120, k=2), "source", dialect, chunk)
            for what, prescan in _prescans(dialect, strategy, key).items():
                stretches = plan_of_stretches(replace(exact, prescan=prescan))
                found[f"{what} {strategy} {key}"] = render.summary(stretches, "source", dialect, Chunk())
        found |= {f"{what} {key}": sql for what, sql in _statements_of_rows(dialect, exact).items()}
    return found


def _prescans(dialect: Dialect, strategy: str, key: int) -> dict[str, Prescan]:
    """Return the pre-scans there are for partitions of this strategy, by what they are."""
    found = {"sums": Prescan(used=True, why="", partitions=16 if strategy == "range" else 0)}
    if strategy == "hash":
        found["groups"] = Prescan(used=True, why="", groups=256)
    if dialect.hashes.MAX_JOINED_BYTES and strategy == "range":
        found["digests"] = Prescan(used=True, why="", partitions=4, digest_rows=20_000)
    if dialect.hashes.MAX_JOINED_BYTES and strategy == "hash":
        found["bytes"] = Prescan(used=True, why="", groups=256, hashes_bytes=True)
        found["cuts"] = Prescan(used=True, why="", groups=3, digest_rows=20_000, cuts=CUTS)
    return found


def _statements_of_versions(dialect: Dialect, plan: Plan) -> dict[str, str]:
    """Return the statements that read the latest rows of keys, and count those that a convention hides."""
    key, value, *_ = (column.expression["source"] for column in plan.columns)
    versions = Versions(key=(key,), latest=(value,), prefix=plan.prefix)
    flagged = Followed(convention="own", flagged=f"({value} IS NULL)")
    follows = replace(flagged, current=f"({versions.is_latest})")
    here = replace(plan.sides["source"], where=follows.counted, versions=versions, follows=follows)
    latest = replace(plan, sides={**plan.sides, "source": here})
    return {
        "latest": render.summary(latest, "source", dialect, Chunk(within=f"{key} <> 7")),
        "latest by key": render.rows(latest, "source", dialect, f"{key} IN (16, 24)", [key], by_key=True),
        "hidden": hidden_rows(replace(here, versions=None, follows=flagged), dialect),
        "hidden versions": hidden_rows(here, dialect),
    }


def _statements_of_rows(dialect: Dialect, plan: Plan) -> dict[str, str]:
    """Return the statements of other subjects than summaries."""
    key, value, price, *_ = plan.columns
    here, age = plan.sides["source"], dialect.times.seconds_since(f"MAX({plan.columns[4].expression['source']})")
    conditions = " AND ".join(here.conditions)
    cut = replace(plan, prescan=Prescan(used=True, why="", cuts=CUTS))
    texts = [row_text.shortened_text(column, "source", dialect, 200) for column in plan.columns]
    found = {
        "rows": render.rows(plan, "source", dialect, f"{key.expression['source']} IN (16, 24)", texts),
        "places": render.places(plan, "source", dialect, [1, 2])[0],
        "bounds": render.bounds(key, "source", dialect, here.table, conditions),
        "count": render.count(dialect, here.table, conditions),
        "ends": key_ends(plan, "source", dialect, is_text=True),
        "range": read_stretches(cut, "source", dialect)[0],
        "writes": count_writes(plan, "source", dialect, 64, f"{key.expression['source']} > 0"),
        "dump": table_copy.read_rows(dialect, here.table, texts, conditions),
        "age": sql_templates.fill(dialect.template("heartbeat_age"), {"age": age, "table": here.table}),
        "classes": distributions.classes(plan, value, "source", dialect, 3, ["draft", None]),
        "every class": distributions.classes(plan, value, "source", dialect, 200),
        "console": service.console_script(plan, "source", dialect, 3600.0).split(";\n")[-1 - bool(dialect.END_SNAPSHOT) - 1],
    }
    found |= _statements_of_versions(dialect, plan)
    for column, least, greatest in ((price, "0.50", "99.00"), (plan.columns[4], "2026-01-01 00:00:00", "2026-11-22 00:00:00")):
        borders = distributions.borders(column, least, greatest, 4)
        found[f"histogram {column.kind}"] = distributions.histogram(plan, column, "source", dialect, borders)
        found[f"histogram's bounds {column.kind}"] = distributions.histogram_bounds(plan, column, "source", dialect)
    if dialect.is_written:
        rows = RowStatements(replace(plan, columns=plan.columns[:3]), dialect)
        old, new = ["7", "draft", "1.50"], ["7", "sent", "1.50"]
        found |= {
            "insert": rows.insert(new),
            "update": rows.update(old, new, "ab" * 32, [value.name]),
            "delete": rows.delete(old, "ab" * 32),
        }
    if dialect.is_written and "bootstrap_stage_create" not in dialect.UNAVAILABLE_TEMPLATES:
        copied = [column.expression["target"] for column in plan.columns[:3]]
        bootstrap = BootstrapStatements(plan, dialect, dialect.names.table("shop", "new"), dialect.names.table("shop", "old"), copied)
        found["lines"] = read_lines(plan, [key, price], dialect, dialect, CHUNK)
        found["copy"], found["clear"] = bootstrap.copy(bootstrap.target, bootstrap.stage, CHUNK), bootstrap.clear(bootstrap.target, CHUNK)
    return found


@cache
def parsed(engine: str) -> Mapping[str, tuple[exp.Expr, Sequence[tuple[exp.Identifier, str]]]]:
    """Return the trees of an engine's statements over columns of plain names, each with the places where these names stand."""
    dialect = dialects.get(engine)
    trees = {what: sqlglot.parse_one(sql, dialect=dialect.sqlglot_dialect) for what, sql in statements_of(dialect, PLAIN).items()}
    return {what: (tree, [(one, one.this) for one in tree.find_all(exp.Identifier) if one.this in PLAIN]) for what, tree in trees.items()}


def find_mistakable(tree: exp.Expr, columns: Sequence[str]) -> list[str]:
    """Return what of a statement could be taken for something else, where the user's tables have these columns."""
    users = {name.casefold() for name in columns}
    return [fault for scope in traverse_scope(tree) if isinstance(scope.expression, exp.Select) for fault in _faults(scope, users)]


def _faults(scope: Scope, users: set[str]) -> Iterator[str]:
    select = scope.expression
    seen = [set(map(str.casefold, scope.sources)), *(set(map(str.casefold, one.sources)) for one in _outer(scope))]
    tables = [name for name, source in scope.sources.items() if _is_users(source)]
    aliases = {one.alias.casefold() for one in select.expressions if isinstance(one, exp.Alias)}
    is_result = all(isinstance(one.expression, exp.SetOperation) for one in _outer(scope))
    ours = {name for one in (scope, *_outer(scope)) for source in one.sources.values() for name in _outputs(source)}
    for name in scope.sources:
        if (name not in tables or _shows_all(scope.sources[name])) and not _is_ours(name):
            yield f"{name} is a table of ours without a prefix"
    for name in aliases:
        if not _is_ours(name) and (tables or not is_result):
            yield f"{name} is a column of ours without a prefix"
    if tables and select.args.get("order") and len(aliases) < len(select.expressions):
        yield "a column without a name of ours may be taken for one by which rows are ordered"
    for column in scope.find_all(exp.Column):
        name = column.name.casefold()
        if isinstance(column.this, exp.Star):
            continue
        if column.this.args.get("quoted"):
            if column.table or not tables or name not in users:
                yield f"{column.sql()} is no column of the only table of its scope"
            if name in ours | aliases:
                yield f"{column.sql()} may be taken for a column of ours"
        elif not column.table:
            yield f"{column.sql()} is a column of ours without a table's name"
        elif not any(column.table.casefold() in names for names in seen):
            yield f"{column.sql()} is of no table"
        elif name not in ours or name in users or column.table.casefold() in users:
            yield f"{column.sql()} may be taken for a column of the user's table"


def _outer(scope: Scope) -> Iterator[Scope]:
    while scope.parent:
        scope = scope.parent
        yield scope


def _is_users(source: exp.Expr | Scope) -> bool:
    """Return whether it has the columns of a user's table: one whose name is quoted, or all that is read of one; functions that yield rows
    have not."""
    return _shows_all(source) or (isinstance(source, exp.Table) and isinstance(source.this, exp.Identifier))


def _shows_all(source: exp.Expr | Scope) -> bool:
    """Return whether it is a subquery that shows all columns of the user's table, with some of ours beside them."""
    return isinstance(source, Scope) and isinstance(source.expression, exp.Select) and any(one.is_star for one in source.expression.selects)


def _outputs(source: exp.Expr | Scope) -> set[str]:
    """Return the columns of a table of ours."""
    if _is_users(source) and not _shows_all(source):
        return set()
    expression = source.expression if isinstance(source, Scope) else source
    if isinstance(expression, exp.Lateral):
        expression = expression.this.this
    names = expression.named_selects if isinstance(expression, exp.Query) else expression.alias_column_names
    return {name.casefold() for name in names} - {"*"}


def _is_ours(name: str) -> bool:
    return name.startswith(invented_names.PREFIX)


def groups_of_names(names: Sequence[str], step: int) -> list[tuple[str, ...]]:
    """Return groups of neighbouring names, one for each place, that begin at every so many names: with 1 each name takes each place."""
    around = [*names, *names]
    return [tuple(around[start : start + len(PLACES)]) for start in range(0, len(names), step)]


@pytest.fixture(autouse=True)
def _parsed_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(user_sql, "CHECK_RENDERED_SQL", False)


@pytest.mark.parametrize("engine", dialects.names())
def test_no_name_of_a_column_is_taken_for_one_of_ours(engine: str) -> None:
    """In a normal run each name takes one place on two engines."""
    known = dialects.names()
    check_names(engine, groups_of_names(invented_names.dangerous(), len(PLACES))[known.index(engine) % 3 :: 3])


@pytest.mark.slow
@pytest.mark.parametrize("engine", dialects.names())
def test_no_name_in_any_place_is_taken_for_one_of_ours(engine: str) -> None:
    check_names(engine, groups_of_names(invented_names.every(), 1))


def check_names(engine: str, groups: Sequence[tuple[str, ...]]) -> None:
    """Look at every statement of an engine over tables of these columns. Texts differ by the names alone, so that each tree is parsed
    once."""
    dialect, trees, plain = dialects.get(engine), parsed(engine), statements_of(dialects.get(engine), PLAIN)
    for names in groups:
        renamed = dict(zip(PLAIN, names, strict=True))
        for what, sql in statements_of(dialect, names).items():
            expected = plain[what]
            for before, after in renamed.items():
                expected = expected.replace(dialect.names.quote(before), dialect.names.quote(after))
            assert sql == expected or what.startswith("console"), (what, names)
            tree, places = trees[what]
            for identifier, before in places:
                identifier.set("this", renamed[before])
            assert find_mistakable(tree, names) == [], (what, names, sql)


@pytest.mark.parametrize("engine", dialects.names())
def test_every_template_that_reads_a_table_is_among_them(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    dialect, used, read = dialects.get(engine), set[str](), sql_templates.load

    def load(name: str, packages: Sequence[str]) -> str:
        used.add(name)
        return read(name, packages)

    monkeypatch.setattr(sql_templates, "load", load)
    statements_of(dialect, PLAIN)
    found = {name for package in dialect.template_packages() for name in sql_templates.templates(package)}
    there = found - WITHOUT_NAMES - dialect.UNAVAILABLE_TEMPLATES
    assert {name for name in there - used if not name.startswith(OF_OTHER_TABLES)} - _for_others(dialect) == set()


def _for_others(dialect: Dialect) -> set[str]:
    """Return the templates that are there for other engines, or for what this one cannot do."""
    found = set() if dialect.is_written else {"patch_insert", "patch_update", "patch_delete"}
    if not dialect.is_written or "bootstrap_stage_create" in dialect.UNAVAILABLE_TEMPLATES:
        found |= {"copy_lines", "bootstrap_copy", "bootstrap_clear"}
    if not dialect.hashes.MAX_JOINED_BYTES:
        found |= {"stretches", "stretch_outside"}
    return found


@pytest.mark.parametrize(
    ("sql", "fault"),
    [
        ('SELECT "a" FROM (SELECT "id" AS a FROM "t") AS a_r', "is no column of the only table"),
        ('SELECT a_r.a_k AS k FROM (SELECT "id" AS k FROM "t") AS a_r', "k is a column of ours without a prefix"),
        ('SELECT r.a_k AS k FROM (SELECT "id" AS a_k FROM "t") AS r', "r is a table of ours without a prefix"),
        ('SELECT a_k AS k FROM (SELECT "id" AS a_k FROM "t") AS a_r', "a_k is a column of ours without a table's name"),
        ('SELECT a_r.a_x AS k FROM (SELECT "id" AS a_k FROM "t") AS a_r', "a_r.a_x may be taken for a column of the user's table"),
        ('SELECT a_s.a_k AS k FROM (SELECT "id" AS a_k FROM "t") AS a_r', "a_s.a_k is of no table"),
        ('SELECT "id" AS a_k FROM (SELECT a_r.*, 1 AS a_n FROM "t" a_r) AS s', "s is a table of ours without a prefix"),
        ('SELECT a_n AS a_k FROM (SELECT a_r.*, 1 AS a_n FROM "t" a_r) AS a_s', "a_n is a column of ours without a table's name"),
        ('SELECT MIN("id") AS key_min FROM "t"', "key_min is a column of ours without a prefix"),
        ('SELECT (SELECT HEX("id") FROM "t" ORDER BY "id" LIMIT 1)', "may be taken for one by which rows are ordered"),
        (
            "SELECT a_d.a_n AS n FROM (VALUES (1, 2)) AS s(first_key, end_key) CROSS JOIN LATERAL (SELECT COUNT(*) AS a_n FROM"
            ' "t" WHERE "first_key" >= first_key) AS a_d',
            "first_key is a column of ours without a table's name",
        ),
        (
            "SELECT a_d.a_n AS n FROM (VALUES (1, 2)) AS a_s(first_key, a_e) CROSS JOIN LATERAL (SELECT COUNT(*) AS a_n FROM"
            ' "t" WHERE "first_key" >= a_s.first_key) AS a_d',
            '"first_key" may be taken for a column of ours',
        ),
    ],
)
def test_what_may_be_mistaken_is_found(sql: str, fault: str) -> None:
    assert any(fault in found for found in find_mistakable(sqlglot.parse_one(sql, dialect="postgres"), ["id", "first_key"])), fault


@pytest.mark.parametrize("engine", dialects.names())
def test_catalogues_are_read_by_qualified_names(engine: str) -> None:
    """What stands in the search path, such as a user's table, is no view of the catalogue; the query of a side reads "orders".

    Redshift's own views are found first.
    """
    dialect = dialects.get(engine)
    for name in set(CATALOGUE) & render_statements(dialect).keys():
        for sql in selects(dialect, name):
            tree = sqlglot.parse_one(sql, dialect=dialect.sqlglot_dialect)
            known = {one.alias for one in tree.find_all(exp.CTE)} | (
                {"orders"} if name == "result_collations" else set()
            )  # of the user's query
            for table in tree.find_all(exp.Table):
                is_named = isinstance(table.this, exp.Identifier) and not table.name.startswith(("svv_", "sys_"))
                assert not is_named or table.db or table.name in known, (name, table.sql())


def ends_of(source: Sequence[str], target: Sequence[str], table: str = "orders") -> dict[Side, Endpoint]:
    """Return described tables with these columns."""
    tables = {"source": source, "target": target}
    dialect, whole = dialects.get("duckdb"), Kind("integer")
    return {
        side: Endpoint(
            "c", "c: t", dialect, Table("t", tuple(Column(n, "bigint", whole, False) for n in tables[side]), (), 1, ("s", table))
        )
        for side in SIDES
    }


@pytest.mark.parametrize(
    ("source", "target", "table", "prefix"),
    [
        (["id", "ab", "a"], ["id"], "orders", "a_"),
        (["id", "a_"], ["id"], "orders", "a1_"),
        (["id"], ["id", "A_v"], "orders", "a1_"),
        (["id"], ["id"], "a_orders", "a1_"),
        (["a_k", "A1_x", "a3_"], ["a2_"], "orders", "a4_"),
    ],
)
def test_the_prefix_is_the_first_with_which_no_name_begins(source: list[str], target: list[str], table: str, prefix: str) -> None:
    assert planner.choose_prefix(ends_of(source, target, table)) == prefix


@pytest.mark.parametrize("engine", dialects.names())
def test_every_name_of_ours_follows_the_prefix(engine: str) -> None:
    dialect = dialects.get(engine)
    for strategy in PARTITIONINGS:
        for method in METHODS:
            plan = plan_of_places(dialect, method, strategy, PLAIN)
            sql, other = (render.summary(one, "source", dialect, Chunk()) for one in (plan, replace(plan, prefix="a7_")))
            assert re.sub(r"\ba_", "a7_", sql) == other != sql
