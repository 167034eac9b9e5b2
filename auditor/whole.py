"""The whole table of a rolling audit, put together from the latest look at each of its partitions."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass

import numpy as np

from auditor import keep, rolling
from auditor.model import SIDES, Plan, Verdict
from auditor.packed import STATES, Picture
from auditor.store import Store, runs, stretches


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    """A table as its partitions were when each was last read.

    ``pieces`` are all its partitions by when that was (None: never), in order; ``unequal`` counts the partitions that differ and
    ``read`` those that were ever read, of ``partitions``.
    """

    verdict: Verdict
    picture: Picture
    pieces: tuple[rolling.Piece, ...]
    partitions: int
    read: int
    unequal: int
    oldest: dt.datetime | None

    @property
    def sentence(self) -> str:
        """What is known of the whole table, for a person."""
        never = f", {self.partitions - self.read:,} were never read" if self.read < self.partitions else ""
        since = f"; the oldest look was on {self.oldest:%Y-%m-%d %H:%M} UTC" if self.oldest else ""
        return f"of the whole table's {self.partitions:,} partitions {self.unequal:,} differ as they were last read{never}{since}"


def whole(store: Store, name: str) -> Whole | None:
    """The whole table of an audit, if its last run that ended read a part of it. Raises StoreError."""
    last = runs.latest(store, name)
    report = keep.report(store, last.run, most=0) if last else None
    plan = report.plan if report else None
    if plan is None or not plan.stretches or plan.least is None or plan.greatest is None:
        return None
    first, end = plan.least // plan.partitioning.size, plan.greatest // plan.partitioning.size + 1
    read = stretches.of(store, name, keep.layout(plan))
    known = [rolling.Piece(first if one.first is None else one.first, end if one.end is None else one.end, one.at) for one in read]
    pictures = [part for one, piece in zip(read, known, strict=True) if (part := _part(store, one.run, piece))]
    return _together(plan, pictures, rolling.pieces(known, first, end))


def _part(store: Store, run: str, piece: rolling.Piece) -> Picture | None:
    """The partitions of a piece in the picture of the run that read it."""
    picture = keep.picture(store, run)
    if picture is None:
        return None
    here = (picture.partition >= piece.first) & (picture.partition < piece.end)
    return Picture(
        partition=picture.partition[here],
        state=picture.state[here],
        similarity=picture.similarity[here],
        rows={side: picture.rows[side][here] for side in SIDES},
        least=picture.least[here],
        greatest=picture.greatest[here],
    )


def _together(plan: Plan, parts: list[Picture], pieces: list[rolling.Piece]) -> Whole | None:
    if not parts:
        return None
    picture = Picture(
        partition=np.concatenate([part.partition for part in parts]),
        state=np.concatenate([part.state for part in parts]),
        similarity=np.concatenate([part.similarity for part in parts]),
        rows={side: np.concatenate([part.rows[side] for part in parts]) for side in SIDES},
        least=np.concatenate([part.least for part in parts]),
        greatest=np.concatenate([part.greatest for part in parts]),
    )
    moments = [piece.at for piece in pieces if piece.at]
    read = sum(piece.end - piece.first for piece in pieces if piece.at)
    every = sum(piece.end - piece.first for piece in pieces)
    skipped = picture.state == STATES.index("skipped")
    unequal = int(((picture.state != STATES.index("equal")) & ~skipped).sum())
    unknown = bool(skipped.any()) or read < every
    return Whole(
        verdict=Verdict.MISMATCH if unequal else Verdict.UNKNOWN if unknown else Verdict.MATCH,
        picture=picture,
        pieces=tuple(pieces),
        partitions=every,
        read=read,
        unequal=unequal,
        oldest=min(moments, default=None),
    )
