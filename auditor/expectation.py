"""What a plan will cost and how far it reaches, before it runs; and which method a table's history calls for."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from auditor import render
from auditor.model import SIDES, Method, Plan, Side

OVERLOADED = 0.02
"""The share of partitions that may hold more than t differences while a scan still counts as exact by itself: so few are listed."""

RECENT = 10
"""Runs that a choice of method looks back on."""


@dataclass(frozen=True, slots=True)
class Expectation:
    """What one side of a run is expected to send and run.

    ``partitions`` is about how many there will be; ``bytes`` and ``statements`` are of the summaries alone.
    """

    partitions: int
    bytes: int
    statements: int


def expected(plan: Plan, side: Side) -> Expectation:
    """What one side's summaries are expected to cost: a number of about ten digits for each column of each partition."""
    rows = max((plan.sides[s].estimate or 0) for s in SIDES)
    how = plan.partitioning
    partitions = how.buckets if how.strategy == "hash" else max(1, math.ceil(rows / max(1, plan.rows_each)))
    columns = render.result_columns(plan)
    # A word summed over a partition has its own bits and those of the rows' number; a column of text costs a length beside.
    digits = sum(math.ceil((31 + math.log2(max(2, plan.rows_each))) * math.log10(2)) + 4 for _ in columns)
    here = plan.sides[side]
    statements = math.ceil(plan.span / here.chunk_keys) if here.chunk_keys else len(here.chunks)
    return Expectation(partitions, partitions * digits, statements)


def exact_load(plan: Plan) -> float | None:
    """Differences per million rows, scattered evenly, up to which the method exact names all of them from one scan.

    With lambda differences a partition on average, the share of partitions with more than t is the tail of a Poisson
    distribution; lambda is the largest for which it stays below OVERLOADED. None for other methods.
    """
    if plan.method != "exact":
        return None
    return _load(plan.t) * 1e6 / max(1, plan.rows_each)


def _load(t: int) -> float:
    low, high = 0.0, float(t)
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if _tail(middle, t) <= OVERLOADED else (low, middle)
    return low


def _tail(mean: float, t: int) -> float:
    """The chance of more than t with that mean, under a Poisson distribution."""
    return 1 - sum(math.exp(-mean) * mean**i / math.factorial(i) for i in range(t + 1))


def choose(history: Sequence[float], t: int, rows_each: int, *, ended: int) -> Method:
    """The method for a table whose last runs found these shares of differing rows, the latest last.

    ``exact`` names differences as long as there are few; a table of which a good part is rewritten between runs costs a
    second scan or a long list each time and ends in an estimate anyway, so it gets ``minhash``, whose summaries estimate
    best where much differs. The rule: ``minhash`` if the median share of the last ten runs is more than twenty times what
    ``exact`` decodes in one scan, and there were at least three; every tenth run is ``exact`` all the same, to see whether
    the table has calmed down. ``ended`` says how many runs there were, for the history is no longer than what is kept of it.
    Without a history, ``exact``.
    """
    recent = list(history[-RECENT:])
    if len(recent) < 3 or ended % RECENT == 0:
        return "exact"
    return "minhash" if median(recent) > 20 * _load(t) / max(1, rows_each) else "exact"
