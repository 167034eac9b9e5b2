"""Fold the partition map of a whole table into a heat map with a bounded number of cells."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from auditor.model import NULL_PARTITION, SIDES, Plan, Side
from auditor.quantities import format_duration
from auditor.summary.codec import PartitionMap
from auditor.summary.partition_states import STATES

Ages = npt.NDArray[np.float64]
"""Seconds since each partition was last read, NaN if it never was; as long as the partition map."""

MAX_CELLS = 300
"""Cells of a heat map at most."""

MAX_COLUMNS = 50
"""Cells in a row of a heat map at most."""

STATES_BY_SEVERITY = ("equal", "skipped", "accounted", "listed", "refined", "estimated", "unequal", "source_only", "target_only")
"""The states of partitions, the worst last: a cell is drawn as the worst of its partitions."""

STATE_SHAPES = {
    "equal": "equal",
    "skipped": "skipped",
    **dict.fromkeys(("accounted", "listed", "refined"), "named"),
    **dict.fromkeys(("estimated", "unequal"), "differs"),
    "source_only": "source_only",
    "target_only": "target_only",
}
"""The shape that each state of a partition is drawn as."""

SHAPE_LABELS = {
    "equal": "equal",
    "named": "differs, rows named",
    "differs": "differs",
    "source_only": "in the source only",
    "target_only": "in the target only",
    "skipped": "not compared",
}
"""The meaning of each shape, for a legend."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One partition, or several neighbouring ones: the shape of the worst of them, its place, and the title shown on hover.

    ``similarity`` is the lowest among the worst partitions, None if unknown.
    """

    shape: str
    similarity: float | None
    column: int
    row: int
    title: str


@dataclass(frozen=True, slots=True)
class Heatmap:
    """A heat map: its cells in partition order, its size in cells, and how many partitions there are of each shape.

    ``partitions_per_cell`` is the largest number of partitions in one cell.
    """

    cells: tuple[Cell, ...]
    columns: int
    rows: int
    partitions_per_cell: int
    partitions: int
    counts: dict[str, int]


def build_heatmap(partition_map: PartitionMap, plan: Plan | None, ages: Ages | None = None) -> Heatmap | None:
    """Fold a partition map into at most MAX_CELLS cells; return None if it is empty.

    ``plan`` labels the partitions; without it they show their ids. ``ages`` adds to each title when its partitions were last read.
    """
    if not len(partition_map):
        return None
    count = min(MAX_CELLS, len(partition_map))
    severity = np.array([STATES_BY_SEVERITY.index(state) for state in STATES])[partition_map.state]
    borders = [len(partition_map) * number // count for number in range(count + 1)]
    columns = min(MAX_COLUMNS, count)
    cells = tuple(
        _cell(partition_map, severity, slice(borders[i], borders[i + 1]), plan, divmod(i, columns), ages)  # row, column
        for i in range(count)
    )
    of_state = np.bincount(severity, minlength=len(STATES_BY_SEVERITY)).tolist()
    counts: dict[str, int] = dict.fromkeys(SHAPE_LABELS, 0)
    for state, number in zip(STATES_BY_SEVERITY, of_state, strict=True):
        counts[STATE_SHAPES[state]] += number
    return Heatmap(
        cells=cells,
        columns=columns,
        rows=-(-count // columns),
        partitions_per_cell=-(-len(partition_map) // count),
        partitions=len(partition_map),
        counts={shape: number for shape, number in counts.items() if number},
    )


def _cell(partition_map: PartitionMap, severity: Any, at: slice, plan: Plan | None, place: tuple[int, int], ages: Ages | None) -> Cell:
    worst = int(severity[at].max())
    shape = STATE_SHAPES[STATES_BY_SEVERITY[worst]]
    similarities = partition_map.similarity[at][severity[at] == worst]
    similarities = similarities[~np.isnan(similarities)]
    similarity = float(similarities.min()) if len(similarities) else None
    ids = partition_map.partition[at]
    where = _label(plan, int(ids[0]))
    if len(ids) > 1:
        where = f"{len(ids):,} partitions: {where} ... {_label(plan, int(ids[-1]))}"
    if ages is not None and np.isnan(ages[at]).all():
        return Cell(shape, None, place[1], place[0], f"{where}; never read")
    keys = _key_range(partition_map, at, plan)
    unequal = int((severity[at] > 0).sum())
    title = [where, _describe_shape(shape, unequal, len(ids)), _row_counts(partition_map, at), keys if keys != where else ""]
    if similarity is not None and shape in ("named", "differs"):
        title.append(f"similarity {similarity:.4g}")
    if ages is not None:
        title.append(_describe_age(ages[at]))
    return Cell(shape, similarity, place[1], place[0], "; ".join(text for text in title if text))


def _describe_shape(shape: str, unequal: int, count: int) -> str:
    label = SHAPE_LABELS[shape]
    return label if count == 1 or shape == "equal" else f"{unequal:,} not equal, the worst: {label}"


def _label(plan: Plan | None, number: int) -> str:
    if plan is None:
        return f"partition {number:,}" if number != NULL_PARTITION else "no key (NULL)"
    return "a partition" if plan.hides_ranges else plan.partitioning.label(None if number == NULL_PARTITION else number)


def _row_counts(partition_map: PartitionMap, at: slice) -> str:
    rows: dict[Side, int] = {side: int(partition_map.rows[side][at].sum()) for side in SIDES}
    if rows["source"] == rows["target"]:
        return f"{rows['source']:,} rows"
    return f"{rows['source']:,} rows in the source, {rows['target']:,} in the target"


def _key_range(partition_map: PartitionMap, at: slice, plan: Plan | None) -> str:
    """Return the least and greatest key; the map holds keys of unequal partitions only. Empty without keys, or if they are masked."""
    masked = plan is not None and any(column.masked for column in plan.key_columns)
    least, greatest = (_integer_keys(keys[at]) for keys in (partition_map.least, partition_map.greatest))
    return f"keys {min(least):,} to {max(greatest):,}" if least and greatest and not masked else ""


def _describe_age(ages: Ages) -> str:
    """Return how long ago the partitions of a cell were last read."""
    known = ages[~np.isnan(ages)]
    never = f", {len(ages) - len(known):,} never" if len(known) < len(ages) else ""
    youngest, oldest = format_duration(float(known.min())), format_duration(float(known.max()))
    return f"read {oldest if youngest == oldest else f'{youngest} to {oldest}'} ago{never}"


def _integer_keys(keys: Iterable[Any]) -> list[int]:
    return [int(key) for key in keys if key is not None]
