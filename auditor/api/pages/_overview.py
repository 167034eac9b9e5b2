"""All audits on one page, those that need attention first."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from auditor import service
from auditor.api.behind import Given
from auditor.api.pages._frame import now, page
from auditor.api.pages._visitor import Reader
from auditor.config import Audit
from auditor.model import Verdict
from auditor.report import plain, trend
from auditor.report.day import DAYS, STATUSES, Status, late
from auditor.service import audits
from auditor.service.audits import Overview
from auditor.store import Store, runs
from auditor.store.runs import StoredRun

router = APIRouter()


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """An audit as its line shows it."""

    audit: Overview
    status: Status
    why: str
    score: str
    bounds: str
    ended: dt.datetime | None
    line: trend.Line | None


@router.get("/")
def overview(request: Request, given: Given, visitor: Reader, q: str = "") -> HTMLResponse:
    """Every audit, or those that fit the words of ``q``."""
    settings = given.settings
    every = [row(given.store, one, service.audit(settings, one.name)) for one in audits.overview(given.configured, given.store)]
    every.sort(key=lambda one: (STATUSES.index(one.status), one.audit.name))
    counts = {status: sum(one.status == status for one in every) for status in STATUSES}
    return page(request, "overview.html", visitor=visitor, rows=_fitting(every, q), total=len(every), counts=counts, q=q)


def row(store: Store, one: Overview, audit: Audit) -> Row:
    """What an audit's line says: of its latest run that came to an end, of a rolling audit what is known of the whole table."""
    last = one.latest if one.latest is None or one.latest.ended else _ended(store, one.name)
    scored = last is not None and last.score is not None and plain.has_score(last)
    at = now()
    status, why = _status(store, one, audit, last, at) if last else ("never", "")
    return Row(
        audit=one,
        status=status,
        why=why,
        score=plain.rounded(last.score) if last and last.score is not None and scored else "",
        bounds=(_bounds(last.lower, last.upper) + (", of the last part" if audit.rolling else "")) if last and scored else "",
        ended=(last.ended or last.started) if last else None,
        line=trend.line(one.trend, at - dt.timedelta(days=DAYS), at),
    )


def _status(store: Store, one: Overview, audit: Audit, last: StoredRun, at: dt.datetime) -> tuple[Status, str]:
    """What is known of an audit that was run, and why, where that is no match."""
    found = service.whole(store, one.name) if audit.rolling else None
    verdict, reasons = (found.verdict, [found.sentence]) if found else (last.verdict, list(last.reasons[:2]))
    status: Status = verdict.value
    if verdict is not Verdict.MATCH:
        return status, "; ".join(reasons)
    if one.paused or one.running:
        return "match", ""
    starts = [last.started, *(point.at for point in reversed(one.trend) if point.at < last.started)]
    old = late(audit.schedule, starts, (at - (last.ended or last.started)).total_seconds(), at)
    return ("stale", old) if old else ("match", "")


def _ended(store: Store, name: str) -> StoredRun | None:
    return next((run for run in runs.listed(store, audit=name, limit=5, whole=True) if run.ended), None)


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
