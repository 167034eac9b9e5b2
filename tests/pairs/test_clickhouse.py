"""ClickHouse beside MySQL, MariaDB and PostgreSQL: a column of every kind that both store is equal, and each damaged value is named."""

from __future__ import annotations

from typing import Any

import pytest

import auditor
import dialects
from auditor import canonical
from auditor.model import Difference, Verdict
from auditor.testing.columns import draw_rows, supported_columns
from auditor.testing.values import Family, adapt
from dialects import Kind
from tests import tables
from tests.live import LivePair, chosen_pairs

ROWS = 120

PAIRS = [
    *chosen_pairs("mariadb-clickhouse"),
    *(
        pytest.param(*one.values, marks=[*one.marks, pytest.mark.slow], id=one.id)
        for one in chosen_pairs("mysql-clickhouse", "postgres-clickhouse", "clickhouse-mysql", "clickhouse-postgres")
    ),
]


def _columns(pair: LivePair) -> list[tuple[Family, Kind]]:
    """The families and kinds of which both engines have a type, and that are compared with each other."""
    source, target = (dialects.get(side.dialect) for side in (pair.source, pair.target))
    theirs = [(family.name, kind) for family, kind in supported_columns(target)]
    shared = []
    for family, kind in supported_columns(source):
        if (family.name, kind) not in theirs:
            continue
        ends = [dialect.types.kind(dialect.types.native_type(kind).partition(" CHARACTER SET ")[0].lower()) for dialect in (source, target)]
        if ends[0] and ends[1] and canonical.shared_kind(ends[0], ends[1]):
            shared.append((family, kind))
    return shared


def _text(family: Family, kind: Kind, value: Any) -> str | None:
    stored = adapt(family, value, kind)
    return canonical.text(kind, stored)


@pytest.mark.parametrize("pair", PAIRS, indirect=True)
def test_every_type_is_equal_and_each_damaged_value_is_named(pair: LivePair) -> None:
    drawn, shared = draw_rows(ROWS)[:ROWS], _columns(pair)
    assert len(shared) >= 25, "too few types are compared"
    columns = [("n", Kind("integer")), *((family.column(kind), kind) for family, kind in shared)]
    rows = [[number, *(adapt(family, row[family.name], kind) for family, kind in shared)] for number, row in enumerate(drawn)]
    for side in (pair.source, pair.target):
        tables.make(side, "every_type", columns, rows, ["n"])
    source, target = ((side.url, "every_type") for side in (pair.source, pair.target))
    equal = auditor.audit(source, target, key=["n"])
    assert equal.verdict is Verdict.MATCH, equal
    damaged, wanted = [list(row) for row in rows], {}
    for place, (family, kind) in enumerate(shared):
        texts = [_text(family, kind, row[family.name]) for row in drawn]
        at = next(number for number in range(ROWS) if number not in wanted and texts[number] != texts[number - 1])
        damaged[at][place + 1] = rows[at - 1][place + 1]
        wanted[at] = {family.column(kind)}
    tables.make(pair.target, "every_type", columns, damaged, ["n"])
    report = auditor.audit(source, target, key=["n"])
    assert report.verdict is Verdict.MISMATCH, report
    named = {
        int(one.key["n"] or -1): {column.name for column in one.columns} for one in report.differences or () if isinstance(one, Difference)
    }
    assert named == wanted
