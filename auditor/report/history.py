"""Stored runs as text for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from auditor.history.rolling_table import RollingTable
from auditor.history.status import Standing
from auditor.model import SIDES, State, Verdict
from auditor.planning.proxy import Combined
from auditor.report import formatting
from auditor.shapes.run import Run
from auditor.store.runs import StoredRun

COLOURS = {Verdict.MATCH: "green", Verdict.MISMATCH: "red", Verdict.UNKNOWN: "yellow"}


def table(runs: Sequence[Run]) -> RenderableType:
    """Return a table with one line per run, and below it the settings of one-off runs."""
    if not runs:
        return Text("no runs are stored yet; run one: auditor run AUDIT")
    table = Table(box=None, padding=(0, 2), header_style="dim")
    for name in ("run", "audit", "began (UTC)", "state", "verdict", "method", "similarity", "missing", "extra", "changed", "seconds"):
        table.add_column(name, justify="right" if name in ("similarity", "missing", "extra", "changed", "seconds") else "left")
    for run in runs:
        counts = ["" if number is None else f"{number:,}" for number in (run.missing, run.extra, run.changed)]
        table.add_row(
            run.run[:12],
            Text(f"{run.audit} (one-off)" if run.other_settings else run.audit),
            f"{run.began:%Y-%m-%d %H:%M:%S}",
            _state(run),
            Text(f"{run.verdict.value}{' within threshold' if run.within_threshold else ''}", COLOURS[run.verdict]),
            run.method or "",
            "" if run.score.value is None else f"{run.score.value:.6g}",
            *counts,
            "" if run.seconds is None else f"{run.seconds:,.1f}",
        )
    marks = [Text(f"{run.run[:12]}: with other settings: {run.other_settings}", "dim") for run in runs if run.other_settings]
    return Group(table, *marks)


def status(run: Run) -> RenderableType:
    """Return a run's state, the progress of each side, and its reasons."""
    lines = [Text(f"{run.audit}{_other_settings(run)}: run {run.run}: {_state(run)}, began {run.began:%Y-%m-%d %H:%M:%S} UTC", "bold")]
    for side in SIDES:
        if progress := run.progress.get(side):
            rows = f", {progress.done:,} of about {progress.total:,} rows" if progress.total else ""
            lines.append(Text(f"  {side}: {progress.doing}{rows}{formatting.statements(progress)}"))
    lines += [Text(f"  {reason}") for reason in run.reasons]
    return Text("\n").join(lines)


def standing(name: str, standing: Standing) -> RenderableType:
    """Return an audit's status: its status with the age of the last verdict, up to when it is verified, and its last run."""
    colour = COLOURS.get(standing.verdict, "yellow") if standing.verdict and standing.status != "stale" else "yellow"
    age = f", checked {ago(standing.age)}" if standing.age is not None else ""
    lines = [Text.assemble(f"{formatting.visible(name)}: ", (standing.label.upper(), f"bold {colour}"), age)]
    lines += [Text(f"  {formatting.sentence(reason)}") for reason in standing.reasons]
    lines += [Text(f"  {line}") for line in formatting.verified(standing.verified_through, standing.within_threshold_through)]
    lines += [Text(f"  {formatting.sentence(standing.last_run)}", "yellow")] if standing.last_run else []
    if standing.active:
        lines.append(Text(f"  now: run {standing.active.run[:12]}{_other_settings(standing.active)} is {standing.active.state.value}"))
    return Text("\n").join(lines)


def combined(name: str, combined: Combined) -> RenderableType:
    """Return the verdict on source and target, as combined from both legs of an audit by way of a dump."""
    legs = zip(("source and dump", "dump and target"), combined.ages, strict=True)
    ages = [f"{leg} were compared {ago(age)}" if age is not None else f"{leg} were never compared" for leg, age in legs]
    dump = "the age of the dump is unknown" if combined.dump_age is None else f"the dump holds the data of {ago(combined.dump_age)}"
    verdict = (combined.verdict.value.upper(), f"bold {COLOURS[combined.verdict]}")
    similarity = f"similarity between {combined.lower:.6g} and {combined.upper:.6g}"
    lines = [
        Text.assemble(verdict, f"  {name}  (source and target, by way of the dump)"),
        *(Text(f"  {reason}") for reason in combined.reasons),
        Text(f"  {similarity} (certainly between {combined.least:.6g} and {combined.most:.6g})"),
        Text(f"  {'; '.join(ages)}; {dump}"),
    ]
    return Text("\n").join(lines)


def whole_table(name: str, table: RollingTable) -> RenderableType:
    """Return the verdict on the whole table of a rolling audit."""
    head = Text.assemble((table.verdict.value.upper(), f"bold {COLOURS[table.verdict]}"), f"  {name}  (the whole table)")
    return Text("\n").join([head, Text(f"  {table.sentence}")])


def ago(seconds: float) -> str:
    """Return how long ago something was, in the largest unit that fits at least twice."""
    for unit, length in (("days", 86400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:,.0f} {unit} ago"
    return f"{seconds:,.0f} seconds ago"


def _other_settings(run: Run | StoredRun) -> str:
    """Return the settings of a one-off run that differ from its audit's; empty for the audit's own run."""
    return f" (with other settings: {run.other_settings})" if run.other_settings else ""


def _state(run: Run) -> str:
    if run.state is State.RUNNING and run.cancel_requested:
        return "running, cancel requested"
    return f"{run.state.value}, resumable" if run.resumable and run.state is not State.RUNNING else run.state.value
