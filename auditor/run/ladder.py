"""Choose the methods of a run: one, or an escalation from the cheapest to the most expensive."""

from __future__ import annotations

from collections.abc import Sequence

from auditor.config import Audit
from auditor.model import Comparison, Method, Verdict
from auditor.planning.cost import choose_method


def choose_methods(
    audit: Audit, differing_shares: Sequence[float] = (), rows_each: int | None = None, *, ended_runs: int = 0
) -> tuple[Method, ...]:
    """Return the methods of a run, in the order in which they are tried.

    Without a ladder there is one: the audit's, or for ``auto`` the one that suits the ``differing_shares`` of rows that recent runs
    found (0 to 1, the latest last), the rows in a partition, and how many runs have ended.
    """
    if audit.ladder:
        return audit.ladder.levels
    if audit.method == "auto":
        return (choose_method(differing_shares, audit.t, rows_each or audit.partition.rows, finished_runs=ended_runs),)
    return (audit.method,)


def is_step(audit: Audit, method: Method) -> bool:
    """Whether a method is a level of a ladder that another level follows."""
    return audit.ladder is not None and method != audit.ladder.levels[-1]


def escalates(audit: Audit, method: Method, verdict: Verdict, comparison: Comparison, ended_runs: int) -> bool:
    """Whether a level that ended with this verdict is followed by the next.

    It is if its ``comparison`` has a difference, also one of which it could not decide whether the threshold allows it, or if this run
    goes through all levels: the first run and every n-th after it. Nothing follows the last level, nor one that could claim nothing for
    another reason: a more expensive one would be about the same rows.
    """
    if audit.ladder is None or not is_step(audit, method):
        return False
    all_levels = audit.ladder.every > 0 and ended_runs % audit.ladder.every == 0
    undecided = verdict is Verdict.UNKNOWN and comparison.unequal > 0 and not comparison.skipped
    return verdict is Verdict.MISMATCH or undecided or (all_levels and verdict is Verdict.MATCH)
