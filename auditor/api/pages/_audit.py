"""The page of an audit: standing, partition map, history, forms to run and pause it; and SQL for consoles, whose results it compares."""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from fastapi import APIRouter, File, Form, Request, Response, UploadFile
from fastapi.responses import HTMLResponse, PlainTextResponse, RedirectResponse
from markupsafe import Markup

from auditor import service
from auditor.api import reports
from auditor.api.authentication import Definer, Reader, Runner
from auditor.api.dependencies import App, AppState
from auditor.api.pages import _overview
from auditor.api.pages._differences import list_first, mark
from auditor.api.pages._layout import now, redirect, render_page, url
from auditor.api.routing import slow_request
from auditor.api_models.incident import Covered, DifferenceChanges
from auditor.bootstrap import use_cases
from auditor.errors import AuditorError, ConfigError
from auditor.escaping import yaml_text
from auditor.history import records
from auditor.masking import redact
from auditor.model import SIDES, Method, Report, Side
from auditor.report import formatting, html, sentences
from auditor.report.day import TREND_DAYS, not_read
from auditor.report.heatmap import build_heatmap
from auditor.report.rolling import WholeTable, build_whole_table
from auditor.service import audits, bisection, difference_changes, incidents, stored_runs, workers
from auditor.store import audit_state, runs
from auditor.store import bootstraps as stored_bootstraps
from auditor.store import incidents as stored_incidents
from auditor.store.runs import StoredRun

router = APIRouter()

HISTORY_PAGE = 20
"""Runs on a page of the history."""

CHART_RUNS = 400
"""Largest number of runs in the chart."""

FIRST_ROWS = 10
"""Differing rows shown under the verdict."""

MAX_COMPARED = 2000
"""Differing rows up to which the last two runs are compared for the page of the audit."""

MAX_PARTITIONS = 12
"""Largest number of unequal partitions shown."""

LISTED = 5
"""Bootstraps that are listed, the newest first."""

MAX_PARTS = 50
"""Largest number of parts of a rolling audit's table that are listed with the time of their last run."""


# Before the page of an audit, whose route takes every path below /audits, because names may contain slashes.
@router.get("/audits/{name:path}/sql")
def sql_page(request: Request, app: App, visitor: Reader, name: str, method: Literal["", Method] = "") -> HTMLResponse:
    """Show both sides' scripts, or the error that prevents their generation."""
    settings = app.settings
    definition = service.audit(settings, name)
    scripts: dict[Side, str] = {}
    error = ""
    try:
        with slow_request():
            scripts = service.sql(settings, name, SIDES, method or None)
    except AuditorError as failed:
        error = str(failed)
    return render_page(request, "sql.html", visitor=visitor, name=name, definition=definition, method=method, scripts=scripts, error=error)


@router.get("/audits/{name:path}/sql/{side}.sql")
def download_script(app: App, visitor: Reader, name: str, side: Side, method: Literal["", Method] = "") -> PlainTextResponse:
    """Return the script of one side as plain text."""
    with slow_request():
        script = service.sql(app.settings, name, (side,), method or None)[side]
    return PlainTextResponse(script, headers={"Cache-Control": "no-store"})


@router.get("/audits/{name:path}/bisection")
def bisection_page(request: Request, app: App, visitor: Reader, name: str) -> HTMLResponse:
    """Show at which merges the audit's tables parted, and who parted them, as its ledger has it."""
    with slow_request():
        found = bisection.bisect(app.settings, app.store, name)
    return render_page(request, "bisection.html", visitor=visitor, name=name, found=found)


@router.get("/compare")
def compare_form(request: Request, app: App, visitor: Reader) -> HTMLResponse:
    """Show the upload form."""
    return render_page(request, "compare.html", visitor=visitor, names=service.expand_legs(app.settings), name="", result="", error="")


@router.post("/compare")
def compare_files(
    request: Request,
    app: App,
    visitor: Reader,
    source: Annotated[UploadFile, File()],
    target: Annotated[UploadFile, File()],
    name: Annotated[str, Form()] = "",
) -> HTMLResponse:
    """Show the report of two uploaded results. Nothing is stored."""
    result, error = Markup(), ""
    try:
        result = html.run_fragment(reports.compare_uploads(app.settings, {"source": source, "target": target}, name))
    except AuditorError as failed:
        error = str(failed)
    names = service.expand_legs(app.settings)
    return render_page(
        request, "compare.html", visitor=visitor, names=names, name=name, result=result, error=error, status=422 if error else 200
    )


@router.get("/audits/{name:path}")
def audit_page(request: Request, app: App, visitor: Reader, name: str, before: str = "") -> Response:
    """Show the audit; ``before`` is the last run of the history's previous page. That of an audit of segments is elsewhere."""
    if name in app.configured.segments:
        return redirect(url("segments", name))
    settings = app.settings
    definition = service.audit(settings, name)
    shown = next(iter(audits.overview(app.configured, app.store, name)), None)
    row = _overview.build_row(shown) if shown else None
    history = runs.list_runs(app.store, audit=name, limit=HISTORY_PAGE + 1, before=before or None)
    last = row.standing.run if row else None
    report = _load_report(app, last)
    picture = records.load_partition_map(app.store, last.run) if last else None
    return render_page(
        request,
        "audit.html",
        visitor=visitor,
        name=name,
        definition=definition,
        row=row,
        standing=row.standing if row else None,
        legs=service.expand_legs(settings, [name]) if definition.via else [],
        last=last,
        report=report,
        heat=build_heatmap(picture, report.plan) if picture is not None and report else None,
        whole=_rolling_table(app, name, report) if definition.rolling else None,
        few=MAX_PARTITIONS,
        many=MAX_PARTS,
        times=definition.partition.column or (definition.settle.column if definition.settle else ""),
        set_aside=list(sentences.set_aside(report)) if report else [],
        not_read=list(not_read(report)) if report else [],
        story=sentences.tell_story(report) if report else "",
        reasons=[one for one in row.standing.reasons if not (report and sentences.is_in_headline(one, report))] if row else [],
        first_rows=list_first(app.store, report, FIRST_ROWS) if report and not definition.rolling else None,
        changes=_changes(app, last),
        incident=shown.incident if shown else None,
        closed=next((known for known in stored_incidents.list_incidents(app.store, audit=name, limit=1) if known.closed), None),
        defined=shown.defined if shown else False,
        mark=mark,
        threshold=formatting.threshold(definition.threshold),
        settings=yaml_text(service.definition(definition)),
        paused=shown.paused if shown else audit_state.get_state(app.store, name).paused,
        history=history[:HISTORY_PAGE],
        older=history[HISTORY_PAGE - 1].run if len(history) > HISTORY_PAGE else "",
        before=before,
        chart=_chart(app, name),
        bootstraps=[
            use_cases.show(app.store, bootstrap)
            for bootstrap in stored_bootstraps.list_bootstraps(app.store, audit=name)[: -LISTED - 1 : -1]
        ],
    )


def _changes(app: AppState, last: StoredRun | None) -> DifferenceChanges | None:
    """Return what changed since the run before the last one; None without one, and for so many rows that the page does not compare them."""
    if last is None or "rolling" in last.definition:
        return None
    previous = runs.get_latest_run(app.store, last.audit, before=last.started)
    if previous is None or max(_count(last), _count(previous)) > MAX_COMPARED:
        return None
    return difference_changes.compare_runs(app.store, previous.run, last.run, 0)


def _count(run: StoredRun) -> int:
    return (run.missing or 0) + (run.extra or 0) + (run.changed or 0)


def _load_report(app: AppState, last: StoredRun | None) -> Report | None:
    report = records.load_report(app.store, last.run, max_differences=0) if last else None
    return redact(report) if report else None


def _rolling_table(app: AppState, name: str, report: Report | None) -> WholeTable | None:
    """Return the state of a rolling audit's whole table, merged from the latest run of each partition."""
    table = stored_runs.rolling_table(app.store, name)
    return build_whole_table(table, report.plan, now()) if table and report and report.plan else None


def _chart(app: AppState, name: str) -> str:
    """Return the chart's data as JSON: the scores of the last 30 days; empty if there are fewer than two."""
    oldest = now() - dt.timedelta(days=TREND_DAYS)
    recent = [run for run in runs.list_runs(app.store, audit=name, limit=CHART_RUNS, own_only=True) if run.ended and run.started >= oldest]
    drawn = [run for run in reversed(recent) if run.score is not None and formatting.has_score(run)]
    return json.dumps(_series(drawn)) if len(drawn) > 1 else ""


def _series(drawn: Sequence[StoredRun]) -> dict[str, list[Any]]:
    return {
        "at": [run.started.timestamp() for run in drawn],
        "score": [run.score for run in drawn],
        "lower": [run.lower for run in drawn],
        "upper": [run.upper for run in drawn],
        "verdict": [run.verdict.value for run in drawn],
        "run": [url("runs", run.run) for run in drawn],
    }


Bound = Annotated[str, Form(max_length=40)]


@router.post("/audits/{name:path}/acknowledge")
def acknowledge_incident(
    app: App,
    visitor: Runner,
    name: str,
    why: Annotated[str, Form(max_length=500)],
    how: Annotated[Literal["acknowledged", "muted"], Form()] = "acknowledged",
    differences: Annotated[Covered, Form()] = "all",
    until: Bound = "",
) -> RedirectResponse:
    """Acknowledge or mute the audit's open incident."""
    moment = _parse_moment(until)
    incidents.acknowledge(
        app.configured, app.store, name, by=visitor.name, why=why, muted=how == "muted", until=moment, differences=differences
    )
    return redirect(url("audits", name))


@router.post("/audits/{name:path}/withdraw")
def withdraw_acknowledgement(app: App, visitor: Runner, name: str) -> RedirectResponse:
    """End the acknowledgement of the audit's open incident."""
    incidents.withdraw(app.configured, app.store, name, by=visitor.name)
    return redirect(url("audits", name))


def _parse_moment(text: str) -> dt.datetime | None:
    """Return the time (UTC) that was entered; None if there is none. Raises ConfigError."""
    try:
        return dt.datetime.fromisoformat(text).replace(tzinfo=dt.UTC) if text else None
    except ValueError:
        raise ConfigError(f"{text!r} is not a time; write it as 2026-03-01T06:30") from None


@router.post("/audits/{name:path}/run")
def request_run(
    app: App,
    visitor: Runner,
    name: str,
    method: Annotated[str, Form()] = "",
    reason: Annotated[str, Form(max_length=500)] = "",
    keys_from: Bound = "",
    keys_to: Bound = "",
    times_from: Bound = "",
    times_to: Bound = "",
) -> RedirectResponse:
    """Request a run and redirect to it, or to the one that is already waiting or running."""
    overrides = {
        "method": method,
        "keys": _without_blanks({"from": _parse_key(keys_from), "to": _parse_key(keys_to)}),
        "times": _without_blanks({"from": times_from, "to": times_to}),
    }
    requested = workers.request_run(
        app.configured, app.store, name, overrides=_without_blanks(overrides), reason=reason, requested_by=visitor.name
    )
    return redirect(url("runs", requested.run))


def _without_blanks(values: dict[str, Any]) -> dict[str, Any]:
    """Return the form fields that are filled in."""
    return {name: value for name, value in values.items() if value not in ("", None, {})}


def _parse_key(text: str) -> int | None:
    """Return the key that was entered, with or without thousands separators (1,000). Raises ConfigError."""
    digits = text.strip().replace(",", "")
    if not digits:
        return None
    if not re.fullmatch(r"-?[0-9]+", digits):
        raise ConfigError(f"the key {text!r} is not an integer; write digits only, such as 1000")
    return int(digits)


@router.post("/audits/{name:path}/pause")
def pause_audit(app: App, visitor: Definer, name: str) -> RedirectResponse:
    """Stop the schedule from running this audit."""
    audits.pause(app.configured, app.store, name, by=visitor.name)
    return redirect(url("audits", name))


@router.post("/audits/{name:path}/unpause")
def unpause_audit(app: App, visitor: Definer, name: str) -> RedirectResponse:
    """Let the schedule run this audit again."""
    audits.unpause(app.configured, app.store, name, by=visitor.name)
    return redirect(url("audits", name))
