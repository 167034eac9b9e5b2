"""The whole table of a rolling audit, put together from the latest look at each of its partitions.

A picture shows what the scan saw. Of a run that matched, its partitions that differed there fall into two kinds. Where all that
differed turned out to be no difference (equal at a later look, in flight, within tolerances), they are equal here. Where the audit's
threshold allowed what was left, they do differ, and are counted and drawn so; but they make no mismatch, just as they made none of
their run. So the whole is a match where each of its parts was, and is verified where they are; a number of rows that the
threshold allows is allowed to each part. Of a run that claimed nothing, what differed there is not known.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from auditor import keep, rolling
from auditor.model import SIDES, Verdict
from auditor.packed import STATES, Picture
from auditor.store import Store, runs, stretches


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    """A table as its partitions were when each was last read.

    ``pieces`` are all its partitions by when that was (None: never), in order; ``unequal`` counts the partitions that differ,
    ``allowed`` those of them that the audit's threshold allowed, and ``read`` those that were ever read, of ``partitions``.
    """

    verdict: Verdict
    picture: Picture
    pieces: tuple[rolling.Piece, ...]
    partitions: int
    read: int
    unequal: int
    allowed: int
    oldest: dt.datetime | None

    @property
    def sentence(self) -> str:
        """What is known of the whole table, for a person."""
        never = f", {self.partitions - self.read:,} were never read" if self.read < self.partitions else ""
        since = f"; the oldest look was on {self.oldest:%Y-%m-%d %H:%M} UTC" if self.oldest else ""
        within = f" ({self.allowed:,} of them no more than the audit allows)" if self.allowed else ""
        differ = f"{self.unequal:,} {'differs' if self.unequal == 1 else 'differ'}"
        return f"of the whole table's {self.partitions:,} partitions {differ} as they were last read{within}{never}{since}"


def whole(store: Store, name: str) -> Whole | None:
    """The whole table of an audit, if its last run that ended read a part of it. Raises StoreError."""
    last = runs.latest(store, name)
    report = keep.report(store, last.run, most=0) if last else None
    plan = report.plan if report else None
    if last is None or plan is None or not plan.stretches or plan.least is None or plan.greatest is None:
        return None
    first, end = plan.least // plan.partitioning.size, plan.greatest // plan.partitioning.size + 1
    read = stretches.of(store, name, keep.layout(plan, keep.settings(last.definition)))
    known = [rolling.Piece(first if one.first is None else one.first, end if one.end is None else one.end, one.at) for one in read]
    parts = [part for one, piece in zip(read, known, strict=True) if (part := _part(store, one.run, piece, first))]
    return _together(parts, rolling.pieces(known, first, end))


def _part(store: Store, run: str, piece: rolling.Piece, lowest: int) -> tuple[Picture, bool] | None:
    """The partitions of a piece in the picture of the run that read it, and whether the audit allowed what differs in them."""
    picture = keep.picture(store, run)
    if picture is None:
        return None
    here = keep.within(picture, piece.first, piece.end, lowest)
    part = Picture(
        partition=picture.partition[here],
        state=picture.state[here],
        similarity=picture.similarity[here],
        rows={side: picture.rows[side][here] for side in SIDES},
        least=picture.least[here],
        greatest=picture.greatest[here],
    )
    verdict = runs.find(store, run).verdict
    if verdict is Verdict.UNKNOWN:
        return _painted(part, "skipped"), False
    if not _differs(part).any() or verdict is Verdict.MISMATCH:
        return part, False
    found = keep.report(store, run, most=0)
    if found and found.jaccard and not found.jaccard.differing:
        return _painted(part, "equal"), False
    return part, True


def _differs(picture: Picture) -> npt.NDArray[np.bool_]:
    return ~np.isin(picture.state, [STATES.index("equal"), STATES.index("skipped")])


def _painted(picture: Picture, state: Literal["equal", "skipped"]) -> Picture:
    """The picture with every partition that differed in the scan in another state."""
    gone = _differs(picture)
    parts = {name: getattr(picture, name).copy() for name in ("state", "similarity", "least", "greatest")}
    similar = 1.0 if state == "equal" else np.nan
    for name, value in (("state", STATES.index(state)), ("similarity", similar), ("least", None), ("greatest", None)):
        parts[name][gone] = value
    return dataclasses.replace(picture, **parts)


def _together(found: list[tuple[Picture, bool]], pieces: list[rolling.Piece]) -> Whole | None:
    if not found:
        return None
    parts = [part for part, _ in found]
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
    unequal = int(_differs(picture).sum())
    allowed = sum(int(_differs(part).sum()) for part, within in found if within)
    unknown = bool((picture.state == STATES.index("skipped")).any()) or read < every
    return Whole(
        verdict=Verdict.MISMATCH if unequal > allowed else Verdict.UNKNOWN if unknown else Verdict.MATCH,
        picture=picture,
        pieces=tuple(pieces),
        partitions=every,
        read=read,
        unequal=unequal,
        allowed=allowed,
        oldest=min(moments, default=None),
    )
