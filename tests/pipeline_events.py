"""Events made by hand for tests of the pipeline."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Sequence

import pyarrow as pa

from auditor.pipeline.events import ARROW_SCHEMA, ColumnSchema, EventKind, TableSchema

Row = Sequence[str | None]
T0 = dt.datetime(2026, 11, 1, tzinfo=dt.UTC)


def table(name: str = "orders", key: Sequence[str] = ("id",), /, **types: str) -> TableSchema:
    """The schema of a table of the database shop; a type that ends with ``null`` is nullable."""
    columns = [ColumnSchema(one, kind.removesuffix(" null"), kind.endswith(" null")) for one, kind in types.items()]
    return TableSchema("shop", name, tuple(columns), tuple(key))


def event(schema: TableSchema, kind: EventKind, position: int, row: int, before: Row | None, after: Row | None) -> dict[str, object]:
    """One event."""
    names = {"database": schema.database, "table": schema.table, "schema_id": schema.id}
    place = {"gtid": f"0-1-{position}", "position": position, "row": row, "time": T0 + dt.timedelta(seconds=position)}
    return {"kind": kind, **names, **place, "before": before, "after": after}


def insert(schema: TableSchema, position: int, *rows: Row, kind: EventKind = "insert") -> list[dict[str, object]]:
    """Inserts of one transaction."""
    return [event(schema, kind, position, number, None, row) for number, row in enumerate(rows)]


def update(schema: TableSchema, position: int, *pairs: tuple[Row, Row]) -> list[dict[str, object]]:
    """Updates of one transaction."""
    return [event(schema, "update", position, number, *pair) for number, pair in enumerate(pairs)]


def delete(schema: TableSchema, position: int, *rows: Row) -> list[dict[str, object]]:
    """Deletes of one transaction."""
    return [event(schema, "delete", position, number, row, None) for number, row in enumerate(rows)]


def note(kind: EventKind, table: str, position: int, body: dict[str, object], *, last: int = 0, events: int = 0) -> list[dict[str, object]]:
    """A note on a table, as the source writes it among the events."""
    content = json.dumps({"last": last or position, "events": events, "body": body})
    place = {"gtid": None, "position": position, "row": 0 if kind == "poison" else -1, "time": T0 + dt.timedelta(seconds=position)}
    return [{"kind": kind, "database": "shop", "table": table, "schema_id": "", **place, "before": None, "after": [content]}]


def announce(schema: TableSchema, position: int) -> list[dict[str, object]]:
    """The event that announces a schema."""
    return [event(schema, "schema", position, -1, None, [schema.to_json()])]


def batch(*events: list[dict[str, object]]) -> pa.RecordBatch:
    """A batch of events."""
    return pa.RecordBatch.from_pylist([one for some in events for one in some], schema=ARROW_SCHEMA)


def refresh(schema: TableSchema, position: int, *rows: Row, bounds: tuple[Row, Row] | None = None) -> list[dict[str, object]]:
    """A chunk of a refresh: its bounds, as low and high row, and its rows."""
    first = [event(schema, "bounds", position, 0, *bounds)] if bounds else []
    return first + [event(schema, "refresh", position, number, None, row) for number, row in enumerate(rows, len(first))]


def absent(schema: TableSchema, position: int, *rows: Row) -> list[dict[str, object]]:
    """Keys that no row has, as a refresh of a list of keys sends them."""
    return [event(schema, "absent", position, number, row, None) for number, row in enumerate(rows)]
