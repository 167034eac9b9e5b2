"""Request the runs that are due, once per tick, from any number of processes: ``auditor serve``, or cron with ``auditor run --due``.

A tick is claimed in the same transaction that enqueues its run, so neither exists without the other.
"""

from __future__ import annotations

import datetime as dt
import logging
import sys
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from auditor import escaping
from auditor.api_models.audit import ScheduledAudit
from auditor.background import Service
from auditor.config import Schedule, Settings
from auditor.durations import durations
from auditor.errors import ConfigError, QueueFull
from auditor.service import audits, cron, definitions, segment_audits, workers
from auditor.store import Store, audit_state, queue

log = logging.getLogger(__name__)

MISSED_AFTER = dt.timedelta(minutes=5)
"""Age at which an unclaimed tick counts as missed; ``catch_up`` decides whether it is still run."""


@dataclass(frozen=True, slots=True)
class DueAudit:
    """A due audit and its tick, without jitter."""

    audit: str
    tick: dt.datetime


def due_audits(settings: Settings, store: Store, now: dt.datetime) -> list[DueAudit]:
    """Return the audits that are due: not paused, with an unclaimed last tick. Of several missed ticks only the last counts.

    An audit without any claimed tick has missed nothing; it is due only within MISSED_AFTER of a tick.
    """
    return _due_and_new(audits.with_defined_audits(settings, store), store, now)[0]


def request_due(settings: Settings, store: Store, now: dt.datetime, by: str) -> list[str]:
    """Claim the due ticks, enqueue their runs, and return the ids of the new runs.

    Raises QueueFull after enqueueing the runs that fit, and StoreError.
    """
    merged = audits.with_defined_audits(settings, store)
    due, new = _due_and_new(merged, store, now)
    for due_tick in new:  # from now on, missed ticks are recognised
        queue.claim_tick(store, due_tick.audit, due_tick.tick, f"{by}: first seen")
    requested = []
    for due_tick in due:
        is_of_segments = due_tick.audit in merged.segments
        values = segment_audits.run_values(merged, due_tick.audit) if is_of_segments else workers.run_values(merged, due_tick.audit)
        reason = f"due since {due_tick.tick:%Y-%m-%d %H:%M} UTC"
        limit = settings.service.queue
        enqueued = queue.enqueue_due_run(
            store, tick=due_tick.tick, by=by, **values, reason=reason, requested_by="schedule", max_pending=limit
        )
        if enqueued and enqueued.how == "new":
            requested.append(enqueued.run)
        elif enqueued:
            log.info(
                "the audit is already pending or running", extra={"action": "tick_joined", "audit": due_tick.audit, "run": enqueued.run}
            )
    return requested


def _due_and_new(settings: Settings, store: Store, now: dt.datetime) -> tuple[list[DueAudit], list[DueAudit]]:
    """Return the due audits, and the last ticks of audits without any claim that are not due."""
    schedules = _schedules(settings)
    last_ticks = {name: at for name, schedule in schedules.items() if (at := cron.last_tick(schedule, now, name))}
    claimed = queue.list_claimed_audits(store, last_ticks, now)
    unclaimed = {name: at for name, at in last_ticks.items() if name not in claimed}
    if not unclaimed:
        return [], []
    known, states = queue.list_audits_with_claims(store, unclaimed), audit_state.get_states(store)
    due, new = [], []
    for name, at in unclaimed.items():
        if audit_state.is_paused(states, name):
            continue
        schedule = schedules[name]
        on_time = now - at - cron.jitter_offset(schedule, name) <= MISSED_AFTER
        if on_time or (name in known and schedule.catch_up == "last"):
            due.append(DueAudit(name, at))
        elif name not in known:
            new.append(DueAudit(name, at))
    return due, new


def _schedules(settings: Settings) -> dict[str, Schedule]:
    """Return the schedules by audit name; each leg of an audit via a dump has its schedule."""
    schedules = {}
    for name, audit in settings.audits.items():
        if audit.schedule is None:
            continue
        try:
            for leg in definitions.expand_legs(settings, [name]):
                definitions.audit(settings, leg)
                schedules[leg] = audit.schedule
        except ConfigError as error:
            log.warning("audit %s cannot be scheduled: %s", name, error, extra={"action": "not_scheduled", "audit": name})
    return schedules | {name: segment_audit.schedule for name, segment_audit in settings.segments.items() if segment_audit.schedule}


def list_schedules(
    settings: Settings, store: Store, now: dt.datetime, count: int = 1, only: Collection[str] | None = None
) -> list[ScheduledAudit]:
    """Return when each scheduled audit, or each of ``only`` these, is due: the one that is due next first, those that are paused last.

    Raises StoreError.
    """
    states = audit_state.get_states(store)
    listed = [
        ScheduledAudit(
            audit=name,
            cron=schedule.cron,
            timezone=schedule.timezone,
            jitter=schedule.jitter,
            paused=audit_state.is_paused(states, name),
            next=tuple(cron.next_times(schedule, now, count, name)),
        )
        for name, schedule in _schedules(audits.with_defined_audits(settings, store)).items()
        if only is None or name in only
    ]
    ends = dt.datetime.max.replace(tzinfo=dt.UTC)
    return sorted(listed, key=lambda entry: (entry.paused, next(iter(entry.next), ends), entry.audit))


def crontab(settings: Settings, config: Path, variables: Sequence[str] = ()) -> str:
    """Return a crontab that runs due audits without a server, with an equivalent Kubernetes CronJob in its comments.

    ``variables`` are those of the environment that the configuration reads, which neither of them knows by itself.
    """
    schedules = _schedules(settings)
    any_copied = any(schedule.bootstrap for schedule in schedules.values())
    path = config.resolve()
    command = escaping.command(sys.executable, "-m", "auditor", "run", "--due", "--quiet", "--config", str(path))
    if not command.isprintable():
        raise ConfigError(f"a crontab has no line for {str(path)!r}, which ends with a line break; rename the file")
    lines = [
        "# Runs the audits that are due by the schedules in the configuration. Several machines may do this; no tick is run twice.",
        *(escaping.hash_comment(f"  {name}: {schedule.cron} ({schedule.timezone})").rstrip("\n") for name, schedule in schedules.items()),
        *_variables(variables),
        f"* * * * * {command}".replace("%", r"\%"),
        *([f"* * * * * {command.replace(' run --due', ' bootstrap --due --apply')}".replace("%", r"\%")] if any_copied else []),
        "#",
        "# The same for Kubernetes (the store must be a database server, or a file on a volume):",
        *(escaping.hash_comment(f"  {line}").rstrip("\n") for line in _cron_job(path, variables).split("\n") if line),
    ]
    return "\n".join(lines) + "\n"


def _variables(names: Sequence[str]) -> list[str]:
    """Return the lines of a crontab on the variables that somebody has to set."""
    if not names:
        return []
    head = "# The configuration reads these variables, which cron does not know. Set each here, in a crontab that only its owner can read:"
    return [head, *(escaping.hash_comment(f"{name}=").rstrip("\n") for name in names)]


def _cron_job(config: Path, variables: Sequence[str]) -> str:
    secrets = [
        f"                - {{name: {name}, valueFrom: {{secretKeyRef: {{name: auditor, key: {name}}}}}}}"
        for name in map(escaping.yaml_scalar, variables)
    ]
    environment = "\n".join(["              env:  # from a Secret", *secrets, ""]) if secrets else ""
    return f"""\
apiVersion: batch/v1
kind: CronJob
metadata: {{name: auditor}}
spec:
  schedule: "* * * * *"
  concurrencyPolicy: Allow
  jobTemplate:
    spec:
      template:
        spec:
          restartPolicy: Never
          containers:
            - name: auditor
              image: auditor
              args: [run, --due, --quiet, --config, {escaping.yaml_scalar(f"/etc/auditor/{config.name}")}]
{environment}              volumeMounts: [{{name: config, mountPath: /etc/auditor, readOnly: true}}]
          volumes: [{{name: config, configMap: {{name: auditor}}}}]
"""


class Ticker(Service):
    """Requests due audits every ``ticker_poll`` seconds."""

    def __init__(
        self, settings: Settings, store: Store, by: str, clock: Callable[[], dt.datetime] = lambda: dt.datetime.now(dt.UTC)
    ) -> None:
        def request() -> None:
            request_due(settings, store, clock(), by)

        super().__init__("ticker", request, durations().ticker_poll, failure=_failure_of_tick, action="tick_failed")


def _failure_of_tick(error: Exception) -> str:
    return "due runs were postponed" if isinstance(error, QueueFull) else "due runs were not requested"
