"""Estimate the cost of a plan and the differences it can decode, and choose the methods of a run."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from auditor.config import Audit, Budget
from auditor.connections.budgets import say_amount
from auditor.model import SIDES, Comparison, ExpectedCost, Method, Plan, Side, Spent, Verdict
from auditor.sql import render

MAX_OVERLOADED_SHARE = 0.02
"""Most share of partitions with more than t differences at which one scan still counts as exact: so few can be listed."""

RECENT_RUNS = 10
"""Number of latest runs from which a method is chosen."""


@dataclass(frozen=True, slots=True)
class CostEstimate:
    """Estimated cost of one side's summaries, without planning and naming."""

    partitions: int
    """Partitions."""
    bytes: int
    """Bytes of their summaries."""
    statements: int
    """Statements."""


def estimate_cost(plan: Plan, side: Side) -> CostEstimate:
    """Return the estimated cost of one side's summaries, each number of which is sent as about ten digits."""
    rows = max((plan.sides[s].estimate or 0) for s in SIDES)
    how = plan.partitioning
    partitions = how.buckets if how.strategy == "hash" else max(1, math.ceil(rows / max(1, plan.rows_per_partition)))
    columns = render.result_columns(plan)
    # A sum of 31-bit numbers has 31 bits plus those of the number of rows; 4 bytes for the length of a text.
    digits = sum(math.ceil((31 + math.log2(max(2, plan.rows_per_partition))) * math.log10(2)) + 4 for _ in columns)
    here = plan.sides[side]
    if side in plan.files:
        statements = plan.files[side].statements
        return CostEstimate(partitions, partitions * digits * bool(statements), statements)
    statements = math.ceil(plan.span / here.chunk_keys) if here.chunk_keys else len(here.chunks)
    return CostEstimate(partitions, partitions * digits, statements)


def expect_costs(
    plan: Plan, connections: Mapping[str, Sequence[Side]], last_runs: Sequence[Mapping[str, Spent]]
) -> tuple[ExpectedCost, ...]:
    """Return what a run is expected to cost on each connection, by the sides that use it and by what the last runs cost."""
    expected = []
    for name, sides in connections.items():
        scans, spent = [estimate_cost(plan, side) for side in sides], [run[name] for run in last_runs if name in run]
        usd = [cost.usd for cost in spent if cost.usd is not None]
        expected.append(
            ExpectedCost(
                connection=name,
                scan_statements=sum(scan.statements for scan in scans),
                scan_bytes=sum(scan.bytes for scan in scans),
                runs=len(spent),
                seconds=median(cost.seconds for cost in spent) if spent else None,
                bytes=round(median(cost.bytes for cost in spent)) if spent else None,
                usd=median(usd) if spent and len(usd) == len(spent) else None,
            )
        )
    return tuple(expected)


def budget_notes(plan: Plan, budgets: Mapping[str, tuple[Budget, Sequence[str]]]) -> list[str]:
    """Return a sentence for each budget, by whose it is, beside what the connections that it is for are expected to need."""
    notes = []
    for whose, (budget, connections) in budgets.items():
        expected = [cost for cost in plan.expected if cost.connection in connections]
        said = [f"{say_amount(what, limit)}{_need(what, expected)}" for what, limit in budget.limits.items()]
        ending = "; a run that costs more is unknown" if budget.per == "run" else "; beyond it runs are unknown until the next day"
        per = " a day (UTC)" if budget.per == "day" else ""
        notes += [f"budget of {whose}{per}: {', '.join(said)}{ending}"] if said else []
    return notes


def _need(what: str, expected: Sequence[ExpectedCost]) -> str:
    if what in ("statements", "bytes"):
        return f" (the scan is expected to need {sum(getattr(cost, f'scan_{what}') for cost in expected):,})"
    known = [value for cost in expected if (value := getattr(cost, what)) is not None]
    if not expected or len(known) < len(expected):
        return " (what a run needs is not known before one has ended)"
    return f" (the last runs needed {say_amount(what, sum(known))})"


def max_decodable_per_million(plan: Plan) -> float | None:
    """Return the most differences per million rows, scattered evenly, that the method exact names from one scan; None for other methods.

    With lambda differences per partition on average, the share of partitions with more than t is the tail of a Poisson distribution;
    lambda is the largest value for which the tail does not exceed MAX_OVERLOADED_SHARE.
    """
    if plan.method != "exact":
        return None
    return decodable_mean(plan.t) * 1e6 / max(1, plan.rows_per_partition)


def decodable_mean(t: int) -> float:
    """Return the most differences per partition, on average, of which at most MAX_OVERLOADED_SHARE of partitions have more than t."""
    low, high = 0.0, float(t)
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if _poisson_tail(middle, t) <= MAX_OVERLOADED_SHARE else (low, middle)
    return low


def _poisson_tail(mean: float, t: int) -> float:
    """Return the probability that a Poisson variable with this mean exceeds t."""
    return 1 - sum(math.exp(-mean) * mean**i / math.factorial(i) for i in range(t + 1))


def choose_method(history: Sequence[float], t: int, rows_each: int, *, finished_runs: int) -> Method:
    """Return the method for a table with this history; ``exact`` without one.

    ``history`` holds the shares of differing rows (0 .. 1) of earlier runs, the latest last; ``finished_runs`` is the number of all runs,
    since the store keeps only the latest. ``exact`` names differences as long as they are few. A table of which a large part is rewritten
    between runs needs a second scan or a long list each time and is estimated anyway, so it gets ``minhash``, which estimates best where
    much differs: if there were at least three runs, and the median share of the last ten exceeds twenty times what ``exact`` decodes in
    one scan. Every tenth run is ``exact`` nevertheless, to notice when the table has become stable.
    """
    recent = list(history[-RECENT_RUNS:])
    if len(recent) < 3 or finished_runs % RECENT_RUNS == 0:
        return "exact"
    return "minhash" if median(recent) > 20 * decodable_mean(t) / max(1, rows_each) else "exact"


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
