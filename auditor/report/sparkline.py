"""An audit's score over time, run by run: as the geometry of an SVG line, and as a row of block characters."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass

from auditor.model import Verdict
from auditor.report import formatting
from auditor.store.runs import ScorePoint

BLOCKS = "▁▂▃▄▅▆▇█"

MAX_POINTS = 120
"""Points drawn at most; more are downsampled."""

WIDTH, HEIGHT, MARGIN = 240.0, 44.0, 5.0
"""Size of the drawing, and the margin inside it, in SVG user units."""

_BY_SEVERITY = (Verdict.MATCH, Verdict.UNKNOWN, Verdict.MISMATCH)


@dataclass(frozen=True, slots=True)
class Mark:
    """A run in the drawing: its position, its verdict, and the title shown on hover."""

    x: float
    y: float
    verdict: str
    title: str


@dataclass(frozen=True, slots=True)
class Line:
    """The drawing: the scores as SVG polyline points, their bounds as polygon points, the runs' marks, and the scale's lowest score."""

    line: str
    area: str
    marks: tuple[Mark, ...]
    lowest: float
    width: float = WIDTH
    height: float = HEIGHT


def downsample(points: Sequence[ScorePoint], limit: int) -> list[ScorePoint]:
    """Return at most ``limit`` points, each the worst of a group of neighbours."""
    if len(points) <= limit:
        return list(points)
    borders = [len(points) * number // limit for number in range(limit + 1)]
    return [max(points[borders[i] : borders[i + 1]], key=_severity) for i in range(limit)]


def _severity(point: ScorePoint) -> tuple[int, float]:
    return _BY_SEVERITY.index(point.verdict), -(1.0 if point.score is None else point.score)


def line(points: Sequence[ScorePoint], first: dt.datetime, last: dt.datetime) -> Line | None:
    """Draw the points on a time axis from ``first`` to ``last``; return None for fewer than two points."""
    drawn = downsample(points, MAX_POINTS)
    if len(drawn) < 2:
        return None
    lowest = _lowest(drawn)
    span = max(1.0, (last - first).total_seconds())

    def x(at: dt.datetime) -> float:
        return round(MARGIN + (WIDTH - 2 * MARGIN) * min(1.0, max(0.0, (at - first).total_seconds() / span)), 1)

    def y(score: float) -> float:
        share = 1.0 if lowest == 1 else (score - lowest) / (1 - lowest)
        return round(HEIGHT - MARGIN - (HEIGHT - 2 * MARGIN) * min(1.0, max(0.0, share)), 1)

    scored = [(x(p.at), p.score, p.lower, p.upper) for p in drawn if p.score is not None]
    upper_edge = [f"{at},{y(score if upper is None else upper)}" for at, score, _, upper in scored]
    lower_edge = [f"{at},{y(score if lower is None else lower)}" for at, score, lower, _ in reversed(scored)]
    marks = tuple(Mark(x(p.at), HEIGHT - MARGIN if p.score is None else y(p.score), p.verdict.value, _title(p)) for p in drawn)
    return Line(" ".join(f"{at},{y(score)}" for at, score, _, _ in scored), " ".join([*upper_edge, *lower_edge]), marks, lowest)


def _lowest(points: Sequence[ScorePoint]) -> float:
    return min((low for p in points for low in (p.score, p.lower) if low is not None), default=1.0)


def _title(point: ScorePoint) -> str:
    score = "no score" if point.score is None else f"score {formatting.score(point.score, point.lower, point.upper)}"
    return f"{point.at:%Y-%m-%d %H:%M} UTC: {point.verdict.value}, {score}"


def blocks(points: Sequence[ScorePoint], width: int = 30) -> str:
    """Return at most ``width`` block characters, scaled from the lowest score to 1; only a score of 1 is a full block.

    A run without a score is a full block if it matched, ``!`` for a mismatch and ``?`` for unknown.
    """
    drawn = downsample(points, width)
    lowest = min((p.score for p in drawn if p.score is not None), default=1.0)
    return "".join(_block(p, lowest) for p in drawn)


def _block(point: ScorePoint, lowest: float) -> str:
    score = point.score
    if score is None:
        return {Verdict.MATCH: BLOCKS[-1], Verdict.MISMATCH: "!", Verdict.UNKNOWN: "?"}[point.verdict]
    if score >= 1 or lowest >= 1:
        return BLOCKS[-1]
    return BLOCKS[min(len(BLOCKS) - 2, int((score - lowest) / (1 - lowest) * (len(BLOCKS) - 1)))]
