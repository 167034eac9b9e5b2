"""Which problems a pipeline has, by what the store says of it: so that also one is found whose process is gone."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Mapping

from auditor.report import formatting
from auditor.shapes.pipeline import PipelineProblem, PipelineStatus, ProblemKey, ProblemKind
from auditor.store.problems import KINDS
from auditor.waits import waits

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
    if status.began and ((now or dt.datetime.now(dt.UTC)) - status.began).total_seconds() < waits().pipeline_steady:
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
        return {**_still(known, "lagging"), whole: f"staging lies more than {formatting.duration(limit)} behind the source"}
    reasons = {}
    for target, target_status in status.targets.items():
        for table, values in target_status.tables.items():
            key = ProblemKey("lagging", target, table)
            if values.state != "stopped" and is_behind(key, values.lag_seconds, target_status.max_lag):
                why = formatting.sentence(values.reason)
                reasons[key] = f"it lies more than {formatting.duration(target_status.max_lag)} behind staging{f': {why}' if why else ''}"
    return reasons


def gravest_first(problems: Collection[PipelineProblem]) -> list[PipelineProblem]:
    """Return problems sorted by what they keep from going on, and the newest of a kind first."""
    return sorted(problems, key=lambda problem: (KINDS.index(problem.key.kind), -problem.since.timestamp()))
