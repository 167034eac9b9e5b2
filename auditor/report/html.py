"""A run, or a day, as one HTML file that needs nothing else, no script, no other file, no network; or as its part of a page."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from markupsafe import Markup

from auditor.model import Differences, Report
from auditor.packed import Picture
from auditor.report import plain
from auditor.report.day import Day, not_compared
from auditor.report.heat import SAYS, heat
from auditor.report.shown import shown
from auditor.report.templates import by_weight, environment

SHOWN = 100
"""Rows of each table of a run's page."""

SAMPLE, FEW = 10, 5
"""Differences, and partitions, that the report of a day shows of an audit."""


@dataclass(frozen=True, slots=True)
class Links:
    """Where the pages of an audit, by its name, and of a run, by its id, are."""

    audit: Callable[[str], str]
    run: Callable[[str], str]


def run(found: Report, picture: Picture | None = None) -> str:
    """The file of one run; ``picture`` is that of its whole table, where one was kept."""
    return _file(f"{found.audit}: {found.verdict.value}", run_part(found, picture))


def run_part(found: Report, picture: Picture | None = None) -> Markup:
    """One run, to stand in a page."""
    found = shown(found)
    return _part(
        "run.html",
        report=found,
        heat=heat(picture, found.plan) if picture is not None else None,
        says=SAYS,
        means=plain.MEANS,
        most=SHOWN,
        measures=by_weight(found.measures),
        not_compared=list(not_compared(found)),
        notes=[*plain.notes(found), *(found.plan.notes if found.plan else ())],
        snapshot=plain.snapshot(found),
    )


def day(found: Day) -> str:
    """The file of one day."""
    return _file(f"Audits on {found.date}", day_part(found))


def day_part(found: Day, links: Links | None = None) -> Markup:
    """One day, to stand in a page; ``links`` lead from its audits and runs to theirs."""
    return _part(
        "day.html", day=found, means=plain.MEANS, sample=SAMPLE, few=FEW, score=plain.score, bounds=plain.bounds, links=links,
        shown_rows=_shown_rows,
    )  # fmt: skip


def _part(template: str, **values: object) -> Markup:
    return Markup(environment().get_template(template).render(**values))  # escaped where it was rendered


def _file(title: str, body: Markup) -> str:
    return environment().get_template("page.html").render(title=title, body=body)


def _shown_rows(found: Differences) -> int:
    """How many rows the differences stand for that the report of a day shows."""
    spans = found.ranges[:SAMPLE]
    return sum(one.rows for one in spans) + len(found.named[:SAMPLE])
