"""The whole table of a rolling audit as reports and pages show it: each partition as it was last read, and how long ago."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from auditor.history import rolling
from auditor.history.rolling_table import RollingTable
from auditor.masking import partition_label
from auditor.model import SIDES, Divergent, Plan, Verdict, similarity_error
from auditor.quantities import format_duration
from auditor.report.heatmap import SHAPE_LABELS, STATE_SHAPES, Ages, Heatmap, build_heatmap
from auditor.summary.codec import PartitionMap
from auditor.summary.partition_states import STATES

MAX_GAP_PARTITIONS = 10_000
"""Partitions drawn for each gap that was never read; a sparse key can have any number of them."""


@dataclass(frozen=True, slots=True)
class PartitionSpan:
    """Neighbouring partitions that one run read last: their label, their number, and when (None: never)."""

    label: str
    partitions: int
    read_at: dt.datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeTable:
    """State of the whole table: ``spans`` begin with the one read longest ago, ``divergent`` partitions are in key order.

    ``share_read`` is the share of partitions that any run ever read.
    """

    verdict: Verdict
    sentence: str
    share_read: float
    heatmap: Heatmap | None
    spans: tuple[PartitionSpan, ...]
    divergent: tuple[Divergent, ...]


def build_whole_table(table: RollingTable, plan: Plan, now: dt.datetime) -> WholeTable:
    """Return the state of the whole table, labelled by the plan of its last run; ages count back from ``now``."""
    partition_map = _fill_gaps(table)
    ages = _ages(table, partition_map, now)
    pieces = sorted(table.pieces, key=lambda piece: (piece.at is not None, piece.at, piece.first))
    return WholeTable(
        verdict=table.verdict,
        sentence=table.sentence,
        share_read=table.partitions_read / table.partitions,
        heatmap=build_heatmap(partition_map, plan, ages),
        spans=tuple(PartitionSpan(_span_label(plan, piece), piece.end - piece.first, piece.at) for piece in pieces),
        divergent=tuple(_divergent(partition_map, ages, plan)),
    )


def _span_label(plan: Plan, piece: rolling.Piece) -> str:
    """Return the key range of neighbouring partitions."""
    first, last = partition_label(plan, piece.first), partition_label(plan, piece.end - 1)
    size = plan.partitioning.size
    return first if plan.hides_ranges or first == last else f"keys {piece.first * size:,} to {piece.end * size - 1:,}"


def _fill_gaps(table: RollingTable) -> PartitionMap:
    """Return the partition map with skipped partitions inserted where nothing was ever read."""
    read, gaps = table.partition_map, [piece for piece in table.pieces if piece.at is None]
    if not gaps:
        return read
    added = np.concatenate(
        [np.linspace(gap.first, gap.end - 1, min(MAX_GAP_PARTITIONS, gap.end - gap.first)).astype(np.int64) for gap in gaps]
    )
    count = len(added)
    order = np.argsort(np.concatenate([read.partition, added]), kind="stable")
    no_keys = np.empty(count, np.object_)
    return PartitionMap(
        partition=np.concatenate([read.partition, added])[order],
        state=np.concatenate([read.state, np.full(count, STATES.index("skipped"), np.uint8)])[order],
        similarity=np.concatenate([read.similarity, np.full(count, np.nan, np.float32)])[order],
        rows={side: np.concatenate([read.rows[side], np.zeros(count, np.int64)])[order] for side in SIDES},
        least=np.concatenate([read.least, no_keys])[order],
        greatest=np.concatenate([read.greatest, no_keys])[order],
    )


def _ages(table: RollingTable, partition_map: PartitionMap, now: dt.datetime) -> Ages:
    """Return the seconds since each partition of the map was last read; NaN if it never was."""
    of_pieces = np.array([np.nan if piece.at is None else max(0.0, (now - piece.at).total_seconds()) for piece in table.pieces])
    places = np.searchsorted([piece.first for piece in table.pieces], partition_map.partition, side="right") - 1
    return of_pieces[places]


def _divergent(partition_map: PartitionMap, ages: Ages, plan: Plan) -> Iterator[Divergent]:
    """Yield the partitions that differed when last read; ``measures`` holds a sentence on what was found and when."""
    state = partition_map.state
    for i in np.flatnonzero((state != STATES.index("equal")) & (state != STATES.index("skipped"))):
        number, similarity = int(partition_map.partition[i]), float(partition_map.similarity[i])
        yield Divergent(
            partition=None if plan.hides_ranges else number,
            key_range=None,
            label=partition_label(plan, number),
            rows={side: int(partition_map.rows[side][i]) for side in SIDES},
            similarity=None if np.isnan(similarity) else similarity,
            similarity_error=similarity_error(plan.k) if all(partition_map.rows[side][i] for side in SIDES) else None,
            measures=(f"{SHAPE_LABELS[STATE_SHAPES[STATES[state[i]]]]}; read {format_duration(float(ages[i]))} ago",),
        )
