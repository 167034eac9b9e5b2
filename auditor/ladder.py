"""Which methods a run goes through: one, or a ladder of them from the cheapest to the dearest."""

from __future__ import annotations

from collections.abc import Sequence

from auditor.config import Audit
from auditor.expectation import choose
from auditor.model import Method, Verdict


def levels(audit: Audit, shares: Sequence[float] = (), rows_each: int | None = None) -> tuple[Method, ...]:
    """The methods of a run, in the order in which they are tried.

    Without a ladder there is one: the audit's, or for ``auto`` what ``choose`` makes of the ``shares`` of differing rows that the
    last runs found, the latest last, and of the rows in a partition.
    """
    if audit.ladder:
        return audit.ladder.levels
    if audit.method == "auto":
        return (choose(shares, audit.t, rows_each or audit.partition.rows),)
    return (audit.method,)


def goes_up(audit: Audit, method: Method, verdict: Verdict, ended_runs: int) -> bool:
    """Whether a level that ended with this verdict is followed by the next.

    It is, if it found a difference, or if all levels are run this time: in the first run and in every n-th after it. The
    last level is followed by nothing. A level that could claim nothing ends the run: a dearer one would be about the same rows.
    """
    if audit.ladder is None or method == audit.ladder.levels[-1]:
        return False
    whole = audit.ladder.every > 0 and ended_runs % audit.ladder.every == 0
    return verdict is Verdict.MISMATCH or (whole and verdict is Verdict.MATCH)
