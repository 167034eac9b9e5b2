"""Keeping a run in a store while it goes on."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from pydantic import TypeAdapter

from auditor import packed, telemetry
from auditor.chunks import overlap
from auditor.errors import StoreError, UnknownRun
from auditor.keeping import Statements
from auditor.model import SIDES, Chunk, Plan, Progress, Side
from auditor.store import Store, chunks, runs
from auditor.summary import Summaries

BEAT = 1.0
"""Seconds between a running run's signs of life."""


class Kept:
    """Keeps a run in a store.

    A store that fails on the way does not end the run: ``failure`` then says why, and the run is simply not resumable from there.
    """

    def __init__(self, store: Store, run: str) -> None:
        self.store = store
        self.run = run
        self.failure = ""
        self.taken_away = False
        self._pinned = False
        self._earlier: dict[Side, list[tuple[Chunk, Summaries]]] = {side: [] for side in SIDES}
        self._progress: dict[Side, Progress] = {}

    def take_up(self) -> None:
        """Read what an earlier attempt at this run has kept."""
        for one in chunks.done(self.store, self.run):
            chunk = Chunk(one.first, one.end, one.null_key)
            # Their summaries add up: of two that overlap, one has to be read as if it had never been.
            if not any(overlap(chunk, other) for other, _ in self._earlier[one.side]):
                self._earlier[one.side].append((chunk, packed.unpack_summaries(one.payload)))
        self._pinned = True

    def pin(self, plan: Plan, schema: Mapping[str, Any]) -> None:
        """Keep the plan. Raises StoreError for the first: a run that cannot be kept from its start is not begun."""
        try:
            runs.pin(self.store, self.run, plan=packed_plan(plan), schema=schema)
        except StoreError as error:
            if not self._pinned:
                raise
            self.failure = str(error)
        self._pinned = True

    def chunk(self, side: Side, chunk: Chunk, found: Summaries, seconds: float, attempts: int) -> None:
        """Keep a chunk, as long as the store lets us."""
        telemetry.done("chunk", seconds, side=side, rows=int(found.rows.sum()), attempts=attempts)
        if chunk.within or self.failure:
            return
        kept = chunks.StoredChunk(
            side=side,
            first=chunk.first,
            end=chunk.end,
            null_key=chunk.null_key,
            rows=int(found.rows.sum()),
            seconds=seconds,
            attempts=attempts,
            at=datetime.now(UTC),
            payload=packed.pack_summaries(found),
        )
        try:
            chunks.save(self.store, self.run, kept)
        except StoreError as error:
            self.failure = str(error)

    def read(self, side: Side) -> list[tuple[Chunk, Summaries]]:
        """What an earlier attempt read, once."""
        earlier, self._earlier[side] = self._earlier[side], []
        return earlier

    def told(self, progress: Progress) -> None:
        """Note how far a side is, for the next sign of life."""
        self._progress[progress.side] = progress

    @contextmanager
    def alive(self, stop: Callable[[], None], statements: Statements) -> Iterator[None]:
        """Give signs of life while the block runs, and call ``stop`` when somebody asks for the run to end."""
        ended = threading.Event()

        def beat() -> None:
            last = time.monotonic()
            while not ended.wait(BEAT):
                last, before = time.monotonic(), last
                self._count_waits(last - before)
                try:
                    asked = runs.beat(self.store, self.run, self._how_far(statements))
                except UnknownRun:
                    self.taken_away = asked = True
                except StoreError:
                    continue  # whoever reads the store sees no sign of life, which is true
                if asked:
                    stop()

        thread = threading.Thread(target=telemetry.carried(beat), name="heartbeat", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def _count_waits(self, seconds: float) -> None:
        """Count these seconds for the sides that wait, under one name for all ad-hoc audits."""
        for side, one in tuple(self._progress.items()):
            if one.doing.startswith("waits"):
                telemetry.count("waited", seconds, audit=runs.AD_HOC if one.audit == runs.ad_hoc(self.run) else one.audit, side=side)

    def _how_far(self, statements: Statements) -> dict[str, Any]:
        """What was last told of each side, with its statements as they are by now."""
        told: dict[str, Any] = {}
        for side, one in tuple(self._progress.items()):
            done, running = statements(side)
            told[side] = {"doing": one.doing, "done": one.done, "total": one.total, "statements": done, "running": running}
        return told


_PLAN = TypeAdapter(Plan)


def packed_plan(plan: Plan) -> bytes:
    """A plan as JSON."""
    return _PLAN.dump_json(plan)


def unpacked_plan(data: bytes) -> Plan:
    """The plan that was packed."""
    return _PLAN.validate_json(data)
