"""Say at which hop of a pipeline a row of an audit was lost: on the way into the log, into the staged files, or into the target.

Each hop is asked for the row as of one position. The source's row is read before and after the end of the log, so that a row that did not
change meanwhile is the one of which the log tells the last change up to there. The target's row is read in one snapshot with the position
that the target says it holds. The first hop whose row is not what the hop before has of it is where the row was lost.
"""

from __future__ import annotations

import datetime as dt
import json
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import TypeAlias

from auditor.api_models.trace import Hop, Outcome, Trace, TracedEvent, TracedRow
from auditor.compare import tolerance
from auditor.compare.accounting import Key, Row, TextEquality
from auditor.config import Audit, Carrier, Chain, Settings, TopicRef, find_chains
from auditor.connections.reader import OnProgress, Reader, ignore_progress
from auditor.durations import durations
from auditor.errors import AuditorError, ConfigError, NoReport, RunOutdated, TraceRefused, UnknownRun
from auditor.escaping import visible
from auditor.history import records
from auditor.model import ColumnPlan, Plan, Report, Side, TableNote
from auditor.pipeline.binlog.log_connection import log_status, source_of
from auditor.pipeline.events import Place
from auditor.pipeline.key_history import KeyHistory, KeyStream, StagedHistory, Version
from auditor.planning import introspect, planner
from auditor.repair.keys import Selection, collect_keys
from auditor.run.fetch import Fetcher
from auditor.run.live.plans import why_not_told
from auditor.service import audits, definitions
from auditor.sql.merge import POSITIONS, Positions
from auditor.store import Store, pipelines, runs
from dialects import Session

SHOWN_EVENTS = 10
"""Changes of a row that are shown at most, the last ones."""

HOP_NAMES: Mapping[Hop, str] = {
    "log": "lost between the source and its log",
    "staging": "lost between the log and the staged files",
    "publishing": "lost between the staged files and the topic",
    "reading": "lost between the topic and the files that were staged of it",
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
    chain = _find_chain(settings, audit)
    names: dict[Side, str] = {"source": audit.one_source("a trace").connection, "target": audit.target.connection}
    with Reader(name, names, settings.connections, asked.on_progress).open() as reader:
        plan = planner.draft(name, audit, introspect.describe_tables(reader, audit), "exact")
        further = 0
        if asked.keys:
            keys = [parse_key(plan, text) for text in asked.keys]
        else:
            assert report
            keys, further = _differing(store, report, plan, reader, asked.limit)
        tracing = _Tracing(settings, store, audit, chain, reader, plan, keys, asked.stopped)
        return tracing.run(name, None if asked.keys or not report else report.run, further)


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


def _find_chain(settings: Settings, audit: Audit) -> Chain:
    """Return the only chain of an audit. Raises TraceRefused."""
    if audit.via:
        raise TraceRefused("the audit compares a dump, which is older than its source; audit the source itself, and trace that")
    if isinstance(audit.target, TopicRef):
        raise TraceRefused(f"the audit's target is the topic {audit.target.topic}, and rows are followed into tables alone")
    read = audit.one_source("a trace")
    audit.check_plain("a trace")
    chains = find_chains(read, audit.target, settings.pipelines, settings.connections)
    if not chains:
        raise TraceRefused(
            f"no pipeline of this configuration carries {read.table} of {read.connection} into {audit.target.table}, so that no hop between"
            " them is known"
        )
    if len(chains) > 1:
        found = ", ".join(f"{one.last.target} of {one.last.pipeline}" for one in chains)
        raise TraceRefused(f"several targets of pipelines may hold {read.table} ({found}); write the target's table with its schema")
    [chain] = chains
    for carrier in (chain.first, chain.last):
        if carrier.where is not None and carrier.where != audit.where:
            raise TraceRefused(
                f"the pipeline {carrier.pipeline} carries only rows of {carrier.table} where {carrier.where}, and the audit compares"
                " others, too; write the same where in the audit"
            )
    if audit.where is not None and not isinstance(audit.where, str):
        raise TraceRefused("events are filtered by one text for both sides; write where of the audit as one")
    return chain


def _differing(store: Store, report: Report, plan: Plan, reader: Reader, limit: int) -> tuple[list[Key], int]:
    """Return the keys of a run's differences, at most so many, and how many more rows differ. Raises TraceRefused and RunOutdated."""
    if report.plan is None or report.differences is None:
        raise TraceRefused(f"run {report.run} named no rows; run {report.audit} with the method exact, or name keys: --key")
    then, now = ([(column.name, column.kind) for column in each.key_columns] for each in (report.plan, plan))
    if then != now:
        raise RunOutdated(f"rows are compared by another key since run {report.run}; run {report.audit} again")
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
    merged: int | None
    """Up to where the target says that it holds the table; None if it says nothing."""
    behind: str
    """Why not everything is staged that the log had; '' if it is."""


@dataclass(frozen=True, slots=True)
class _Look:
    """What one look found, at all hops that keep what they had."""

    sides: _Sides
    first: StagedHistory
    """What the pipeline has staged that reads the log."""
    last: StagedHistory
    """What the pipeline has staged that merges: the same, where there is no other."""


@dataclass(slots=True)
class _Tracing:
    settings: Settings
    store: Store
    audit: Audit
    chain: Chain
    reader: Reader
    plan: Plan
    keys: Sequence[Key]
    stopped: threading.Event
    left_out: dict[str, str] = field(default_factory=dict)
    """Why columns are not compared with the stream."""
    first: KeyStream = field(init=False)
    last: KeyStream = field(init=False)

    def __post_init__(self) -> None:
        if any(column.masked for column in self.plan.key_columns):
            raise TraceRefused("a column of the key is masked, so that no row can be named")
        session = self.reader.session("target")
        if session.dialect.is_written and session.dialect.writing.WRITES_COMMITS:
            raise TraceRefused(f"{session.dialect.name} tables are written by commits of single tables, and rows in them are not traced")
        names = self._rename({column.name: column.name for column in self.plan.columns}, self.chain.first)
        told = self._choose_columns(names)
        self.first = self.last = self._stream(self.chain.first, names, told)
        if self.chain.feed:
            self.last = self._stream(self.chain.last, self._rename(names, self.chain.last), told)

    def run(self, name: str, run: str | None, further: int) -> Trace:
        """Trace the keys."""
        look = self._look()
        if self._doubted(look) and not look.sides.behind:
            # The source may show what its log has a moment later, as where replicas have to confirm it.
            self.stopped.wait(durations().trace_pause)
            look = self._look()
        log, topic = self._read_log(look), self._read_topic(look)
        return Trace(
            audit=name,
            run=run,
            pipeline=self.last.pipeline,
            published_by=self.first.pipeline if self.chain.feed else None,
            table=self.last.table,
            target=self.chain.last.target,
            staged_through=self.last.place_of(look.last.through),
            merged_through=None if look.sides.merged is None else self.last.place_of(look.sides.merged),
            kept_from=self.last.place_of(look.last.pruned) if look.last.pruned else None,
            not_compared=self.left_out,
            rows=[_Judgement(self, key, look, log, topic).row() for key in self.keys],
            further=further,
        )

    def _rename(self, names: Mapping[str, str], carrier: Carrier) -> dict[str, str]:
        """Return what columns are called behind a pipeline, by what the source calls them; ``names`` are those before it."""
        rename = self.settings.pipeline(carrier.pipeline).columns_of(carrier.table).rename
        lowered = {old.lower(): new for old, new in rename.items()}
        return {column: lowered.get(name.lower(), name) for column, name in names.items()}

    def _choose_columns(self, names: Mapping[str, str]) -> list[ColumnPlan]:
        """Return the columns of which events tell what the audit compares; ``names`` are those that the first pipeline gives them.

        Raises TraceRefused if one of the key is none of them.
        """
        for column in self.plan.columns:
            why = why_not_told(column)
            read = [(self.chain.first, column.name), *([(self.chain.last, names[column.name])] if self.chain.feed else [])]
            for carrier, name in read:
                rules = self.settings.pipeline(carrier.pipeline).columns_of(carrier.table)
                for verb, hidden in (("masks", rules.mask), ("excludes", rules.exclude)):
                    if name.lower() in {one.lower() for one in hidden}:
                        why = f"the pipeline {carrier.pipeline} {verb} {name}"
            if column.pieces:
                why = f"of {column.name} the databases tell only digests of long values"
            if why:
                self.left_out[column.name] = why
        if why := next((self.left_out[column.name] for column in self.plan.key_columns if column.name in self.left_out), ""):
            raise TraceRefused(f"rows are followed by their key, and {why}")
        return [column for column in self.plan.columns if column.name not in self.left_out]

    def _stream(self, carrier: Carrier, names: Mapping[str, str], told: Sequence[ColumnPlan]) -> KeyStream:
        def new_history() -> KeyHistory:
            return KeyHistory(self.plan, names, told, str(self.audit.where or ""), frozenset(self.keys))

        return KeyStream(self.settings, self.store, carrier.pipeline, f"{carrier.database}.{carrier.output}", new_history)

    def _look(self) -> _Look:
        """Read the rows of both sides, and what is staged of them."""
        sides = self._read_sides()
        first = self.first.read_staged()
        return _Look(sides, first, self.last.read_staged() if self.chain.feed else first)

    def _doubted(self, look: _Look) -> dict[Key, Version]:
        """Return the last versions of keys whose row in the source is not as their last staged event left it."""
        last = {key: versions[-1] for key in self.keys if (versions := look.first.of(key))}
        return {key: version for key, version in last.items() if not self.is_in_source(look.sides, key, version)}

    def _read_log(self, look: _Look) -> Mapping[Key, Sequence[Version]] | str | None:
        """Return what the log has of doubted keys, from their last staged events on, or why that cannot be read; None if none is."""
        doubted = self._doubted(look)
        if not doubted or look.first.unread or look.sides.behind:
            return None
        return self.first.read_source(min(version.position for version in doubted.values()), look.first.through)

    def _read_topic(self, look: _Look) -> Mapping[Key, Sequence[Version]] | str | None:
        """Return what the topic has of keys of which the last pipeline did not stage what the first one did; None if there is none."""
        if not self.chain.feed or look.first.unread or look.last.unread:
            return None
        sent = {key: version for key in self.keys if (version := self.last_before(look.first.of(key), look.last.through))}
        parted = [version.position for key, version in sent.items() if not self.is_staged(look, key, version)]
        return self.last.read_source(min(parted), look.last.through) if parted else None

    def last_before(self, versions: Sequence[Version], position: int) -> Version | None:
        """Return the last of a key's versions up to a position; None if there is none."""
        return next((version for version in reversed(versions) if version.position <= position), None)

    def is_staged(self, look: _Look, key: Key, version: Version) -> bool:
        """Return whether the last pipeline has as a key's last version the one that the first one has."""
        staged = self.last_before(look.last.of(key), look.last.through)
        return staged is not None and staged.position == version.position and is_same_row(staged, version)

    def _read_sides(self) -> _Sides:
        """Read the rows of both sides, the source's until they stay as they are, and wait until the log up to there is staged."""
        for attempt in range(ATTEMPTS):
            began, before, end, source = self._log_end(), self._rows("source"), self._log_end(), self._rows("source")
            changing = {key for key in self.keys if _digits(before, key) != _digits(source, key)}
            if not changing or attempt == ATTEMPTS - 1:
                break
        behind = self._wait_for(end)
        offset = pipelines.get_pipeline(self.store, self.first.pipeline).source_offset or {}
        merged, target = self.reader.ask_side("target", self._read_target, fresh=True)
        return _Sides(source, target, began.position(int(offset.get("epoch", 0))).pack(), changing, merged, behind)

    def _log_end(self) -> Place:
        with closing(source_of(self.settings, self.first.pipeline).connect()) as connection:
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
        schema = self.chain.last.schema
        try:
            listed = session.query(Positions(session.dialect, schema, self.last.pipeline).list())
        except AuditorError as error:
            raise TraceRefused(
                f"the target does not say what it holds ({error}); let the audit's user read {schema}.{POSITIONS} there"
            ) from error
        held = next((int(position) for table, position, _ in listed if str(table) == self.last.table), None)
        return held, self._fetch(side, session)

    def _wait_for(self, end: Place) -> str:
        """Wait until the log up to a place is staged; return why it is not."""
        until = time.monotonic() + durations().hold_reach
        while True:
            state = pipelines.get_pipeline(self.store, self.first.pipeline)
            offset = state.source_offset
            if offset and Place(offset["file"], int(offset["position"])).order >= end.order:
                return ""
            seen = state.progress.at
            is_running = seen and (dt.datetime.now(dt.UTC) - seen).total_seconds() < durations().pipeline_fresh
            if state.paused or not is_running or time.monotonic() > until or self.stopped.wait(durations().hold_poll):
                return f"the log up to {end} is not staged yet"

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


def is_same_row(version: Version, other: Version) -> bool:
    """Return whether two events left the same row, in the columns that both tell."""
    if version.texts is None or other.texts is None:
        return version.texts is other.texts
    return all(version.texts[name] == other.texts[name] for name in version.texts.keys() & other.texts.keys())


def _is_same(text: str | None, other: str | None) -> bool:
    return text == other


def _digits(rows: Rows, key: Key) -> list[str]:
    return sorted(row.digits for row in rows.get(key, ()))


Read: TypeAlias = Mapping[Key, Sequence[Version]] | str | None
"""What a log, or a topic, was found to have of keys, or why it cannot be read; None where it was not asked."""


@dataclass(frozen=True, slots=True)
class _Judgement:
    """What is known of one row, and what follows."""

    tracing: _Tracing
    key: Key
    look: _Look
    log: Read
    topic: Read

    @property
    def sides(self) -> _Sides:
        """The rows of both sides."""
        return self.look.sides

    @property
    def versions(self) -> Sequence[Version]:
        """What the pipeline has staged that reads the log."""
        return self.look.first.of(self.key)

    def row(self) -> TracedRow:
        """Return at which hop the row was lost."""
        outcome, hop, sentence = self._decide()
        names = [column.name for column in self.tracing.plan.key_columns]
        shown = [self._event(version) for version in self.versions[-SHOWN_EVENTS:]]
        return TracedRow(key=dict(zip(names, self.key, strict=True)), outcome=outcome, hop=hop, sentence=sentence, events=shown)

    def _event(self, version: Version) -> TracedEvent:
        return TracedEvent(
            position=self.tracing.first.place(version),
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
        if why := self._why_unknown(self.look.first, self.tracing.first):
            return _unknown(why)
        last = self.versions[-1]
        if not self.tracing.is_in_source(self.sides, self.key, last):
            if self.sides.behind:
                return _in_flight(f"the source has another row than its last staged event, {self._text(last)}, and {self.sides.behind}")
            return self._before_staging(last)
        if self.tracing.chain.feed:
            return self._behind_publishing(last)
        return self._behind_staging(self.versions)

    def _why_unknown(self, staged: StagedHistory, stream: KeyStream) -> str:
        """Return why what a pipeline has staged does not tell the row; '' if it does."""
        versions, of_pipeline = staged.of(self.key), f"the pipeline {stream.pipeline}"
        if staged.unread:
            return f"not all events that {of_pipeline} has staged can be read: {staged.unread}"
        if not versions and self.sides.behind:
            return f"no event of it is staged, and {self.sides.behind}"
        if not versions and staged.pruned:
            return f"no staged event of it is kept; those up to {stream.place_of(staged.pruned)} were deleted (staging: keep)"
        if not versions:
            return (
                f"no event of it was staged under the table's name since {of_pipeline} began: the source had the row before, and it was"
                " not copied, or the source's log does not hold what made it"
            )
        if not versions[-1].is_known:
            return (
                f"the refresh at {stream.place(versions[-1])} may have left no row of it: in which of its intervals a key of this kind"
                " lies only the source knows"
            )
        return ""

    def _before_staging(self, last: Version) -> Answer:
        """Say whether the log or the staging lost what made the source's row."""
        if not isinstance(self.log, Mapping):
            left = f"the source's row is not as its last staged event, {self._text(last)}, left it"
            return _unknown(f"{left}, and the log cannot be read from there: {self.log}")
        logged = [version for version in self.log.get(self.key, ()) if version.place >= last.place]
        same = next((version for version in logged if version.place == last.place), None)
        if last.kind != "clear" and same is None:
            return _unknown(f"the log does not yield {self._text(last)} any more, which was staged")
        if skipped := next(iter(self.tracing.first.find_skips(last.position)), None):
            return _unknown(f"{self._skipped('the pipeline', skipped)}, and they may have been of this row")
        if newer := next((version for version in logged if version.place > last.place), None):
            return _lost("staging", f"{self._text(newer)} is in the source's log, and in none of the staged files")
        if same and not is_same_row(same, last):
            return _lost("staging", f"the staged file {self._file(last)} does not have what the log says of {self._text(last)}")
        causes = "with sql_log_bin = 0, by a cascade, or where the server filters its log"
        left = f"the source's row is not as the last event of it in the log left it, {self._text(last)}"
        return _lost("log", f"{left}: it was changed without the log, as {causes}")

    def _behind_publishing(self, last: Version) -> Answer:
        """Say whether the row was lost on its way into the topic, out of it, or behind that."""
        tracing, feed, pipeline = self.tracing, self.tracing.first.pipeline, self.tracing.last.pipeline
        through = tracing.last.place_of(self.look.last.through)
        sent = tracing.last_before(self.versions, self.look.last.through)
        if sent is None:
            return _in_flight(f"{self._text(last)} is staged by {feed}, and {pipeline} has read the topics up to {through}")
        if why := self.look.last.unread:
            return _unknown(f"not all events that the pipeline {pipeline} has staged can be read: {why}")
        if sent.position <= self.look.last.pruned:
            return _unknown(f"what {pipeline} staged up to {tracing.last.place_of(self.look.last.pruned)} was deleted (staging: keep)")
        if not tracing.is_staged(self.look, self.key, sent):
            if not isinstance(self.topic, Mapping):
                return _unknown(f"{pipeline} has not staged {self._text(sent)}, and its topic cannot be read from there: {self.topic}")
            if skip := self._find_skip(sent, tracing.first, tracing.chain.first.target):
                return _lost("publishing", self._skipped("the topic", skip))
            found = tracing.last_before(self.topic.get(self.key, ()), self.look.last.through)
            if found and found.position == sent.position and is_same_row(found, sent):
                return _lost("reading", f"{self._text(sent)} is in the topic, and not in the files that {pipeline} staged up to {through}")
            staged = f"{self._text(sent)} is in the file {self._file(sent)} that {feed} staged"
            return _lost("publishing", f"{staged}, and not in the topic, in which {pipeline} has read everything up to {through}")
        if sent is not last and tracing.is_in_target(self.sides, self.key, sent):
            return _in_flight(f"{self._text(last)} is staged by {feed}, and {pipeline} has read the topics up to {through}")
        return self._behind_staging(self.look.last.of(self.key))

    def _behind_staging(self, versions: Sequence[Version]) -> Answer:
        """Say whether the merge lost what was staged."""
        if self.sides.merged is None:
            return _in_flight(f"{self._text(versions[-1])} is staged, and nothing of the table was merged into the target yet")
        holds = f"the target says that it holds everything up to {self.tracing.last.place_of(self.sides.merged)}"
        merged = [version for version in versions if version.position <= self.sides.merged]
        pending = next((version for version in versions if version.position > self.sides.merged), None)
        if pending and (not merged or self.tracing.is_in_target(self.sides, self.key, merged[-1])):
            return _in_flight(f"{self._text(pending)} is staged, and not merged yet: {holds}")
        held = merged[-1]
        if not held.is_known:
            return _unknown(
                f"the refresh at {self.tracing.last.place(held)} may have left no row of it, and what followed is not merged yet"
            )
        if self.tracing.is_in_target(self.sides, self.key, held):
            others = "; ".join(self.tracing.left_out.values()) or "those that the table got later"
            return _unknown(f"the row differs only in columns of which the stream does not tell what the audit compares: {others}")
        lost = self._find_lost(merged)
        if skip := self._find_skip(lost or held, self.tracing.last, self.tracing.chain.last.target):
            return _lost("merge", self._skipped("the target", skip))
        if self.tracing.audit.ledger:
            holds += "; auditor bisect says which of these, and when"
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

    def _find_skip(self, version: Version, stream: KeyStream, target: str) -> TableNote | None:
        """Return the note by which somebody let a target go on without an event; None if nobody did."""
        notes = stream.find_skips(version.position - 1, target)
        return next((note for note in notes if note.position == version.position and note.row in (-1, version.row)), None)

    def _skipped(self, what: str, note: TableNote) -> str:
        assert note.skip
        place = self.tracing.first.place_of(note.position)
        return f"{note.skip.by} let {what} go on without events at {place}: {note.skip.reason}"

    def _text(self, version: Version) -> str:
        what = "statement that emptied the table" if version.kind == "clear" else version.kind
        return f"the {what} at {self.tracing.first.place(version)} ({version.time:%Y-%m-%d %H:%M:%S} UTC)"

    def _file(self, version: Version) -> str:
        return version.part.path if version.part else "of the statement"


def _lost(hop: Hop, sentence: str) -> Answer:
    return "lost", hop, sentence


def _in_flight(sentence: str) -> Answer:
    return "in_flight", None, sentence


def _unknown(why: str) -> Answer:
    return "unknown", None, f"it cannot be told, because {why}"
