"""Runs as they are kept, for a terminal and as JSON."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from auditor.chain import Combined
from auditor.model import SECTIONS, SIDES, State, Verdict
from auditor.report import plain
from auditor.store.runs import StoredRun
from auditor.whole import Whole

COLOURS = {Verdict.MATCH: "green", Verdict.MISMATCH: "red", Verdict.UNKNOWN: "yellow"}


def table(found: Sequence[StoredRun]) -> RenderableType:
    """A line for each run."""
    if not found:
        return Text("no runs are kept yet; run one: auditor run AUDIT")
    made = Table(box=None, padding=(0, 2), header_style="dim")
    for name in ("run", "audit", "began (UTC)", "state", "verdict", "method", "similarity", "missing", "extra", "changed", "seconds"):
        made.add_column(name, justify="right" if name in ("similarity", "missing", "extra", "changed", "seconds") else "left")
    for one in found:
        counts = ["" if number is None else f"{number:,}" for number in (one.missing, one.extra, one.changed)]
        made.add_row(
            one.run[:12],
            Text(f"{one.audit}{_section(one)}"),
            f"{one.started:%Y-%m-%d %H:%M:%S}",
            _state(one),
            Text(one.verdict.value, COLOURS[one.verdict]),
            one.method or "",
            "" if one.score is None else f"{one.score:.6g}",
            *counts,
            "" if one.seconds is None else f"{one.seconds:,.1f}",
        )
    return made


def line(one: StoredRun) -> RenderableType:
    """One run and how far it is, in a few lines."""
    lines = [Text(f"{one.audit}{_section(one)}: run {one.run}: {_state(one)}, began {one.started:%Y-%m-%d %H:%M:%S} UTC", "bold")]
    for side in SIDES:
        if told := one.progress.get(side):
            share = f", {told['done']:,} of about {told['total']:,} rows" if told.get("total") else ""
            lines.append(Text(f"  {side}: {told['doing']}{share}{plain.statements(told)}"))
    lines += [Text(f"  {reason}") for reason in one.reasons]
    return Text("\n").join(lines)


def chain(name: str, both: Combined) -> RenderableType:
    """What the two legs of an audit by way of a dump say together."""
    ages = [f"{leg} read {_age(age)}" for leg, age in zip(("source and dump", "dump and target"), both.ages, strict=True)]
    lines = [
        Text.assemble((both.verdict.value.upper(), f"bold {COLOURS[both.verdict]}"), f"  {name}  (source and target, by way of the dump)"),
        *(Text(f"  {reason}") for reason in both.reasons),
        Text(f"  similarity between {both.lower:.6g} and {both.upper:.6g} (surely between {both.least:.6g} and {both.most:.6g})"),
        Text(f"  {'; '.join(ages)}; the dump stands for {'an unknown moment' if both.dump_age is None else _age(both.dump_age)}"),
    ]
    return Text("\n").join(lines)


def rolled(name: str, found: Whole) -> RenderableType:
    """The whole table of a rolling audit."""
    head = Text.assemble((found.verdict.value.upper(), f"bold {COLOURS[found.verdict]}"), f"  {name}  (the whole table)")
    return Text("\n").join([head, Text(f"  {found.sentence}")])


def _age(seconds: float | None) -> str:
    """How long ago that is, in the largest unit that fits."""
    if seconds is None:
        return "never"
    for unit, length in (("days", 86400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:,.0f} {unit} ago"
    return f"{seconds:,.0f} seconds ago"


def _section(one: StoredRun) -> str:
    """Which section of its table a run is of, as it is asked for on the command line."""
    told = [f"{name} {asked.get('from', '')}..{asked.get('to', '')}" for name in SECTIONS if (asked := one.overrides.get(name))]
    return f" ({', '.join(told)})" if told else ""


def _state(one: StoredRun) -> str:
    if one.state is State.RUNNING and one.cancel_asked:
        return "running, asked to end"
    return f"{one.state.value}, resumable" if one.resumable and one.state is not State.RUNNING else one.state.value


def as_json(one: StoredRun) -> dict[str, Any]:
    """A run as plain values."""
    return {
        "run": one.run,
        "audit": one.audit,
        "state": one.state.value,
        "verdict": one.verdict.value,
        "method": one.method,
        "began": _moment(one.started),
        "ended": _moment(one.ended),
        "seconds": one.seconds,
        "score": {"value": one.score, "lower": one.lower, "upper": one.upper, "published": one.published},
        "coverage": one.coverage,
        "rows": dict(one.rows) if one.rows else None,
        "partitions": one.partitions,
        "unequal": one.unequal,
        "missing": one.missing,
        "extra": one.extra,
        "changed": one.changed,
        "unsettled": one.unsettled,
        "reasons": list(one.reasons),
        "reason": one.reason,
        "requested_by": one.requested_by,
        "overrides": dict(one.overrides),
        "resumable": one.resumable,
        "cancel_asked": one.cancel_asked,
        "progress": dict(one.progress),
        "verified_through": _moment(one.verified_through),
    }


def _moment(value: dt.datetime | None) -> str | None:
    return value.isoformat() if value else None
