"""Every engine yields the numbers, buckets and positions of keys that plain Python computes, whatever type it stores a key in."""

from __future__ import annotations

import uuid
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest

import dialects
from auditor import canonical
from auditor.model import SIDES, ColumnPlan, Partitioning, Plan, SidePlan
from auditor.sql import key_number as sql
from auditor.sql import row_text
from auditor.summary import key_number
from auditor.testing.values import TRICKY_DATES
from dialects import Kind, Session
from tests import tables
from tests.live import LiveEngine

pytestmark = pytest.mark.engines_in_turn

BUCKETS = 97
INTEGER, UUID = Kind("integer"), Kind("uuid")
IDS = [uuid.UUID(int=number) for number in (0, 1, 2**128 - 1, 0x0123456789ABCDEF0123456789ABCDEF, 0xFEDCBA98765432100F1E2D3C4B5A6978)]
TEXTS = [
    "0123456789abcdef0123456789abcdef", "FEDCBA98-7654-3210-0F1E-2D3C4B5A6978", "no UUID", "", "x" * 36, "g" * 32,
    "0123456-89abcdef-0123-4567-89abcdef01", "01234567-89ab-cdef-0123-456789abcde ", "01234567-89ab-cdef-0123-456789abcdeg",
]  # fmt: skip
"""UUIDs as people write them, and text that is none."""

NUMBERS = [0, 1, -1, 2**31 - 1, -(2**31), key_number.Q, -key_number.Q, 2**63 - 1, -(2**63)]
ROWS = max(len(NUMBERS), len(TEXTS), len(IDS), len(TRICKY_DATES))


def column_values() -> dict[str, tuple[Kind, Kind, list[Any]]]:
    """Return by column the kind that it is made with, the kind as which it is compared, and its values."""
    unsigned = [0, 2**64 - 1, 2**63, 2**31]
    texts = [*map(str, IDS), *TEXTS]
    return {
        "whole": (INTEGER, INTEGER, NUMBERS),
        "narrow": (Kind("year"), INTEGER, [1901, 2155, 2000]),
        "wide": (Kind("integer", unsigned=True), Kind("integer", unsigned=True), unsigned),
        "exact": (Kind("decimal", 20, 0), INTEGER, [*NUMBERS, 2**63]),
        "born": (Kind("date"), Kind("date"), TRICKY_DATES),
        "id": (UUID, UUID, IDS),
        "text_id": (Kind("text"), UUID, texts),
        "short_id": (Kind("char", 32), UUID, [one.hex for one in IDS]),
        "bytes_id": (Kind("binary", 16), UUID, [one.bytes for one in IDS]),
        "free": (Kind("text"), Kind("text"), ["a|b", "", "é😀", *TEXTS]),
    }


KEYS = (
    ["whole"], ["narrow"], ["wide"], ["exact"], ["born"], ["id"], ["text_id"], ["short_id"], ["bytes_id"], ["free"], ["whole", "born"],
    ["bytes_id", "narrow", "wide", "born"], ["text_id", "whole"], ["whole", "free"],
)  # fmt: skip
"""Keys, by their columns."""


def plan_of(session: Session, native: dict[str, Kind], names: list[str]) -> Plan:
    side = SidePlan(dialect=session.dialect.name, connection="", label="", table=session.dialect.names.quote("key_numbers"), where="")
    columns = tuple(
        ColumnPlan(
            name=name,
            kind=column_values()[name][1],
            native=dict.fromkeys(SIDES, native[name]),
            expression=dict.fromkeys(SIDES, session.dialect.names.quote(name)),
            types=dict.fromkeys(SIDES, ""),
            why="",
        )
        for name in names
    )
    how = Partitioning(strategy="hash", buckets=BUCKETS)
    sides = dict.fromkeys(SIDES, side)
    return Plan(audit="a", method="exact", sides=sides, columns=columns, key=len(names), partitioning=how, prefix="a_", t=3)


def canonical_text(kind: Kind, value: Any) -> str | None:
    """Return the canonical text of a key's value; of a UUID's text that is none, what the engines make of it."""
    if kind != UUID or not isinstance(value, str):
        return canonical.text(kind, value)
    hyphens = "-".join((value[:8], value[8:12], value[12:16], value[16:20], value[20:])) if len(value) == 32 else value
    return hyphens.lower()


@pytest.mark.slow_on("spark")
@pytest.mark.few
def test_numbers_of_keys_equal_the_oracle(engine: LiveEngine) -> None:
    dialect = dialects.get(engine.dialect)
    made = {
        name: one for name, one in column_values().items() if ("unsigned " * one[0].unsigned + one[0].name) in dialect.types.TYPE_BY_KIND
    }
    rows = [[n, *(values[n % len(values)] for _, _, values in made.values())] for n in range(4 * ROWS)]
    rows.append([len(rows), *[None] * len(made)])
    tables.make(engine, "key_numbers", [("n", INTEGER), *((name, kind) for name, (kind, _, _) in made.items())], rows)
    with closing(dialects.connect(engine.url)) as session:
        (table,) = session.dialect.catalogue.describe(session, dialects.Place(("key_numbers",)))
        native = {column.name: column.kind for column in table.columns if column.kind}
        plans = [plan_of(session, native, names) for names in KEYS if set(names) <= set(made)]
        numbers = [sql.key_number(plan, "source", session.dialect) for plan in plans]
        wanted = [sql for number in numbers for sql in (number, sql_bucket(number, session.dialect), sql_position(number, session.dialect))]
        got = session.query(f"SELECT n, {', '.join(wanted)} FROM {session.dialect.names.quote('key_numbers')} ORDER BY n")
    assert len(got) == len(rows) and len(plans) >= 9
    for row, (_, *found) in zip(rows, got, strict=True):
        value = dict(zip(made, row[1:], strict=True))
        for place, plan in enumerate(plans):
            key = [canonical_text(column.kind, value[column.name]) for column in plan.key_columns]
            number = key_number.key_number(plan, key)
            expected = None if number is None else [number, key_number.bucket_of(number, BUCKETS), key_number.position_of(number)]
            here = found[3 * place : 3 * place + 3]
            assert (None if here[0] is None else [int(one) for one in here]) == expected, (key, native)


def sql_bucket(number: str, dialect: dialects.Dialect) -> str:
    return sql.bucket(number, BUCKETS, dialect)


def sql_position(number: str, dialect: dialects.Dialect) -> str:
    return sql.position(number, dialect)


def test_a_null_where_the_catalogue_says_there_is_none_makes_no_row_text(engine: LiveEngine) -> None:
    """A view, a file or a constraint that was never validated may hold one: the row must not be hashed as if it held something else."""
    made = {name: one for name, one in column_values().items() if one[0].name in ("integer", "text", "date") and not one[0].unsigned}
    tables.make(engine, "hollow", [(name, kind) for name, (kind, _, _) in made.items()], [[values[0] for _, _, values in made.values()]])
    with closing(dialects.connect(engine.url)) as session:
        (table,) = session.dialect.catalogue.describe(session, dialects.Place(("hollow",)))
        native = {column.name: column.kind for column in table.columns if column.kind}
        plan = plan_of(session, native, list(made))
        texts = []
        for name in made:
            hollow = [
                replace(column, expression=dict.fromkeys(SIDES, f"NULLIF({column.expression['source']}, {column.expression['source']})"))
                if column.name == name
                else column
                for column in (replace(one, never_null=SIDES) for one in plan.columns)
            ]
            texts.append(row_text.row_text(replace(plan, columns=tuple(hollow)), "source", session.dialect))
        whole = row_text.row_text(
            replace(plan, columns=tuple(replace(one, never_null=SIDES) for one in plan.columns)), "source", session.dialect
        )
        got = session.query(f"SELECT {', '.join([*texts, whole])} FROM {session.dialect.names.quote('hollow')}")
    assert got[0][:-1] == (None,) * len(made)
    assert got[0][-1] is not None and "|2" not in got[0][-1]
