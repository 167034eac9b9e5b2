"""Golden SQL: what each template becomes on each engine, for the reviewer to read.

`pytest --update-golden tests/test_golden.py` writes the files anew. They show what changed; that it is right, only a live
engine proves.
"""

from __future__ import annotations

import typing
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
import sqlglot
from sqlglot import exp

import dialects
import sql_templates
from auditor import canonical, render, service
from auditor.model import SIDES, Chunk, ColumnPlan, Method, Partitioning, Plan, SidePlan
from dialects import Dialect, Kind

GOLDEN = Path(__file__).with_name("golden")
TEMPLATES = Path(sql_templates.__file__).parent
METHODS: tuple[Method, ...] = typing.get_args(Method)
STRATEGIES = ("range", "hash", "time")
CATALOGUE = sorted({path.stem for path in TEMPLATES.glob("*/*.sql")} - {path.stem for path in TEMPLATES.glob("*.sql")})
CHUNK = Chunk(first=1024, end=4096)

COLUMNS = [
    ("id", Kind("integer")), ("name", Kind("text")), ("price", Kind("decimal", 10, 2)), ("weight", Kind("float64")),
    ("shipped", Kind("timestamp", scale=6)), ("paid", Kind("boolean")),
]  # fmt: skip
HOW = {
    "range": Partitioning(strategy="range", size=1024),
    "hash": Partitioning(strategy="hash", buckets=64),
    "time": Partitioning(strategy="time", unit="day", column=4),
}


def engines() -> list[Dialect]:
    return [dialects.get(name) for name in dialects.names()]


def plan_of(dialect: Dialect, method: str, strategy: str) -> Plan:
    """A small plan whose two sides are one engine, with a column of every family of kinds."""
    columns = []
    for name, kind in COLUMNS:
        native = dialect.kind(dialect.native_type(kind).lower()) or kind
        shared = canonical.share(native, native)
        assert shared
        columns.append(
            ColumnPlan(
                name=name,
                kind=shared.kind,
                native=dict.fromkeys(SIDES, native),
                expression=dict.fromkeys(SIDES, dialect.quote(name)),
                types=dict.fromkeys(SIDES, dialect.native_type(kind)),
                why=shared.why,
            )
        )
    side = SidePlan(dialect=dialect.name, connection="shop", label="shop: orders", table=dialect.table("shop", "orders"), where="")
    return Plan(
        audit="orders",
        method=typing.cast("Method", method),
        sides=dict.fromkeys(SIDES, side),
        columns=tuple(columns),
        key=1,
        partitioning=HOW[strategy],
        k=4 if method == "minhash" else 0,
        t=3 if method == "exact" else 0,
    )


@cache
def rendered(dialect: Dialect) -> dict[str, str]:
    """Every statement of an engine, by the name of its golden file."""
    found: dict[str, str] = {}
    for method in METHODS:
        for strategy in STRATEGIES:
            chunk = CHUNK if strategy == "range" else Chunk()
            found[f"{method}_{strategy}"] = render.summary(plan_of(dialect, method, strategy), "source", dialect, chunk)
    found["console"] = service.console(plan_of(dialect, "signature", "range"), "source", dialect, 3600.0)
    exact = plan_of(dialect, "exact", "range")
    key = exact.columns[0]
    found["exact_levels"] = render.summary(replace(exact, t=8), "source", dialect, CHUNK)
    texts = [render.shortened(column, "source", dialect, 200) for column in exact.columns]
    found["rows"] = render.rows(exact, "source", dialect, f"{key.expression['source']} IN (16, 24)", texts)
    found["bounds"] = render.bounds(key, "source", dialect, dialect.table("shop", "orders"), "1 = 1")
    found["count"] = render.count(dialect, dialect.table("shop", "orders"), "1 = 1")
    for name in CATALOGUE:
        try:
            template = dialect.template(name)
        except LookupError:
            continue
        values = {"schema": dialect.literal("shop"), "table": dialect.literal("orders")}
        found[name] = sql_templates.fill(template, {hole: values[hole] for hole in sql_templates.holes(template)})
    return found


CASES = [pytest.param(dialect, name, id=f"{dialect.name}-{name}") for dialect in engines() for name in rendered(dialect)]


@pytest.mark.parametrize(("dialect", "name"), CASES)
def test_golden(dialect: Dialect, name: str, request: pytest.FixtureRequest) -> None:
    path = GOLDEN / dialect.name / f"{name}.sql"
    sql = rendered(dialect)[name].rstrip() + "\n"
    if request.config.getoption("--update-golden"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(sql, encoding="utf-8")
    assert path.is_file(), f"{path} is missing; write it with pytest --update-golden, and read it"
    assert path.read_text(encoding="utf-8") == sql, f"{path} has another text; if the new one is right, pytest --update-golden"


@pytest.mark.parametrize(("dialect", "name"), CASES)
def test_every_statement_is_whole(dialect: Dialect, name: str) -> None:
    """No hole is left, no value is bound, and sqlglot can read it."""
    sql = rendered(dialect)[name]
    assert "${" not in sql
    statements = sql_templates.body(sql).split(";\n") if name == "console" else [sql]
    read = [sqlglot.parse_one(statement, dialect=dialect.sqlglot) for statement in statements if statement.startswith(("SELECT", "SHOW"))]
    assert len(read) == 1
    assert read[0].find(exp.Placeholder, exp.Parameter) is None


def test_no_golden_file_is_left_over() -> None:
    written = {str(path.relative_to(GOLDEN)) for path in GOLDEN.rglob("*.sql")}
    assert written == {f"{dialect.name}/{name}.sql" for dialect in engines() for name in rendered(dialect)}


@pytest.mark.parametrize("path", sorted(TEMPLATES.rglob("*.sql")), ids=lambda path: str(path.relative_to(TEMPLATES)))
def test_every_template_says_what_a_row_of_it_is(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert sql_templates.comment(text).startswith(("One row", "One row per")), path
    assert sql_templates.body(text).startswith(("SELECT", "SHOW", "WITH")), path


def test_a_hole_unfilled_and_a_fragment_unused_are_errors() -> None:
    with pytest.raises(ValueError, match="unfilled"):
        sql_templates.fill("SELECT ${a}", {})
    with pytest.raises(ValueError, match="unused"):
        sql_templates.fill("SELECT 1", {"a": "1"})
