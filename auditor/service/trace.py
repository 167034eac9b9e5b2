"""Say at which hop of a pipeline a row of an audit was lost: on the way into the log, into the staged files, or into the target.

Each hop is asked for the row as of one position. The source's row is read before and after the end of the log, so that a row that did not
change meanwhile is the one of which the log tells the last change up to there. The target's row is read in one snapshot with the position
that the target says it holds. The first hop whose row is not what the hop before has of it is where the row was lost.
"""

from __future__ import annotations

import datetime as dt
import json
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import cache
from typing import TypeAlias

import pyarrow.compute as pc

from auditor.api_models.trace import Hop, Outcome, Trace, TracedEvent, TracedRow
from auditor.compare import tolerance
from auditor.compare.accounting import Key, Row, TextEquality
from auditor.config import Audit, Carrier, Settings, find_carriers
from auditor.connections.reader import OnProgress, Reader, ignore_progress
from auditor.durations import durations
from auditor.errors import AuditorError, ConfigError, NoReport, PartDamaged, PartsGone, TableStopped, TraceRefused, UnknownRun
from auditor.escaping import visible
from auditor.history import records
from auditor.model import ColumnPlan, Plan, Report, Side, Skip
from auditor.pipeline.binlog.log_connection import log_status, source_of
from auditor.pipeline.events import Place, TableSchema
from auditor.pipeline.folders import folder_at
from auditor.pipeline.key_history import KeyHistory, Version
from auditor.pipeline.restaging import read_source_again
from auditor.pipeline.stream_positions import place_texts, staged_through
from auditor.pipeline.table_events import EventPlace, TableEvents
from auditor.planning import introspect, planner
from auditor.repair.keys import Selection, collect_keys
from auditor.run.fetch import Fetcher
from auditor.run.live.plans import why_not_told
from auditor.service import audits, definitions
from auditor.sql.merge import POSITIONS, Positions
from auditor.store import Store, parts, pipelines, runs, table_notes
from dialects import Session

SHOWN_EVENTS = 10
"""Changes of a row that are shown at most, the last ones."""

HOP_NAMES: Mapping[Hop, str] = {
    "log": "lost between the source and its log",
    "staging": "lost between the log and the staged files",
    "merge": "lost between the staged files and the target",
}

OUTCOMES: Mapping[Outcome, str] = {
    "equal": "equal by now",
    "in_flight": "in flight",
    "lost": "lost",
    "unknown": "cannot be told",
}

ATTEMPTS = 3
"""How often rows are read again that change while they are traced."""

UNSHORTENED = 1 << 30

Rows: TypeAlias = Mapping[Key, Sequence[Row]]

Answer: TypeAlias = tuple[Outcome, Hop | None, str]


@dataclass(frozen=True, slots=True)
class Asked:
    """Which rows are to be traced: those of ``keys``, or else the differences of the audit's last run."""

    keys: Sequence[str] = ()
    """As `parse_key` reads them."""
    limit: int = 20
    """Differences that are traced at most."""
    stopped: threading.Event = field(default_factory=threading.Event)
    on_progress: OnProgress = ignore_progress


def trace(settings: Settings, store: Store, what: str, asked: Asked) -> Trace:
    """Trace rows of an audit, or of a run of one.

    Raises UnknownAudit, UnknownRun, NoReport, ConfigError for a key that is none, TraceRefused, and errors of both sides, the staging and
    the store.
    """
    settings = audits.with_defined_audits(settings, store)
    report = None if asked.keys and what in settings.audits else _find_report(store, what)
    name = report.audit if report else what
    audit = definitions.audit(settings, name).model_copy(update={"settle": None})
    carrier = _find_carrier(settings, audit)
    names: dict[Side, str] = {"source": audit.one_source("a trace").connection, "target": audit.target.connection}
    with Reader(name, names, settings.connections, asked.on_progress).open() as reader:
        plan = planner.draft(name, audit, introspect.describe_tables(reader, audit), "exact")
        further = 0
        if asked.keys:
            keys = [parse_key(plan, text) for text in asked.keys]
        else:
            assert report
            keys, further = _differing(store, report, reader, asked.limit)
        tracing = _Tracing(settings, store, audit, carrier, reader, plan, keys, asked.stopped)
        return tracing.run(name, None if asked.keys or not report else report.run, further)


def is_traceable(settings: Settings, audit: Audit) -> bool:
    """Return whether a pipeline of the configuration carries the audit's table, so that its rows may be traced."""
    return any(find_carriers(read, audit.target, settings.pipelines, settings.connections) for read in audit.sources)


def count_outcomes(found: Trace) -> str:
    """Return how many rows were lost at which hop, and how many were not: as a clause."""
    counts = Counter(HOP_NAMES[row.hop] if row.hop else OUTCOMES[row.outcome] for row in found.rows)
    return ", ".join(f"{count:,} {what}" for what, count in counts.items()) or "none differs"


def parse_key(plan: Plan, text: str) -> Key:
    """Return the key that a text names, as reports print it: of several columns with commas between, or as a JSON list.

    Raises ConfigError.
    """
    columns = [column.name for column in plan.key_columns]
    if text.startswith("["):
        try:
            values = json.loads(text)
        except ValueError as error:
            raise ConfigError(f"{visible(text)} is no JSON list: {error}") from error
    else:
        values = [text] if len(columns) == 1 else text.split(",")
    if len(values) != len(columns):
        raise ConfigError(
            f"{visible(text)} has {len(values)} values, and the key has {len(columns)}: {', '.join(columns)}; write them in this order with"
            ' commas between, or as a JSON list: ["a,b", 7]'
        )
    return tuple(None if value is None else str(value).strip() if isinstance(value, str) else str(value) for value in values)


def _find_report(store: Store, what: str) -> Report:
    """Return the report of a run, or of the last run of an audit, without its differences. Raises UnknownRun and NoReport."""
    latest = runs.list_runs(store, audit=what, state="done", limit=1)
    try:
        stored = latest[0] if latest else runs.get_run(store, what)
    except UnknownRun as error:
        raise UnknownRun(f"{what!r} is neither a run nor an audit that was run; run it, or name keys: --key") from error
    report = records.load_report(store, stored.run, max_differences=0)
    if report is None:
        raise NoReport(f"run {stored.run} has no report yet; wait for its end: auditor show {stored.run[:12]}")
    return report


def _find_carrier(settings: Settings, audit: Audit) -> Carrier:
    read = audit.one_source("a trace")
    carriers = find_carriers(read, audit.target, settings.pipelines, settings.connections)
    if not carriers:
        raise TraceRefused(
            f"no pipeline of this configuration carries {read.table} of {read.connection} into {audit.target.table}, so that no hop between"
            " them is known"
        )
    if len(carriers) > 1:
        found = ", ".join(f"{one.target} of {one.pipeline}" for one in carriers)
        raise TraceRefused(f"several targets of pipelines may hold {read.table} ({found}); write the target's table with its schema")
    [carrier] = carriers
    if carrier.where is not None and carrier.where != audit.where:
        raise TraceRefused(
            f"the pipeline {carrier.pipeline} carries only rows of {carrier.table} where {carrier.where}, and the audit compares others,"
            " too; write the same where in the audit"
        )
    if audit.where is not None and not isinstance(audit.where, str):
        raise TraceRefused("events are filtered by one text for both sides; write where of the audit as one")
    return carrier


def _differing(store: Store, report: Report, reader: Reader, limit: int) -> tuple[list[Key], int]:
    """Return the keys of a run's differences, at most so many, and how many more rows differ."""
    if report.plan is None or report.differences is None:
        raise TraceRefused(f"run {report.run} named no rows; run {report.audit} with the method exact, or name keys: --key")
    with collect_keys(store, report.run, report.plan, reader, Selection(limit=limit, delete_extra=True)) as file:
        keys = next(file.batches(limit), [])
    found = report.differences
    return keys, max(0, found.missing + found.extra + found.changed - len(keys))


@dataclass(frozen=True, slots=True)
class _Sides:
    """The rows of both sides, and where each stands."""

    source: Rows
    target: Rows
    began: int
    """Where the log ended before the source's rows were read."""
    changing: set[Key]
    """Keys whose row in the source changed while it was read."""
    staged: int
    merged: int | None
    behind: str
    """Why not everything is staged that the log had; '' if it is."""


@dataclass(frozen=True, slots=True)
class _Found:
    """What one look at all hops but the log found."""

    sides: _Sides
    history: KeyHistory
    unread: str
    """Why not all staged events could be read."""
    pruned: int
    """Up to where staged events were deleted."""
    doubted: Sequence[Key]
    """Keys whose row in the source is not as its last staged event left it."""


@dataclass(slots=True)
class _Tracing:
    settings: Settings
    store: Store
    audit: Audit
    carrier: Carrier
    reader: Reader
    plan: Plan
    keys: Sequence[Key]
    stopped: threading.Event
    left_out: dict[str, str] = field(default_factory=dict)
    """Why columns are not compared with the stream."""
    _place: Callable[[int], str] = field(init=False)

    def __post_init__(self) -> None:
        if any(column.masked for column in self.plan.key_columns):
            raise TraceRefused("a column of the key is masked, so that no row can be named")
        session = self.reader.session("target")
        if session.dialect.is_written and session.dialect.writing.WRITES_COMMITS:
            raise TraceRefused(f"{session.dialect.name} tables are written by commits of single tables, and rows in them are not traced")
        self._place = place_texts(self.store, self.carrier.pipeline)

    @property
    def table(self) -> str:
        """The table as the stream calls it."""
        return f"{self.carrier.database}.{self.carrier.output}"

    def run(self, name: str, run: str | None, further: int) -> Trace:
        """Trace the keys."""
        told = self._choose_columns()
        found = self._look(told)
        if found.doubted and not found.sides.behind:  # the source may show what its log has a moment later, as where replicas confirm it
            self.stopped.wait(durations().trace_pause)
            found = self._look(told)
        log = self._read_log(found, told) if not (found.unread or found.sides.behind) else None
        sides, pruned = found.sides, found.pruned
        rows = [_Judgement(self, key, found, found.history.versions.get(key, []), log).row() for key in self.keys]
        return Trace(
            audit=name,
            run=run,
            pipeline=self.carrier.pipeline,
            table=self.table,
            target=self.carrier.target,
            staged_through=self._place(sides.staged),
            merged_through=None if sides.merged is None else self._place(sides.merged),
            kept_from=self._place(pruned) if pruned else None,
            not_compared=self.left_out,
            rows=rows,
            further=further,
        )

    def _look(self, told: Sequence[ColumnPlan]) -> _Found:
        """Read the rows of both sides, and what is staged of them."""
        sides, history, unread = self._read_sides(), self._new_history(told), ""
        pruned = parts.get_table(self.store, self.carrier.pipeline, self.table).pruned_through
        events = TableEvents(self.store, self.carrier.pipeline, folder_at(self._staging), self.table, EventPlace(pruned))
        try:
            history.read_staged(events, cache(self._schema))
        except (PartDamaged, PartsGone, TableStopped) as error:  # what is behind that is not known
            unread = str(error)
        changes = table_notes.list_notes(self.store, self.carrier.pipeline, [self.table], kind="change", after=pruned)
        history.take_statements(note for note in changes if note.position <= sides.staged and not note.reason)
        doubted = [key for key, versions in history.versions.items() if versions and not self.is_in_source(sides, key, versions[-1])]
        return _Found(sides, history, unread, pruned, doubted)

    @property
    def _staging(self) -> str:
        return self.settings.pipeline(self.carrier.pipeline).staging.path

    def _choose_columns(self) -> list[ColumnPlan]:
        """Return the columns of which events tell what the audit compares. Raises TraceRefused if one of the key is none of them."""
        rules = self.settings.pipeline(self.carrier.pipeline).columns_of(self.carrier.table)
        masked, excluded = ({name.lower() for name in names} for names in (rules.mask, rules.exclude))
        for column in self.plan.columns:
            why = why_not_told(column)
            if column.name.lower() in masked | excluded:
                why = f"the pipeline {'masks' if column.name.lower() in masked else 'excludes'} {column.name}"
            if column.pieces:
                why = f"of {column.name} the databases tell only digests of long values"
            if why:
                self.left_out[column.name] = why
        if why := next((self.left_out[column.name] for column in self.plan.key_columns if column.name in self.left_out), ""):
            raise TraceRefused(f"rows are followed by their key, and {why}")
        return [column for column in self.plan.columns if column.name not in self.left_out]

    def _new_history(self, told: Sequence[ColumnPlan]) -> KeyHistory:
        renamed = self.settings.pipeline(self.carrier.pipeline).columns_of(self.carrier.table).rename
        names = {column.name: new for column in self.plan.columns for old, new in renamed.items() if old.lower() == column.name.lower()}
        return KeyHistory(self.plan, names, told, str(self.audit.where or ""), frozenset(self.keys))

    def _schema(self, schema_id: str) -> TableSchema:
        body = parts.get_schema(self.store, self.carrier.pipeline, schema_id)
        if body is None:
            raise PartsGone(f"the schema {schema_id} of a part is not in the store")
        return TableSchema.from_json(json.dumps(body))

    def _read_sides(self) -> _Sides:
        """Read the rows of both sides, the source's until they stay as they are, and wait until the log up to there is staged."""
        for attempt in range(ATTEMPTS):
            began, before, end, source = self._log_end(), self._rows("source"), self._log_end(), self._rows("source")
            changing = {key for key in self.keys if _digits(before, key) != _digits(source, key)}
            if not changing or attempt == ATTEMPTS - 1:
                break
        behind, epoch = (
            self._wait_for(end),
            int((pipelines.get_pipeline(self.store, self.carrier.pipeline).source_offset or {}).get("epoch", 0)),
        )
        merged, target = self.reader.ask_side("target", self._read_target, fresh=True)
        staged = staged_through(self.store, self.carrier.pipeline)
        return _Sides(source, target, began.position(epoch).pack(), changing, staged, merged, behind)

    def _log_end(self) -> Place:
        with closing(source_of(self.settings, self.carrier.pipeline).connect()) as connection:
            return log_status(connection).end

    def _rows(self, side: Side) -> Rows:
        return self.reader.ask_side(side, self._fetch, fresh=True)

    def _fetch(self, side: Side, session: Session) -> Rows:
        rows: dict[Key, list[Row]] = {}
        for row, _ in Fetcher(self.plan, side, session, UNSHORTENED).by_canonical_key(self.keys):
            rows.setdefault(row.key, []).append(row)
        return rows

    def _read_target(self, side: Side, session: Session) -> tuple[int | None, Rows]:
        """Return up to where the target says that it holds the table, and its rows, in the snapshot that is open."""
        positions = Positions(session.dialect, self.carrier.schema, self.carrier.pipeline)
        try:
            listed = session.query(positions.list())
        except AuditorError as error:
            raise TraceRefused(
                f"the target does not say what it holds ({error}); let the audit's user read {self.carrier.schema}.{POSITIONS} there"
            ) from error
        held = next((int(position) for table, position, _ in listed if str(table) == self.table), None)
        return held, self._fetch(side, session)

    def _wait_for(self, end: Place) -> str:
        """Wait until the log up to a place is staged; return why it is not."""
        until = time.monotonic() + durations().hold_reach
        while True:
            state = pipelines.get_pipeline(self.store, self.carrier.pipeline)
            offset = state.source_offset
            if offset and Place(offset["file"], int(offset["position"])).order >= end.order:
                return ""
            is_running = state.progress.at and (dt.datetime.now(dt.UTC) - state.progress.at).total_seconds() < durations().pipeline_fresh
            if state.paused or not is_running or time.monotonic() > until or self.stopped.wait(durations().hold_poll):
                return f"the log up to {end} is not staged yet"

    def _read_log(self, found: _Found, told: Sequence[ColumnPlan]) -> KeyHistory | str | None:
        """Return what the source's log has of the keys that are doubted, from their last staged events on, or why it has nothing any more.

        None where no row is doubted: the log is not read then.
        """
        if not found.doubted:
            return None
        logged, schemas = self._new_history(told), dict[str, TableSchema]()
        within = min(found.history.versions[key][-1].position for key in found.doubted), found.sides.staged
        try:
            with tempfile.TemporaryDirectory(prefix="auditor-trace-") as scratch:
                for batch in read_source_again(self.settings, self.store, self.carrier.pipeline, self.table, within, scratch):
                    for id in pc.unique(batch["schema_id"]).to_pylist():
                        events = batch.filter(pc.equal(batch["schema_id"], id))
                        announced = events.filter(pc.equal(events["kind"], "schema"))
                        if announced.num_rows:
                            schemas[id] = TableSchema.from_json(announced["after"][0].as_py()[0])
                        logged.take(schemas.get(id) or self._schema(id), events)
        except TraceRefused:
            raise
        except AuditorError as error:
            return str(error)
        return logged

    def is_in_source(self, sides: _Sides, key: Key, version: Version) -> bool:
        """Return whether the source's row is as an event left it, in the columns that events tell."""
        return self._is_row(sides.source.get(key, []), version, {})

    def is_in_target(self, sides: _Sides, key: Key, version: Version) -> bool:
        """Return the same of the target's row, within the audit's tolerances."""
        return self._is_row(sides.target.get(key, []), version, tolerance.text_equalities(self.plan, known=True))

    def are_equal(self, sides: _Sides, key: Key) -> bool:
        """Return whether both sides' rows are equal, within the audit's tolerances."""
        source, target = sides.source.get(key, []), sides.target.get(key, [])
        if not source or not target or _digits(sides.source, key) == _digits(sides.target, key):
            return _digits(sides.source, key) == _digits(sides.target, key)
        alike = tolerance.text_equalities(self.plan, known=True)
        pairs = zip(self.plan.columns[self.plan.key :], source[0].texts, target[0].texts, strict=True)
        return all(alike.get(column.name, _is_same)(text, other) for column, text, other in pairs)

    def _is_row(self, rows: Sequence[Row], version: Version, alike: Mapping[str, TextEquality]) -> bool:
        if version.texts is None or not rows:
            return version.texts is None and not rows
        texts = version.texts
        return len(rows) == 1 and all(
            alike.get(column.name, _is_same)(texts[column.name], text)
            for column, text in zip(self.plan.columns[self.plan.key :], rows[0].texts, strict=True)
            if column.name in texts
        )

    def place_of(self, position: int) -> str:
        """Return a position, for a person."""
        return self._place(position)

    def place(self, version: Version) -> str:
        """Return where an event is, for a person."""
        text = self._place(version.position)
        return text if version.row < 0 else f"{text}:{version.row}"

    def left_out_behind(self, position: int) -> str:
        """Return who let the pipeline go on without events of the table behind a position, as a clause; '' if nobody did."""
        notes = table_notes.list_notes(self.store, self.carrier.pipeline, [self.table], kind="poison", after=position)
        skipped = next((note for note in notes if note.skip and not note.target), None)
        if skipped is None or skipped.skip is None:
            return ""
        return f"{skipped.skip.by} let the pipeline go on without events at {self._place(skipped.position)}: {skipped.skip.reason}"

    def skip_of(self, version: Version) -> Skip | None:
        """Return why somebody let the target go on without an event; None if nobody did."""
        notes = table_notes.list_notes(self.store, self.carrier.pipeline, [self.table], after=version.position - 1)
        for note in notes:
            if (
                note.skip
                and note.position == version.position
                and note.row in (-1, version.row)
                and note.target in ("", self.carrier.target)
            ):
                return note.skip
        return None


def _is_same(text: str | None, other: str | None) -> bool:
    return text == other


def _digits(rows: Rows, key: Key) -> list[str]:
    return sorted(row.digits for row in rows.get(key, ()))


@dataclass(frozen=True, slots=True)
class _Judgement:
    """What is known of one row, and what follows."""

    tracing: _Tracing
    key: Key
    found: _Found
    versions: Sequence[Version]
    log: KeyHistory | str | None

    @property
    def sides(self) -> _Sides:
        """The rows of both sides."""
        return self.found.sides

    def row(self) -> TracedRow:
        """Return at which hop the row was lost."""
        outcome, hop, sentence = self._decide()
        names = [column.name for column in self.tracing.plan.key_columns]
        shown = [self._event(version) for version in self.versions[-SHOWN_EVENTS:]]
        return TracedRow(key=dict(zip(names, self.key, strict=True)), outcome=outcome, hop=hop, sentence=sentence, events=shown)

    def _event(self, version: Version) -> TracedEvent:
        return TracedEvent(
            position=self.tracing.place(version),
            time=version.time,
            kind=version.kind,
            file=version.part.path if version.part else None,
            sha256=version.part.checksum if version.part else None,
            merged=self.sides.merged is not None and version.position <= self.sides.merged,
            source=self.tracing.is_in_source(self.sides, self.key, version),
            target=self.tracing.is_in_target(self.sides, self.key, version),
        )

    def _decide(self) -> Answer:
        if several := next((side for side in ("source", "target") if len(getattr(self.sides, side).get(self.key, ())) > 1), ""):
            return _unknown(f"the {several} has several rows of this key")
        if self.tracing.are_equal(self.sides, self.key):
            return "equal", None, "both sides have it alike by now"
        if self.key in self.sides.changing or (self.versions and self.versions[-1].position > self.sides.began):
            return _in_flight("the source's row changed while it was traced; trace it again")
        if why := self._why_unknown():
            return _unknown(why)
        last = self.versions[-1]
        if self.tracing.is_in_source(self.sides, self.key, last):
            return self._behind_staging(last)
        if self.sides.behind:
            return _in_flight(f"the source has another row than its last staged event, {self._text(last)}, and {self.sides.behind}")
        return self._before_staging(last)

    def _why_unknown(self) -> str:
        if self.found.unread:
            return f"not all staged events can be read: {self.found.unread}"
        if not self.versions and self.sides.behind:
            return f"no event of it is staged, and {self.sides.behind}"
        if not self.versions and self.found.pruned:
            return f"no staged event of it is kept; those up to {self.tracing.place_of(self.found.pruned)} were deleted (staging: keep)"
        if not self.versions:
            return (
                "no event of it was staged under the table's name since the pipeline began: the source had the row before, and it was not"
                " copied, or the source's log does not hold what made it"
            )
        if not self.versions[-1].is_known:
            return (
                f"the refresh at {self.tracing.place(self.versions[-1])} may have left no row of it: in which of its intervals a key of"
                " this kind lies only the source knows"
            )
        return ""

    def _before_staging(self, last: Version) -> Answer:
        """Say whether the log or the staging lost what made the source's row."""
        if not isinstance(self.log, KeyHistory):
            left = f"the source's row is not as its last staged event, {self._text(last)}, left it"
            return _unknown(f"{left}, and the log cannot be read from there: {self.log}")
        logged = [version for version in self.log.versions.get(self.key, []) if version.place >= last.place]
        same = next((version for version in logged if version.place == last.place), None)
        if last.kind != "clear" and same is None:
            return _unknown(f"the log does not yield {self._text(last)} any more, which was staged")
        if left_out := self.tracing.left_out_behind(last.position):
            return _unknown(f"{left_out}, and they may have been of this row")
        if newer := next((version for version in logged if version.place > last.place), None):
            return _lost("staging", f"{self._text(newer)} is in the source's log, and in none of the staged files")
        if same and same.texts != last.texts:
            return _lost("staging", f"the staged file {self._file(last)} does not have what the log says of {self._text(last)}")
        causes = "with sql_log_bin = 0, by a cascade, or where the server filters its log"
        left = f"the source's row is not as the last event of it in the log left it, {self._text(last)}"
        return _lost("log", f"{left}: it was changed without the log, as {causes}")

    def _behind_staging(self, last: Version) -> Answer:
        """Say whether the merge lost what was staged."""
        if self.sides.merged is None:
            return _in_flight(f"{self._text(last)} is staged, and nothing of the table was merged into the target yet")
        holds = f"the target says that it holds everything up to {self.tracing.place_of(self.sides.merged)}"
        merged = [version for version in self.versions if version.position <= self.sides.merged]
        pending = next((version for version in self.versions if version.position > self.sides.merged), None)
        if pending and (not merged or self.tracing.is_in_target(self.sides, self.key, merged[-1])):
            return _in_flight(f"{self._text(pending)} is staged, and not merged yet: {holds}")
        held = merged[-1]
        if not held.is_known:
            return _unknown(f"the refresh at {self.tracing.place(held)} may have left no row of it, and what followed is not merged yet")
        if self.tracing.is_in_target(self.sides, self.key, held):
            others = "; ".join(self.tracing.left_out.values()) or "those that the table got later"
            return _unknown(f"the row differs only in columns of which the stream does not tell what the audit compares: {others}")
        lost = self._find_lost(merged)
        if skip := self.tracing.skip_of(lost or held):
            return _lost("merge", f"{skip.by} let the target go on without {self._text(lost or held)}: {skip.reason}")
        if lost:
            before = f"the target's row is as before {self._text(lost)}, which is in the staged file {self._file(lost)}"
            return _lost("merge", f"{before}: it was not applied, or undone in the target by others; {holds}")
        left = f"the target's row is not as {self._text(held)} left it, nor as any event before it that is kept"
        return _lost("merge", f"{left}: it was merged wrongly, or changed in the target by others; {holds}")

    def _find_lost(self, merged: Sequence[Version]) -> Version | None:
        """Return the event behind the newest one whose row the target still has; None if it has none that is known."""
        older = [number for number, version in enumerate(merged[:-1]) if self._was_target(version)]
        if older:
            return merged[older[-1] + 1]
        return merged[0] if merged[0].kind == "insert" and not self.sides.target.get(self.key) else None

    def _was_target(self, version: Version) -> bool:
        return version.is_known and self.tracing.is_in_target(self.sides, self.key, version)

    def _text(self, version: Version) -> str:
        what = "statement that emptied the table" if version.kind == "clear" else version.kind
        return f"the {what} at {self.tracing.place(version)} ({version.time:%Y-%m-%d %H:%M:%S} UTC)"

    def _file(self, version: Version) -> str:
        return version.part.path if version.part else "of the statement"


def _lost(hop: Hop, sentence: str) -> Answer:
    return "lost", hop, sentence


def _in_flight(sentence: str) -> Answer:
    return "in_flight", None, sentence


def _unknown(why: str) -> Answer:
    return "unknown", None, f"it cannot be told, because {why}"
