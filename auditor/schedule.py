"""What is due, and requesting it once, whoever asks: a process that serves, or system cron with ``auditor run --due``.

A tick is claimed in the transaction that lets its run wait, so that neither is ever without the other.
"""

from __future__ import annotations

import datetime as dt
import logging
import shlex
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from auditor import ticks
from auditor.config import Schedule, Settings
from auditor.errors import AuditorError, ConfigError, QueueFull
from auditor.service import audits, chains, queueing
from auditor.store import Store, claims, queue, standing
from auditor.ticks import next_times

__all__ = ["Due", "Ticker", "crontab", "due", "next_times", "tick"]

log = logging.getLogger(__name__)

MISSED = dt.timedelta(minutes=5)
"""After so long a tick that nobody claimed was missed, and ``catch_up`` says what becomes of it."""

PERIOD = 1.0
"""Seconds between two looks at what is due."""


@dataclass(frozen=True, slots=True)
class Due:
    """An audit that is due since a tick, which is told without the jitter."""

    audit: str
    tick: dt.datetime


def due(settings: Settings, store: Store, now: dt.datetime) -> list[Due]:
    """The last tick of each audit, if nobody claimed it and the audit is not paused: of several ticks that were missed, one.

    An audit of which no tick was ever claimed has missed nothing, and is due at a tick that is just coming.
    """
    return _judged(audits.every(settings, store), store, now)[0]


def tick(settings: Settings, store: Store, now: dt.datetime, by: str) -> list[str]:
    """Claim what is due and request it; the ids of the runs that wait now. Raises QueueFull, after what found room, and StoreError."""
    whole = audits.every(settings, store)
    found, unseen = _judged(whole, store, now)
    for one in unseen:  # from here on, what is missed is known
        claims.claim(store, one.audit, one.tick, f"{by}: first seen")
    requested = []
    for one in found:
        values = queueing.asked(whole, one.audit)
        reason = f"due since {one.tick:%Y-%m-%d %H:%M} UTC"
        most = settings.service.queue
        made = queue.enqueue_tick(store, tick=one.tick, by=by, **values, reason=reason, requested_by="schedule", most=most)
        if made and made.how == "new":
            requested.append(made.run)
        elif made:
            log.info("a tick finds its audit busy", extra={"action": "tick_joined", "audit": one.audit, "run": made.run})
    return requested


def _judged(settings: Settings, store: Store, now: dt.datetime) -> tuple[list[Due], list[Due]]:
    """What is due, and the last ticks of audits that are seen for the first time."""
    schedules = _schedules(settings)
    last = {name: at for name, schedule in schedules.items() if (at := ticks.last(schedule, now, name))}
    taken = claims.taken(store, last, now)
    free = {name: at for name, at in last.items() if name not in taken}
    if not free:
        return [], []
    known, stand = claims.known(store, free), standing.every(store)
    found, unseen = [], []
    for name, at in free.items():
        if audits.is_paused(stand, name):
            continue
        schedule = schedules[name]
        comes = now - at - ticks.offset(schedule, name) <= MISSED
        if comes or (name in known and schedule.catch_up == "last"):
            found.append(Due(name, at))
        elif name not in known:
            unseen.append(Due(name, at))
    return found, unseen


def _schedules(settings: Settings) -> dict[str, Schedule]:
    """The schedules by their audits' names; of an audit by way of a dump, each leg has it."""
    found = {}
    for name, audit in settings.audits.items():
        if audit.schedule is None:
            continue
        try:
            for leg in chains.expanded(settings, [name]):
                chains.audit(settings, leg)
                found[leg] = audit.schedule
        except ConfigError as error:
            log.warning("%s cannot be due: %s", name, error, extra={"action": "not_due", "audit": name})
    return found


def crontab(settings: Settings, config: Path) -> str:
    """What to write into a crontab, and in its comments a Kubernetes CronJob, so that the schedules are kept without a server."""
    schedules = _schedules(settings)
    path = config.resolve()
    command = f"{shlex.quote(sys.executable)} -m auditor run --due --quiet --config {shlex.quote(str(path))}"
    lines = [
        "# The schedules in the configuration say what is due; cron only has to ask each minute. Nothing is run twice where several ask.",
        *(f"#   {name}: {one.cron} ({one.timezone})" for name, one in schedules.items()),
        f"* * * * * {command}".replace("%", r"\%"),
        "#",
        "# The same for Kubernetes (the store has to be a database on a server, or a file on a volume):",
        *(f"#   {line}" for line in _cron_job(path).splitlines()),
    ]
    return "\n".join(lines) + "\n"


def _cron_job(config: Path) -> str:
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
              args: [run, --due, --quiet, --config, /etc/auditor/{config.name}]
              volumeMounts: [{{name: config, mountPath: /etc/auditor, readOnly: true}}]
          volumes: [{{name: config, configMap: {{name: auditor}}}}]
"""


class Ticker:
    """Requests what is due, from a thread of its own, until it is stopped."""

    def __init__(
        self, settings: Settings, store: Store, by: str, clock: Callable[[], dt.datetime] = lambda: dt.datetime.now(dt.UTC)
    ) -> None:
        self._settings = settings
        self._store = store
        self._by = by
        self._clock = clock
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._work, name="ticker", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def alive(self) -> bool:
        """Whether it looks at what is due."""
        return self._thread.is_alive()

    def stop(self) -> None:
        """End, and wait for it."""
        self._ending.set()
        self._thread.join()

    def _work(self) -> None:
        said = ""
        while not self._ending.is_set():
            try:
                tick(self._settings, self._store, self._clock(), self._by)
                now = ""
            except AuditorError as error:
                now = str(error)
                if now != said:  # and not again each second
                    full = isinstance(error, QueueFull)
                    log.warning("%s: %s", "what is due has to wait" if full else "nothing is due", now, extra={"action": "tick_failed"})
            except Exception:  # a driver's error that nobody knew must not end the schedule
                log.exception("what is due could not be told", extra={"action": "tick_failed"})
                now = ""
            said = now
            self._ending.wait(PERIOD)
