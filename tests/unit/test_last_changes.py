"""The last change of each key is what is left of all changes of a key, whatever became of it before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

import dialects
from auditor.pipeline.merge.staged_rows import last_changes, staged_rows
from tests.pipeline_events import Row, absent, batch, delete, insert, table, update

NAMES = {"id": "id", "part": "Part", "note": "note", "flags": "flags"}
SCHEMA = table("orders", ("id", "part"), id="bigint", note="varchar(40) null", part="int", flags="bit(3) null")

keys = st.tuples(st.sampled_from("123"), st.sampled_from("12"))
notes = st.sampled_from([None, "", "a", "it's\ta \\ line\n", "NULL"])


def row_of(key: tuple[str, str], note: str | None) -> Row:
    return [key[0], note, key[1], None if note is None else "5"]


@st.composite
def changes(draw: st.DrawFn) -> list[dict[str, object]]:
    """Events as a log could hold them, several of one transaction at times."""
    events: list[dict[str, object]] = []
    position = 10
    for _ in range(draw(st.integers(1, 12))):
        key, other, note = draw(keys), draw(keys), draw(notes)
        kind = draw(st.sampled_from(["insert", "refresh", "update", "move", "delete", "absent"]))
        if kind in ("insert", "refresh"):
            events += insert(SCHEMA, position, row_of(key, note), kind=kind)  # type: ignore[arg-type]
        elif kind in ("update", "move"):
            events += update(SCHEMA, position, (row_of(key, "before"), row_of(key if kind == "update" else other, note)))
        elif kind == "delete":
            events += delete(SCHEMA, position, row_of(key, note))
        else:
            events += absent(SCHEMA, position, [key[0], None, key[1], None])
        events[-1]["row"] = len([event for event in events if event["position"] == position]) - 1
        position += draw(st.integers(0, 1))
    return events


def reduced(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The last of these changes of each key, as one finds it by looking at all of them."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for row in sorted(rows, key=lambda row: (int(row["auditor_position"]), int(row["auditor_row"]))):
        found[row["id"], row["Part"]] = row
    return sorted(found.values(), key=repr)


@given(changes())
def test_the_last_change_of_each_key_is_that_of_all_changes(events: list[dict[str, object]]) -> None:
    for engine in ("postgres", "duckdb", "mysql"):
        about = batch(events), SCHEMA, NAMES, dialects.get(engine), "attempt", {"note": 40}
        assert sorted(last_changes(*about).to_pylist(), key=repr) == reduced(staged_rows(*about).to_pylist())
