"""The last change of each key is what is left of all changes of a key, whatever became of it before."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

import dialects
from auditor.errors import ValueRefused
from auditor.pipeline.merge.load_tasks import LastChanges
from auditor.pipeline.merge.staged_rows import few_last_changes, last_changes, staged_rows
from auditor.pipeline.merge.target_table import TargetTable
from auditor.sql.merge import MergeStatements
from tests.pipeline_events import Row, absent, batch, delete, insert, table, update

COLUMNS = {
    "id": "bigint", "note": "varchar(40) null", "part": "int", "flags": "bit(3) null", "day": "date null", "at": "datetime(6) null",
    "clock": "time null", "ratio": "float null", "code": "varbinary(20) null",
}  # fmt: skip
SCHEMA = table("orders", ("id", "part"), **COLUMNS)
LONGEST = 40
"""Bytes that the target's column of notes holds."""


def target_of(engine: str) -> TargetTable:
    """Return a target's table whose column of notes is short."""
    dialect, names = dialects.get(engine), {name: name for name in COLUMNS}
    place = "dwh", "shop", "shop.orders", dialect.names.table("dwh", "orders")
    return TargetTable(SCHEMA, names, MergeStatements(dialect, *place, list(names), SCHEMA.key), longest={"note": LONGEST})


TARGETS = [target_of(engine) for engine in ("postgres", "duckdb", "mysql", "redshift")]

keys = st.tuples(st.sampled_from("123"), st.sampled_from("12"))
notes = st.sampled_from([None, "", "a", "it's\ta \\ line\n", "NULL", "é" * 20, "x" * LONGEST])
hostile_notes = st.sampled_from(["\0", "é" * 21, "x" * (LONGEST + 1)])
days = st.sampled_from([None, "2024-02-29", "1000-01-01"])
hostile_days = st.sampled_from(["0000-00-00", "2023-02-29", "2023-00-10"])
clocks = st.sampled_from([None, "00:00:00", "23:59:59", "24:00:00"])
hostile_clocks = st.sampled_from(["-01:00:00", "838:59:59"])


@st.composite
def rows(draw: st.DrawFn, key: tuple[str, str], hostile: bool) -> Row:
    """A row of a key; of a hostile one the target may refuse a value."""

    def choose(good: st.SearchStrategy[str | None], bad: st.SearchStrategy[str]) -> str | None:
        return draw(bad) if hostile and draw(st.integers(0, 4)) == 0 else draw(good)

    day, at = choose(days, hostile_days), choose(days, hostile_days)
    flags, ratio, code = draw(st.sampled_from([(None, None, None), ("5", "0.1", "00ff"), ("0", "1e20", ""), ("7", "-0", "c3a9")]))
    return [
        key[0],
        choose(notes, hostile_notes),
        key[1],
        flags,
        day,
        at and f"{at} 01:02:03.000004",
        choose(clocks, hostile_clocks),
        ratio,
        code,
    ]


@st.composite
def changes(draw: st.DrawFn) -> list[dict[str, object]]:
    """Events as a log could hold them, several of one transaction at times."""
    events: list[dict[str, object]] = []
    position, hostile = 10, draw(st.booleans())
    for _ in range(draw(st.integers(1, 12))):
        key, other = draw(keys), draw(keys)
        row, kind = draw(rows(key, hostile)), draw(st.sampled_from(["insert", "refresh", "update", "move", "delete", "absent"]))
        if kind in ("insert", "refresh"):
            events += insert(SCHEMA, position, row, kind=kind)  # type: ignore[arg-type]
        elif kind in ("update", "move"):
            events += update(SCHEMA, position, (row, draw(rows(key if kind == "update" else other, hostile))))
        elif kind == "delete":
            events += delete(SCHEMA, position, row)
        else:
            events += absent(SCHEMA, position, [text if index in (0, 2) else None for index, text in enumerate(row)])
        events[-1]["row"] = len([event for event in events if event["position"] == position]) - 1
        position += draw(st.integers(0, 1))
    return events


def reduced(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The last of these changes of each key, as one finds it by looking at all of them."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for row in sorted(rows, key=lambda row: (int(row["auditor_position"]), int(row["auditor_row"]))):
        found[row["id"], row["part"]] = row
    return sorted(found.values(), key=repr)


def answer_of(make: Callable[[], LastChanges | pa.Table]) -> list[dict[str, Any]] | str:
    """The rows, or why they are refused."""
    try:
        made = make()
    except ValueRefused as error:
        return str(error)
    return sorted((made if isinstance(made, pa.Table) else made.as_table()).to_pylist(), key=repr)


@given(changes())
def test_the_last_change_of_each_key_is_that_of_all_changes(events: list[dict[str, object]]) -> None:
    for target in TARGETS:
        about = batch(events), target, "attempt"
        few = answer_of(lambda: LastChanges(list(target.stage_columns), few_last_changes(*about)))  # noqa: B023 (called at once)
        assert few == answer_of(lambda: last_changes(*about))  # noqa: B023
        every = answer_of(lambda: staged_rows(*about))  # noqa: B023
        if isinstance(every, list):
            assert few == reduced(every)
