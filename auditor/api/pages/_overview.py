"""The page of all audits, those that need attention first: filtered, sorted and paged by its URL; and runs of those that it shows."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, Form, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse

from auditor.api.authentication import Reader, Runner
from auditor.api.dependencies import App, AppState
from auditor.api.pages._layout import now, redirect, render_page
from auditor.api.routing import slow_request
from auditor.compare.verdict import COLUMNS
from auditor.history.audit_status import STATUSES, Standing
from auditor.model import Status, Verdict
from auditor.report import formatting
from auditor.service import audits, workers
from auditor.service.audits import Overview
from auditor.store.streaks import BY_SEVERITY

router = APIRouter()

PAGE_SIZE = 50
"""Audits on a page."""

DAYS = 30
"""Days of the strip of verdicts, today among them."""

TAGS: Mapping[str, Callable[[Overview], bool]] = {
    "new": lambda audit: audit.change == "new",
    "still": lambda audit: audit.change == "still",
    "recovered": lambda audit: audit.change == "recovered",
    "running": lambda audit: audit.standing.active is not None,
    "last run failed": lambda audit: audit.standing.has_failed,
    "acknowledged": lambda audit: audit.incident is not None and audit.incident.state == "acknowledged",
    "muted": lambda audit: audit.incident is not None and audit.incident.state == "muted",
    "paused": lambda audit: audit.paused,
}
"""What an audit can be besides its status, by the name of the filter."""


def differing(standing: Standing) -> int | None:
    """Return the rows that are known to differ; None if none were counted, or a part of the table was read."""
    run = standing.run
    if run is None or run.missing is None or "rolling" in run.definition:
        return None
    return (run.missing or 0) + (run.extra or 0) + (run.changed or 0)


def _ended(audit: Overview) -> dt.datetime | None:
    return audit.standing.run.ended if audit.standing.run else None


SORTS: Mapping[str, Callable[[Overview], Any]] = {
    "verdict": lambda audit: STATUSES.index(audit.standing.status),
    "audit": lambda audit: audit.name,
    "rows": lambda audit: differing(audit.standing),
    "since": lambda audit: audit.streak.since if audit.streak else None,
    "last": _ended,
    "verified": lambda audit: audit.standing.verified_through,
    "next": lambda audit: audit.next_due,
    "owner": lambda audit: audit.owner,
}
"""What the columns are sorted by."""


@dataclass(frozen=True, slots=True)
class View:
    """What of the audits is shown, in which order, from which page on; its fields are the parameters of the URL."""

    q: str = ""
    status: str = ""
    tag: str = ""
    group: str = ""
    owner: str = ""
    sort: str = ""
    down: str = ""
    page: int = 1
    date: str = ""
    """The day of the daily report; empty for the present."""

    @property
    def path(self) -> str:
        """The path of the page that the view is of."""
        return "/day" if self.date else "/"

    def url(self, **changes: Any) -> str:
        """Return the URL of this view with some parameters changed; the page starts at the first again."""
        values = {**asdict(self), "page": 1, **changes}
        written = urlencode({name: value for name, value in values.items() if value not in ("", 1)})
        return f"{self.path}?{written}" if written else self.path

    def sorted_by(self, column: str) -> str:
        """Return the URL of this view sorted by a column, downwards if it is sorted by it already."""
        return self.url(sort=column, down="" if self.sort != column or self.down else "1")

    @property
    def is_filtered(self) -> bool:
        """Whether it shows some of the audits alone."""
        return bool(self.q or self.status or self.tag or self.group or self.owner)

    def selects(self, audit: Overview) -> bool:
        """Return whether an audit is among those that the view is of."""
        return (
            (not self.status or audit.standing.status == self.status)
            and (not self.tag or self.tag not in TAGS or TAGS[self.tag](audit))
            and (not self.group or audit.group == self.group)
            and (not self.owner or audit.owner == self.owner)
            and (not self.q or all(word in _search_text(audit) for word in self.q.lower().split()))
        )

    def order(self, listed: Sequence[Overview]) -> list[Overview]:
        """Return audits in the order of the view, by default the most urgent first; those without a value come last."""
        by_urgency = sorted(listed, key=lambda audit: (not audit.needs_attention, STATUSES.index(audit.standing.status), audit.name))
        key = SORTS.get(self.sort)
        if key is None:
            return by_urgency
        valued = [audit for audit in by_urgency if key(audit) is not None]
        return sorted(valued, key=key, reverse=bool(self.down)) + [audit for audit in by_urgency if key(audit) is None]


def view_of(
    q: Annotated[str, Query(max_length=200)] = "",
    status: Annotated[str, Query(max_length=20)] = "",
    tag: Annotated[str, Query(max_length=20)] = "",
    group: Annotated[str, Query(max_length=255)] = "",
    owner: Annotated[str, Query(max_length=255)] = "",
    sort: Annotated[str, Query(max_length=20)] = "",
    down: Annotated[str, Query(max_length=1)] = "",
    page: Annotated[int, Query(ge=1, le=10_000)] = 1,
) -> View:
    """Return the view that a URL asks for."""
    return View(q, status, tag, group, owner, sort, down, page)


AskedView = Annotated[View, Depends(view_of)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A row of the table of audits: the audit's status in words, its score, and the verdicts of its days."""

    audit: Overview
    standing: Standing
    why: str
    differing: str
    score: str
    score_name: str
    bounds: str
    strip: Strip | None

    @property
    def ended(self) -> dt.datetime | None:
        """When the run of the last verdict ended."""
        return _ended(self.audit)


@dataclass(frozen=True, slots=True)
class Folded:
    """The audits of a group that need no attention, as one row."""

    group: str
    counts: Mapping[Status, int]


@dataclass(frozen=True, slots=True)
class Strip:
    """The worst verdict of each day, the oldest first, as the paths of a drawing by verdict, and in words."""

    paths: Mapping[str, str]
    says: str


HEIGHTS = {Verdict.MATCH: 4, Verdict.UNKNOWN: 8, Verdict.MISMATCH: 12}
"""Heights of a day's bar by verdict, so that colour is not all that tells them apart."""


def draw_strip(days: Mapping[dt.date, Verdict], first: dt.date) -> Strip | None:
    """Draw the days from ``first`` on; None without any."""
    if not days:
        return None
    paths: dict[str, str] = {}
    counts = dict.fromkeys(reversed(BY_SEVERITY), 0)
    for number in range(DAYS):
        verdict = days.get(first + dt.timedelta(days=number))
        if verdict:
            height = HEIGHTS[verdict]
            paths[verdict.value] = paths.get(verdict.value, "") + f"M{number * 5} {12 - height}h4v{height}h-4z"
            counts[verdict] += 1
    spoken = [f"{count} {verdict.value}" for verdict, count in counts.items() if count]
    return Strip(paths, f"worst verdict of each of the last {DAYS} days: {', '.join(spoken) or 'none'}")


@router.get("/")
def overview_page(request: Request, app: App, visitor: Reader, view: AskedView) -> HTMLResponse:
    """Show the audits of a view, a page of them."""
    every = audits.overview(app.configured, app.store, trends=False)
    values = table_values(app, view, every, now().date())
    return render_page(request, "overview.html", visitor=visitor, revalidated=True, room=app.configured.service.queue, **values)


def table_values(app: AppState, view: View, every: Sequence[Overview], last: dt.date) -> dict[str, Any]:
    """Return what the table of audits is drawn from; ``last`` is the last day of its strips."""
    selected = view.order([audit for audit in every if view.selects(audit)])
    shown, folded = (selected, []) if view.is_filtered or view.sort else fold(selected)
    listed = shown[(view.page - 1) * PAGE_SIZE : view.page * PAGE_SIZE]
    first = last - dt.timedelta(days=DAYS - 1)
    days = audits.list_days(app.store, listed, first)
    return {
        "view": view,
        "rows": [build_row(audit, draw_strip(days.get(audit.name, {}), first)) for audit in listed],
        "folded": folded,
        "owned": any(audit.owner for audit in every),
        "total": len(every),
        "unaudited": app.configured.unaudited_groups(audit.name for audit in every),
        "selected": len(selected),
        "shown": len(shown),
        "last_page": max(1, -(-len(shown) // PAGE_SIZE)),
        "counts": count_statuses(every),
        "tags": {tag: count for tag, has in TAGS.items() if (count := sum(map(has, every)))},
    }


def count_statuses(listed: Sequence[Overview]) -> dict[Status, int]:
    """Return how many audits have each status, the most urgent first."""
    counts: dict[Status, int] = dict.fromkeys(STATUSES, 0)
    for audit in listed:
        counts[audit.standing.status] += 1
    return counts


def fold(listed: Sequence[Overview]) -> tuple[list[Overview], list[Folded]]:
    """Return the audits that stand alone or need attention, and a row for what is left of each group."""
    groups: dict[str, list[Overview]] = {}
    for audit in listed:
        if audit.group and not audit.needs_attention:
            groups.setdefault(audit.group, []).append(audit)
    folded = {group: some for group, some in groups.items() if len(some) > 1}
    alone = [audit for audit in listed if audit.group not in folded or audit.needs_attention]
    return alone, [Folded(group, count_statuses(some)) for group, some in folded.items()]


def build_row(audit: Overview, strip: Strip | None = None) -> Row:
    """Build an audit's row; the score of a rolling audit is that of the part that was read last."""
    standing = audit.standing
    run = standing.run if standing.run and formatting.has_score(standing.run) else None
    of_part = ", of the last part" if run and "rolling" in run.definition else ""
    return Row(
        audit=audit,
        standing=standing,
        why=_why(standing),
        differing=_differing(standing),
        score=formatting.rounded(run.score) if run and run.score is not None else "",
        score_name=formatting.score_name(run) if run else "",
        bounds=f"{_bounds(run.lower, run.upper)}{of_part}" if run else "",
        strip=strip,
    )


def _differing(standing: Standing) -> str:
    """Return how many rows differ, as people read it; more may differ than were counted where the score is an estimate."""
    count, run = differing(standing), standing.run
    if count is None or run is None:
        return ""
    return f"{count:,}" if run.lower is not None and run.lower == run.upper else f"{count:,} or more"


def _why(standing: Standing) -> str:
    """Return what differs, and for what is allowed or too old also why; empty for a match."""
    if standing.status == "match":
        return ""
    reasons = [reason for reason in standing.reasons if not reason.startswith(COLUMNS)]  # the first one names columns
    return "; ".join(reasons[:2] if standing.status in ("mismatch", "unknown") else dict.fromkeys([*reasons[:1], *reasons[-1:]]))


def _bounds(lower: float | None, upper: float | None) -> str:
    if lower is None or upper is None:
        return ""
    return "exact" if lower == upper else f"{formatting.rounded(lower)} to {formatting.rounded(upper)}"


def _search_text(audit: Overview) -> str:
    paused = "paused" if audit.paused else ""
    return " ".join((audit.name, audit.source, audit.target, audit.standing.label, audit.owner or "", paused)).lower()


@router.post("/run")
def run_selected(
    app: App,
    visitor: Runner,
    q: Annotated[str, Form(max_length=200)] = "",
    status: Annotated[str, Form(max_length=20)] = "",
    tag: Annotated[str, Form(max_length=20)] = "",
    group: Annotated[str, Form(max_length=255)] = "",
    owner: Annotated[str, Form(max_length=255)] = "",
) -> RedirectResponse:
    """Request a run of each audit of a view, as far as the queue has room, and show what runs and waits."""
    view = View(q, status, tag, group, owner)
    with slow_request():
        selected = view.order([audit for audit in audits.overview(app.configured, app.store, trends=False) if view.selects(audit)])
        requested = workers.request_runs(app.configured, app.store, [audit.name for audit in selected], requested_by=visitor.name)
    left = f"&left={len(requested.left)}" if requested.left else ""
    return redirect(f"/runs?state=active&requested={len(requested.enqueued)}{left}")
