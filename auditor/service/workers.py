"""Request runs, and the workers that execute pending runs and requested patches."""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from auditor.background import Backoff, Interruption, Service, side_by_side
from auditor.config import Settings
from auditor.connections import throttle
from auditor.durations import durations
from auditor.errors import UNEXPECTED, AuditorError, ConfigError, QueueFull, RunLost, StoreError, UnknownRun
from auditor.history.checkpoint import StoreCheckpoint
from auditor.history.handover import CountStatements, Outcome
from auditor.model import Report, State, Verdict
from auditor.service import (
    audits,
    definitions,
    evidence,
    notify,
    outcomes,
    patches,
    planning,
    segment_audits,
    stored_runs,
)
from auditor.store import Store, events, queue, run_lifecycle, runs
from auditor.store.evidence import Seal
from auditor.store.queue import Enqueued
from auditor.store.runs import StoredRun

log = logging.getLogger(__name__)


def run_values(settings: Settings, name: str, overrides: Mapping[str, Any] = {}) -> definitions.RunValues:
    """Return what the queue stores about a new run of an audit.

    Raises UnknownAudit, ConfigError, and PlanError for a slice that its tables do not allow; for a slice, this connects to both databases.
    """
    audit = definitions.audit(settings, name)
    overridden, slice = definitions.apply_overrides(audit, overrides)
    if slice:
        planning.check_slice(settings, name, overridden, slice)
    method = None if overridden.ladder or overridden.method == "auto" else overridden.method
    return {"run": uuid.uuid4().hex, "audit": name, "definition": definitions.definition_of_run(settings, audit), "method": method}


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
    """Enqueue a run of an audit, and record the event if the run is new.

    For an audit via a dump both legs are enqueued; the result describes the second leg and lists the first in ``others``. Raises
    UnknownAudit, ConfigError for invalid overrides or an idempotency key used for another request, QueueFull and StoreError.
    """
    if name in settings.segments:
        if overrides:
            raise ConfigError(f"{name} compares segments; its runs have no settings of their own")
        return segment_audits.request_run(settings, store, name, reason=reason, requested_by=requested_by, idempotency=idempotency)
    settings = audits.with_defined_audits(settings, store)
    values = {leg: run_values(settings, leg, overrides) for leg in definitions.expand_legs(settings, [name])}
    enqueued: list[Enqueued] = []
    for leg, value in values.items():
        others = definitions.without_own_settings(definitions.audit(settings, leg), overrides)
        more: dict[str, Any] = {
            "overrides": others,
            "request": {"audit": leg, "overrides": dict(overrides)},
            "reason": reason,
            "requested_by": requested_by,
            "max_pending": settings.service.queue,
        }
        key = idempotency if idempotency is None or len(values) == 1 else f"{idempotency} {leg}"
        enqueued.append(queue.enqueue_run(store, **value, **more, idempotency_key=key))
        if enqueued[-1].how == "new":
            detail = {"audit": leg, "overrides": others, "reason": reason}
            events.record_event(store, actor=requested_by, action="run requested", subject=enqueued[-1].run, detail=detail)
    return Enqueued(enqueued[-1].run, enqueued[-1].how, tuple(other.run for other in enqueued[:-1]))


@dataclass(frozen=True, slots=True)
class RequestedRuns:
    """Runs that were requested of several audits: those that wait or run now, and the audits ``left`` for which the queue had no room."""

    enqueued: tuple[Enqueued, ...]
    left: tuple[str, ...]


def request_runs(settings: Settings, store: Store, names: Sequence[str], *, reason: str = "", requested_by: str = "") -> RequestedRuns:
    """Request a run of each audit in this order, until the queue is full. Raises UnknownAudit, ConfigError and StoreError."""
    enqueued: list[Enqueued] = []
    for place, name in enumerate(names):
        try:
            enqueued.append(request_run(settings, store, name, reason=reason, requested_by=requested_by))
        except QueueFull:
            return RequestedRuns(tuple(enqueued), tuple(names[place:]))
    return RequestedRuns(tuple(enqueued), ())


def request_ad_hoc(
    settings: Settings,
    store: Store,
    definition: Mapping[str, Any],
    *,
    reason: str = "",
    requested_by: str = "",
    idempotency: str | None = None,
) -> Enqueued:
    """Plan and enqueue one run of an audit that is stored only with this run, and record the event.

    The definition follows the rules of `audits.define`. The audit is named after the run, appears in no list and sends no notifications.
    Raises ConfigError, the error that prevents its planning, QueueFull and StoreError.
    """
    request = {"definition": dict(definition)}
    if idempotency is not None and (same := queue.find_earlier_request(store, idempotency, request)):
        return same
    run = uuid.uuid4().hex
    name = runs.ad_hoc_audit(run)
    audit = audits.validate_definition(settings, name, definition)
    value = run_values(settings.model_copy(update={"audits": {name: audit}}), name)
    value["run"] = run
    more: dict[str, Any] = {"reason": reason, "requested_by": requested_by, "max_pending": settings.service.queue}
    enqueued = queue.enqueue_run(store, **value, **more, idempotency_key=idempotency, request=request)
    if enqueued.how == "new":
        detail = {"audit": name, "definition": definitions.definition(audit), "reason": reason}
        events.record_event(store, actor=requested_by, action="run requested", subject=enqueued.run, detail=detail)
    return enqueued


def request_resume(settings: Settings, store: Store, run: str, *, requested_by: str = "") -> StoredRun:
    """Enqueue a failed or cancelled run to be resumed, and record the event. Raises UnknownRun, NotResumable and QueueFull."""
    stored = queue.requeue_run(store, runs.get_run(store, run).run, settings.service.queue)
    events.record_event(store, actor=requested_by, action="run resumed", subject=stored.run, detail={"audit": stored.audit})
    return stored


class _HeldRun(StoreCheckpoint):
    """A run that this process executes and can stop: cancelled for good, or returned to the queue."""

    def __init__(self, store: Store, run: str, requeue_when_stopped: bool = False) -> None:
        super().__init__(store, run)
        self.requeue_when_stopped = requeue_when_stopped
        """Whether the run returns to the queue when it is stopped, unless its cancellation was requested through the store."""
        self._stop: Callable[[], None] | None = None
        self.stopped = False
        """Whether this process stopped the run."""

    @contextmanager
    def keep_alive(self, stop: Callable[[], None], statements: CountStatements) -> Iterator[None]:
        """Hold ``stop`` during the block, so that this process can stop the run as a request in the store does."""
        self._stop = stop
        if self.stopped:
            stop()
        with super().keep_alive(stop, statements):
            yield

    def stop(self) -> None:
        """Stop the run now, or as soon as it starts."""
        self.stopped = True
        if self._stop:
            self._stop()


@dataclass(slots=True)
class _RunExecutor:
    """Executes claimed runs; waits for a failed store until ``gave_up`` is set."""

    settings: Settings
    store: Store
    gave_up: threading.Event = field(default_factory=threading.Event)
    batch: notify.Batch = field(init=False)

    def __post_init__(self) -> None:
        self.batch = notify.Batch(self.settings, self.store)

    def execute(self, claimed: StoredRun, held_run: _HeldRun) -> Report | None:
        """Execute a run and notify the channels, also if it could not start. Returns None if the run returned to the queue."""
        try:
            settings = audits.with_defined_audits(self.settings, self.store)
            if claimed.audit in settings.segments:
                outcomes.check_evidence(settings)
                report = segment_audits.execute(settings, claimed.audit, held_run, claimed.reason, self._saving(held_run))
            else:
                report = stored_runs.run_claimed(settings, self.store, claimed, held_run, self._saving(held_run))
        except StoreError as error:
            log.warning("the run returns to the queue: %s", error, extra={"action": "put_back", "run": claimed.run})
            self._retry(lambda: queue.put_back_run(self.store, claimed.run))
            return None
        except AuditorError as error:
            return self._save_failed(claimed, str(error), error.exit_code)
        except Exception as error:  # a failure of one run must not stop the others
            if held_run.stopped:  # an interrupted driver may raise any error
                self._save_stopped(held_run)
                return None
            log.exception("internal error", extra={"action": "run_failed", "run": claimed.run})
            why = f"internal error ({type(error).__name__}); see the log of the auditor"
            return self._save_failed(claimed, why, UNEXPECTED)
        if _returns_to_queue(held_run, report):
            return None
        self.batch.add(settings, report)
        return report

    def _saving(self, held_run: _HeldRun) -> outcomes.SaveOutcome:
        return lambda _, outcome, settings: self._finish(held_run, outcome, settings)

    def _finish(self, held_run: _HeldRun, outcome: Outcome, settings: Settings) -> None:
        """Store how a run ended, or return it to the queue, with retries. Raises StoreError after giving up."""

        def finish() -> None:
            if held_run.requeue_when_stopped and runs.get_run(self.store, held_run.run).cancel_requested:
                held_run.requeue_when_stopped = False
            if _returns_to_queue(held_run, outcome.report):
                outcome.save_costs()
                queue.put_back_run(self.store, held_run.run)
            else:
                outcomes.save_outcome(self.store, outcome, settings)

        self._retry(finish, raises=True)

    def _save_stopped(self, held_run: _HeldRun) -> None:
        """Store that a run was stopped by this process; it is resumable if it stored a chunk."""
        held_run.save_rest()

        def save() -> None:
            if held_run.requeue_when_stopped:
                queue.put_back_run(self.store, held_run.run)
                return
            outcome = run_lifecycle.Outcome(
                state=State.CANCELLED,
                verdict=Verdict.UNKNOWN,
                exit_code=Verdict.UNKNOWN.exit_code,
                seconds=0.0,
                reasons=("the run was cancelled",),
                resumable=True,
            )
            run_lifecycle.finish_run(self.store, held_run.run, outcome, self._get_seal())

        self._retry(save)

    def _save_failed(self, claimed: StoredRun, reason: str, code: int) -> Report:
        """Store that a run could not be executed, and notify the channels."""
        log.warning("the run failed: %s", reason, extra={"action": "run_failed", "run": claimed.run})
        outcome = run_lifecycle.Outcome(state=State.FAILED, verdict=Verdict.UNKNOWN, exit_code=code, seconds=0.0, reasons=(reason,))
        self._retry(lambda: run_lifecycle.finish_run(self.store, claimed.run, outcome, self._get_seal()))
        report = _report_without_result(claimed, State.FAILED, (reason,), code)
        try:
            self.batch.add(audits.with_defined_audits(self.settings, self.store), report)
        except StoreError as error:
            notify.log_failure(f"no notification was sent about {claimed.audit}: {error}")
        return report

    def _get_seal(self) -> Seal | None:
        """Return what makes a run's evidence; None if its key cannot be used, whereupon the next run's link follows one for this run."""
        try:
            return evidence.get_seal(self.settings)
        except ConfigError as error:
            log.warning("the run has no evidence yet: %s", error, extra={"action": "no_evidence"})
            return None

    def _retry(self, work: Callable[[], None], raises: bool = False) -> None:
        """Run ``work``, retrying while the store fails; after giving up, raise its error if ``raises``, else return."""
        retried = False
        while True:
            try:
                return work()
            except (RunLost, UnknownRun):
                # An attempt that failed may have been stored nevertheless, with only its response lost.
                if raises and not retried:
                    raise
                return None
            except StoreError as error:
                log.warning("the store failed: %s", error, extra={"action": "store_failed"})
                retried = True
                if self.gave_up.wait(durations().worker_retry):
                    if raises:
                        raise
                    return None


def _returns_to_queue(held_run: _HeldRun, report: Report) -> bool:
    return held_run.requeue_when_stopped and report.state is State.CANCELLED and not held_run.taken_away


def _report_without_result(run: StoredRun, state: State, reasons: tuple[str, ...], code: int) -> Report:
    """Return the report of a run that did not compare anything."""
    return Report(
        audit=run.audit,
        run=run.run,
        state=state,
        verdict=Verdict.UNKNOWN,
        reasons=reasons,
        seconds=0.0,
        exit_code=code,
        began=run.started,
        other_settings=run.other_settings,
    )


def run_pending(settings: Settings, store: Store, at_once: int = 1, stopped: threading.Event | None = None) -> Generator[Report]:
    """Execute pending runs, ``at_once`` of them at most, until there are none or ``stopped`` is set, and yield their reports as they end.

    A run that is stopped is reported as cancelled and returns to the queue. After one that returned to it, whatever the reason, no further
    one begins. Raises StoreError.
    """
    executor, interruption, has_returned = _RunExecutor(settings, store), Interruption(), threading.Event()
    executor.gave_up.set()
    run_lifecycle.recover_runs(store)

    def execute(claimed: StoredRun) -> Report:
        held_run = _HeldRun(store, claimed.run, requeue_when_stopped=True)
        with interruption.calling(held_run.stop):
            report = executor.execute(claimed, held_run)
        if report:
            return report
        has_returned.set()
        reasons = runs.get_run(store, claimed.run).reasons or ("the run was interrupted and returned to the queue",)
        return _report_without_result(claimed, State.CANCELLED, reasons, Verdict.UNKNOWN.exit_code)

    def pending() -> Iterator[Callable[[], Report]]:
        while not has_returned.is_set() and (claimed := queue.claim_run(store)):
            yield partial(execute, claimed)

    try:
        yield from side_by_side(pending(), at_once, stopped or threading.Event(), interruption)
    finally:
        executor.batch.flush()


class Workers:
    """Threads that execute requested patches and pending runs, one per thread at a time. No failure of a run or of the store stops them."""

    def __init__(self, settings: Settings, store: Store, number: int) -> None:
        self._executor = _RunExecutor(settings, store)
        self._store = store
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._held_runs: dict[str, _HeldRun] = {}
        self._last_requeue = -durations().requeue
        self._services = [self._worker(index) for index in range(1, number + 1)]

    def start(self) -> None:
        """Start the threads; from now on, concurrent statements are counted together with all processes that share the store."""
        throttle.share_through(self._store)
        for service in self._services:
            service.start()

    def stop(self, grace: float) -> None:
        """Start no more runs, wait up to ``grace`` seconds for the running ones, and return the rest to the queue with their chunks."""
        deadline = time.monotonic() + grace
        self._stopping.set()
        self._join(deadline - min(durations().stop_margin, grace / 2))
        with self._lock:
            remaining = list(self._held_runs.values())
        for held_run in remaining:
            held_run.requeue_when_stopped = True
            held_run.stop()
        self._join(deadline)
        self._executor.gave_up.set()
        self._executor.batch.flush()
        throttle.share_through(None)

    def running(self) -> list[str]:
        """Return the ids of the runs being executed by this process."""
        with self._lock:
            return list(self._held_runs)

    def alive(self) -> bool:
        """Return whether all threads are running."""
        return all(service.alive() for service in self._services)

    def stop_run(self, run: str) -> bool:
        """Cancel a run at once, resumable, if this process executes it; return whether it does."""
        with self._lock:
            held_run = self._held_runs.get(run)
        if held_run:
            held_run.stop()
        return held_run is not None

    def _join(self, deadline: float) -> None:
        for service in self._services:
            service.join(max(0.0, deadline - time.monotonic()))

    def _worker(self, index: int) -> Service:
        failure, backoff = (
            f"the store failed, retrying in {durations().worker_retry:g} s",
            Backoff(durations().worker_retry, durations().worker_retry),
        )
        return Service(
            f"worker {index}",
            self._work,
            durations().worker_poll,
            failure=failure,
            action="store_failed",
            backoff=backoff,
            stopping=self._stopping,
        )

    def _work(self) -> float | None:
        """Execute the next patch or run; without one, wait for the next."""
        self._recover_lost()
        if patches.run_next(self._executor.settings, self._store, self._stopping):
            return 0.0
        claimed = queue.claim_run(self._store)
        if claimed is None:
            self._executor.batch.flush()
            return None
        held_run = _HeldRun(self._store, claimed.run)
        with self._lock:
            self._held_runs[claimed.run] = held_run
        try:
            if self._stopping.is_set():  # it was claimed during shutdown
                queue.put_back_run(self._store, claimed.run)
            else:
                self._executor.execute(claimed, held_run)
        except Exception:
            log.exception("internal error", extra={"action": "run_failed", "run": claimed.run})
        finally:
            with self._lock:
                del self._held_runs[claimed.run]
        return 0.0

    def _recover_lost(self) -> None:
        """Every ``requeue``, return runs whose process has died to the queue, and settle such patches."""
        with self._lock:
            due = time.monotonic() - self._last_requeue >= durations().requeue
            if due:
                self._last_requeue = time.monotonic()
        if not due:
            return
        if lost := run_lifecycle.recover_runs(self._store).requeued:
            log.info("runs of dead processes returned to the queue", extra={"action": "requeued", "runs": lost})
        patches.log_settled(self._executor.settings, self._store)
