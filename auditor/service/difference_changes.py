"""Which differing rows are new, gone or the same between two runs of an audit. Rows go by their keys, not by their values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from auditor.api_models.incident import DifferenceChanges
from auditor.api_models.run import Difference
from auditor.errors import ConfigError
from auditor.history import records
from auditor.model import Report, State, Verdict
from auditor.report.difference_rows import as_difference
from auditor.service.stored_differences import mask
from auditor.store import Store, runs
from auditor.store.runs import StoredDifference, StoredRun

SHOWN = 10
"""Rows of each kind that are shown, unless another number is asked for."""

Identity = tuple[object, ...]
"""What makes a stored difference the same in two runs: its key, or the kind and the bounds of its range."""


@dataclass(frozen=True, slots=True)
class _Found:
    """What a run found to differ: by identity the number of each difference, and the difference."""

    report: Report
    rows: Mapping[Identity, tuple[int, StoredDifference]]
    reasons: Sequence[str]
    """Why these are not all rows of the table that differ; empty if they are."""

    def show(self, chosen: Sequence[Identity]) -> tuple[Difference, ...]:
        """Return these differences as they leave the process, without values of masked columns."""
        stored = [self.rows[identity] for identity in chosen]
        masked = mask(self.report, [difference for _, difference in stored]) if stored else []
        return tuple(as_difference(number, difference) for (number, _), difference in zip(stored, masked, strict=True))


def compare_runs(store: Store, earlier: str, later: str, shown: int = SHOWN) -> DifferenceChanges:
    """Compare what two runs of one audit found, with up to ``shown`` rows of each kind.

    Raises UnknownRun, and ConfigError for runs of different audits.
    """
    first, second = runs.get_run(store, earlier), runs.get_run(store, later)
    if first.audit != second.audit:
        raise ConfigError(f"the runs {first.run[:12]} and {second.run[:12]} are of different audits; name two of one audit")
    before, after = _load_found(store, first), _load_found(store, second)
    new = [identity for identity in after.rows if identity not in before.rows]
    gone = [identity for identity in before.rows if identity not in after.rows]
    same = [identity for identity in after.rows if identity in before.rows]
    reasons = (*before.reasons, *after.reasons)
    return DifferenceChanges(
        audit=first.audit,
        earlier=first.run,
        later=second.run,
        new=len(new),
        gone=len(gone),
        same=len(same),
        certain=not reasons,
        reasons=reasons,
        new_rows=after.show(new[:shown]),
        gone_rows=before.show(gone[:shown]),
        same_rows=after.show(same[:shown]),
    )


def compare_with_previous(store: Store, run: str, shown: int = SHOWN) -> DifferenceChanges | None:
    """Compare what a run found with what the last done run of its audit before it did; None if there is none. Raises UnknownRun."""
    stored = runs.get_run(store, run)
    previous = runs.get_latest_run(store, stored.audit, before=stored.started)
    return compare_runs(store, previous.run, stored.run, shown) if previous else None


def _load_found(store: Store, run: StoredRun) -> _Found:
    name = f"run {run.run[:12]}"
    report = records.load_report(store, run.run, max_differences=0)
    if report is None or report.state is not State.DONE:
        return _Found(report or _no_report(run), {}, (f"{name} ended without a result",))
    rows = {_identify(difference): (number, difference) for number, difference in _list_confirmed(store, run.run)}
    return _Found(report, rows, tuple(f"{name} {why}" for why in _find_gaps(report, [difference for _, difference in rows.values()])))


def _list_confirmed(store: Store, run: str) -> list[tuple[int, StoredDifference]]:
    """Return the stored differences of a run that stand; rows that were still changing are no part of its verdict."""
    return runs.list_differences(store, run, state="confirmed", limit=None)


def _identify(difference: StoredDifference) -> Identity:
    if difference.range is None:
        return ("key", *sorted((difference.key or {}).items()))
    span = difference.range
    return ("range", difference.kind, span.get("first"), span.get("last"), span.get("label"))


def _find_gaps(report: Report, rows: Sequence[StoredDifference]) -> list[str]:
    """Return clauses that say why a run's listed differences are not all of the table's."""
    gaps = []
    if report.slice is not None or report.covered < 1:
        gaps.append("read a part of the table")
    if report.method == "counts":
        gaps.append("compared counts, which name no rows")
    elif report.differences is None:
        if report.verdict is not Verdict.MATCH or report.within_threshold:
            gaps.append("names no rows")
    elif not report.differences.exact or report.differences.estimated:
        gaps.append("did not name every row that differs")
    elif sum(max(difference.rows.values()) for difference in rows) < _count(report):
        gaps.append(f"lists {len(rows):,} of the differences that it counted")
    return gaps


def _count(report: Report) -> int:
    differences = report.differences
    return differences.missing + differences.extra + differences.changed if differences else 0


def _no_report(run: StoredRun) -> Report:
    return Report(
        audit=run.audit, run=run.run, state=run.state, verdict=run.verdict, reasons=run.reasons, seconds=0.0, exit_code=run.exit_code or 0
    )
