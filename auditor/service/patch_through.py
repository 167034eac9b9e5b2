"""Patch a target by what delivers to it: through its pipeline, or through a team's own path; wait, and audit the rows again."""

from __future__ import annotations

import shlex
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from auditor.config import Audit, Settings, find_carriers
from auditor.durations import durations
from auditor.errors import AuditorError, PatchFailed, RefreshRefused
from auditor.escaping import shell_word
from auditor.model import Report
from auditor.pipeline.refresh import use_cases
from auditor.quantities import plural
from auditor.repair import proposal, script
from auditor.repair.keys import Selection
from auditor.repair.proposal import unnamed
from auditor.repair.script import Wanted
from auditor.service import patches
from auditor.service.patches import NOBODY, Followed
from auditor.service.pipeline_status import status
from auditor.store import Store, repairs
from auditor.store.refreshes import Refresh


@dataclass(frozen=True, slots=True)
class Sent:
    """What was sent, whether it arrived, and the run that looked at its rows afterwards."""

    rows: int
    how: str
    """A sentence about what was sent."""
    lacking: str
    """What has not arrived; empty if all has."""
    after: Report | None
    not_audited: str = ""
    """Why no run looked at rows that have arrived."""


def send_refresh(
    settings: Settings,
    store: Store,
    what: str,
    selection: Selection,
    followed: Followed = NOBODY,
    say: Callable[[str], None] = lambda _: None,
) -> Sent:
    """Send the rows of a run's differences anew through the pipeline that carries the table, wait for them, and audit them again.

    Raises UnknownRun, PatchRefused, RefreshRefused and errors of the source.
    """
    audit, report = patches.find_run(settings, store, what)
    name, table, target = find_pipeline(settings, audit)
    wanted = _read_wanted(settings, store, audit, report, selection, followed)
    if not (wanted.ranges or wanted.keys):
        return _nothing_sent(report, "no row differs, or none was selected")
    asked = use_cases.request(settings, store, name, table, ranges=wanted.ranges, keys=wanted.keys, by=followed.who)
    done = use_cases.carry_out(settings, store, name, asked, followed.stopped)
    if failed := next((request for request in done if request.state == "failed"), None):
        raise RefreshRefused(failed.reason)
    rows = sum(int(request.progress.get("rows", 0)) for request in done)
    asked_for = [
        plural(len(some), one, many)
        for some, one, many in ((wanted.ranges, "range of keys", "ranges of keys"), (wanted.keys, "single key", "single keys"))
        if some
    ]
    how = f"{plural(rows, 'row was', 'rows were')} sent through the pipeline {name}, of {' and '.join(asked_for)}"
    if why := unnamed(report.differences) if report.differences is not None else "":
        how += f"; {why}"
    lacking = _wait(settings, store, name, done, target, followed.stopped, say)
    if lacking:
        return Sent(rows, how, lacking, None)
    return Sent(rows, how, "", *_audit_again(settings, store, report, wanted.span, followed, f"through the pipeline {name}", rows))


def plan_refresh(settings: Settings, store: Store, what: str, selection: Selection, followed: Followed = NOBODY) -> str:
    """Return which rows `send_refresh` would send, for a person; nothing is written. Raises what that raises."""
    audit, report = patches.find_run(settings, store, what)
    name, table, target = find_pipeline(settings, audit)
    wanted = _read_wanted(settings, store, audit, report, selection, followed)
    if not (wanted.ranges or wanted.keys):
        sent = _nothing_sent(report, "no row differs, or none was selected")
        return "; ".join(filter(None, (sent.how, sent.lacking)))
    rows = [plural(len(wanted.keys), "key")] if wanted.keys else []
    rows += [plural(len(wanted.ranges), "range of keys", "ranges of keys")] if wanted.ranges else []
    left = unnamed(report.differences) if report.differences is not None else ""
    return "; ".join(
        [
            f"would send {' and '.join(rows)} of {table} through the pipeline {name} into {target}, and audit them again",
            *([left] if left else []),
            "nothing was sent: add --apply to send them",
        ]
    )


def _read_wanted(settings: Settings, store: Store, audit: Audit, report: Report, selection: Selection, followed: Followed) -> Wanted:
    """Return the keys of a run's differences, as the pipeline that carries the table identifies rows. Raises RefreshRefused."""
    name, table, _ = find_pipeline(settings, audit)
    wanted = script.read_wanted(store, report, audit, settings.connections, selection, followed.on_progress)
    if wanted.ranges or wanted.keys:
        [key] = use_cases.choose_tables(settings, name, table)
        if tuple(column.name for column in key.columns) != wanted.columns:
            whole = f"auditor pipeline refresh {shell_word(name)} --table {shell_word(table)} --apply"
            raise RefreshRefused(f"the audit compares {table} by other columns than its primary key; refresh the table instead: {whole}")
    return wanted


def _nothing_sent(report: Report, why: str) -> Sent:
    """Return that nothing was sent, and what that leaves where the run did not name all rows that differ."""
    left = unnamed(report.differences) if report.differences is not None else ""
    way_out = f"copy the table again: auditor bootstrap {shell_word(report.audit)} --apply"
    return Sent(0, f"nothing to send: {why}", f"{left}; {way_out}" if left else "", None)


def print_changes(settings: Settings, store: Store, what: str, selection: Selection, followed: Followed = NOBODY) -> Iterator[str]:
    """Yield the rows of a run's differences as JSON lines, read anew from both sides. Raises what `patches.print_patch` raises."""
    audit, report = patches.find_run(settings, store, what)
    with proposal.propose(store, report, audit, settings.connections, selection, followed.accepted, followed.on_progress) as proposed:
        yield from script.print_changes(proposed)


def send_lines(settings: Settings, store: Store, what: str, selection: Selection, command: str, followed: Followed = NOBODY) -> Sent:
    """Hand the rows as JSON lines to a command's standard input, wait until they are equal, and audit them again.

    Raises what `print_changes` raises, and PatchFailed if the command fails.
    """
    audit, report = patches.find_run(settings, store, what)
    rows = _pipe(command, print_changes(settings, store, what, selection, followed))
    if not rows:
        return _nothing_sent(report, "every row is equal by now, or was not selected")
    deadline, left = time.monotonic() + durations().stream_arrival, rows
    while left and not followed.stopped.is_set() and time.monotonic() < deadline:
        with proposal.propose(store, report, audit, settings.connections, selection, followed.accepted, followed.on_progress) as proposed:
            left = sum(len(changes) for changes in proposed.changes())
        if left:
            followed.stopped.wait(durations().path_poll)
    how = f"{rows:,} changes were handed to the command"
    if left:
        return Sent(rows, how, f"{left:,} rows still differ", None)
    wanted = script.read_wanted(store, report, audit, settings.connections, selection, followed.on_progress)
    return Sent(rows, how, "", *_audit_again(settings, store, report, wanted.span, followed, "by a command", rows))


def find_pipeline(settings: Settings, audit: Audit) -> tuple[str, str, str]:
    """Return the pipeline that carries an audit's table into its target, the table, and the pipeline's name of the target.

    Raises RefreshRefused.
    """
    read = audit.one_source("a patch through a pipeline")
    for carrier in find_carriers(read, audit.target, settings.pipelines, settings.connections):
        return carrier.pipeline, carrier.table, carrier.target
    raise RefreshRefused(f"no pipeline carries {read.table} of {read.connection} into {audit.target.table}; write --apply")


def _wait(
    settings: Settings,
    store: Store,
    name: str,
    done: list[Refresh],
    target: str,
    stopped: threading.Event,
    say: Callable[[str], None],
) -> str:
    if any(request.state != "done" for request in done):
        return "it was stopped after a chunk; the pipeline, or the same command, goes on with it"
    if not status(settings, store, name, look=False).running:
        start = f"auditor pipeline run {shell_word(name)}"
        return f"the rows are in the source's log, and the pipeline does not run; start it ({start}), then audit again"
    return use_cases.wait_until_arrived(settings, store, name, done, stopped, [target], say, durations().stream_arrival)


def _pipe(command: str, lines: Iterator[str]) -> int:
    """Hand lines to a command's standard input, and return how many. Raises PatchFailed.

    All are read first, into a file without a name: while they are, the target may be open, and DuckDB then lets no other process in.
    """
    with tempfile.TemporaryFile("w+", encoding="utf-8") as read:
        count = sum(1 for line in lines if read.write(line))
        if not count:
            return 0
        read.seek(0)
        try:
            ended = subprocess.run(shlex.split(command), stdin=read, check=False)
        except (OSError, ValueError) as error:
            raise PatchFailed(f"the command cannot be run: {error}") from error
    if ended.returncode:
        raise PatchFailed(f"the command ended with {ended.returncode}, after {count:,} changes were handed to it; audit again")
    return count


def _audit_again(
    settings: Settings, store: Store, report: Report, span: tuple[int, int] | None, followed: Followed, how: str, rows: int
) -> tuple[Report | None, str]:
    """Audit the touched keys again, or the whole table where keys have no order; return the run, or why there is none."""
    try:
        after = patches.audit_keys_again(settings, store, report, span, followed, f"after rows of run {report.run} were sent again")
    except AuditorError as error:
        return None, str(error)
    note = f"{rows:,} rows sent {how}; run {after.run[:12]} checked them again: {after.verdict.value}"
    repairs.record_repair(store, run=report.run, audit=report.audit, kind="patch", note=note, who=followed.who, rows=rows)
    return after, ""
