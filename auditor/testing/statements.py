"""Every statement that an audit sends to an engine, rendered for a small table with a column of every family of kinds."""

from __future__ import annotations

import datetime as dt
import typing
from dataclasses import replace

import sql_templates
from auditor import canonical
from auditor.model import SIDES, Chunk, ColumnPlan, Method, Partitioning, Plan, SidePlan
from auditor.sql import distributions, filter, render, row_text
from auditor.sql.filter import FilterColumn
from dialects import Column, Dialect, Kind

METHODS: tuple[Method, ...] = typing.get_args(Method)
STRATEGIES = ("range", "hash", "time")
CHUNK = Chunk(first=1024, end=4096)
FILTERS = (
    "name = 'draft'",
    "name NOT IN ('draft', 'Entwurf für später')",
    "name LIKE 'A!%_%' ESCAPE '!'",
    "price * 1.19 > 100 AND price < 12.345",
    "weight >= 0.5 OR weight IS NULL",
    "shipped >= now - INTERVAL '7' day AND shipped < DATE '2026-11-01'",
    "paid = TRUE AND NOT paid = FALSE",
)

COLUMNS = [
    ("id", Kind("integer")),
    ("name", Kind("text")),
    ("price", Kind("decimal", 10, 2)),
    ("weight", Kind("float64")),
    ("shipped", Kind("timestamp", scale=6)),
    ("paid", Kind("boolean")),
]
PARTITIONINGS = {
    "range": Partitioning(strategy="range", size=1024),
    "hash": Partitioning(strategy="hash", buckets=64),
    "time": Partitioning(strategy="time", unit="day", column=4),
}


def render_statements(dialect: Dialect) -> dict[str, str]:
    """Return the statements of audits, by name."""
    statements: dict[str, str] = {}
    for method in METHODS:
        for strategy in STRATEGIES:
            chunk = CHUNK if strategy == "range" else Chunk()
            statements[f"{method}_{strategy}"] = render.summary(plan_of(dialect, method, strategy), "source", dialect, chunk)
    statements["exact_uuid"] = render.summary(uuid_plan(dialect), "source", dialect, Chunk())
    exact = plan_of(dialect, "exact", "range")
    key = exact.columns[0]
    statements["exact_levels"] = render.summary(replace(exact, t=8), "source", dialect, CHUNK)
    texts = [row_text.shortened_text(column, "source", dialect, 200) for column in exact.columns]
    statements["rows"] = render.rows(exact, "source", dialect, f"{key.expression['source']} IN (16, 24)", texts)
    statements["bounds"] = render.bounds(key, "source", dialect, dialect.names.table("shop", "orders"), "1 = 1")
    statements["filters"] = _render_filters(dialect, exact)
    statements["count"] = render.count(dialect, dialect.names.table("shop", "orders"), "1 = 1")
    statements.update(_render_distributions(dialect))
    age = {"age": dialect.times.seconds_since(f"MAX({dialect.names.quote('at')})"), "table": dialect.names.table("shop", "heartbeat")}
    statements["heartbeat_age"] = sql_templates.fill(dialect.template("heartbeat_age"), age)
    return statements


def plan_of(dialect: Dialect, method: str, strategy: str) -> Plan:
    """Return a small plan with both sides on one engine and a column of every family of kinds."""
    columns = []
    for name, kind in COLUMNS:
        native = dialect.types.kind(_catalogue_type(dialect, kind)) or kind
        shared = canonical.shared_kind(native, native)
        assert shared
        columns.append(
            ColumnPlan(
                name=name,
                kind=shared.kind,
                native=dict.fromkeys(SIDES, native),
                expression=dict.fromkeys(SIDES, dialect.names.quote(name)),
                types=dict.fromkeys(SIDES, dialect.types.native_type(kind)),
                why=shared.why,
            )
        )
    side = SidePlan(dialect=dialect.name, connection="shop", label="shop: orders", table=dialect.names.table("shop", "orders"), where="")
    return Plan(
        audit="orders",
        method=typing.cast("Method", method),
        sides=dict.fromkeys(SIDES, side),
        columns=tuple(columns),
        key=1,
        partitioning=PARTITIONINGS[strategy],
        prefix="a_",
        k=4 if method == "minhash" else 0,
        t=3 if method == "exact" else 0,
    )


def _catalogue_type(dialect: Dialect, kind: Kind) -> str:
    """Return the type of a column as the catalogue spells it, which states no character set that is utf8mb4."""
    return dialect.types.native_type(kind).partition(" CHARACTER SET ")[0].lower()


def uuid_plan(dialect: Dialect) -> Plan:
    """Return a plan with a UUID as its key, of text on engines without such a type, and no column that may be NULL."""
    plan = plan_of(dialect, "exact", "hash")
    kind = Kind("uuid" if "uuid" in dialect.types.TYPE_BY_KIND else "text")
    native = dialect.types.kind(_catalogue_type(dialect, kind)) or Kind("text")
    key = replace(plan.columns[0], kind=Kind("uuid"), native=dict.fromkeys(SIDES, native))
    return replace(plan, columns=tuple(replace(column, never_null=SIDES) for column in (key, *plan.columns[1:])))


def _render_distributions(dialect: Dialect) -> dict[str, str]:
    """Return the statements that count rows by class and by bucket of a histogram."""
    plan = plan_of(dialect, "counts", "range")
    columns = {column.name: column for column in plan.columns}
    statements = {
        "classes": distributions.classes(plan, columns["name"], "source", dialect, 200),
        "classes_only": distributions.classes(plan, columns["name"], "source", dialect, 3, ["draft", "sent ", None]),
    }
    times = ("shipped", "2026-01-01 00:00:00", "2026-11-22 00:00:00")
    for name, least, greatest in (("price", "0.50", "99.00"), ("weight", "1p53", "1p60"), times):
        borders = distributions.borders(columns[name], least, greatest, 4)
        statements[f"histogram_{name}"] = distributions.histogram(plan, columns[name], "source", dialect, borders)
        statements[f"histogram_bounds_{name}"] = distributions.histogram_bounds(plan, columns[name], "source", dialect)
    return statements


def _render_filters(dialect: Dialect, plan: Plan) -> str:
    """Return a statement that counts the rows that fulfil every example of a portable filter."""
    described = {
        column.name: Column(column.name, column.types["source"].partition(" CHARACTER SET ")[0].lower(), column.native["source"], True)
        for column in plan.columns
    }
    columns = {
        name: FilterColumn(name, dict.fromkeys(SIDES, dialect.names.quote(name)), {"source": column, "target": _truthful(column)})
        for name, column in described.items()
    }
    renderer = filter.Renderer(columns, "source", dialect)
    now = dt.datetime(2026, 11, 22, 10, 30)
    conditions = [renderer.condition(filter.bind(filter.parse(text), now)) for text in FILTERS]
    return render.count(dialect, dialect.names.table("shop", "orders"), "\n  AND ".join(f"({condition})" for condition in conditions))


def _truthful(column: Column) -> Column:
    """Return a column as an engine with truth values has it: beside such a one, MySQL's TINYINT(1) holds truth values too."""
    return replace(column, kind=Kind("boolean")) if column.name == "paid" else column
