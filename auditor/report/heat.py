"""The picture of a whole table, folded into as many cells as a page can show."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from auditor.model import NULL_PARTITION, SIDES, Plan, Side
from auditor.packed import STATES, Picture
from auditor.report import plain

Ages = npt.NDArray[np.float64]

CELLS = 300
"""The most cells that a picture is folded into."""

ACROSS = 50
"""The most cells in a row of them."""

WORST_LAST = ("equal", "skipped", "accounted", "listed", "refined", "estimated", "unequal", "source_only", "target_only")

SHAPES = {
    "equal": "equal",
    "skipped": "skipped",
    **dict.fromkeys(("accounted", "listed", "refined"), "named"),
    **dict.fromkeys(("estimated", "unequal"), "differs"),
    "source_only": "source_only",
    "target_only": "target_only",
}
"""What is drawn alike."""

SAYS = {
    "equal": "equal",
    "named": "differs, and its rows were named",
    "differs": "differs",
    "source_only": "in the source only",
    "target_only": "in the target only",
    "skipped": "not compared",
}


@dataclass(frozen=True, slots=True)
class Cell:
    """One or more neighbouring partitions: what the worst of them is drawn as, and what is told of them."""

    shape: str
    similarity: float | None
    column: int
    row: int
    title: str


@dataclass(frozen=True, slots=True)
class Heat:
    """A picture to be drawn; ``each`` says how many partitions a cell stands for at most, ``counts`` how many of a shape there are."""

    cells: tuple[Cell, ...]
    columns: int
    rows: int
    each: int
    partitions: int
    counts: dict[str, int]


def heat(picture: Picture, plan: Plan | None, ages: Ages | None = None) -> Heat | None:
    """The picture in at most CELLS cells, in the order of its partitions; None where it is empty.

    ``ages`` are those of the looks at its partitions, in seconds, NaN of one that was never read.
    """
    if not len(picture):
        return None
    count = min(CELLS, len(picture))
    rank = np.array([WORST_LAST.index(state) for state in STATES])[picture.state]
    borders = [len(picture) * number // count for number in range(count + 1)]
    columns = min(ACROSS, count)
    cells = tuple(
        _cell(picture, rank, slice(borders[i], borders[i + 1]), plan, divmod(i, columns), ages)  # row, column
        for i in range(count)
    )
    found = np.bincount(rank, minlength=len(WORST_LAST)).tolist()
    counts: dict[str, int] = dict.fromkeys(SAYS, 0)
    for state, many in zip(WORST_LAST, found, strict=True):
        counts[SHAPES[state]] += many
    each = -(-len(picture) // count)
    return Heat(cells, columns, -(-count // columns), each, len(picture), {shape: many for shape, many in counts.items() if many})


def _cell(picture: Picture, rank: Any, at: slice, plan: Plan | None, place: tuple[int, int], ages: Ages | None) -> Cell:
    worst = int(rank[at].max())
    shape = SHAPES[WORST_LAST[worst]]
    known = picture.similarity[at][rank[at] == worst]
    known = known[~np.isnan(known)]
    similarity = float(known.min()) if len(known) else None
    ids = picture.partition[at]
    where = _label(plan, int(ids[0]))
    if len(ids) > 1:
        where = f"{len(ids):,} partitions: {where} ... {_label(plan, int(ids[-1]))}"
    if ages is not None and np.isnan(ages[at]).all():
        return Cell(shape, None, place[1], place[0], f"{where}; never read")
    keys = _keys(picture, at, plan)
    told = [where, _says(shape, int((rank[at] > 0).sum()), len(ids)), _rows(picture, at), keys if keys != where else ""]
    if similarity is not None and shape in ("named", "differs"):
        told.append(f"similarity {similarity:.4g}")
    if ages is not None:
        told.append(_read(ages[at]))
    return Cell(shape, similarity, place[1], place[0], "; ".join(text for text in told if text))


def _says(shape: str, not_equal: int, count: int) -> str:
    return SAYS[shape] if count == 1 or shape == "equal" else f"{not_equal:,} not equal, the worst of them: {SAYS[shape]}"


def _label(plan: Plan | None, number: int) -> str:
    if plan is None:
        return f"partition {number:,}" if number != NULL_PARTITION else "no key (NULL)"
    return "a partition" if plan.hides_ranges else plan.partitioning.label(None if number == NULL_PARTITION else number)


def _rows(picture: Picture, at: slice) -> str:
    rows: dict[Side, int] = {side: int(picture.rows[side][at].sum()) for side in SIDES}
    if rows["source"] == rows["target"]:
        return f"{rows['source']:,} rows"
    return f"{rows['source']:,} rows in the source, {rows['target']:,} in the target"


def _keys(picture: Picture, at: slice, plan: Plan | None) -> str:
    """The least and the greatest key of those that are not equal."""
    masked = plan is not None and any(column.masked for column in plan.key_columns)
    least, greatest = (_numbers(keys[at]) for keys in (picture.least, picture.greatest))
    return f"keys {min(least):,} to {max(greatest):,}" if least and greatest and not masked else ""


def _read(ages: Ages) -> str:
    """How long ago these were read."""
    known = ages[~np.isnan(ages)]
    never = f", {len(ages) - len(known):,} never" if len(known) < len(ages) else ""
    youngest, oldest = plain.ago(float(known.min())), plain.ago(float(known.max()))
    return f"read {oldest if youngest == oldest else f'{youngest} to {oldest}'} ago{never}"


def _numbers(keys: Iterable[Any]) -> list[int]:
    return [int(key) for key in keys if key is not None]
