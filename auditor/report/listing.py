"""A list of audits with the status of each, as text for a terminal."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from auditor.history.status import Standing, status_label
from auditor.report import formatting
from auditor.report.history import ago
from auditor.shapes.audit_status import ListedAudit

COLOURS = {"match": "green", "within_threshold": "green", "mismatch": "red"}


def listed(name: str, source: str, target: str, standing: Standing, next_due: dt.datetime | None, paused: bool) -> ListedAudit:
    """Return an audit as it is listed."""
    return ListedAudit(
        **ListedAudit.fields_of(standing, without=("run",)),
        audit=name,
        source=source,
        target=target,
        run=standing.run.run if standing.run else None,
        next_due=next_due,
        paused=paused,
        active_run=standing.active.run if standing.active else None,
    )


def table(audits: Sequence[ListedAudit]) -> RenderableType:
    """Return a table with one line for each audit."""
    if not audits:
        return Text("no audits are configured; write them under audits: in auditor.yaml, or start with: auditor init")
    table = Table(box=None, padding=(0, 2), header_style="dim")
    for name in ("audit", "status", "last verdict", "next run (UTC)", "source", "target"):
        table.add_column(name)
    for audit in audits:
        due = "paused" if audit.paused else _minute(audit.next_due)
        table.add_row(
            Text(formatting.visible(audit.audit)),
            Text(_status(audit), COLOURS.get(audit.status, "yellow")),
            "" if audit.age is None else ago(audit.age),
            "running now" if audit.active_run else due,
            Text(formatting.visible(audit.source)),
            Text(formatting.visible(audit.target)),
        )
    return table


def _status(audit: ListedAudit) -> str:
    return f"{status_label(audit.status)}{', last run failed' if audit.last_run else ''}"


def _minute(at: dt.datetime | None) -> str:
    return f"{at.astimezone(dt.UTC):%Y-%m-%d %H:%M}" if at else ""
