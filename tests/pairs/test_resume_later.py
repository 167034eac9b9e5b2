"""A run that is resumed days later: rows written meanwhile are in flight or looked at again, and damage is found all the same."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from auditor.config import Audit, ConnectionSettings
from auditor.history.handover import EarlierRuns, NoCheckpoint, Schemas
from auditor.model import SIDES, Chunk, Plan, Report, Side, Verdict
from auditor.planning import chunks, watermark
from auditor.run import audit_run
from auditor.summary.arrays import Summaries
from dialects import Kind
from tests import tables
from tests.durations import SetDurations
from tests.live import LivePair, chosen_pairs

pytestmark = pytest.mark.engines_in_turn

COLUMNS = [("id", Kind("integer")), ("v", Kind("text")), ("moved", Kind("timestamp", scale=6))]
LONG_AGO = dt.datetime(2026, 1, 1)
OLD = dict.fromkeys(range(500), ("v", LONG_AGO))
SETTLE: dict[str, Any] = {"settle": {"column": "moved", "lag": "1m"}}
BOTH: dict[str, Any] = {**SETTLE, "recheck": {"times": 1, "wait": "1ms"}}
MANNERS: dict[str, dict[str, Any]] = {"plain": {}, "settle": SETTLE, "both": BOTH, "pre-scan": {**SETTLE, "prescan": True}}
METHODS = {"signature": "signature", "minhash": "minhash"}


def on_chunked_sources(values: Mapping[str, Any], **quick: str) -> list[Any]:
    """Return three pairs with each of these values; a normal run has those of ``quick``, by the source's engine."""
    return [
        pytest.param(*one.values, value, id=f"{one.id}-{name}", marks=[*one.marks, *([] if name == chosen else [pytest.mark.slow])])
        for one, chosen in zip(chosen_pairs("mysql-postgres", "mariadb-mariadb", "postgres-redshift"), quick.values(), strict=True)
        for name, value in values.items()
    ]


class Saved(NoCheckpoint):
    """Keeps what a first attempt read: its chunks, or those of its pre-scan, if there was one."""

    def __init__(self) -> None:
        self.plan: Plan | None = None
        self.chunks: dict[Side, list[tuple[Chunk, Summaries]]] = {side: [] for side in SIDES}
        self.has_stretches = False

    def save_plan(self, plan: Plan, schema: Schemas) -> None:
        self.plan = plan

    def save_chunk(self, side: Side, chunk: Chunk, summaries: Summaries, seconds: float, attempts: int) -> None:
        if not self.has_stretches:
            self.chunks[side].append((chunk, summaries))

    def save_stretches(self, side: Side, chunk: Chunk, summaries: Summaries, seconds: float, attempts: int) -> None:
        self.has_stretches = True
        self.chunks[side].append((chunk, summaries))


class Restored(NoCheckpoint):
    """Gives back some of the chunks that a first attempt read."""

    def __init__(self, chunks: Mapping[Side, list[tuple[Chunk, Summaries]]], has_stretches: bool = False) -> None:
        self.chunks = dict(chunks)
        self.has_stretches = has_stretches

    def saved_chunks(self, side: Side) -> list[tuple[Chunk, Summaries]]:
        return [] if self.has_stretches else self.chunks.pop(side, [])

    def saved_stretches(self, side: Side) -> list[tuple[Chunk, Summaries]]:
        return self.chunks.pop(side, []) if self.has_stretches else []


def fill(pair: LivePair, side: Side, rows: Mapping[int, tuple[str, dt.datetime]]) -> None:
    tables.make(getattr(pair, side), f"later_{side}", COLUMNS, [(key, *row) for key, row in rows.items()], ["id"])


def perform(pair: LivePair, checkpoint: NoCheckpoint, plan: Plan | None = None, **more: Any) -> Report:
    ends = {side: {"connection": side, "table": f"later_{side}"} for side in SIDES}
    audit = Audit.model_validate({**ends, "key": ["id"], "partition": {"size": 10}, "salt": "", **more})
    connections: dict[str, ConnectionSettings] = {side: ConnectionSettings(url=getattr(pair, side).url) for side in SIDES}
    return audit_run.perform("later", audit, connections, checkpoint=checkpoint, earlier=EarlierRuns(plan=plan)).report


@pytest.mark.quick_for("source-mysql-postgres-plain", "target-mariadb-mariadb-both")
@pytest.mark.parametrize(
    ("pair", "more"), on_chunked_sources(MANNERS, mysql="plain", mariadb="both", postgres="pre-scan"), indirect=["pair"]
)
@pytest.mark.parametrize("first", SIDES)
@pytest.mark.few
def test_resume_days_later_names_the_damage_alone(
    pair: LivePair, more: dict[str, Any], first: Side, monkeypatch: pytest.MonkeyPatch, set_durations: SetDurations
) -> None:
    """The one side was read before the break, the other's keys from 200 on after it."""
    monkeypatch.setattr(chunks, "CHUNK_ROWS", 100)
    set_durations(chunk_aim=0.0)
    damage = {300: ("damaged", LONG_AGO)}
    fill(pair, "source", OLD)
    fill(pair, "target", {**OLD, **damage})
    now = dt.datetime.now(dt.UTC).replace(tzinfo=None)
    real: Callable[[Any], dt.datetime] = watermark.read_clock
    monkeypatch.setattr(watermark, "read_clock", lambda session: real(session) - dt.timedelta(days=3))
    saved = Saved()
    assert perform(pair, saved, **more).verdict is Verdict.MISMATCH
    monkeypatch.setattr(watermark, "read_clock", real)
    meanwhile = {key: ("new", now - dt.timedelta(hours=12)) for key in (40, 250, 251, *range(500, 560))}
    other: Side = "target" if first == "source" else "source"
    fill(pair, "source", {**OLD, **meanwhile})
    fill(pair, "target", {**OLD, **meanwhile, **damage})
    early = {first: saved.chunks[first], other: [(chunk, part) for chunk, part in saved.chunks[other] if chunk.end and chunk.end <= 200]}
    assert early[first] and (early[other] or "redshift" in getattr(pair, other).name), "some chunks of both sides were read before"
    report = perform(pair, Restored(early, saved.has_stretches), saved.plan, **more)
    found = report.differences
    assert found, report.reasons
    named = [(one.kind, one.key["id"]) for one in found.named]
    assert named == [("changed", "300")] and not found.ranges, (report.reasons, found.ranges)
    assert (found.missing, found.extra, found.changed) == (0, 0, 1)
    assert report.verdict is Verdict.MISMATCH, report.reasons


@pytest.mark.parametrize(
    ("pair", "method"), on_chunked_sources(METHODS, mysql="signature", mariadb="minhash", postgres="signature"), indirect=["pair"]
)
def test_resume_days_later_counts_the_damaged_partition_alone(pair: LivePair, method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a method that names no rows, what differs is summarised once more: one side was read before the break, the other after it."""
    monkeypatch.setattr(chunks, "CHUNK_ROWS", 100)
    damage = {300: ("damaged", LONG_AGO)}
    fill(pair, "source", OLD)
    fill(pair, "target", {**OLD, **damage})
    saved = Saved()
    assert perform(pair, saved, method=method).verdict is Verdict.MISMATCH
    meanwhile = dict.fromkeys((40, 250, *range(500, 560)), ("new", LONG_AGO))
    fill(pair, "source", {**OLD, **meanwhile})
    fill(pair, "target", {**OLD, **meanwhile, **damage})
    report = perform(pair, Restored({"source": saved.chunks["source"]}), saved.plan, method=method)
    assert report.verdict is Verdict.MISMATCH and report.comparison, report.reasons
    assert [one.partition for one in report.comparison.divergent] == [30]
