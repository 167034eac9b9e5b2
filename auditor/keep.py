"""Between runs and the store: what a run is told of those before it, and what is kept of it when it ends."""

from __future__ import annotations

import dataclasses
import datetime as dt
import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt
from pydantic import TypeAdapter

from auditor import rolling
from auditor.config import Audit, Keep
from auditor.model import NULL_PARTITION, SECTIONS, SIDES, Difference, Plan, RangeDifference, Report, State, Verdict
from auditor.packed import STATES, Picture, pack_picture, unpack_picture
from auditor.run import Before, Outcome
from auditor.settle import moment
from auditor.store import Store, retention, runs, standing, stretches
from auditor.store.runs import Kept, StoredRun
from auditor.store.stretches import Stretch

HISTORY = 30
"""Runs that a choice of method, or the rate of a rolling audit, looks back on."""

SWEEP = 1000
"""Runs after which a rolling audit has read as much as its whole table once, or never does."""

PRUNED = 60.0
"""Seconds between two times at which a process drops what is not to be kept any longer."""

_pruned: WeakKeyDictionary[Store, float] = WeakKeyDictionary()
"""When this process last did so."""

MOST_DIVERGENT = 1000
"""Divergent partitions that a kept report lists; its picture has them all."""

READING = frozenset({
    "method", "k", "t", "bits", "hash", "salt", "limits", "partition", "snapshot", "recheck", "ladder", "rolling", "via", "schedule",
    "schema", "allow_empty", "force", *SECTIONS,
})  # fmt: skip
"""Settings that say how, how much and when is read, and not what it means that two rows match."""

_REPORT = TypeAdapter(Report)


def before(store: Store, name: str, audit: Audit) -> Before:
    """What earlier runs left for the next."""
    # However many failed since: these have not accepted a schema.
    done = runs.listed(store, audit=name, state=State.DONE, limit=HISTORY, whole=True)
    last = next((one for one in done if one.schema), None)
    shares = [_share(one) for one in reversed(done)]

    def part(plan: Plan) -> tuple[tuple[int, int], ...]:
        return _part(store, name, audit, plan, done)

    return Before(
        runs=standing.get(store, name).runs,
        shares=tuple(share for share in shares if share is not None),
        schema=last.schema if last else None,
        part=part if audit.rolling else None,
        size=_size(store, name) if audit.rolling else None,
    )


def _share(run: StoredRun) -> float | None:
    """The share of rows that differed, as far as the run knew: from D = T (1 - J) / (1 + J) of T rows on both sides."""
    if run.score is None or not run.rows or not sum(run.rows.values()):
        return None
    return (1 - run.score) / (1 + run.score)


def settings(definition: Mapping[str, Any], overrides: Mapping[str, Any] = {}) -> str:
    """The hash of the settings that decide what a match means: tables, rows, columns, and how far they may be apart.

    Rows that match by one method match by the others, and by any salt, but for the method counts, which looks at sums alone; and a
    later watermark is about the same rows. So none of these is in it, except that an audit may be content with counts.
    """
    asked = {**definition, **overrides}
    ladder = None if "method" in overrides else asked.get("ladder")
    first = ladder["levels"][0] if ladder else asked.get("method")
    decide = {name: value for name, value in asked.items() if name not in READING} | {"by counts": first == "counts"}
    if settle := asked.get("settle"):
        decide["settle"] = [settle["column"], settle.get("nulls")]
    return hashlib.sha256(json.dumps(decide, sort_keys=True).encode()).hexdigest()[:16]


def _settings(run: StoredRun) -> str | None:
    """Those of a run's audit; None where the run had others, so that what it found says nothing of how its audit stands."""
    own = settings(run.definition)
    return own if settings(run.definition, run.overrides) == own else None


def layout(plan: Plan, by: str) -> str:
    """What has to be the same of two runs so that their partitions are the same, and mean the same: ``by`` are their settings."""
    asked: list[object] = [by, str(plan.partitioning), plan.partitioning.size, plan.key]
    asked += [(plan.sides[side].connection, plan.sides[side].table) for side in SIDES]
    asked += [(c.name, str(c.kind), *(c.expression[side] for side in SIDES)) for c in plan.columns]
    return hashlib.sha256(repr(asked).encode()).hexdigest()[:16]


def _size(store: Store, name: str) -> int | None:
    """The partitions' size of the last run, which a rolling audit keeps to."""
    last = runs.latest(store, name)
    kept = runs.report(store, last.run) if last else None
    plan = _REPORT.validate_json(kept).plan if kept else None
    return plan.partitioning.size or None if plan else None


def _part(store: Store, name: str, audit: Audit, plan: Plan, done: Sequence[StoredRun]) -> tuple[tuple[int, int], ...]:
    """The partitions that are read next, those first that were not read for longest."""
    if audit.rolling is None or plan.least is None or plan.greatest is None or not plan.partitioning.size:
        return ()
    size = plan.partitioning.size
    first, end = plan.least // size, plan.greatest // size + 1
    by = settings(audit.model_dump(mode="json", by_alias=True, exclude_defaults=True))
    read = [rolling.Piece(_low(one, first), _high(one, end), one.at) for one in stretches.of(store, name, layout(plan, by))]
    rates = [sum(one.rows.values()) / 2 / one.seconds for one in done if one.rows and one.seconds]
    count = rolling.count(
        end - first, audit.rolling.per_run, audit.rolling.budget, plan.rows_each, sum(rates) / len(rates) if rates else None
    )
    swept = sum(one.coverage or 0.0 for one in runs.listed(store, audit=name, state=State.DONE, limit=SWEEP, whole=True)) >= 1
    return tuple(rolling.chosen(rolling.pieces(read, first, end), count, count // 2 if swept else 0))


def _low(one: Stretch, least: int) -> int:
    return least if one.first is None else one.first


def _high(one: Stretch, end: int) -> int:
    return end if one.end is None else one.end


def finish(store: Store, outcome: Outcome, limits: Keep) -> None:
    """Keep how a run ended, and drop what is not to be kept any longer. Raises StoreError."""
    report = outcome.report
    plan = report.plan
    by = _settings(runs.find(store, report.run))
    if report.state is State.DONE and plan and plan.stretches and report.comparison and by:
        # Also where nothing could be claimed: a part that never settles must not keep the others from being read.
        through, order = _through(store, report, plan), layout(plan, by)
        latest = max((one.at for one in stretches.of(store, report.audit, order)), default=through)
        # The order of reading is not the clock's, which may have been set back.
        at = max(report.began or through, latest + dt.timedelta(microseconds=1))
        for first, end in plan.stretches:
            stretches.record(store, report.audit, order, Stretch(first=first, end=end, run=report.run, at=at, watermark=through))
    runs.finish(store, report.run, _outcome(report, outcome.picture))  # last, for what was finished is not kept again
    if report.verified_through and by:
        standing.update(store, report.audit, verified_through=report.verified_through, verified_by=by)
    # Each looks at all runs of all audits: a service that did so at every end would keep those waiting who read.
    if time.monotonic() - _pruned.get(store, -PRUNED) >= PRUNED:
        _pruned[store] = time.monotonic()
        retention.prune(store, runs=limits.runs, days=limits.days, now=dt.datetime.now(dt.UTC))


def _through(store: Store, report: Report, plan: Plan) -> dt.datetime:
    """The moment that a run's reading stands for: its watermark, else its beginning, of one that was resumed the first."""
    if plan.watermark:
        return moment(plan.watermark)
    started = runs.find(store, report.run).started
    return min(report.began, started) if report.began else started


def verified_through(store: Store, outcome: Outcome) -> dt.datetime | None:
    """The moment up to which everything is verified, once this run has ended: what it was before, unless this run adds to it.

    Of a rolling audit it is the oldest of its stretches', if all of them were equal when they were last read. It never goes back,
    as a clock may. What was verified by other settings does not count: it is about other rows, or about less of them.
    """
    report = outcome.report
    run = runs.find(store, report.run)
    earlier = standing.get(store, report.audit).verified(settings(run.definition))
    plan, by = report.plan, _settings(run)
    if report.verdict is not Verdict.MATCH or plan is None or plan.section or by is None:
        return earlier
    here = _through(store, report, plan)
    if not plan.stretches:
        return max(here, earlier) if earlier else here
    size = plan.partitioning.size
    first, end = (plan.least or 0) // size, (plan.greatest or 0) // size + 1
    mine = [rolling.Piece(low, high, here) for low, high in plan.stretches]
    others: list[rolling.Piece] = []
    for gap in rolling.pieces(mine, first, end):
        for one in stretches.of(store, report.audit, layout(plan, by)) if gap.at is None else ():
            low, high = max(gap.first, _low(one, first)), min(gap.end, _high(one, end))
            if low < high and _matched(store, one.run, low, high, first):
                others.append(rolling.Piece(low, high, one.watermark))
    whole = rolling.pieces(sorted([*mine, *others], key=lambda one: one.first), first, end)
    moments = [one.at for one in whole if one.at]
    if len(moments) < len(whole):
        return earlier
    return max(min(moments), earlier) if earlier else min(moments)


def _matched(store: Store, run: str, first: int, end: int, lowest: int) -> bool:
    """Whether a stretch was equal when a run read it, though other parts of the same run may not have been."""
    if runs.find(store, run).verdict is Verdict.MATCH:
        return True
    seen = picture(store, run)
    return seen is not None and bool((seen.state[within(seen, first, end, lowest)] == STATES.index("equal")).all())


def within(seen: Picture, first: int, end: int, lowest: int) -> npt.NDArray[np.bool_]:
    """Which partitions of a picture lie in a stretch. The one of rows without a key is read with the table's lowest, so it goes there."""
    unkeyed = (seen.partition == NULL_PARTITION) & (first <= lowest)
    return np.asarray(((seen.partition >= first) & (seen.partition < end)) | unkeyed, np.bool_)


def _outcome(report: Report, picture: Picture | None) -> runs.Outcome:
    comparison, differences = report.comparison, report.differences
    score = report.jaccard.score if report.jaccard else comparison.published if comparison else None
    slim = report
    if comparison:
        slim = dataclasses.replace(report, comparison=dataclasses.replace(comparison, divergent=comparison.divergent[:MOST_DIVERGENT]))
    if differences:
        slim = dataclasses.replace(slim, differences=dataclasses.replace(differences, named=(), ranges=()))
    return runs.Outcome(
        state=report.state,
        verdict=report.verdict,
        exit_code=report.exit_code,
        seconds=report.seconds,
        method=report.method,
        reasons=report.reasons,
        score=score.value if score else None,
        lower=score.lower if score else None,
        upper=score.upper if score else None,
        published=comparison.published.value if comparison and comparison.published else None,
        coverage=report.coverage["rows"] if comparison else None,
        rows=comparison.rows if comparison else None,
        partitions=comparison.total if comparison else None,
        unequal=comparison.unequal if comparison else None,
        missing=differences.missing if differences else None,
        extra=differences.extra if differences else None,
        changed=differences.changed if differences else None,
        unsettled=differences.unsettled if differences else None,
        verified_through=report.verified_through,
        resumable=report.resumable,
        report=_REPORT.dump_json(slim),
        picture=pack_picture(picture) if picture else b"",
        differences=[*map(_kept_range, differences.ranges), *map(_kept, differences.named)] if differences else (),
    )


def _kept(one: Difference) -> Kept:
    columns = [dataclasses.asdict(column) for column in one.columns]
    looks = [{"at": look.at.isoformat(), "seen": look.seen} for look in one.looks]
    return Kept(kind=one.kind, key=one.key, rows=dict(one.rows), columns=columns, state=one.state, looks=looks)


def _kept_range(one: RangeDifference) -> Kept:
    sides = {side: one.rows if (side == "source") == (one.kind == "missing") else 0 for side in SIDES}
    return Kept(kind=one.kind, key=None, rows=sides, columns=[], state=one.state, range=dataclasses.asdict(one))


def report(store: Store, run: str, most: int = 10_000) -> Report | None:
    """The report of a run as it was told when the run ended; None of one that has not ended, or goes on. Raises UnknownRun."""
    body = runs.report(store, run)
    if body is None or runs.find(store, run).ended is None:
        return None
    found = _REPORT.validate_json(body)
    if found.differences is None:
        return found
    kept = [one for _, one in runs.differences(store, run, limit=most)]
    named = tuple(_NAMED.validate_python(_difference(one)) for one in kept if one.range is None)
    ranges = tuple(_RANGE.validate_python(one.range) for one in kept if one.range is not None)
    return dataclasses.replace(found, differences=dataclasses.replace(found.differences, named=named, ranges=ranges))


_NAMED = TypeAdapter(Difference)
_RANGE = TypeAdapter(RangeDifference)


def _difference(one: Kept) -> dict[str, Any]:
    return {"kind": one.kind, "key": one.key, "rows": one.rows, "columns": one.columns, "state": one.state, "looks": one.looks}


def picture(store: Store, run: str) -> Picture | None:
    """The picture of the table that a run kept."""
    body = runs.picture(store, run)
    return unpack_picture(body) if body else None
