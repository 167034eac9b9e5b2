"""The commands ``auditor pipeline``, with its actions, and ``auditor heartbeat``.

What a pipeline's status says is computed in `auditor/service/pipeline_status.py`, and only printed here.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime as dt
import json
import signal
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

from auditor import config
from auditor.cli._ending import stopped_by_signals
from auditor.cli._output import console, current_user, print_json, settings_and_store
from auditor.errors import ConfigError
from auditor.escaping import command, shell_word, visible, yaml_text
from auditor.quantities import plural

if TYPE_CHECKING:
    from auditor.api_models.pipeline import LiveSummaries, PipelineStatus
    from auditor.api_models.pipeline import Refresh as ShownRefresh
    from auditor.service.table_states import TableRow
    from auditor.store.refreshes import Refresh, RefreshScope


def pipeline(options: argparse.Namespace) -> int:
    """Run the action that the options name."""
    code: int = _ACTIONS[options.action](options)
    return code


def _init(options: argparse.Namespace) -> int:
    from auditor.service import pipelines

    path = config.find_file(options.config)
    audits = pipelines.propose_audits(config.load(path), options.pipeline)
    try:
        added = config.add_audits(path, audits)
    except ConfigError:
        print(yaml_text({"audits": audits}), end="")
        raise
    for name in audits:
        print(f"{name}: {'added' if name in added else 'is there already, and stays as it is'}")
    if not options.quiet:
        print(f"{len(added)} audits were written into {path}; run them with: auditor run NAME, and see: auditor check", file=sys.stderr)
    return 0


def _check(options: argparse.Namespace) -> int:
    from auditor.service import pipelines

    with settings_and_store(options) as (configured, store):
        findings = pipelines.check(configured, config.find_file(options.config), store, options.pipeline, options.prove)
    if options.format == "json":
        print_json([dataclasses.asdict(finding) for finding in findings])
    else:
        for finding in findings:
            print(f"{finding.severity}: {finding.subject}: {finding.sentence}")
        if all(finding.severity == "note" for finding in findings):
            print(f"pipeline {options.pipeline}: nothing is missing")
    return 2 if any(finding.severity == "error" for finding in findings) else 0


def _run(options: argparse.Namespace) -> int:
    from auditor import config, telemetry
    from auditor.service import pipelines

    stop = Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    with settings_and_store(options) as (configured, store):
        telemetry.configure_logging("console" if sys.stderr.isatty() else "json", "info", config.find_secrets(configured))
        pipelines.run(configured, config.find_file(options.config), store, options.pipeline, options.target, stop)
    return 0


def _status(options: argparse.Namespace) -> int:
    from auditor.service.pipeline_status import match_tables, status

    with settings_and_store(options) as (configured, store):
        tables = match_tables(configured, store, options.pipeline, options.table) if options.table else None
        pipeline_status = status(configured, store, options.pipeline, tables=tables)
    if options.format == "json":
        print_json(pipeline_status)
    else:
        print_status(pipeline_status, all_tables=bool(options.table))
    return 0


MOST_PARTITIONS = 5
"""Partitions of topics that are listed with what is not read of them."""

MOST_LINES = 20
"""Lines of a kind that a status has, where a pipeline has many tables."""


def print_status(status: PipelineStatus, all_tables: bool = False) -> None:
    """Print the status of a pipeline, for people: of many tables groups, and those that need attention, unless ``all_tables`` is set."""
    from auditor.pipeline.poison import skipped_line
    from auditor.service.table_states import FEW_TABLES, in_order, list_rows, share_reasons

    how = "paused" if status.paused else "running" if status.running else "not running"
    staged = f"{status.events:,} events staged, up to {status.staged_time.isoformat()}" if status.staged_time else "nothing was staged yet"
    print(f"pipeline {status.pipeline}: {how}; {staged}; {_lag(status)} behind the source")
    if beat := status.heartbeat:
        print(f"last heartbeat: {beat.serial:,} of {beat.database}, written {beat.age_seconds:,.0f} s ago ({_second(beat.at)} UTC)")
    rows = list_rows(status)
    is_short = not all_tables and len({row.table for row in rows}) > FEW_TABLES
    if is_short:
        _print_groups(rows, status.pipeline)
    else:
        console().print(_status_table([(row, row.values.state) for row in in_order(rows, status)]))
    most = MOST_LINES if is_short else None
    for target, target_status in status.targets.items():
        if (topics := target_status.topics) and topics.at:
            undone = f", {topics.aborted:,} undone" if topics.aborted else ""
            known = f"{len(topics.topics):,} topic{'' if len(topics.topics) == 1 else 's'}"
            print(f"{target}: {known}; {topics.committed:,} transactions{undone}, until {_second(topics.at)} UTC")
    for warning in status.warnings:
        print(f"warning: {warning}")
    for note in status.notes:
        print(f"note: {note}")
    if status.reason:
        print(f"staging: {status.reason}")
    for stop in status.stopped[:most]:
        where = f" for {stop.target}" if stop.target else ""
        print(f"{stop.table} stops at {stop.place}{where}: {stop.reason}")
        without = command("auditor", "pipeline", "skip", status.pipeline, "--table", stop.table, "--position", stop.place)
        print(f"  to continue without it: {without} --reason WHY")
    _print_left(status.stopped, most, "stops")
    for skip in status.skipped[:most]:
        when = f" on {_second(skip.skipped_at)}" if skip.skipped_at else ""
        print(f"{skip.table}: {skipped_line(skip.events, skip.place)} by {skip.skipped_by}{when}: {skip.skip_reason}")
    _print_left(status.skipped, most, "places at which events were skipped")
    for summaries in status.live_summaries[:most]:
        print(_live_summaries(summaries))
    _print_left(status.live_summaries, most, "live summaries")
    for target, sentence in dict.fromkeys((migration.target, said) for migration in status.migrations for said in migration.said):
        print(f"{target}: {sentence}")
    stopped = {(stop.table, stop.reason) for stop in status.stopped}
    reasons = share_reasons(row for row in rows if (row.table, row.values.reason) not in stopped)
    for one in reasons[:most]:
        whose = one.table if one.tables == 1 else f"{one.tables:,} tables, {one.table} the first"
        print(f"{one.target}: {whose}: {one.state}: {one.reason}")
    _print_left(reasons, most, "reasons")
    if is_short:
        print(f"for single tables: {command('auditor', 'pipeline', 'status', status.pipeline)} --table NAME, or a pattern such as 'crm.*'")


def _print_groups(rows: Sequence[TableRow], pipeline: str) -> None:
    """Print a line for each group of tables that stand alike, and below them the tables that need attention."""
    from auditor.service.table_states import NEEDS_ATTENTION, describe_group, group_rows

    for group in group_rows(rows):
        print(describe_group(group))
    urgent = [row for row in rows if row.state in NEEDS_ATTENTION]
    if urgent:
        console().print(_status_table([(row, row.state) for row in urgent[:MOST_LINES]]))
        _print_left(urgent, MOST_LINES, "tables that need attention")


def _print_left(listed: Sequence[object], most: int | None, what: str) -> None:
    if most is not None and len(listed) > most:
        print(f"and {len(listed) - most:,} more {what}")


def _live_summaries(summaries: LiveSummaries) -> str:
    """Return the line on the live summaries of an audit."""
    line = f"live summaries of {summaries.audit} ({summaries.table} in {summaries.target}): {summaries.state}"
    if summaries.since:
        line += f" since {_second(summaries.since)}"
    if summaries.proved:
        line += f", proved by a scan of the source as of {_second(summaries.proved)}"
    if summaries.ended:
        line += f", ended {_second(summaries.ended)}: {summaries.reason}"
    return line


def _second(moment: dt.datetime) -> str:
    return moment.isoformat()[:19]


def _lag(status: PipelineStatus) -> str:
    size = "" if status.lag_bytes is None else f" and {status.lag_bytes:,} bytes"
    if status.lag_messages is not None:
        size = f" and {plural(status.lag_messages, 'message')}"
        size += "".join(f", {one.end - one.offset:,} of {one.topic}:{one.partition}" for one in status.partitions[:MOST_PARTITIONS])
    return "not known how far" if status.lag_seconds is None else f"{status.lag_seconds:,.0f} s{size}"


def _status_table(rows: Iterable[tuple[TableRow, str]]) -> Any:
    from rich.table import Table

    table = Table(box=None, padding=(0, 2), header_style="dim")
    for column in ("target", "table", "holds up to", "events", "pending", "bytes", "behind", "state"):
        table.add_column(column, justify="right" if column in ("events", "pending", "bytes", "behind") else "left")
    for row, state in rows:
        values = row.values
        counts = (f"{values.events:,}", f"{values.pending_events:,}", f"{values.pending_bytes:,}", f"{values.lag_seconds:,.0f} s")
        table.add_row(row.target, row.table, values.through.isoformat() if values.through else "", *counts, state)
    return table


def _pause(options: argparse.Namespace) -> int:
    from auditor.service import pipelines

    with settings_and_store(options) as (configured, store):
        pipelines.set_paused(configured, store, options.pipeline, options.action == "pause", by=current_user())
    print(f"pipeline {options.pipeline} is {'paused' if options.action == 'pause' else 'going on'}")
    return 0


def _skip(options: argparse.Namespace) -> int:
    from auditor.pipeline.poison import skipped_line
    from auditor.service import pipelines

    with settings_and_store(options) as (configured, store):
        skipped = pipelines.skip(configured, store, options.pipeline, options.table, options.position, options.reason, by=current_user())
    if options.format == "json":
        print_json(skipped)
        return 0
    for stop in skipped:
        whose = f" for {stop.target}" if stop.target else ""
        print(f"{stop.table}: {skipped_line(stop.events, options.position)}{whose}; it continues after them within a minute")
    return 0


def _refresh(options: argparse.Namespace) -> int:
    """Send rows through the stream until they are all in the source's log, or a signal ends it after a chunk; print it without --apply."""
    from auditor.pipeline.refresh import use_cases
    from auditor.store import refreshes

    with (
        settings_and_store(options) as (configured, store),
        stopped_by_signals("stopping after this chunk; the pipeline, or the same command, continues it") as stopped,
    ):
        if options.list:
            configured.pipeline(options.pipeline)
            return _print_refreshes(refreshes.list_refreshes(store, options.pipeline), options)
        ends = options.keys or {}
        listed = read_keys(Path(options.key_list)) if options.key_list else ()
        about = (configured, store, options.pipeline, options.table)
        rows: dict[str, Any] = {"first": ends.get("from"), "last": ends.get("to"), "keys": listed}
        if not options.apply:
            return _print_planned(use_cases.plan(*about, **rows), options)
        asked = use_cases.request(*about, **rows, by=current_user())
        if not options.ask:
            asked = use_cases.carry_out(configured, store, options.pipeline, asked, stopped, _RefreshFollower(options.quiet).follow)
        return _print_refreshes(asked, options)


def _print_planned(planned: Sequence[tuple[str, RefreshScope]], options: argparse.Namespace) -> int:
    from auditor.pipeline.refresh import use_cases

    if options.format == "json":
        print_json([{"table": table, **dataclasses.asdict(scope)} for table, scope in planned])
        return 0
    for table, scope in planned:
        print(use_cases.describe_planned(table, scope))
    how = "asked for" if options.ask else "sent through the stream"
    print(f"{plural(len(planned), 'table')} would be {how}; nothing was written: add --apply to do it")
    return 0


def read_keys(path: Path) -> list[list[str]]:
    """Return the keys of a file: JSON arrays, or single values, which are taken as they are written. Raises ConfigError."""
    keys = []
    try:
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if line.startswith("["):
                values = json.loads(line)
                if not all(isinstance(value, str | int) for value in values):
                    raise ConfigError(f"{path}, line {number}: write a key as an array of texts and whole numbers")
                keys.append([str(value) for value in values])
            elif line:
                keys.append([line])
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"the keys cannot be read from {path}: {error}") from error
    except ValueError as error:
        raise ConfigError(f"{path}, line {number}: {error}; write a JSON array") from error
    if not keys:
        raise ConfigError(f"{path} lists no key")
    return keys


class _RefreshFollower:
    """Prints what changes, on standard error, unless it is to be quiet."""

    def __init__(self, quiet: bool) -> None:
        self._quiet = quiet
        self._told: dict[str, tuple[str, int]] = {}

    def follow(self, followed: Refresh) -> None:
        tenth = int(followed.progress.get("rows", 0)) // 100_000
        if not self._quiet and self._told.get(followed.refresh) != (followed.reason, tenth) and followed.state == "running":
            self._told[followed.refresh] = (followed.reason, tenth)
            print(
                f"{followed.table}: {followed.progress.get('rows', 0):,} rows{': ' * bool(followed.reason)}{followed.reason}",
                file=sys.stderr,
                flush=True,
            )


def _print_refreshes(sent: Sequence[Refresh], options: argparse.Namespace) -> int:
    from auditor.pipeline.refresh import use_cases

    shown = [use_cases.show(stored) for stored in sent]
    if options.format == "json":
        print_json(shown)
    else:
        for line in refresh_lines(shown):
            print(line)
    return 3 if any(shown_refresh.state == "failed" for shown_refresh in shown) and not options.list else 0


def refresh_lines(shown: Sequence[ShownRefresh]) -> Iterator[str]:
    """Yield a line for each refresh, and one for all that failed for one reason without a row sent."""
    alike = Counter(refresh.reason for refresh in shown if refresh.state == "failed" and not refresh.rows)
    said: set[str] = set()
    for refresh in shown:
        if refresh.state == "failed" and not refresh.rows and alike[refresh.reason] > 1:
            if refresh.reason not in said:
                yield f"{plural(alike[refresh.reason], 'table')}: failed: {refresh.reason}"
            said.add(refresh.reason)
        else:
            yield _refresh_line(refresh)


def _refresh_line(shown: ShownRefresh) -> str:
    how = f"{plural(shown.rows, 'row')} in {plural(shown.chunks, 'chunk')}, {shown.seconds:,.1f} s"
    locked = f"; rows were locked for {shown.longest:.2f} s at most" if shown.longest else ""
    place = f"; in the log up to {shown.log_place}" if shown.log_place else ""
    return f"{shown.table}: {shown.state}: {how}{locked}{place}{': ' * bool(shown.reason)}{shown.reason}"


def _segments(options: argparse.Namespace) -> int:
    from auditor.service import pipelines

    with settings_and_store(options) as (configured, store):
        listed = pipelines.list_segments(configured, store, options.pipeline, options.table, options.verify)
    if options.format == "json":
        print_json(listed)
    else:
        for segment in listed:
            print(
                f"{segment.table} {segment.ended:%Y-%m-%dT%H:%M:%SZ} {segment.rows:>9,} events  {segment.sha256}"
                f"  {segment.wrong or segment.path}"
            )
        good = sum(1 for segment in listed if not segment.wrong)
        verified = f"; {good} of them hold what was hashed" if options.verify else ""
        if not options.quiet:
            print(f"{len(listed)} segments of {len({segment.table for segment in listed})} tables{verified}", file=sys.stderr)
    return 1 if any(segment.wrong for segment in listed) else 0


def _rebuild(options: argparse.Namespace) -> int:
    from auditor.service import rebuilds

    if options.apply and not options.into:
        raise ConfigError("--apply writes into a connection; leave it out with --output, which writes a new file")
    if (options.into is None) != (options.table is None):
        raise ConfigError("--into names the connection and --table the new table in it; write both, or --output FILE.parquet")
    into = (options.into, options.table) if options.into else None
    path, about = config.find_file(options.config), (options.pipeline, options.rebuilt, options.at)
    with settings_and_store(options) as (configured, store):
        rebuilt = rebuilds.rebuild(
            configured, path, store, *about, output=options.output and Path(options.output), into=into, apply=options.apply
        )
    if options.format == "json":
        print_json(rebuilt)
        return 0
    begins = {"create": "it was made", "clear": "it was emptied", "refresh": "a refresh of all its rows began"}[rebuilt.begins]
    where = f"written into {rebuilt.written}" if rebuilt.written else f"not written into {options.into}: add --apply to write them"
    print(f"{rebuilt.table} at {rebuilt.place}: {plural(rebuilt.rows, 'row')}, {where}")
    print(f"  from {plural(rebuilt.events, 'event')} behind {rebuilt.since}, where {begins}")
    if len(rebuilt.names) > 1:
        print(f"  names: {', '.join(rebuilt.names)}")
    for warning in rebuilt.warnings:
        print(f"warning: {warning}")
    return 0


def _events(options: argparse.Namespace) -> int:
    """Print lines until all were printed that are staged, as many as were asked for, or a signal ends it."""
    from auditor.service import event_lines

    left, place = options.limit, ""
    with settings_and_store(options) as (configured, store), stopped_by_signals("stopping after these lines") as stopped:
        lines = event_lines.open_lines(configured, store, options.pipeline, options.table, options.start)
        place = lines.place
        try:
            for piece in lines.follow(stopped) if options.follow else lines.read():
                chosen = piece if left is None else piece[:left]
                sys.stdout.buffer.write(b"".join(chosen))
                sys.stdout.buffer.flush()
                place = event_lines.last_position(chosen) or place
                left = None if left is None else left - len(chosen)
                if stopped.is_set() or left == 0:
                    break
        finally:
            if not options.quiet:
                print(f"to continue after the last line: --from {shell_word(place)}", file=sys.stderr)
    return 0


def _failover(options: argparse.Namespace) -> int:
    from auditor.service import failovers

    with settings_and_store(options) as (configured, store):
        path = config.find_file(options.config)
        accept, dry = options.accept_gap, not options.apply
        failover = failovers.fail_over(configured, path, store, options.pipeline, options.to, accept, dry, by=current_user())
    if options.format == "json":
        print_json({**dataclasses.asdict(failover), "to": options.to, "changed": not dry})
        return 1 if failover.gaps else 0
    behind = f"behind {failover.behind}" if failover.behind else "where its log ends now"
    print(f"pipeline {options.pipeline}: it {'would continue' if dry else 'continues'} from {options.to} at {failover.place}, {behind}")
    for gap in failover.gaps:
        print(f"gap: {gap}")
    if failover.gaps:
        print(f"gap: once the pipeline runs, send the rows again with: {failover.mend}; then audit the tables")
    if dry:
        print("nothing was changed; add --apply to fail over")
    else:
        print(f"{path} names {options.to} as its source now; start it with: auditor pipeline run {shell_word(options.pipeline)}")
    return 1 if failover.gaps else 0


def _schemas(options: argparse.Namespace) -> int:
    from auditor.service import schema_versions

    if options.version and not options.create:
        raise ConfigError("--version says of which version --create prints the statement; add --create ENGINE")
    if options.create and not options.table:
        raise ConfigError("--create prints the statement of one table; name it")
    with settings_and_store(options) as (configured, store):
        if options.create:
            about = (options.pipeline, options.table, options.create, options.version)
            print(f"{schema_versions.create_statement(configured, store, *about)};")
            return 0
        versions = schema_versions.list_versions(configured, store, options.pipeline, options.table)
    if options.format == "json":
        print_json(versions)
        return 0
    for version in versions:
        held = f"; held by {', '.join(version.targets)}" if version.targets else ""
        print(f"{version.table}: version {version.version} from {version.place} on{held}")
        told = {"owner": version.owner, "holds": version.doc} if not version.changes else {}
        for word, text in told.items():
            if text:
                print(f"  {word}: {visible(text)}")
        for statement in version.statements:
            print(f"  by: {visible(' '.join(statement.split()))}")
        for change in version.changes:
            print(f"  {change.sentence}{'; this breaks readers' if change.breaks_readers else ''}")
        for column in version.columns if not version.changes else ():
            null = "" if column.nullable else " NOT NULL"
            doc = f": {visible(column.doc)}" if column.doc else ""
            print(f"  {column.name} {column.type}{null}{', in the key' if column.in_key else ''}{doc}")
    return 0


def _reset(options: argparse.Namespace) -> int:
    from auditor.service import pipelines

    with settings_and_store(options) as (configured, store):
        print(f"pipeline {options.pipeline} will forget:")
        about = {"from_targets": options.from_targets, "target": options.target}
        for line in pipelines.describe_reset(configured, store, options.pipeline, **about):
            print(f"  {line}")
        again = options.name_again or input("write the pipeline's name again to continue: ")
        if again.strip() != options.pipeline:
            raise ConfigError("that is another name, so nothing was reset")
        if options.target is not None:
            pipelines.reset_target(configured, store, options.pipeline, options.target)
            refresh = f"auditor pipeline refresh {shell_word(options.pipeline)} --apply"
            print(f"pipeline {options.pipeline} forgot how far {options.target} is; once it runs, send it all rows again with: {refresh}")
            return 0
        place = pipelines.reset(configured, store, options.pipeline, from_targets=options.from_targets)
    print(f"pipeline {options.pipeline} was reset" + (f"; it reads the source's log again from {place}" if place else ""))
    return 0


def _demo(_: argparse.Namespace) -> int:
    from auditor.demo import pipeline

    return pipeline.run(console())


_ACTIONS = {
    "demo": _demo,
    "init": _init,
    "check": _check,
    "run": _run,
    "status": _status,
    "pause": _pause,
    "unpause": _pause,
    "skip": _skip,
    "refresh": _refresh,
    "segments": _segments,
    "rebuild": _rebuild,
    "events": _events,
    "schemas": _schemas,
    "failover": _failover,
    "reset": _reset,
}


def heartbeat(options: argparse.Namespace) -> int:
    """Write heartbeats until a signal."""
    from auditor import telemetry
    from auditor.pipeline import heartbeat as heartbeats

    try:
        every = config.parse_duration(options.every)
    except (ValueError, OverflowError) as error:
        raise ConfigError(f"--every: {error}") from None
    if every <= 0:
        raise ConfigError("--every: write the time between two heartbeats, as 5s; it cannot be 0")
    stop = Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    configured = config.load(config.find_file(options.config))
    telemetry.configure_logging("console" if sys.stderr.isatty() else "json", "info", config.find_secrets(configured))
    written = heartbeats.run(configured, options.connection, every, stop)
    print(f"auditor: {written:,} heartbeats were written into {options.connection}", file=sys.stderr)
    return 0
