"""Checkpoint a run in the store while it runs."""

from __future__ import annotations

import datetime as dt
import math
import threading
import time
import uuid
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from auditor import telemetry
from auditor.durations import durations
from auditor.errors import AuditorError, RunLost, StoreError, UnknownRun
from auditor.history.handover import CountStatements, Schemas
from auditor.history.stored_plan import dump_plan
from auditor.model import Chunk, DayCost, Plan, Progress, Side
from auditor.store import Store, costs, run_lifecycle, runs
from auditor.store.leases import Renewal
from auditor.summary import codec
from auditor.summary.arrays import Summaries


class StoreCheckpoint:
    """Saves a run's plan, chunks and progress in a store, from which it can be resumed.

    A store that fails after the start does not end the run: ``failure`` then says why, and the run is not resumable.

    At first they stay in memory, for ``run_unsaved`` seconds or until the first heartbeat: most tables are small, and a run that is done
    by then needs none of them. A run that is killed loses no more than that.
    """

    def __init__(self, store: Store, run: str) -> None:
        self.store = store
        self.run = run
        self.failure = ""
        self.has_chunks = False
        """Whether chunks of this run are saved, of this attempt or an earlier one."""
        self.taken_away = False
        """Whether another process took the run over, or it was deleted."""
        self._has_plan = False
        self._unsaved: list[Callable[[], None]] = []
        """What writes the plan and the chunks that are not saved yet, in their order."""
        self._saves_at = time.monotonic() + durations().run_unsaved
        self._saving = threading.Lock()
        self._unsaved_costs: Sequence[DayCost] = ()
        self._clock: tuple[dt.datetime, float] | None = None
        """The store's clock, and when it was read (monotonic seconds)."""
        self._earlier: dict[tuple[codec.SummaryKind, Side], list[tuple[Chunk, Summaries]]] = {}
        self._progress: dict[Side, Progress] = {}
        self._attempt = costs.Attempt(run=run, attempt=uuid.uuid4().hex)

    def load(self) -> None:
        """Load the chunks that an earlier attempt at this run saved, for ``saved_chunks`` and ``saved_stretches``. Raises StoreError."""
        for stored in run_lifecycle.list_chunks(self.store, self.run):
            chunk = Chunk(stored.first, stored.end, stored.null_key)
            kind, summaries = codec.unpack_summaries(stored.payload)
            earlier = self._earlier.setdefault((kind, stored.side), [])
            # Summaries are added up, so of two chunks that overlap one has to be read again.
            if not any(chunk.overlaps(other) for other, _ in earlier):
                earlier.append((chunk, summaries))
                self.has_chunks = True
        self._has_plan = True

    def save_plan(self, plan: Plan, schema: Schemas) -> None:
        """Save the plan. Raises StoreError if it is the first one, and is not kept for later: such a run does not begin."""
        try:
            self._save_in_turn(lambda: run_lifecycle.save_plan(self.store, self.run, plan=dump_plan(plan), schema=schema))
        except StoreError as error:
            if not self._has_plan:
                raise
            self.failure = str(error)
        self._has_plan = True

    def save_chunk(self, side: Side, chunk: Chunk, summaries: Summaries, seconds: float, attempts: int) -> None:
        """Save a chunk, unless the store failed before."""
        self._save("summaries", side, chunk, summaries, seconds, attempts)

    def save_stretches(self, side: Side, chunk: Chunk, summaries: Summaries, seconds: float, attempts: int) -> None:
        """Save a chunk of the pre-scan, unless the store failed before. A chunk of partitions with the same bounds will replace it."""
        self._save("stretches", side, chunk, summaries, seconds, attempts)

    def _save(self, kind: codec.SummaryKind, side: Side, chunk: Chunk, summaries: Summaries, seconds: float, attempts: int) -> None:
        telemetry.record_span("chunk", seconds, side=side, rows=int(summaries.rows.sum()), attempts=attempts)
        if chunk.within or self.failure:
            return
        at = datetime.now(UTC)

        def save() -> None:
            stored = run_lifecycle.StoredChunk(
                side=side,
                first=chunk.first,
                end=chunk.end,
                null_key=chunk.null_key,
                rows=int(summaries.rows.sum()),
                seconds=seconds,
                attempts=attempts,
                at=at,
                payload=codec.pack_summaries(summaries, kind),
            )
            run_lifecycle.save_chunk(self.store, self.run, stored)

        try:
            self._save_in_turn(save)
            self.has_chunks = True
        except StoreError as error:
            self.failure = str(error)

    def _save_in_turn(self, save: Callable[[], None]) -> None:
        """Save a plan or a chunk after those that are not saved yet, or keep it for later. Raises StoreError."""
        with self._saving:
            self._unsaved.append(save)
        if time.monotonic() >= self._saves_at:
            self._save_unsaved()

    def _save_unsaved(self) -> None:
        """Save the plans and chunks that are not saved yet, in one transaction, and whatever follows at once. Raises StoreError."""
        self._saves_at = -math.inf
        with self._saving:  # also while they are written, so that none overtakes its plan
            unsaved, self._unsaved = self._unsaved, []
            if len(unsaved) == 1:
                unsaved[0]()
            elif unsaved:
                self.store.write(lambda _: [save() for save in unsaved] and None)

    def save_rest(self) -> None:
        """Save the plan and the chunks that are not saved yet: from these a run that ended early can be resumed."""
        if self.failure:
            return
        try:
            self._save_unsaved()
        except StoreError as error:
            self.failure = str(error)

    def saved_chunks(self, side: Side) -> list[tuple[Chunk, Summaries]]:
        """Return the chunks that an earlier attempt saved; only once."""
        return self._earlier.pop(("summaries", side), [])

    def saved_stretches(self, side: Side) -> list[tuple[Chunk, Summaries]]:
        """Return the chunks of the pre-scan that an earlier attempt saved; only once."""
        return self._earlier.pop(("stretches", side), [])

    def save_progress(self, progress: Progress) -> None:
        """Save how far a side is, with the next heartbeat."""
        self._progress[progress.side] = progress

    def share_costs(self, audit: str, spent: Sequence[DayCost], connections: Collection[str]) -> tuple[dt.datetime, Sequence[DayCost]]:
        """Save what this process spent for the run, and return the store's clock and what others spent on its day. Raises StoreError.

        Without ``connections``, where no budget depends on what was spent, it is kept at first like the plan. All ad-hoc audits count as
        one.
        """
        if audit == runs.ad_hoc_audit(self.run):
            spent = [replace(cost, audit=runs.AD_HOC_PREFIX) for cost in spent]
        try:
            if not connections and time.monotonic() < self._saves_at:
                self._unsaved_costs = spent
                return self._store_clock(), ()
            costs.record_costs(self.store, self._attempt, spent)
            self._unsaved_costs = ()
            return costs.read_day(self.store, connections, audit, self._attempt)
        except StoreError as error:
            self.failure = self.failure or str(error)
            raise

    def save_costs(self) -> None:
        """Save what this process spent for the run, unless it is saved already. Raises StoreError."""
        costs.record_costs(self.store, self._attempt, self._unsaved_costs)

    def _store_clock(self) -> dt.datetime:
        """Return the store's clock, which is asked once. Raises StoreError."""
        if self._clock is None:
            self._clock = costs.read_day(self.store, (), None)[0], time.monotonic()
        now, at = self._clock
        return now + dt.timedelta(seconds=time.monotonic() - at)

    @contextmanager
    def keep_alive(self, stop: Callable[[], None], statements: CountStatements) -> Iterator[None]:
        """Send heartbeats while the block runs, and call ``stop`` when somebody asks for the run to end."""
        last = time.monotonic()

        def beat() -> None:
            nonlocal last
            last, before = time.monotonic(), last
            self._count_waits(last - before)
            self.save_rest()
            try:
                stop_requested = run_lifecycle.record_heartbeat(self.store, self.run, self._progress_by_side(statements))
            except (RunLost, UnknownRun):
                raise
            except StoreError:
                return  # readers of the store see a missing heartbeat, which is true
            if stop_requested:
                stop()

        def end(_: AuditorError) -> None:
            self.taken_away = True
            stop()

        with Renewal("heartbeat", telemetry.with_current_context(beat), durations().run_heartbeat, end):
            yield

    def _count_waits(self, seconds: float) -> None:
        """Add the seconds to the waiting time of the sides that wait; all ad-hoc audits count as one."""
        for side, progress in tuple(self._progress.items()):
            if progress.doing.startswith("waits"):
                is_ad_hoc = progress.audit == runs.ad_hoc_audit(self.run)
                telemetry.increment_counter("waited", seconds, audit=runs.AD_HOC_PREFIX if is_ad_hoc else progress.audit, side=side)

    def _progress_by_side(self, statements: CountStatements) -> dict[str, Any]:
        """Return the last progress of each side, with its current numbers of statements."""
        progress: dict[str, Any] = {}
        for side, side_progress in tuple(self._progress.items()):
            done, running = statements(side)
            progress[side] = {
                "doing": side_progress.doing,
                "done": side_progress.done,
                "total": side_progress.total,
                "statements": done,
                "running": running,
            }
        return progress
