"""A source with a column of every canonical kind, and a target that was damaged in many ways."""

from __future__ import annotations

import datetime as dt
import random
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import dialects
from auditor import service
from auditor.config import Settings
from auditor.model import Report
from auditor.repair.keys import Selection
from auditor.service import patches
from auditor.store import Store, open_store
from dialects import Kind, Place
from tests import tables
from tests.live import LiveEngine, LivePair

Value = Callable[[random.Random], Any]


def choice(*values: Any) -> Value:
    return lambda generator: generator.choice(values)


LAST_MOMENT = dt.datetime(9999, 12, 31, 23, 59, 59, 999999)

KINDS: dict[str, tuple[Kind, Value]] = {
    "truth": (Kind("boolean"), choice(True, False)),
    "number": (Kind("integer"), choice(0, -1, 2**63 - 1, -(2**63), 7, 12345)),
    "unsigned": (Kind("integer", unsigned=True), choice(0, 2**64 - 1, 2**63)),
    "price": (Kind("decimal", 12, 2), choice(Decimal("0.10"), Decimal("-9999999999.99"), Decimal("1.01"))),
    "exact": (Kind("decimal", 38, 10), choice(Decimal("1234567890123456789012345678.0123456789"), Decimal("-0.0000000001"))),
    "double": (Kind("float64"), choice(0.1, -1.5, 1e300, 5e-324, 2.2250738585072014e-308, 0.1 + 0.2, 1.0, 123456.789)),
    "single": (Kind("float32"), choice(0.10000000149011612, 3.4028234663852886e38, 1.5, -7.0)),
    "free": (Kind("text"), choice("", " ", "two  ", "NULL", "|0", "a'b\"c\\", "%s ${x} :y", "\n\t;\n", "é😀 e\u0301", "x" * 300)),
    "fixed": (Kind("char", 12), choice("", "abc", "a|b '\\", "é")),
    "bytes": (Kind("binary"), choice(b"", b"\x00\xff\x10", b"|'\\")),
    "day": (Kind("date"), choice(dt.date(1, 1, 1), dt.date(1970, 1, 1), dt.date(9999, 12, 31), dt.date(2024, 2, 29))),
    "moment": (Kind("timestamp", scale=6), choice(dt.datetime(1000, 1, 1), LAST_MOMENT, dt.datetime(2024, 2, 29, 1, 2, 3, 4))),
    "instant": (Kind("timestamptz", scale=6), choice(dt.datetime(1970, 1, 2), dt.datetime(2038, 1, 18, 1, 2, 3, 999999))),
    "clock": (Kind("time", scale=6), choice(dt.time(0, 0), dt.time(23, 59, 59, 999999), dt.time(1, 2, 3))),
    "id_text": (Kind("uuid"), lambda generator: uuid.UUID(int=generator.getrandbits(128), version=4)),
    "flags": (Kind("bit", 12), choice(0, 4095, 5)),
    "year": (Kind("year"), choice(1901, 2155, 2024)),
    "document": (Kind("json"), choice('{"a":1}', "[]", '["|",null,"é"]', '"x\\\\y"')),
    "span": (Kind("interval"), choice((1, 2, 3_000_004), (0, 0, 0), (14, 0, 86_399_999_999))),
    "address": (Kind("network"), choice("10.0.0.1", "2001:db8::1", "10.0.0.0/8")),
}  # fmt: skip
"""A column for every canonical kind that is stored as its own, with values at its edges."""


@dataclass(frozen=True)
class Damaged:
    """The tables of one pair: both sides' rows by key, and what runs and patches need."""

    pair: LivePair
    settings: Settings
    store: Store
    columns: Sequence[tuple[str, Kind]]
    source: dict[int, tuple[Any, ...]]
    target: dict[int, tuple[Any, ...]]

    def run(self) -> Report:
        report = service.run_audit(self.settings, "all", store=self.store)
        assert report.differences is not None, report.reasons
        return report

    def read_target(self) -> list[tuple[Any, ...]]:
        """Return the target's rows with the canonical texts of all columns, by key."""
        return read_exactly(self.pair.target, "patched_target", [name for name, _ in self.columns])

    def script(self, **selection: Any) -> str:
        chosen = Selection(**{"delete_extra": True, **selection})
        return "".join(patches.print_patch(self.settings, self.store, "all", chosen, "sql"))


def shared_columns(pair: LivePair) -> list[tuple[str, Kind]]:
    """Return the columns that both engines of a pair have types for."""
    ends = [dialects.get(one.dialect) for one in (pair.source, pair.target)]

    def is_stored(kind: Kind) -> bool:
        try:
            return bool([end.types.native_type(kind) for end in ends]) and not any(
                kind.name in end.types.UNSUPPORTED_VALUES for end in ends
            )
        except LookupError:
            return False

    return [("id", Kind("integer")), *((name, kind) for name, (kind, _) in KINDS.items() if is_stored(kind))]


def make(pair: LivePair, folder: Path, rows: int, differences: int, seed: int = 1, **audit: Any) -> Damaged:
    """Fill both sides with as many equal rows, then damage the target: a third each is changed, missing and extra."""
    generator = random.Random(seed)
    columns = shared_columns(pair)
    values = [KINDS[name][1] for name, _ in columns[1:]]

    def row() -> tuple[Any, ...]:
        return tuple(None if generator.random() < 0.1 else value(generator) for value in values)

    source = {number: row() for number in range(0, 2 * rows, 2)}
    target = dict(source)
    hit = generator.sample(sorted(source), differences)
    for number in hit[: differences // 3]:
        del target[number]
    for number in hit[differences // 3 : 2 * differences // 3]:
        while target[number] == source[number]:
            position = generator.randrange(len(values))
            target[number] = (*target[number][:position], values[position](generator), *target[number][position + 1 :])
    for number in hit[2 * differences // 3 :]:
        target[number + 1] = row()
    fill(pair.source, "patched_source", columns, source)
    fill(pair.target, "patched_target", columns, target)
    definition = {side: {"connection": side, "table": f"patched_{side}"} for side in ("source", "target")}
    written = {"url": pair.target.url, "max_rows": 100_000, "max_share": "100%"}
    settings = Settings.model_validate(
        {
            "connections": {"source": {"url": pair.source.url}, "target": {"url": pair.target.url, "write": written}},
            "audits": {"all": {**definition, "key": ["id"], **audit}},
        }
    )
    return Damaged(pair, settings, open_store(f"sqlite:///{folder}/store.db"), columns, source, target)


def fill(engine: LiveEngine, name: str, columns: Sequence[tuple[str, Kind]], rows: dict[int, tuple[Any, ...]]) -> None:
    """Make a table of these rows, with a primary key."""
    tables.make(engine, name, columns, [(number, *row) for number, row in sorted(rows.items())], ["id"])


def read_exactly(engine: LiveEngine, name: str, columns: Sequence[str]) -> list[tuple[Any, ...]]:
    """Return a table's rows by key, each column as its canonical text in the kind of its own type."""
    session = dialects.connect(engine.url)
    try:
        dialect = session.dialect
        (table,) = dialect.catalogue.describe(session, Place((name,)))
        kinds = {column.name: column.kind for column in table.columns}
        texts = [dialect.canonical.canonical_text(kind, dialect.names.quote(column), kind) for column in columns if (kind := kinds[column])]
        return sorted(session.query(f"SELECT {', '.join(texts)} FROM {table.sql}"))
    finally:
        session.close()
