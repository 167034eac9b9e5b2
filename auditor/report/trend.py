"""How an audit's score went, run by run: as a line in a drawing, and as a row of blocks."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass

from auditor.model import Verdict
from auditor.report import plain
from auditor.store.runs import Point

BLOCKS = "▁▂▃▄▅▆▇█"

MOST = 120
"""The most points that are drawn; of more, neighbours are folded into the worst of them."""

WIDTH, HEIGHT, EDGE = 240.0, 44.0, 5.0

_WORST_LAST = (Verdict.MATCH, Verdict.UNKNOWN, Verdict.MISMATCH)


@dataclass(frozen=True, slots=True)
class Mark:
    """A point where it is drawn, with what is told of it."""

    x: float
    y: float
    verdict: str
    title: str


@dataclass(frozen=True, slots=True)
class Line:
    """What is drawn: the scores' line, the area between their bounds, the runs' marks, and the least score on the scale."""

    line: str
    area: str
    marks: tuple[Mark, ...]
    least: float
    width: float = WIDTH
    height: float = HEIGHT


def folded(points: Sequence[Point], most: int) -> list[Point]:
    """At most so many points, each the worst of its neighbours."""
    if len(points) <= most:
        return list(points)
    borders = [len(points) * number // most for number in range(most + 1)]
    return [max(points[borders[i] : borders[i + 1]], key=_badness) for i in range(most)]


def _badness(point: Point) -> tuple[int, float]:
    return _WORST_LAST.index(point.verdict), -(1.0 if point.score is None else point.score)


def line(points: Sequence[Point], first: dt.datetime, last: dt.datetime) -> Line | None:
    """The points between two moments as a drawing; None where there are not two."""
    shown = folded(points, MOST)
    if len(shown) < 2:
        return None
    least = _least(shown)
    span = max(1.0, (last - first).total_seconds())

    def x(at: dt.datetime) -> float:
        return round(EDGE + (WIDTH - 2 * EDGE) * min(1.0, max(0.0, (at - first).total_seconds() / span)), 1)

    def y(score: float) -> float:
        share = 1.0 if least == 1 else (score - least) / (1 - least)
        return round(HEIGHT - EDGE - (HEIGHT - 2 * EDGE) * min(1.0, max(0.0, share)), 1)

    known = [(x(p.at), p.score, p.lower, p.upper) for p in shown if p.score is not None]
    above = [f"{at},{y(score if upper is None else upper)}" for at, score, _, upper in known]
    below = [f"{at},{y(score if lower is None else lower)}" for at, score, lower, _ in reversed(known)]
    marks = tuple(Mark(x(p.at), HEIGHT - EDGE if p.score is None else y(p.score), p.verdict.value, _title(p)) for p in shown)
    return Line(" ".join(f"{at},{y(score)}" for at, score, _, _ in known), " ".join([*above, *below]), marks, least)


def _least(points: Sequence[Point]) -> float:
    return min((low for p in points for low in (p.score, p.lower) if low is not None), default=1.0)


def _title(point: Point) -> str:
    told = "no score" if point.score is None else f"score {plain.score(point.score, point.lower, point.upper)}"
    return f"{point.at:%Y-%m-%d %H:%M} UTC: {point.verdict.value}, {told}"


def blocks(points: Sequence[Point], width: int = 30) -> str:
    """The points as blocks, the highest for a score of 1; a sign of the verdict where there was none."""
    shown = folded(points, width)
    least = min((p.score for p in shown if p.score is not None), default=1.0)
    return "".join(_block(p, least) for p in shown)


def _block(point: Point, least: float) -> str:
    score = point.score
    if score is None:
        return {Verdict.MATCH: BLOCKS[-1], Verdict.MISMATCH: "!", Verdict.UNKNOWN: "?"}[point.verdict]
    if score >= 1 or least >= 1:
        return BLOCKS[-1]
    return BLOCKS[min(len(BLOCKS) - 2, int((score - least) / (1 - least) * (len(BLOCKS) - 1)))]
