"""Segment audits as the store has them after a while: one whose sides differ and where one is awaited, and one that matches."""

from __future__ import annotations

import datetime as dt
from typing import Any

from auditor.config import Settings
from auditor.model import RegisteredSegment
from auditor.service import segment_audits
from auditor.store import Store, segment_register
from auditor.store.segment_register import Register
from tests.browser.pipeline_samples import LONG

CONFIGURED: dict[str, Any] = {
    "zones": {"pipelines": ["shop", "new"], "schedule": "*/10 * * * *"},
    "log": {"pipelines": ["shop"], "max_lag": "1h"},
}


def create(settings: Settings, store: Store, now: dt.datetime) -> None:
    """Register segments of both sides, and run both audits."""
    for name in CONFIGURED:
        sides = settings.segment_audit(name).sides
        segment_register.open_register(store, Register(name, sides, "position"))
        for table in ("shop.orders", "shop.items", LONG):
            _register(store, name, sides, table, now, is_damaged=name == "zones" and table == "shop.orders")
        verdict, _, _ = segment_audits.conclude(settings, store, name)
        assert verdict.value == ("mismatch" if name == "zones" else "match")


def _register(store: Store, audit: str, sides: tuple[str, str], table: str, now: dt.datetime, is_damaged: bool) -> None:
    first = [_segment(table, number, now) for number in range(0 if is_damaged else 50, 60)]
    second = [one for number, one in enumerate(first) if not (is_damaged and (number in (20, 21, 33, 40, 41) or number > 56))]
    if is_damaged:
        altered, joined, doubled = _segment(table, 33, now, "b"), _segment(table, 40, now, "c", length=2), _segment(table, 50, now, "d")
        second += [altered, joined, doubled]
    for side, some in zip(sides, (first, second), strict=True):
        store.write(lambda connection, side=side, some=some: segment_register.enter(connection, audit, side, some))  # type: ignore[misc]


def _segment(table: str, number: int, now: dt.datetime, digest: str = "a", length: int = 1) -> RegisteredSegment:
    start, end = (41 << 32) + number * 1000 + 1, (41 << 32) + (number + length) * 1000
    began = now - dt.timedelta(minutes=60 - number)
    return RegisteredSegment(
        table=table,
        start=(start, 0),
        end=(end, 2),
        rows=4000 + number * 13,
        schema_id="5c",
        sha256=digest * 64,
        encoding=1,
        first=start,
        last=end,
        gtid=f"0-1-{number}",
        began=began,
        ended=began + dt.timedelta(seconds=58 * length),
    )
