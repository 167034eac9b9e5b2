"""One audit: how it went, what its table looks like, and what can be done with it."""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Sequence
from typing import Annotated, Any

import yaml
from fastapi import APIRouter, Form, Request
from fastapi.responses import HTMLResponse, RedirectResponse

from auditor import keep, service
from auditor.api.behind import Behind, Given
from auditor.api.pages import _overview
from auditor.api.pages._frame import back_to, now, page, url
from auditor.api.pages._visitor import Definer, Reader, Runner
from auditor.errors import ConfigError
from auditor.model import Report
from auditor.report import plain
from auditor.report.day import DAYS, not_compared
from auditor.report.heat import heat
from auditor.report.rolled import Rolled, rolled
from auditor.report.shown import shown
from auditor.service import audits, queueing
from auditor.store import runs, standing
from auditor.store.runs import StoredRun

router = APIRouter()

PAGE = 20
"""Runs in a page of the history."""

DRAWN = 400
"""The most runs in the chart."""

FEW = 12
"""Partitions that differ, of which the page shows so many."""

MANY = 50
"""Parts of a rolling audit's table of which the page tells when they were read."""


@router.get("/audits/{name:path}")
def audit(request: Request, given: Given, visitor: Reader, name: str, before: str = "") -> HTMLResponse:
    """The audit's page; ``before`` is the last run of the page before, in its history."""
    settings = given.settings
    asked = service.audit(settings, name)
    one = next(iter(audits.overview(given.configured, given.store, name)), None)
    history = runs.listed(given.store, audit=name, limit=PAGE + 1, before=before or None)
    last = runs.latest(given.store, name)
    report = _report(given, last)
    picture = keep.picture(given.store, last.run) if last else None
    return page(
        request,
        "audit.html",
        visitor=visitor,
        name=name,
        asked=asked,
        row=_overview.row(given.store, one, asked) if one else None,
        legs=service.expanded(settings, [name]) if asked.via else [],
        last=last,
        report=report,
        heat=heat(picture, report.plan) if picture is not None and report else None,
        whole=_whole(given, name, report) if asked.rolling else None,
        few=FEW,
        many=MANY,
        times=asked.partition.column or (asked.settle.column if asked.settle else ""),
        not_compared=list(not_compared(report)) if report else [],
        threshold=plain.threshold(asked.threshold),
        settings=yaml.safe_dump(service.definition(asked), sort_keys=False, allow_unicode=True),
        paused=standing.get(given.store, name).paused,
        history=history[:PAGE],
        older=history[PAGE - 1].run if len(history) > PAGE else "",
        before=before,
        chart=_chart(given, name),
    )


def _report(given: Behind, last: StoredRun | None) -> Report | None:
    found = keep.report(given.store, last.run, most=0) if last else None
    return shown(found) if found else None


def _whole(given: Behind, name: str, report: Report | None) -> Rolled | None:
    """The whole table of a rolling audit, put together from the latest look at each of its partitions."""
    found = service.whole(given.store, name)
    return rolled(found, report.plan, now()) if found and report and report.plan else None


def _chart(given: Behind, name: str) -> str:
    """The scores of the last days as the chart is drawn from; nothing where there are not two."""
    oldest = now() - dt.timedelta(days=DAYS)
    recent = [one for one in runs.listed(given.store, audit=name, limit=DRAWN, whole=True) if one.ended and one.started >= oldest]
    drawn = [one for one in reversed(recent) if one.score is not None and plain.has_score(one)]
    return json.dumps(_series(drawn)) if len(drawn) > 1 else ""


def _series(drawn: Sequence[StoredRun]) -> dict[str, list[Any]]:
    return {
        "at": [one.started.timestamp() for one in drawn],
        "score": [one.score for one in drawn],
        "lower": [one.lower for one in drawn],
        "upper": [one.upper for one in drawn],
        "verdict": [one.verdict.value for one in drawn],
        "run": [url("runs", one.run) for one in drawn],
    }


Bound = Annotated[str, Form(max_length=40)]


@router.post("/audits/{name:path}/run")
def run(
    given: Given,
    visitor: Runner,
    name: str,
    method: Annotated[str, Form()] = "",
    reason: Annotated[str, Form(max_length=500)] = "",
    keys_from: Bound = "",
    keys_to: Bound = "",
    times_from: Bound = "",
    times_to: Bound = "",
) -> RedirectResponse:
    """Request a run, and look at it, or at the one that waits or goes on already."""
    overrides = {
        "method": method,
        "keys": _filled({"from": _key(keys_from), "to": _key(keys_to)}),
        "times": _filled({"from": times_from, "to": times_to}),
    }
    asked = queueing.request_run(
        given.configured, given.store, name, overrides=_filled(overrides), reason=reason, requested_by=visitor.name
    )
    return back_to(url("runs", asked.run))


def _filled(values: dict[str, Any]) -> dict[str, Any]:
    """What of a form was filled in."""
    return {name: value for name, value in values.items() if value not in ("", None, {})}


def _key(text: str) -> int | None:
    """The key that somebody wrote, with or without marks between its thousands. Raises ConfigError."""
    digits = text.strip().replace(",", "")
    if not digits:
        return None
    if not re.fullmatch(r"-?[0-9]+", digits):
        raise ConfigError(f"{text!r} is no whole number, as a key has to be")
    return int(digits)


@router.post("/audits/{name:path}/pause")
def pause(given: Given, visitor: Definer, name: str) -> RedirectResponse:
    """Let the schedule pass this audit by."""
    audits.pause(given.configured, given.store, name, by=visitor.name)
    return back_to(url("audits", name))


@router.post("/audits/{name:path}/unpause")
def unpause(given: Given, visitor: Definer, name: str) -> RedirectResponse:
    """Let the schedule run this audit again."""
    audits.unpause(given.configured, given.store, name, by=visitor.name)
    return back_to(url("audits", name))
