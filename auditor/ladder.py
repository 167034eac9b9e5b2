"""Which methods a run goes through: one, or a ladder of them from the cheapest to the dearest."""

from __future__ import annotations

from collections.abc import Sequence

from auditor.config import Audit
from auditor.expectation import choose
from auditor.model import Method, Verdict


def levels(audit: Audit, shares: Sequence[float] = (), rows_each: int | None = None, *, ended_runs: int = 0) -> tuple[Method, ...]:
    """The methods of a run, in the order in which they are tried.

    Without a ladder there is one: the audit's, or for ``auto`` what ``choose`` makes of the ``shares`` of differing rows that the
    last runs found, the latest last, of the rows in a partition, and of how many runs have ended.
    """
    if audit.ladder:
        return audit.ladder.levels
    if audit.method == "auto":
        return (choose(shares, audit.t, rows_each or audit.partition.rows, ended=ended_runs),)
    return (audit.method,)


def is_step(audit: Audit, method: Method) -> bool:
    """Whether a method is a level of a ladder on which another follows."""
    return audit.ladder is not None and method != audit.ladder.levels[-1]


def goes_up(audit: Audit, method: Method, verdict: Verdict, ended_runs: int) -> bool:
    """Whether a level that ended with this verdict is followed by the next.

    It is, if it found a difference, or if all levels are run this time: in the first run and in every n-th after it. The
    last level is followed by nothing. A level that could claim nothing ends the run: a dearer one would be about the same rows.
    """
    if audit.ladder is None or not is_step(audit, method):
        return False
    whole = audit.ladder.every > 0 and ended_runs % audit.ladder.every == 0
    return verdict is Verdict.MISMATCH or (whole and verdict is Verdict.MATCH)
