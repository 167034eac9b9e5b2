"""All audits on one page, those that need attention first."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from auditor.api.behind import Given
from auditor.api.pages._frame import now, page
from auditor.api.pages._visitor import Reader
from auditor.model import Verdict
from auditor.report import plain, trend
from auditor.report.day import DAYS
from auditor.service import audits
from auditor.service.audits import Overview
from auditor.store import Store, runs
from auditor.store.runs import StoredRun

router = APIRouter()

STATUSES = ("mismatch", "unknown", "never", "match")


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """An audit as its line shows it."""

    audit: Overview
    status: str
    why: str
    score: str
    bounds: str
    ended: dt.datetime | None
    line: trend.Line | None


@router.get("/")
def overview(request: Request, given: Given, visitor: Reader, q: str = "") -> HTMLResponse:
    """Every audit, or those that fit the words of ``q``."""
    every = [row(given.store, one) for one in audits.overview(given.configured, given.store)]
    every.sort(key=lambda one: (STATUSES.index(one.status), one.audit.name))
    counts = {status: sum(one.status == status for one in every) for status in STATUSES}
    return page(request, "overview.html", visitor=visitor, rows=_fitting(every, q), total=len(every), counts=counts, q=q)


def row(store: Store, one: Overview) -> Row:
    """What an audit's line says: of its latest run that came to an end."""
    last = one.latest if one.latest is None or one.latest.ended else _ended(store, one.name)
    scored = last is not None and last.score is not None and plain.has_score(last)
    at = now()
    return Row(
        audit=one,
        status=last.verdict.value if last else "never",
        why="; ".join(last.reasons[:2]) if last and last.verdict is not Verdict.MATCH else "",
        score=plain.rounded(last.score) if last and last.score is not None and scored else "",
        bounds=_bounds(last.lower, last.upper) if last and scored else "",
        ended=(last.ended or last.started) if last else None,
        line=trend.line(one.trend, at - dt.timedelta(days=DAYS), at),
    )


def _ended(store: Store, name: str) -> StoredRun | None:
    return next((run for run in runs.listed(store, audit=name, limit=5) if run.ended), None)


def _bounds(lower: float | None, upper: float | None) -> str:
    if lower is None or upper is None:
        return ""
    return "exact" if lower == upper else f"{plain.rounded(lower)} to {plain.rounded(upper)}"


def _fitting(rows: Sequence[Row], q: str) -> list[Row]:
    words = q.lower().split()
    return [one for one in rows if all(word in _text(one) for word in words)]


def _text(one: Row) -> str:
    paused = "paused" if one.audit.paused else ""
    return " ".join((one.audit.name, one.audit.source, one.audit.target, one.status, paused)).lower()
