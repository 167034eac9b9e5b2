"""Collect what the log says of tables beside their rows: events that are not available, and statements that change a table."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from auditor.model import NoteKind
from auditor.pipeline.events import ARROW_SCHEMA

Name = tuple[str, str]
"""Database and table."""


@dataclass(slots=True)
class _Poison:
    first: int
    row: int
    """The number of its first event in the transaction at ``first``."""
    last: int
    events: int
    time: int
    gtid: str | None
    reason: str


class TableNotes:
    """Notes on the chosen tables that were not handed on yet."""

    def __init__(self) -> None:
        self._poison: dict[Name, _Poison] = {}
        """For each table what ends with its last event."""
        self._rows: list[dict[str, Any]] = []

    def refuse(self, table: Name, position: int, row: int, time: int, gtid: str | None, reason: str) -> None:
        """Note an event of the log, of one table, whose rows are not available: number ``row`` of the transaction at a position."""
        poison = self._poison.get(table)
        if poison and poison.reason == reason:
            poison.last, poison.events = position, poison.events + 1
        else:
            self.pass_rows(table)
            self._poison[table] = _Poison(position, row, position, 1, time, gtid, reason)

    def pass_rows(self, table: Name) -> None:
        """Note that a table has rows that are available: what is refused later is another part of the log."""
        if poison := self._poison.pop(table, None):
            body = {"stage": "decoding", "reason": poison.reason}
            self._add(
                "poison",
                table,
                poison.first,
                poison.row,
                poison.time,
                poison.gtid,
                {"last": poison.last, "events": poison.events, "body": body},
            )

    def change(self, table: Name, position: int, time: int, gtid: str | None, body: Mapping[str, Any]) -> None:
        """Note a statement that changes a table."""
        self._add("change", table, position, -1, time, gtid, {"last": position, "events": 0, "body": dict(body)})

    def _add(self, kind: NoteKind, table: Name, position: int, row: int, time: int, gtid: str | None, content: Mapping[str, Any]) -> None:
        names = {"kind": kind, "database": table[0], "table": table[1], "schema_id": "", "gtid": gtid}
        place = {"position": position, "row": row, "time": time, "before": None, "after": [json.dumps(content, ensure_ascii=False)]}
        self._rows.append({**names, **place})

    def flush(self) -> Iterator[pa.RecordBatch]:
        """Yield the notes, as one batch."""
        for table in list(self._poison):
            self.pass_rows(table)
        if self._rows:
            rows, self._rows = self._rows, []
            yield pa.RecordBatch.from_pylist(rows, schema=ARROW_SCHEMA)
