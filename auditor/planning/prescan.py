"""Decide whether a run begins with a pre-scan, by what that is expected to cost, and plan the pre-scan.

A pre-scan reads one signature for each stretch of the table: about STRETCHES unions of neighbouring partitions where these are key ranges,
each partition where they are times, and the whole table where they are buckets of a hash. Of key ranges it reads a digest instead where
`digests` finds that it can: then a stretch has about as many rows as one hash should cover. Only what differs is then read by the method:
the stretches that are not equal if they are key ranges, otherwise all of the table.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import mean

import dialects
from auditor.config import Audit
from auditor.model import SIDES, Chunk, Method, Partitioning, Plan, Prescan, Side, SidePlan
from auditor.planning.columns import Endpoint
from auditor.planning.digests import find_digest_rows
from auditor.planning.planner import NO_SPILL_FACTOR
from auditor.sql.key_number import count_groups
from auditor.summary.key_number import forms

STRETCHES = 64
"""About how many stretches the key ranges of a run are joined to."""

MAX_PARTITIONS = 1 << 20
"""Partitions above which a key's range is not pre-scanned: each partition of an equal stretch is listed, with rows or without."""

LAST_RUNS = 3
"""Number of latest runs from which it is estimated how much will be read again."""

LEAST_ROWS = 10_000
"""Tables with fewer rows are read by the method at once: the statements cost more than the rows."""

COST = {
    "exact": {"digests": 0.5, "range": 0.9, "numbered hash": 0.9, "hash": 0.65, "numbered time": 0.9, "time": 0.65},
    "signature": {"digests": 0.55, "range": 1.0, "numbered hash": 0.95, "hash": 0.85, "numbered time": 1.0, "time": 1.0},
}
"""Cost of a pre-scan as a multiple of a scan by the method, by method and strategy of partitions; "numbered" where each column of the key
is a whole number or a date. Measured by `benchmarks/ratios.py` as CPU time on MariaDB, MySQL and PostgreSQL, and rounded up to the most
expensive: of exact, digests 0.32 to 0.45, numbered hash 0.59 to 0.89 and others 0.60 to 0.65; of signature 0.40 to 0.51, 0.86 to 0.97
and 0.68 to 0.83. Those of ranges without digests and of times were measured on the stand-in for Redshift and DuckDB as well. A pre-scan
spends nothing on positions and power sums; of the signatures of ranges and times it spares nothing."""


def decide(
    plan: Plan,
    audit: Audit,
    unequal_shares: Sequence[float],
    found_by: Method | None = None,
    tables: Mapping[Side, Endpoint] | None = None,
) -> Prescan:
    """Return whether a run by a finished plan begins with a pre-scan, and why.

    ``unequal_shares`` are the shares of partitions (0 to 1) that differed in earlier runs, the latest last; ``found_by`` is the method
    of a ladder's earlier level that found a difference in this run. Stretches have digests only if ``tables`` describes both tables.
    """
    digest_rows, partitions = find_digest_rows(plan, tables) if tables else (0, 0)
    if obstacle := _find_obstacle(plan, digest_rows):
        return Prescan(used=False, why=obstacle)
    groups = count_groups(plan) if tables and plan.partitioning.strategy == "hash" else 0
    hashes_bytes = tables is not None and all(end.dialect.MAX_JOINED_BYTES for end in tables.values())
    partitions = partitions or _partitions_per_stretch(plan)
    prescan = Prescan(used=False, why="", partitions=partitions, digest_rows=digest_rows, hashes_bytes=hashes_bytes, groups=groups)
    if audit.prescan is not None:
        return replace(prescan, used=audit.prescan, why="the audit says so")
    used, why = _weigh(plan, unequal_shares[-LAST_RUNS:], prescan, found_by)
    return replace(prescan, used=used, why=why)


def plan_of_stretches(plan: Plan) -> Plan:
    """Return the plan that reads one signature, or one digest, for each stretch of what ``plan`` reads."""
    how, prescan = plan.partitioning, plan.prescan or Prescan(used=True, why="", partitions=1)
    if how.strategy == "range":
        how = replace(how, size=how.size * prescan.partitions)
    elif how.strategy == "hash":
        how = Partitioning(strategy="group" if prescan.groups else "whole")
    stretches = replace(plan, method="signature", t=0, partitioning=how)
    if not prescan.digest_rows:
        return replace(stretches, joins_words=True, hashes_bytes=prescan.hashes_bytes)
    if prescan.cuts:  # a stretch has to be in one chunk, and a primary key is never NULL
        sides = {side: replace(here, chunks=(Chunk(),), chunk_keys=0) for side, here in plan.sides.items()}
    else:
        sides = {side: _with_other_chunks(here, how.size) for side, here in plan.sides.items()}
    return replace(stretches, sides=sides, digest_rows=prescan.digest_rows)


def _with_other_chunks(here: SidePlan, width: int) -> SidePlan:
    """Return a side with the chunks of digests of stretches of ``width`` keys.

    Chunks are as large as on an engine that does not write derived tables to disk, because the rows of digests are none, but have at most
    STRETCHES stretches where each is written into the statement.
    """
    dialect = dialects.get(here.dialect)
    keys = here.chunk_keys * (NO_SPILL_FACTOR if dialect.SPILLS_LARGE_DERIVED_TABLES else 1)
    return replace(here, chunk_keys=keys if dialect.HAS_LATERAL else min(keys, STRETCHES * width))


def _partitions_per_stretch(plan: Plan) -> int:
    if plan.partitioning.strategy != "range":
        return 0
    if plan.partition_ranges:
        partitions = sum(end - first for first, end in plan.partition_ranges)
    else:
        partitions = plan.span // plan.partitioning.size + 1
    return max(1, math.ceil(partitions / STRETCHES))


def _find_obstacle(plan: Plan, digest_rows: int) -> str:
    """Return why stretches cannot be read first, whatever it would cost; empty if they can."""
    if plan.method not in ("signature", "exact"):
        return f"the method {plan.method} compares more than signatures"
    if plan.encoding == "published":
        return "the published encoding compares partition by partition"
    if plan.k:
        return "minhashes are compared partition by partition"
    if plan.bits > 60 and not digest_rows:
        return f"the signature of a part of the table has 60 bits, and bits is {plan.bits}"
    if plan.watermark and plan.partitioning.strategy == "hash":
        return "what is left out as in flight is followed bucket by bucket"
    if plan.partitioning.strategy == "range" and plan.span // plan.partitioning.size >= MAX_PARTITIONS:
        return f"the keys' range has more than {MAX_PARTITIONS:,} partitions, which would all be listed"
    if plan.snapshot == "per_chunk":
        return "each chunk reads a snapshot of its own, so what differs could not be read again as it was"
    return ""


def _weigh(plan: Plan, shares: Sequence[float], prescan: Prescan, found_by: Method | None) -> tuple[bool, str]:
    """Return whether a pre-scan is expected to cost less than it saves, and why."""
    rows = max((plan.sides[side].estimate or 0) for side in SIDES)
    if rows < LEAST_ROWS:
        return False, f"about {rows:,} rows are read at once"
    if found_by:
        return False, f"the method {found_by} has found a difference in this run"
    cost = COST[plan.method]["digests" if prescan.digest_rows else _priced_strategy(plan)]
    if cost >= 1:
        return False, "the signature of each partition costs no more than that of a part of the table"
    again = mean(_share_read_again(share, prescan, plan.partitioning.buckets) for share in shares) if shares else 0.0
    runs = "last run" if len(shares) == 1 else f"last {len(shares)} runs"
    if not shares:
        return True, "no earlier run is known to have found a difference"
    if not again:
        return True, f"no partition differed in the {runs}"
    weighed = f"by the {runs} about {again:.0%} of a scan would be repeated, and {1 - cost:.0%} of one is saved"
    return again < 1 - cost, weighed


def _priced_strategy(plan: Plan) -> str:
    """Return the key of COST for a plan's partitions."""
    shapes, strategy = forms(plan), plan.partitioning.strategy
    numbered = strategy in ("hash", "time") and bool(shapes) and "uuid" not in shapes
    return f"numbered {strategy}" if numbered else strategy


def _share_read_again(unequal: float, prescan: Prescan, buckets: int) -> float:
    """Return the share of a table that lies in unequal stretches if this share of its partitions differs, scattered evenly."""
    if prescan.partitions:
        return 1 - (1 - unequal) ** prescan.partitions
    if not prescan.groups or unequal >= 1:
        return 1.0 if unequal else 0.0
    rows = -buckets * math.log1p(-unequal)  # so many, in a bucket each or several in one, leave this share of buckets without any
    return float(1 - (1 - 1 / prescan.groups) ** rows)
