"""Trace rows through pipelines of ours: into the log, into the staged files, perhaps through a topic between two of them, into the target.

Each hop is asked for the row as of one position. The source's row is read before and after the end of the log, so that a row that did not
change meanwhile is the one of which the log tells the last change up to there. The target's row is read in one snapshot with the position
that the target says it holds. The first hop whose row is not what the hop before has of it is where the row was lost.
"""

from __future__ import annotations

import datetime as dt
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TypeAlias

from auditor.api_models.bisection import Bisection
from auditor.api_models.trace import Trace, TracedEvent, TracedRow
from auditor.compare.accounting import Key
from auditor.config import Audit, Carrier, Chain, Settings
from auditor.durations import durations
from auditor.errors import AuditorError, TraceRefused
from auditor.model import ColumnPlan, Side, TableNote
from auditor.pipeline.binlog.log_connection import log_status, source_of
from auditor.pipeline.events import Place
from auditor.pipeline.key_history import KeyHistory, KeyStream, StagedHistory, Version, rename_columns
from auditor.pipeline.merge import merge_by_commits
from auditor.report.formatting import moment
from auditor.run.live.plans import why_not_told
from auditor.service.bisection import bisect
from auditor.service.trace.rows import SHOWN_EVENTS, Answer, KeyRows, Rows, find_several, in_flight, is_same_row, lost, unknown
from auditor.sql.merge import POSITIONS, Positions
from auditor.store import Store, pipelines
from dialects import Session
from dialects.committing import Committing, WrittenVersion

ATTEMPTS = 3
"""How often rows are read again that change while they are traced."""

MOST_VERSIONS = 100
"""Versions of a table at most that are looked at, each of which is opened."""

SHOWN_VERSIONS = 5
"""Versions that others wrote which a sentence names."""


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
class PipelineTrace:
    """Traces rows of one audit, whose chain of pipelines is known."""

    settings: Settings
    store: Store
    audit: Audit
    chain: Chain
    rows: KeyRows
    stopped: threading.Event
    left_out: dict[str, str] = field(default_factory=dict)
    """Why columns are not compared with the stream."""
    ledger: Bisection | None = None
    """What the audit's ledger says of its merges; None if it keeps none, or was not asked."""
    first: KeyStream = field(init=False)
    last: KeyStream = field(init=False)

    def __post_init__(self) -> None:
        names = rename_columns(self.settings, {column.name: column.name for column in self.rows.plan.columns}, self.chain.first)
        told = self._choose_columns(names)
        self.first = self.last = self._stream(self.chain.first, names, told)
        if self.chain.feed:
            self.last = self._stream(self.chain.last, rename_columns(self.settings, names, self.chain.last), told)

    def run(self, name: str, run: str | None, further: int) -> Trace:
        """Trace the keys."""
        look = self._look()
        if self._doubted(look) and not look.sides.behind:
            # The source may show what its log has a moment later, as where replicas have to confirm it.
            self.stopped.wait(durations().trace_pause)
            look = self._look()
        log, topic = self._read_log(look), self._read_topic(look)
        rows = [_Judgement(self, key, look, log, topic).row() for key in self.rows.keys]
        if self.audit.ledger and any(row.hop == "merge" for row in rows):
            self.ledger = bisect(self.settings, self.store, name)
            rows = [_Judgement(self, key, look, log, topic).row() for key in self.rows.keys]
        return Trace(
            audit=name,
            run=run,
            pipeline=self.last.pipeline,
            published_by=self.first.pipeline if self.chain.feed else None,
            table=self.last.table,
            target=self.chain.last.target,
            topic=None,
            staged_through=self.last.place_of(look.last.through),
            merged_through=None if look.sides.merged is None else self.last.place_of(look.sides.merged),
            kept_from=self.last.place_of(look.last.pruned) if look.last.pruned else None,
            not_compared=self.left_out,
            rows=rows,
            hops=[],
            further=further,
        )

    def _choose_columns(self, names: Mapping[str, str]) -> list[ColumnPlan]:
        """Return the columns of which events tell what the audit compares; ``names`` are those that the first pipeline gives them.

        Raises TraceRefused if one of the key is none of them.
        """
        for column in self.rows.plan.columns:
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
        if why := next((self.left_out[column.name] for column in self.rows.plan.key_columns if column.name in self.left_out), ""):
            raise TraceRefused(f"rows are followed by their key, and {why}")
        return [column for column in self.rows.plan.columns if column.name not in self.left_out]

    def _stream(self, carrier: Carrier, names: Mapping[str, str], told: Sequence[ColumnPlan]) -> KeyStream:
        def new_history() -> KeyHistory:
            return KeyHistory(self.rows.plan, names, told, str(self.audit.where or ""), frozenset(self.rows.keys))

        return KeyStream(self.settings, self.store, carrier.pipeline, f"{carrier.database}.{carrier.output}", new_history)

    def _look(self) -> _Look:
        """Read the rows of both sides, and what is staged of them."""
        sides = self._read_sides()
        first = self.first.read_staged()
        return _Look(sides, first, self.last.read_staged() if self.chain.feed else first)

    def _doubted(self, look: _Look) -> dict[Key, Version]:
        """Return the last versions of keys whose row in the source is not as their last staged event left it."""
        last = {key: versions[-1] for key in self.rows.keys if (versions := look.first.of(key))}
        return {key: version for key, version in last.items() if not self.rows.is_in_source(look.sides.source, key, version)}

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
        sent = {key: version for key in self.rows.keys if (version := self.last_before(look.first.of(key), look.last.through))}
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
            began, before, end, source = self._log_end(), self.rows.read("source"), self._log_end(), self.rows.read("source")
            changing = self.rows.find_changing(before, source)
            if not changing or attempt == ATTEMPTS - 1:
                break
        behind = self._wait_for(end)
        offset = pipelines.get_pipeline(self.store, self.first.pipeline).source_offset or {}
        merged, target = self._read_settled()
        return _Sides(source, target, began.position(int(offset.get("epoch", 0))).pack(), changing, merged, behind)

    def _log_end(self) -> Place:
        with closing(source_of(self.settings, self.first.pipeline).connect()) as connection:
            return log_status(connection).end

    def _read_settled(self) -> tuple[int | None, Rows]:
        """Return what `_read_target` does, of one version where versions of the table say what it holds. Raises TraceRefused."""
        for _ in range(ATTEMPTS):
            found = self.rows.reader.ask_side("target", self._read_target, fresh=True)
            if found is not None:
                return found
        raise TraceRefused("the target's table is written faster than it can be read; trace again when less is merged")

    def _read_target(self, side: Side, session: Session) -> tuple[int | None, Rows] | None:
        """Return up to where the target says that it holds the table, and its rows, in the snapshot that is open.

        None where it was written meanwhile, and the two may be of different versions.
        """
        if isinstance(session, Committing):
            before = self._committed(session)
            rows = self.rows.fetch(side, session)
            return (before or None, rows) if self._committed(session) == before else None
        schema = self.chain.last.schema
        try:
            listed = session.query(Positions(session.dialect, schema, self.last.pipeline).list())
        except AuditorError as error:
            raise TraceRefused(
                f"the target does not say what it holds ({error}); let the audit's user read {schema}.{POSITIONS} there"
            ) from error
        held = next((int(position) for table, position, _ in listed if str(table) == self.last.table), None)
        return held, self.rows.fetch(side, session)

    def _committed(self, session: Committing) -> int:
        """Return up to where the newest version of the target's table says that it holds the table; 0 if it says nothing."""
        return merge_by_commits.read_position(session, self._place, self.last.pipeline, self.last.table)[0]

    @property
    def _place(self) -> tuple[str, str]:
        """The target's schema and table."""
        last = self.chain.last
        return self.settings.pipeline(last.pipeline).table_targets[last.target].place_in(last.database, last.output)

    def versions_since(self, position: int) -> Sequence[WrittenVersion]:
        """Return the versions of the target's table since the first one that holds a position; none if that is not known."""

        def ask(side: Side, session: Session) -> Sequence[WrittenVersion]:
            if not isinstance(session, Committing):
                return ()
            mark, _ = merge_by_commits.mark_names(self.last.pipeline, self.last.table)
            return session.versions_since(self._place, mark, position, MOST_VERSIONS)

        return self.rows.reader.ask_side("target", ask)

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


Read: TypeAlias = Mapping[Key, Sequence[Version]] | str | None
"""What a log, or a topic, was found to have of keys, or why it cannot be read; None where it was not asked."""


@dataclass(frozen=True, slots=True)
class _Judgement:
    """What is known of one row, and what follows."""

    tracing: PipelineTrace
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
        names = [column.name for column in self.tracing.rows.plan.key_columns]
        shown = [self._event(version) for version in self.versions[-SHOWN_EVENTS:]]
        return TracedRow(key=dict(zip(names, self.key, strict=True)), outcome=outcome, hop=hop, sentence=sentence, events=shown)

    def _event(self, version: Version) -> TracedEvent:
        return TracedEvent(
            position=self.tracing.first.place(version),
            offset=None,
            gtid=None,
            time=version.time,
            kind=version.kind,
            file=version.part.path if version.part else None,
            sha256=version.part.checksum if version.part else None,
            merged=self.sides.merged is not None and version.position <= self.sides.merged,
            source=self.tracing.rows.is_in_source(self.sides.source, self.key, version),
            target=self.tracing.rows.is_in_target(self.sides.target, self.key, version),
        )

    def _decide(self) -> Answer:
        if several := find_several(self.sides.source, self.sides.target, self.key):
            return unknown(several)
        has_events = bool(self.versions)
        if settled := self.tracing.rows.settle(self.sides.source, self.sides.target, self.key, has_events=has_events):
            return settled
        if self.key in self.sides.changing or (self.versions and self.versions[-1].position > self.sides.began):
            return in_flight("the source's row changed while it was traced; trace it again")
        if why := self._why_unknown(self.look.first, self.tracing.first):
            return unknown(why)
        last = self.versions[-1]
        if not self.tracing.rows.is_in_source(self.sides.source, self.key, last):
            if self.sides.behind:
                return in_flight(f"the source has another row than its last staged event, {self._text(last)}, and {self.sides.behind}")
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
            return f"no staged event of it is kept; those up to {stream.place_of(staged.pruned)} were deleted (keep: parts)"
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
            return unknown(f"{left}, and the log cannot be read from there: {self.log}")
        logged = [version for version in self.log.get(self.key, ()) if version.place >= last.place]
        same = next((version for version in logged if version.place == last.place), None)
        if last.kind != "clear" and same is None:
            return unknown(f"the log does not yield {self._text(last)} any more, which was staged")
        if skipped := next(iter(self.tracing.first.find_skips(last.position)), None):
            return unknown(f"{self._skipped('the pipeline', skipped)}, and they may have been of this row")
        if newer := next((version for version in logged if version.place > last.place), None):
            return lost("staging", f"{self._text(newer)} is in the source's log, and in none of the staged files")
        if same and not is_same_row(same, last):
            return lost("staging", f"the staged file {self._file(last)} does not have what the log says of {self._text(last)}")
        causes = "with sql_log_bin = 0, by a cascade, or where the server filters its log"
        left = f"the source's row is not as the last event of it in the log left it, {self._text(last)}"
        return lost("log", f"{left}: it was changed without the log, as {causes}")

    def _behind_publishing(self, last: Version) -> Answer:
        """Say whether the row was lost on its way into the topic, out of it, or behind that."""
        tracing, feed, pipeline = self.tracing, self.tracing.first.pipeline, self.tracing.last.pipeline
        through = tracing.last.place_of(self.look.last.through)
        sent = tracing.last_before(self.versions, self.look.last.through)
        if sent is None:
            return in_flight(f"{self._text(last)} is staged by {feed}, and {pipeline} has read the topics up to {through}")
        if why := self.look.last.unread:
            return unknown(f"not all events that the pipeline {pipeline} has staged can be read: {why}")
        if sent.position <= self.look.last.pruned:
            return unknown(f"what {pipeline} staged up to {tracing.last.place_of(self.look.last.pruned)} was deleted (keep: parts)")
        if not tracing.is_staged(self.look, self.key, sent):
            if not isinstance(self.topic, Mapping):
                return unknown(f"{pipeline} has not staged {self._text(sent)}, and its topic cannot be read from there: {self.topic}")
            if skip := self._find_skip(sent, tracing.first, tracing.chain.first.target):
                return lost("publishing", self._skipped("the topic", skip))
            found = tracing.last_before(self.topic.get(self.key, ()), self.look.last.through)
            if found and found.position == sent.position and is_same_row(found, sent):
                return lost("reading", f"{self._text(sent)} is in the topic, and not in the files that {pipeline} staged up to {through}")
            staged = f"{self._text(sent)} is in the file {self._file(sent)} that {feed} staged"
            return lost("publishing", f"{staged}, and not in the topic, in which {pipeline} has read everything up to {through}")
        if sent is not last and tracing.rows.is_in_target(self.sides.target, self.key, sent):
            return in_flight(f"{self._text(last)} is staged by {feed}, and {pipeline} has read the topics up to {through}")
        return self._behind_staging(self.look.last.of(self.key))

    def _behind_staging(self, versions: Sequence[Version]) -> Answer:
        """Say whether the merge lost what was staged."""
        if self.sides.merged is None:
            return in_flight(f"{self._text(versions[-1])} is staged, and nothing of the table was merged into the target yet")
        holds = f"the target says that it holds everything up to {self.tracing.last.place_of(self.sides.merged)}"
        merged = [version for version in versions if version.position <= self.sides.merged]
        pending = next((version for version in versions if version.position > self.sides.merged), None)
        if pending and (not merged or self.tracing.rows.is_in_target(self.sides.target, self.key, merged[-1])):
            return in_flight(f"{self._text(pending)} is staged, and not merged yet: {holds}")
        held = merged[-1]
        if not held.is_known:
            return unknown(
                f"the refresh at {self.tracing.last.place(held)} may have left no row of it, and what followed is not merged yet"
            )
        if self.tracing.rows.is_in_target(self.sides.target, self.key, held):
            others = "; ".join(self.tracing.left_out.values()) or "those that the table got later"
            return unknown(f"the row differs only in columns of which the stream does not tell what the audit compares: {others}")
        unapplied = self._find_lost(merged)
        if skip := self._find_skip(unapplied or held, self.tracing.last, self.tracing.chain.last.target):
            return lost("merge", self._skipped("the target", skip))
        cause, (history, is_alone) = self._cause(unapplied), self._history(unapplied or held)
        holds += history
        is_whole = merged[0].kind in ("insert", "refresh", "clear")  # else the row may be as before the first event that is kept
        if is_alone:
            wrongly = "it was merged wrongly" if is_whole else "the merges did not apply it, or did so wrongly"
            cause = "the merges did not apply it" if unapplied else wrongly
        if self.tracing.audit.ledger and not cause:
            holds += "; auditor bisect says which of these, and when"
        if unapplied:
            before = f"the target's row is as before {self._text(unapplied)}, which is in the staged file {self._file(unapplied)}"
            return lost("merge", f"{before}: {cause or 'it was not applied, or undone in the target by others'}; {holds}")
        left = f"the target's row is not as {self._text(held)} left it, nor as any event before it that is kept"
        possible = "it was merged wrongly, or changed in the target by others"
        if not is_whole:
            possible = "it was not applied, merged wrongly, or changed in the target by others"
        return lost("merge", f"{left}: {cause or possible}; {holds}")

    def _history(self, version: Version) -> tuple[str, bool]:
        """Return what the versions of the target's table say since the first that holds an event, as a clause; '' if it has none.

        The second value is whether the pipeline's merges alone wrote the table since, so that nothing else can have changed the row.
        """
        versions = self.tracing.versions_since(version.position)
        if not versions:
            return "", False
        first, *_ = versions
        merge = f"; version {first.version} of its table ({first.operation}, {moment(first.at)}) is the first that holds it"
        foreign = [one for before, one in pairwise(versions) if one.mark == before.mark]
        if not foreign:
            return f"{merge}, and only its merges wrote the table since", True
        listed = ", ".join(f"{one.version} ({one.operation}, {moment(one.at)})" for one in foreign[-SHOWN_VERSIONS:])
        return f"{merge}, and something else than its merges wrote version {listed}", False

    def _cause(self, unapplied: Version | None) -> str:
        """Return which merge made the target's row what it is, as a clause; '' if the ledger names none.

        ``unapplied`` is the first event that the row is without, if it is known.
        """
        ledger = self.tracing.ledger
        partings = ledger.partings if ledger else []
        of_key = [one for one in partings if one.lasts and len(self.key) == 1 and self.key[0] in one.keys]
        if len(of_key) != 1:
            return ""
        [parting] = of_key
        if parting.cause != "merge" or parting.batch is None:
            return ""
        batch = parting.batch
        merge = f"the merge of {moment(batch.merged_at)} (batch {batch.last:,})"
        if batch.first != batch.last:
            merge = f"one of the merges of batches {batch.first:,} to {batch.last:,}, the last one at {moment(batch.merged_at)}"
        first, last = Place.parse(batch.after).order, Place.parse(batch.through).order
        if unapplied and first < Place.parse(self.tracing.last.place_of(unapplied.position)).order <= last:
            return f"it was not applied by {merge}, as the ledger says"
        return f"{merge} did otherwise than the log says"

    def _find_lost(self, merged: Sequence[Version]) -> Version | None:
        """Return the event behind the newest one whose row the target still has; None if it has none that is known."""
        older = [number for number, version in enumerate(merged[:-1]) if self._was_target(version)]
        if older:
            return merged[older[-1] + 1]
        return merged[0] if merged[0].kind == "insert" and not self.sides.target.get(self.key) else None

    def _was_target(self, version: Version) -> bool:
        return version.is_known and self.tracing.rows.is_in_target(self.sides.target, self.key, version)

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
