"""A rolling audit's whole table as it is shown: each partition as it was last read, with the age of that look."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from auditor import rolling
from auditor.model import SIDES, Divergent, Plan, Verdict
from auditor.packed import STATES, Picture
from auditor.report import plain
from auditor.report.heat import SAYS, SHAPES, Ages, Heat, heat
from auditor.whole import Whole

MOST = 10_000
"""Partitions of a stretch that was never read which are drawn at most: a sparse key may have any number of them."""


@dataclass(frozen=True, slots=True)
class Part:
    """Neighbouring partitions that were last read in one run: which ones, how many, and when (None: never)."""

    label: str
    partitions: int
    at: dt.datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rolled:
    """What is known of the whole table; ``parts`` are those read longest ago first, ``divergent`` in the order of their keys."""

    verdict: Verdict
    sentence: str
    share: float
    heat: Heat | None
    parts: tuple[Part, ...]
    divergent: tuple[Divergent, ...]


def rolled(found: Whole, plan: Plan, now: dt.datetime) -> Rolled:
    """The whole table, by the plan of the last run, for somebody who looks at it now."""
    picture = _with_gaps(found)
    ages = _ages(found, picture, now)
    parts = sorted(found.pieces, key=lambda one: (one.at is not None, one.at, one.first))
    return Rolled(
        verdict=found.verdict,
        sentence=found.sentence,
        share=found.read / found.partitions,
        heat=heat(picture, plan, ages),
        parts=tuple(Part(_where(plan, one), one.end - one.first, one.at) for one in parts),
        divergent=tuple(_divergent(picture, ages, plan)),
    )


def _where(plan: Plan, piece: rolling.Piece) -> str:
    """The keys of a stretch of partitions."""
    first, last = plan.label(piece.first), plan.label(piece.end - 1)
    size = plan.partitioning.size
    return first if plan.hides_ranges or first == last else f"keys {piece.first * size:,} to {piece.end * size - 1:,}"


def _with_gaps(found: Whole) -> Picture:
    """The picture with the partitions that were never read in their places."""
    here, gaps = found.picture, [one for one in found.pieces if one.at is None]
    if not gaps:
        return here
    added = np.concatenate([np.linspace(one.first, one.end - 1, min(MOST, one.end - one.first)).astype(np.int64) for one in gaps])
    count = len(added)
    order = np.argsort(np.concatenate([here.partition, added]), kind="stable")
    nothing = np.empty(count, np.object_)
    return Picture(
        partition=np.concatenate([here.partition, added])[order],
        state=np.concatenate([here.state, np.full(count, STATES.index("skipped"), np.uint8)])[order],
        similarity=np.concatenate([here.similarity, np.full(count, np.nan, np.float32)])[order],
        rows={side: np.concatenate([here.rows[side], np.zeros(count, np.int64)])[order] for side in SIDES},
        least=np.concatenate([here.least, nothing])[order],
        greatest=np.concatenate([here.greatest, nothing])[order],
    )


def _ages(found: Whole, picture: Picture, now: dt.datetime) -> Ages:
    """How many seconds ago each partition was read; NaN of one that never was."""
    of_pieces = np.array([np.nan if one.at is None else max(0.0, (now - one.at).total_seconds()) for one in found.pieces])
    places = np.searchsorted([one.first for one in found.pieces], picture.partition, side="right") - 1
    return of_pieces[places]


def _divergent(picture: Picture, ages: Ages, plan: Plan) -> Iterator[Divergent]:
    for i in np.flatnonzero((picture.state != STATES.index("equal")) & (picture.state != STATES.index("skipped"))):
        number, similarity = int(picture.partition[i]), float(picture.similarity[i])
        yield Divergent(
            partition=None if plan.hides_ranges else number,
            key_range=None,
            label=plan.label(number),
            rows={side: int(picture.rows[side][i]) for side in SIDES},
            similarity=None if np.isnan(similarity) else similarity,
            measures=(f"{SAYS[SHAPES[STATES[picture.state[i]]]]}; read {plain.ago(float(ages[i]))} ago",),
        )
