"""What keeps pipelines from going on: find it in their status, and notify the channels of it and of its end."""

from __future__ import annotations

import datetime as dt
import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from auditor.api_models.pipeline import PipelineProblem, PipelineStatus, ProblemKey, ProblemKind
from auditor.background import Service
from auditor.config import Pipeline, Settings
from auditor.durations import durations
from auditor.escaping import shell_word
from auditor.quantities import format_duration
from auditor.report import formatting
from auditor.service import notify
from auditor.service.channels import Kind, Message
from auditor.service.notify import MAX_NAMED
from auditor.service.pipeline_status import status
from auditor.store import Store, pipelines
from auditor.store.pipelines import KINDS

PATIENCE: Mapping[ProblemKind, float] = {"down": 120.0, "failing": 120.0, "stopped": 0.0, "lagging": 60.0}
"""Seconds that a problem lasts before the channels are told; a process that is started again, or a lost connection, takes less."""

RELIEF = 0.5
"""Share of the limit below which a reported lag counts as over, so that a lag close to the limit is not reported repeatedly."""


def find_problems(
    status: PipelineStatus, known: Mapping[ProblemKey, PipelineProblem] = {}, now: dt.datetime | None = None
) -> dict[ProblemKey, str]:
    """Return the problems of a pipeline with their reasons, from its status; ``known`` are those that it had.

    A pipeline that is paused, or that never ran, has no new ones but stopped tables. Where a graver problem hides whether a known one is
    over, that one goes on: what a pipeline lags behind that no process runs, or whose staging fails, is no problem of its own.
    """
    reasons = {
        ProblemKey("stopped", target, table): formatting.sentence(values.reason)
        for target, target_status in status.targets.items()
        for table, values in target_status.tables.items()
        if values.state == "stopped"
    }
    if status.paused or status.seen_at is None:
        told = {key: problem for key, problem in known.items() if problem.notified}
        return {**_still(told, "down", "failing", "lagging"), **reasons}
    if not status.running:
        why = formatting.sentence(status.reason)
        reason = f"no process has reported since {formatting.moment(status.seen_at)}{f': {why}' if why else ''}"
        return {ProblemKey("down"): reason, **_still(known, "failing", "lagging"), **reasons}
    if status.began and ((now or dt.datetime.now(dt.UTC)) - status.began).total_seconds() < durations().pipeline_steady:
        reasons |= _still(known, "down")
    if status.reason:
        return {ProblemKey("failing"): formatting.sentence(status.reason), **_still(known, "lagging"), **reasons}
    return {**_lags(status, known), **reasons}


def _still(known: Mapping[ProblemKey, PipelineProblem], *kinds: ProblemKind) -> dict[ProblemKey, str]:
    return {key: problem.reason for key, problem in known.items() if key.kind in kinds}


def _lags(status: PipelineStatus, known: Mapping[ProblemKey, PipelineProblem]) -> dict[ProblemKey, str]:
    def is_behind(key: ProblemKey, seconds: float | None, limit: float) -> bool:
        return seconds is not None and seconds > limit * (RELIEF if key in known else 1)

    whole, limit = ProblemKey("lagging"), status.max_lag
    if is_behind(whole, status.lag_seconds, limit):
        return {**_still(known, "lagging"), whole: f"staging lies more than {format_duration(limit)} behind the source"}
    reasons = {}
    for target, target_status in status.targets.items():
        for table, values in target_status.tables.items():
            key = ProblemKey("lagging", target, table)
            if values.state != "stopped" and is_behind(key, values.lag_seconds, target_status.max_lag):
                why = formatting.sentence(values.reason)
                reasons[key] = f"it lies more than {format_duration(target_status.max_lag)} behind staging{f': {why}' if why else ''}"
    return reasons


def gravest_first(problems: Collection[PipelineProblem]) -> list[PipelineProblem]:
    """Return problems sorted by what they keep from going on, and the newest of a kind first."""
    return sorted(problems, key=lambda problem: (KINDS.index(problem.key.kind), -problem.since.timestamp()))


class SharedProblem(NamedTuple):
    """A problem that tables of a target share, or one of a pipeline."""

    problem: PipelineProblem
    """The first of them."""
    tables: int
    """How many have it."""


def share_problems(problems: Iterable[PipelineProblem]) -> list[SharedProblem]:
    """Return problems in their order, once for all tables of a target that have one of the same kind for the same reason."""
    found: dict[tuple[str, str, str], list[PipelineProblem]] = {}
    for problem in problems:
        found.setdefault((problem.kind, problem.target, problem.reason), []).append(problem)
    return [SharedProblem(listed[0], len(listed)) for listed in found.values()]


log = logging.getLogger(__name__)

HEADLINES: dict[ProblemKind, str] = {"down": "STOPPED", "failing": "STAGING FAILS", "stopped": "TABLE STOPPED", "lagging": "LAGS"}

PAST: dict[ProblemKind, str] = {
    "down": "no process ran it",
    "failing": "staging failed",
    "stopped": "was stopped",
    "lagging": "lagged behind",
}


def look_at_pipelines(settings: Settings, store: Store, now: dt.datetime | None = None) -> list[str]:
    """Look at all pipelines and notify the channels about what changed; return one sentence per failure. Raises StoreError."""
    now = now or dt.datetime.now(dt.UTC)
    failures = []
    for name in sorted(settings.pipelines):
        known = {problem.key: problem for problem in pipelines.list_problems(store, name)}
        current = find_problems(status(settings, store, name, look=False), known, now)
        due, over = pipelines.update_problems(store, name, current, now, lambda problem: PATIENCE[problem.key.kind])
        if due:
            errors = _send(settings, store, name, problem_message(name, due, settings.pipeline(name)), now)
            if errors and all(errors):
                pipelines.set_unnotified(store, name, [problem.key for problem in due])
            failures += errors
        if over:
            failures += _send(settings, store, name, recovery_message(name, over, len(current)), now)
    return [error for error in failures if error]


def _send(settings: Settings, store: Store, pipeline: str, message: Message, now: dt.datetime) -> list[str]:
    """Send a message about a pipeline to the channels that want it; return for each the failure, or ''."""
    link = notify.page_link(settings.service.public_url, "pipelines", pipeline)
    message = replace(message, key=notify.incident_key(f"pipeline {pipeline}"), link=link)
    channels = [name for name, to in settings.notify.channels.items() if "pipeline" in to.on and not (to.audits or to.owners)]
    return [notify.send_limited(settings.notify, store, name, message, now) for name in channels]


def problem_message(pipeline: str, reported: Sequence[PipelineProblem], configured: Pipeline | None = None) -> Message:
    """Return the message about problems that a pipeline has now; ``configured`` says whose tables they are of."""
    name, kinds = formatting.visible(pipeline), [problem.key.kind for problem in reported]
    kind = next(headline_kind for headline_kind in HEADLINES if headline_kind in kinds)
    number = kinds.count(kind)
    title = f"{name}: {HEADLINES[kind]}" if number == 1 else f"{name}: {number:,} {HEADLINES[kind].replace('TABLE', 'TABLES')}"
    gravity: Kind = "warning" if kind == "lagging" else "failure"
    return Message(notify.truncate(title), (*_lines(reported, configured), f"more: auditor pipeline status {shell_word(name)}"), gravity)


def recovery_message(pipeline: str, over: Sequence[PipelineProblem], left: int) -> Message:
    """Return the message about problems that are over; ``left`` is how many others the pipeline has."""
    name = formatting.visible(pipeline)
    lines = [f"{_place_prefix(problem)}{PAST[problem.key.kind]} since {formatting.moment(problem.since)}" for problem in over[:MAX_NAMED]]
    lines += [f"and {len(over) - MAX_NAMED:,} more"] if len(over) > MAX_NAMED else []
    lines += [f"{left:,} other {'problem is' if left == 1 else 'problems are'} left"] if left else []
    title = notify.truncate(f"{name}: {'recovered in part' if left else 'recovered'}")
    return Message(title, tuple(lines), "warning" if left else "success")


def _lines(reported: Sequence[PipelineProblem], configured: Pipeline | None) -> list[str]:
    lines = [f"{_place_prefix(problem)}{problem.reason}{_owner(problem, configured)}" for problem in reported[:MAX_NAMED]]
    return lines + ([f"and {len(reported) - MAX_NAMED:,} more"] if len(reported) > MAX_NAMED else [])


def _owner(problem: PipelineProblem, configured: Pipeline | None) -> str:
    """Return who answers for the table of a problem, if that is known."""
    table = configured.origin_of(problem.key.table).partition(".")[2] if configured and problem.key.table else ""
    owner = configured.columns_of(table).owner if configured and table else ""
    return f" (owner: {formatting.sentence(owner)})" if owner else ""


def _place_prefix(problem: PipelineProblem) -> str:
    table, target = formatting.sentence(problem.key.table), formatting.sentence(problem.key.target)
    return f"{table} in {target}: " if table else f"{target}: " if target else ""


class PipelineNotices(Service):
    """Looks at pipelines in a thread of its own, since a channel may take long to answer."""

    def __init__(self, settings: Settings, store: Store, clock: Callable[[], dt.datetime] = lambda: dt.datetime.now(dt.UTC)) -> None:
        def look() -> None:
            look_at_pipelines(settings, store, clock())

        failure, action = "pipelines could not be looked at", "pipeline_look_failed"
        super().__init__("pipeline notices", look, durations().notices_poll, failure=failure, action=action, waits_first=True)
        self._is_needed = bool(settings.pipelines)

    def start(self) -> None:
        """Start the thread, if there is a pipeline."""
        if self._is_needed:
            super().start()
