"""Audits, runs and repairs as lists and lines for a terminal."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from auditor.api_models.audit import ListedAudit
from auditor.history.audit_status import Standing, status_label
from auditor.model import SIDES, Report, State
from auditor.quantities import format_rough_duration
from auditor.report import difference_rows, formatting

if TYPE_CHECKING:
    from auditor.api_models.audit import SharedTableStatus
    from auditor.api_models.repair import Patch, Repair
    from auditor.api_models.run import Partition, Run
    from auditor.history.rolling_table import RollingTable
    from auditor.planning.proxy import Combined
    from auditor.store.runs import StoredRun

MAX_REPAIRS = 10
"""Repairs shown of a run: the newest."""

WRITTEN = ("updated", "inserted", "deleted", "left", "taken back", "equal")
"""What became of a patch's rows, in the order in which they are listed."""


def _colour(status: str | None) -> str:
    """Return the colour of an audit's status or of a verdict."""
    return {"match": "green", "within_threshold": "green", "mismatch": "red"}.get(status or "", "yellow")


def listed(
    name: str,
    source: str,
    target: str,
    standing: Standing,
    next_due: dt.datetime | None,
    paused: bool,
    table: SharedTableStatus | None = None,
) -> ListedAudit:
    """Return an audit as it is listed; ``table`` is how its target's table stands, if other audits name columns of it, too."""
    return ListedAudit(
        **ListedAudit.fields_of(standing, without=("run",)),
        audit=name,
        source=source,
        target=target,
        run=standing.run.run if standing.run else None,
        last_run_state=standing.last.state if standing.last else None,
        next_due=next_due,
        paused=paused,
        active_run=standing.active.run if standing.active else None,
        table=table,
    )


def audits(audits: Sequence[ListedAudit]) -> RenderableType:
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
            Text(_status_of(audit), _colour(audit.status)),
            "" if audit.age is None else ago(audit.age),
            "running now" if audit.active_run else due,
            Text(formatting.visible(audit.source)),
            Text(formatting.visible(audit.target)),
        )
    shared = {audit.target: audit.table for audit in audits if audit.table}
    lines = [
        Text.assemble(
            f"{formatting.visible(target)}, of which {len(of_table.audits)} audits compare columns of their own: ",
            (status_label(of_table.status), _colour(of_table.status)),
        )
        for target, of_table in shared.items()
    ]
    return Group(table, *lines) if lines else table


def _status_of(audit: ListedAudit) -> str:
    has_verdict = audit.last_run_state not in (State.FAILED, State.CANCELLED)
    return status_label(audit.status) + ("" if has_verdict else f", last run {audit.last_run_state}")


def _minute(at: dt.datetime | None) -> str:
    return f"{at.astimezone(dt.UTC):%Y-%m-%d %H:%M}" if at else ""


def runs(runs: Sequence[Run]) -> RenderableType:
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
            Text(f"{run.verdict.value}{' within threshold' if run.within_threshold else ''}", _colour(run.verdict)),
            run.method or "",
            "" if run.score.value is None else f"{run.score.value:.6g}",
            *counts,
            "" if run.seconds is None else f"{run.seconds:,.1f}",
        )
    marks = [Text(f"{run.run[:12]}: with other settings: {run.other_settings}", "dim") for run in runs if run.other_settings]
    return Group(table, *marks)


def run_status(run: Run) -> RenderableType:
    """Return a run's state, the progress of each side, and its reasons."""
    lines = [Text(f"{run.audit}{_other_settings(run)}: run {run.run}: {_state(run)}, began {run.began:%Y-%m-%d %H:%M:%S} UTC", "bold")]
    for side in SIDES:
        if progress := run.progress.get(side):
            rows = f", {progress.done:,} of about {progress.total:,} rows" if progress.total else ""
            lines.append(Text(f"  {side}: {progress.doing}{rows}{formatting.statements(progress)}"))
    lines += [Text(f"  {reason}") for reason in run.reasons]
    return Text("\n").join(lines)


def standing(name: str, standing: Standing, report: Report | None = None) -> RenderableType:
    """Return an audit's status: its status with the age of the last verdict, up to when it is verified, and its last run.

    Of reasons that the ``report`` below has, too, it has the first alone.
    """
    colour = "yellow" if standing.status == "stale" else _colour(standing.verdict)
    age = f", checked {ago(standing.age)}" if standing.age is not None else ""
    lines = [Text.assemble(f"{formatting.visible(name)}: ", (standing.label.upper(), f"bold {colour}"), age)]
    below = report.reasons if report else ()
    reasons = [reason for number, reason in enumerate(standing.reasons) if number == 0 or reason not in below]
    lines += [Text(f"  {formatting.sentence(reason)}") for reason in reasons]
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
    verdict = (combined.verdict.value.upper(), f"bold {_colour(combined.verdict)}")
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
    head = Text.assemble((table.verdict.value.upper(), f"bold {_colour(table.verdict)}"), f"  {name}  (the whole table)")
    return Text("\n").join([head, Text(f"  {table.sentence}")])


def ago(seconds: float) -> str:
    """Return how long ago something was, roughly."""
    return f"{format_rough_duration(seconds)} ago"


def _other_settings(run: Run | StoredRun) -> str:
    """Return the settings of a one-off run that differ from its audit's; empty for the audit's own run."""
    return f" (with other settings: {run.other_settings})" if run.other_settings else ""


def _state(run: Run) -> str:
    if run.state is State.RUNNING and run.cancel_requested:
        return "running, cancel requested"
    return f"{run.state.value}, resumable" if run.resumable and run.state is not State.RUNNING else run.state.value


def partitions(listed: Sequence[Partition]) -> Table:
    """Return a table of partitions."""
    table = Table(box=None, pad_edge=False)
    for name in ("partition", "state", "rows in source", "rows in target", "similarity", "keys"):
        table.add_column(name, justify="right" if name in ("rows in source", "rows in target", "similarity") else "left", overflow="fold")
    for partition in listed:
        rows = (f"{partition.rows[side]:,}" for side in SIDES)
        similarity = formatting.similarity(partition.similarity, partition.similarity_error)
        keys = "" if partition.least is None else f"{partition.least} to {partition.greatest}"
        state = partition.state.replace("_", " ")
        table.add_row(Text(formatting.visible(partition.label)), state, *rows, similarity, Text(formatting.visible(keys)))
    return table


PARTITION_COLUMNS = (
    "partition",
    "label",
    "state",
    "rows_in_source",
    "rows_in_target",
    "similarity",
    "similarity_error",
    "least",
    "greatest",
)


def partition_lines(listed: Iterable[Partition]) -> Iterator[str]:
    """Yield partitions as lines of CSV, after a header; what is not known is empty."""
    yield difference_rows.spreadsheet_line(PARTITION_COLUMNS)
    for one in listed:
        shares = [None if share is None else f"{share:.6g}" for share in (one.similarity, one.similarity_error)]
        rows = [one.rows[side] for side in SIDES]
        yield difference_rows.spreadsheet_line([one.partition, one.label, one.state, *rows, *shares, one.least, one.greatest])


def repairs(repairs: Sequence[Repair]) -> Text:
    """Return one line per repair, the newest first."""
    lines = [_repair_line(repair) for repair in repairs[:MAX_REPAIRS]]
    return Text("\n").join([*lines, *([Text("  and older ones", "dim")] if len(repairs) > MAX_REPAIRS else [])])


def _repair_line(repair: Repair) -> Text:
    rows = "" if repair.rows is None else f", {formatting.rows(repair.rows)}"
    by = repair.recorded_by or "an unknown person"
    line = f"repair ({repair.kind}{rows}), recorded by {by} on {formatting.moment(repair.recorded_at)}: {repair.note}"
    return Text(f"  {formatting.sentence(line)}")


def patches(applied: Sequence[Patch]) -> Text:
    """Return one line per patch, the oldest first."""
    return Text("\n").join(_patch_line(patch) for patch in applied)


def _patch_line(patch: Patch) -> Text:
    rows = ", ".join(f"{patch.counts[name]:,} {name}" for name in WRITTEN if patch.counts[name]) or "nothing written"
    name = f"{'undo' if patch.undoes else 'patch'} {patch.patch[:12]}"
    what = f"{name} of patch {patch.undoes[:12]}" if patch.undoes else name
    after = f"; run {patch.after_run[:12]} checked its rows" if patch.after_run else ""
    why = f"; {patch.why}" if patch.why else ""
    line = f"{what}, begun on {formatting.moment(patch.at)}, {patch.state}: {rows}{after}{why}"
    return Text(f"  {formatting.sentence(line)}")


def reason(text: str) -> Text:
    """Return the line that says why a run was asked for."""
    return Text(f"  {formatting.sentence(f'reason: {text}')}")
