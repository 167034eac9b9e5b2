"""Requesting runs, and the workers that carry out what was requested."""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from auditor import notify, sharing
from auditor.config import Keep, Settings
from auditor.errors import AuditorError, StoreError, UnknownRun
from auditor.keeping import Statements
from auditor.kept import Kept
from auditor.model import Report, State, Verdict
from auditor.run import Outcome
from auditor.service import audits, chains, running
from auditor.store import Store, events, queue, runs
from auditor.store.queue import Enqueued
from auditor.store.runs import StoredRun

log = logging.getLogger(__name__)

PERIOD = 0.5
"""Seconds between a worker's looks at what waits."""

AGAIN = 2.0
"""Seconds before a store that failed is asked again."""

LOST = 10.0
"""Seconds between two looks at runs whose process is gone."""

MARGIN = 5.0
"""Seconds of the time to end, half of it at most, that are for stopping what has not ended by itself."""


def asked(settings: Settings, name: str, overrides: Mapping[str, Any] = {}) -> dict[str, Any]:
    """What the queue keeps of an audit that is to be run. Raises UnknownAudit and ConfigError."""
    audit = chains.audit(settings, name)
    wanted = running.overridden(audit, overrides)
    method = None if wanted.ladder or wanted.method == "auto" else wanted.method
    return {"run": uuid.uuid4().hex, "audit": name, "definition": running.definition(audit), "method": method}


def request_run(
    settings: Settings,
    store: Store,
    name: str,
    *,
    overrides: Mapping[str, Any] = {},
    reason: str = "",
    requested_by: str = "",
    idempotency: str | None = None,
) -> Enqueued:
    """Let a run of an audit wait for a worker, and note the event if it is new.

    Of an audit by way of a dump both legs wait; the answer is about the second, and names the first under ``others``. Raises
    UnknownAudit, ConfigError for settings that may not be overridden or a key that was used otherwise, QueueFull and StoreError.
    """
    settings = audits.every(settings, store)
    values = {leg: asked(settings, leg, overrides) for leg in chains.expanded(settings, [name])}
    found: list[Enqueued] = []
    for leg, value in values.items():
        more: dict[str, Any] = {"overrides": overrides, "reason": reason, "requested_by": requested_by, "most": settings.service.queue}
        key = idempotency if idempotency is None or len(values) == 1 else f"{idempotency} {leg}"
        found.append(queue.enqueue(store, **value, **more, idempotency=key))
        if found[-1].how == "new":
            detail = {"audit": leg, "overrides": dict(overrides), "reason": reason}
            events.note(store, who=requested_by, what="run requested", subject=found[-1].run, detail=detail)
    return Enqueued(found[-1].run, found[-1].how, tuple(one.run for one in found[:-1]))


def request_ad_hoc(
    settings: Settings,
    store: Store,
    definition: Mapping[str, Any],
    *,
    reason: str = "",
    requested_by: str = "",
    idempotency: str | None = None,
) -> Enqueued:
    """Let one run wait of an audit that is kept with this run alone, after planning it, and note the event.

    It is defined as `audits.define` would have it, named after the run, and no audit like the others: it is in no list, nobody else
    is told of it. Raises ConfigError, what keeps it from being planned, QueueFull and StoreError.
    """
    asked_for = {"definition": dict(definition)}
    if idempotency is not None and (same := queue.requested(store, idempotency, asked_for)):
        return same
    run = uuid.uuid4().hex
    name = runs.ad_hoc(run)
    audit = audits.planned(settings, name, definition)
    value = asked(settings.model_copy(update={"audits": {name: audit}}), name) | {"run": run}
    more: dict[str, Any] = {"reason": reason, "requested_by": requested_by, "most": settings.service.queue}
    found = queue.enqueue(store, **value, **more, idempotency=idempotency, asked=asked_for)
    if found.how == "new":
        detail = {"audit": name, "definition": value["definition"], "reason": reason}
        events.note(store, who=requested_by, what="run requested", subject=found.run, detail=detail)
    return found


def request_resume(settings: Settings, store: Store, run: str, *, requested_by: str = "") -> StoredRun:
    """Let a run that ended early wait for a worker to go on with it, and note the event. Raises UnknownRun, NotResumable, QueueFull."""
    found = queue.requeue(store, runs.find(store, run).run, settings.service.queue)
    events.note(store, who=requested_by, what="run resumed", subject=found.run, detail={"audit": found.audit})
    return found


class _Held(Kept):
    """A run that this process can end, for good or to wait again."""

    def __init__(self, store: Store, run: str, waits_again: bool = False) -> None:
        super().__init__(store, run)
        self.waits_again = waits_again
        """Whether it is to wait again if it is ended and nobody asked for that through the store."""
        self._end: Callable[[], None] | None = None
        self.ended = False
        """Whether it was ended from here."""

    @contextmanager
    def alive(self, stop: Callable[[], None], statements: Statements) -> Iterator[None]:
        """What the run is told when it is to end, from wherever."""
        self._end = stop
        if self.ended:
            stop()
        with super().alive(stop, statements):
            yield

    def end(self) -> None:
        """End the run, now or when it begins."""
        self.ended = True
        if self._end:
            self._end()


@dataclass(slots=True)
class _Carrier:
    """Carries out claimed runs until ``given_up``, whatever becomes of the store meanwhile."""

    settings: Settings
    store: Store
    given_up: threading.Event = field(default_factory=threading.Event)

    def carry(self, claimed: StoredRun, kept: _Held) -> Report | None:
        """Carry out a run and tell the channels, also of one that could not be begun; None where it waits again."""
        try:
            settings = audits.every(self.settings, self.store)
            report = running.carry_on(settings, self.store, claimed, kept, lambda _, outcome, limits: self._finish(kept, outcome, limits))
        except StoreError as error:
            log.warning("the run waits again: %s", error, extra={"action": "put_back", "run": claimed.run})
            self._insist(lambda: queue.put_back(self.store, claimed.run))
            return None
        except AuditorError as error:
            return self._failed(claimed, str(error), error.exit_code)
        except Exception as error:  # what is wrong with one run must not end the others
            if kept.ended:  # a driver may fail in its own way when it is interrupted
                self._end(kept)
                return None
            log.exception("the auditor itself failed", extra={"action": "run_failed", "run": claimed.run})
            why = f"the auditor itself failed ({type(error).__name__}); its log says more"
            return self._failed(claimed, why, Verdict.UNKNOWN.exit_code)
        if _is_put_back(kept, report):
            return None
        notify.tell(settings.notify, self.store, report)
        return report

    def _finish(self, kept: _Held, outcome: Outcome, limits: Keep) -> None:
        """Keep how a run ended, or let it wait again, as soon as the store lets us. Raises StoreError where it was given up."""

        def finish() -> None:
            if kept.waits_again and runs.find(self.store, kept.run).cancel_asked:
                kept.waits_again = False
            if _is_put_back(kept, outcome.report):
                queue.put_back(self.store, kept.run)
            else:
                running.finished(self.store, outcome, limits)

        self._insist(finish, raises=True)

    def _end(self, kept: _Held) -> None:
        """Keep that a run was ended from here, which can go on from its plan."""

        def end() -> None:
            if kept.waits_again:
                queue.put_back(self.store, kept.run)
                return
            planned = runs.plan(self.store, kept.run) is not None
            found = runs.Outcome(
                state=State.CANCELLED,
                verdict=Verdict.UNKNOWN,
                exit_code=Verdict.UNKNOWN.exit_code,
                seconds=0.0,
                reasons=("the run was cancelled",),
                resumable=planned,
            )
            runs.finish(self.store, kept.run, found)

        self._insist(end)

    def _failed(self, claimed: StoredRun, reason: str, code: int) -> Report:
        """Keep that a run could not be begun, and tell the channels."""
        log.warning("the run failed: %s", reason, extra={"action": "run_failed", "run": claimed.run})
        outcome = runs.Outcome(state=State.FAILED, verdict=Verdict.UNKNOWN, exit_code=code, seconds=0.0, reasons=(reason,))
        self._insist(lambda: runs.finish(self.store, claimed.run, outcome))
        report = _unfinished(claimed, State.FAILED, (reason,), code)
        notify.tell(self.settings.notify, self.store, report)
        return report

    def _insist(self, work: Callable[[], None], raises: bool = False) -> None:
        """Do it as soon as the store lets us."""
        tried = False
        while True:
            try:
                return work()
            except UnknownRun:
                # What failed before may have been kept all the same, only its answer was lost.
                if raises and not tried:
                    raise
                return None
            except StoreError as error:
                log.warning("the store is waited for: %s", error, extra={"action": "store_failed"})
                tried = True
                if self.given_up.wait(AGAIN):
                    if raises:
                        raise
                    return None


def _is_put_back(kept: _Held, report: Report) -> bool:
    return kept.waits_again and report.state is State.CANCELLED and not kept.taken_away


def _unfinished(run: StoredRun, state: State, reasons: tuple[str, ...], code: int) -> Report:
    """The report of a run that could claim nothing."""
    return Report(
        audit=run.audit, run=run.run, state=state, verdict=Verdict.UNKNOWN, reasons=reasons, seconds=0.0, exit_code=code, began=run.started
    )


def work_off(settings: Settings, store: Store) -> Iterator[Report]:
    """Carry out what waits, one run after the other, until nothing does.

    A run that is interrupted is reported as cancelled here, waits again, and is the last. Raises StoreError.
    """
    carrier = _Carrier(settings, store)
    carrier.given_up.set()
    queue.requeue_lost(store)
    while claimed := queue.claim(store):
        report = carrier.carry(claimed, _Held(store, claimed.run, waits_again=True))
        if report is None:
            reasons = runs.find(store, claimed.run).reasons or ("the run ended early here, and waits again where it stands",)
            yield _unfinished(claimed, State.CANCELLED, reasons, Verdict.UNKNOWN.exit_code)
            return
        yield report


class Workers:
    """Threads that carry out what waits, one run each at a time. Nothing that a run or the store does ends them."""

    def __init__(self, settings: Settings, store: Store, number: int) -> None:
        self._carrier = _Carrier(settings, store)
        self._store = store
        self._ending = threading.Event()
        self._lock = threading.Lock()
        self._held: dict[str, _Held] = {}
        self._looked = -LOST
        self._threads = [threading.Thread(target=self._work, name=f"worker {one}", daemon=True) for one in range(1, number + 1)]

    def start(self) -> None:
        """Begin; statements of all processes that share the store are counted together from now on."""
        sharing.share(self._store)
        for thread in self._threads:
            thread.start()

    def stop(self, grace: float) -> None:
        """Begin nothing more, and within ``grace`` seconds let the runs end; those that do not wait again, where they stand."""
        until = time.monotonic() + grace
        self._ending.set()
        self._await(until - min(MARGIN, grace / 2))
        with self._lock:
            left = list(self._held.values())
        for kept in left:
            kept.waits_again = True
            kept.end()
        self._await(until)
        self._carrier.given_up.set()
        sharing.share(None)

    def running(self) -> list[str]:
        """The runs that are being carried out here."""
        with self._lock:
            return list(self._held)

    def alive(self) -> bool:
        """Whether every thread does its work."""
        return all(thread.is_alive() for thread in self._threads)

    def stop_run(self, run: str) -> bool:
        """End a run at once, as cancelled and resumable, if it is carried out here."""
        with self._lock:
            kept = self._held.get(run)
        if kept:
            kept.end()
        return kept is not None

    def _await(self, until: float) -> None:
        for thread in self._threads:
            if thread.is_alive():
                thread.join(max(0.0, until - time.monotonic()))

    def _work(self) -> None:
        while not self._ending.is_set():
            try:
                self._look()
                claimed = queue.claim(self._store)
            except Exception as error:  # a driver's error that nobody knew must not end the worker
                level = logging.WARNING if isinstance(error, StoreError) else logging.ERROR
                log.log(level, "the store is waited for: %s", error, extra={"action": "store_failed"})
                self._ending.wait(AGAIN)
                continue
            if claimed is None:
                self._ending.wait(PERIOD)
                continue
            kept = _Held(self._store, claimed.run)
            with self._lock:
                self._held[claimed.run] = kept
            try:
                if self._ending.is_set():  # it was claimed while the others were being ended
                    queue.put_back(self._store, claimed.run)
                else:
                    self._carrier.carry(claimed, kept)
            except Exception:
                log.exception("the auditor itself failed", extra={"action": "run_failed", "run": claimed.run})
            finally:
                with self._lock:
                    del self._held[claimed.run]

    def _look(self) -> None:
        """Let the runs wait again whose process is gone, now and then."""
        with self._lock:
            due = time.monotonic() - self._looked >= LOST
            if due:
                self._looked = time.monotonic()
        if due and (lost := queue.requeue_lost(self._store)):
            log.info("runs wait again whose process is gone", extra={"action": "requeued", "runs": lost})
