"""Move a schema tracker along the log, and report which columns tables had at each place of it.

The protocol, for each statement that changes tables of carried databases, in the order of the log:

1. the store has a dump of the tracker's schema and a checkpoint; now it also gets the statement (``noted``);
2. the statement runs on the tracker (``applied``);
3. one transaction of the store replaces dump and checkpoint, and adds the columns that tables have from there on (``recorded``).

A process that begins compares the tracker with the dump and restores what differs, so that a statement of which only 1. or 2. was done is
replayed on the schema that it was written for. Columns that were recorded stay: a batch that is decoded again has those of its time.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any, Final, Literal

from auditor.config import Settings
from auditor.durations import durations
from auditor.errors import AuditorError, ConnectionLost, NoSuchObject, PositionLost
from auditor.pipeline.binlog.log_connection import Request, Source, log_status, other_server_id, source_of
from auditor.pipeline.binlog.ranges import LogRange, LogScan, Mark, SourceOffset, as_offset
from auditor.pipeline.binlog.refreshes import refreshes_of
from auditor.pipeline.binlog.selection import Selection, is_positions
from auditor.pipeline.binlog.server import identify_server
from auditor.pipeline.binlog.table_statements import TableStatement, read_statements
from auditor.pipeline.binlog.tracked_columns import TrackedTable, pack_versions
from auditor.pipeline.events import Place
from auditor.pipeline.tracker.replay import Name, Replay, describe_tables, plan_replay
from auditor.pipeline.tracker.server import OWN, SYSTEM, TrackerServer, read_dump
from auditor.points import reach
from auditor.store import Store, open_store, trackers
from auditor.store.trackers import Step
from dialects import parse_url
from dialects.mysql.session import server_version

log = logging.getLogger(__name__)

ATTEMPTS = 20
"""How often the source's schema is read while statements change it meanwhile."""

RANGE_BYTES = 64 << 20

SHOWN = 200
"""Characters of a statement in messages and in the store."""

TRACKED: Final = "tracked"
"""The entry of an offset that says which tracker was brought up to it."""


class Follower:
    """A pipeline's tracker, which is brought along its source's log by one process at a time."""

    def __init__(self, settings: Settings, store: Store, name: str) -> None:
        """Raises UnknownPipeline and StoreError."""
        pipeline = settings.pipeline(name)
        assert pipeline.tracker
        self._store, self._name = store, name
        self._source = source_of(settings, name)
        self._selection = Selection(pipeline.source.tables, parse_url(self._source.url).database, refreshes_of(settings, name))
        self._state = trackers.get_tracker(store, name)
        self._server = TrackerServer(Source(pipeline.tracker.url, f"tracker of {name}"), name, self._state.token)
        self._checkpoint: tuple[int, Place] | None = None
        """Epoch and place up to which the tracker is right; None before it was checked."""
        self._versions: dict[Name, list[tuple[int, Any]]] = {}
        self._packed: tuple[int, bytes] | None = None
        self._owns_store = False

    @property
    def token(self) -> str:
        """What the offsets say that the tracker was brought up to."""
        return self._state.token

    def close(self) -> None:
        """End the connection to the tracker, and to a store of its own."""
        self._disconnect()
        if self._owns_store:
            self._store.close()

    def _disconnect(self) -> None:
        """Check the tracker again before the next statement."""
        self._server.close()
        self._checkpoint = None

    def check(self) -> None:
        """Check that the server can be the tracker, without changing anything. Raises ConfigError and EngineError."""
        self._server.check_own(self._source, self._carries, marks=False)

    @property
    def connection(self) -> Any:
        """The connection to the tracker, of PyMySQL. Raises EngineError."""
        return self._server.connection

    def begin(self) -> SourceOffset:
        """Begin the tracker where the source's log ends now; return that place as an offset of a stream, for a new pipeline.

        Raises ConfigError for a server that cannot be the tracker, ChangeStreamError, EngineError and StoreError.
        """
        self._server.check_own(self._source, self._carries)
        with closing(self._source.connect()) as connection:
            end, server = log_status(connection).end, identify_server(connection)
        place = self._begin(0, Mark(end), at_end=True)
        return as_offset(Mark(place), epoch=0) | {"server": server, TRACKED: self.token}

    def follow(self, start: Mark, epoch: int, is_tracked: bool, statements: Sequence[LogRange], end: Place) -> None:
        """Bring the tracker from ``start`` to ``end``, over the transactions with statements that lie between.

        ``is_tracked`` says that an earlier reader of the log has brought it up to the start. Raises what `begin` raises.
        """
        try:
            if statements and self._checkpoint and not self._server.is_there():
                self._disconnect()
            if self._checkpoint is None:
                self._open(start, epoch, is_tracked)
            for log_range in statements:
                self._pass(log_range, epoch)
            assert self._checkpoint
            if self._checkpoint[1].order < end.order or self._checkpoint[0] < epoch:
                self._checkpoint = epoch, end
        except BaseException:
            self._disconnect()
            raise

    def columns(self, since: int) -> bytes:
        """Return the columns that tables had after a position, for `Reading.tracked`."""
        if self._packed is None or since < self._packed[0]:
            self._packed = since, pack_versions(self._versions, since)
        return self._packed[1]

    def _carries(self, database: str) -> bool:
        return database not in (OWN, *SYSTEM) and self._selection.has_database(database)

    def _at(self, epoch: int, place: Place) -> dict[str, Any]:
        """Return a checkpoint, which also says which databases are carried."""
        return {"epoch": epoch, "file": place.file, "position": place.offset, "databases": sorted(self._selection.databases)}

    def _is_read(self, name: Name) -> bool:
        """Return whether rows of a table are decoded."""
        refreshes = self._selection.refreshes
        return self._selection.has(*name) or is_positions(name[1]) or (refreshes is not None and refreshes.schema == name[0])

    def _open(self, start: Mark, epoch: int, is_tracked: bool) -> None:
        """Make the tracker ready for statements after ``start``."""
        self._server.check_own(self._source, self._carries)
        self._versions, self._packed = trackers.read_columns(self._store, self._name), None
        self._state = trackers.get_tracker(self._store, self._name)
        known = self._state.checkpoint
        if known is None or not self._selection.databases <= set(known["databases"]):
            self._begin(epoch, start)
            return
        reached = int(known["epoch"]), Place(known["file"], int(known["position"]))
        missed: list[LogRange] = []
        if is_tracked and (reached[0] < epoch or reached[1].order < start.place.order):
            reached = epoch, start.place
        elif reached[0] < epoch or (reached[0] == epoch and reached[1].order < start.place.order):
            try:
                if reached[0] < epoch:
                    raise PositionLost(f"{reached[1]} is in the log of another server")
                missed = self._scan(reached[1], start.place)
            except PositionLost as error:
                text = "%s: the log between the tracker's checkpoint and the stream is gone; the tracker begins again: %s"
                log.warning(text, self._name, error, extra={"action": "tracker_begun", "pipeline": self._name})
                self._begin(epoch, start)
                return
        wrong = self._server.restore(trackers.read_dump(self._store, self._name))
        reach("tracker.restored")
        if wrong:
            names = ", ".join(".".join(name).rstrip(".") for name in wrong[:3])
            text = "%s: the tracker was brought back to its dump at %s: %s%s"
            place = f"{known['file']}:{known['position']}"
            extra = {"action": "tracker_restored", "pipeline": self._name, "tables": len(wrong)}
            log.warning(text, self._name, place, names, f" and {len(wrong) - 3} more" if len(wrong) > 3 else "", extra=extra)
        self._checkpoint = reached
        self._add_chosen(reached)
        for log_range in missed:
            self._pass(log_range, epoch)

    def _add_chosen(self, reached: tuple[int, Place]) -> None:
        """Add the columns of tables that are read now, and were not before."""
        stored = trackers.read_dump(self._store, self._name)
        new = [name for name in stored if name[1] and self._is_read(name) and name not in self._versions]
        if not new:
            return
        position = reached[1].position(reached[0]).pack()
        bodies = {name: table.to_body() for name, table in self._server.describe(new).items()}
        trackers.record(self._store, self._name, Step(self._at(*reached), position, {}, bodies))
        self._versions |= {name: [(position, body)] for name, body in bodies.items()}

    def _begin(self, epoch: int, start: Mark, at_end: bool = False) -> Place:
        """Take the source's schema over, as it is at a known place after ``start``, or at one where the log ended; return that place."""
        reach("tracker.owned")
        place, passed, base = start.place, start.place, start.place
        for _ in range(ATTEMPTS):
            with closing(self._source.connect()) as connection:
                before = log_status(connection).end
                try:
                    dump = read_dump(connection, self._carries)
                    described = describe_tables(connection, [name for name in dump if name[1]])
                except NoSuchObject:  # dropped meanwhile
                    continue
                after = log_status(connection).end
            for log_range in self._scan(passed, before):
                base = Place(log_range.start.file, log_range.end) if self._is_about_tables(log_range) else base
            changed = [log_range for log_range in self._scan(before, after) if self._is_about_tables(log_range)]
            place, passed = before, before
            if not changed:
                break
        else:
            raise ConnectionLost(f"{self._name}: tables of the source were changed each time its schema was read; it is read again later")
        self._take_over(dump, described, epoch, place, (start.place, place if at_end else base))
        return place

    def _take_over(
        self, dump: Mapping[Name, str], described: Mapping[Name, TrackedTable], epoch: int, place: Place, gap: tuple[Place, Place]
    ) -> None:
        """Make the tables of the source's dump on the tracker, and record them.

        They are as they are from the end of the ``gap`` on; what they were in it, which is where the stream is, nobody knows.
        """
        failed = self._server.take_over(dump)
        reach("tracker.created")
        begin, position = (edge.position(epoch).pack() for edge in gap)
        made = self._server.describe([name for name in dump if name[1]])
        columns: dict[Name, Any] = {}
        for name, table in described.items():
            why = failed.get(name) or ("" if made.get(name) == table else "its columns differ there")
            if self._is_read(name):
                columns[name] = TrackedTable(reason=f"the tracker cannot have it: {why}").to_body() if why else table.to_body()
        whole = {name: text for name, text in self._server.read_dump().items() if text}
        reach("tracker.dumped")
        unknown = TrackedTable(reason=f"the tracker began at {gap[1]}, after a statement that changed tables").to_body()
        step = Step(self._at(epoch, place), position, whole, columns)
        trackers.begin(self._store, self._name, step, (begin, unknown) if begin < position else None)
        reach("tracker.begun")
        self._checkpoint = epoch, place
        self._versions, self._packed = trackers.read_columns(self._store, self._name), None
        text = "%s: the tracker has %d tables of the source as they are at %s"
        extra = {"action": "tracker_begun", "pipeline": self._name, "tables": len(described)}
        log.info(text, self._name, len(described), place, extra=extra)

    def _scan(self, start: Place, end: Place) -> list[LogRange]:
        """Return the transactions between two places that have statements which may change tables."""
        request = Request(self._source, start, other_server_id())
        with closing(LogScan(request, Mark(start), RANGE_BYTES, durations().source_absence, notes_statements=True)) as scan:
            scan.advance(end)
            return scan.statements

    def _plans(self, log_range: LogRange) -> list[tuple[TableStatement, Replay]]:
        statements = read_statements(self._source, log_range.start, log_range.end)
        return [(statement, plan) for statement in statements if (plan := plan_replay(statement, self._carries))]

    def _is_about_tables(self, log_range: LogRange) -> bool:
        return bool(self._plans(log_range))

    def _pass(self, log_range: LogRange, epoch: int) -> None:
        """Replay what a transaction does to tables, unless the tracker is past it already."""
        assert self._checkpoint
        if (epoch, log_range.start.order) < (self._checkpoint[0], self._checkpoint[1].order):
            return
        end = Place(log_range.start.file, log_range.end)
        if plans := self._plans(log_range):
            text = "; ".join(" ".join(statement.characters.split())[:SHOWN] for statement, _ in plans)
            trackers.note_statement(self._store, self._name, str(end), text)
            reach("tracker.noted")
            lost: dict[Name, str] = {}
            for statement, plan in plans:
                lost |= self._replay(statement, plan, f"{text} at {end}")
            reach("tracker.applied")
            self._record(list(dict.fromkeys(name for _, plan in plans for name in plan.tables)), lost, epoch, log_range.start, end)
            reach("tracker.recorded")
        self._checkpoint = epoch, end

    def _replay(self, statement: TableStatement, plan: Replay, what: str) -> dict[Name, str]:
        """Run a statement on the tracker; return the tables that it could not follow, and why."""
        lost = dict(plan.lost)
        if plan.keeps_existing and any(self._is_lost(name) for name in plan.tables):
            return lost  # it is there on the source, as nobody knows it
        self._server.make_databases([database for database, table in plan.tables if table])
        for text in plan.statements:
            why = self._server.replay(statement, text)
            if why and not statement.error:
                lost |= {name: f"{what} cannot be replayed: {why}" for name in plan.tables if name[1] and name not in lost}
        for name in lost:
            self._server.drop(name)
        return lost

    def _is_lost(self, name: Name) -> bool:
        history = self._versions.get(name)
        return bool(history and "reason" in history[-1][1])

    def _record(self, tables: Sequence[Name], lost: Mapping[Name, str], epoch: int, begin: Place, end: Place) -> None:
        """Record what the tracker has after a transaction that changed tables; of those that are read, the columns from there on."""
        names = [name for name in tables if name[1]]
        dump: dict[Name, str | None] = dict(self._server.read_dump([*names, *{(name[0], "") for name in names}]))
        if databases := {name[0] for name in tables if not name[1]}:
            stored = trackers.read_dump(self._store, self._name)
            dump |= dict.fromkeys(name for name in stored if name[0] in databases)
            dump |= {name: text for name, text in self._server.read_dump().items() if name[0] in databases}
        columns: dict[Name, Any] = {}
        for name, table in self._server.describe(names).items():
            if self._is_read(name) or self._is_lost(name):
                columns[name] = table.to_body()
        for name, why in lost.items():
            if not self._is_lost(name):
                columns[name] = TrackedTable(reason=why).to_body()
                text, extra = "%s: the tracker lost %s: %s", {"action": "tracker_lost", "pipeline": self._name, "table": ".".join(name)}
                log.error(text, self._name, ".".join(name), why, extra=extra)
        columns = {name: body for name, body in columns.items() if name not in self._versions or self._versions[name][-1][1] != body}
        position = begin.position(epoch).pack()
        trackers.record(self._store, self._name, Step(self._at(epoch, end), position, dump, columns))
        for name, body in columns.items():
            kept = [version for version in self._versions.get(name, []) if version[0] != position]
            self._versions[name] = [*kept, (position, body)]
            self._packed = None


def open_follower(settings: Settings, name: str) -> Follower | None:
    """Return the tracker of a pipeline over the store of its settings; None if it has none. Raises UnknownPipeline and StoreError."""
    if settings.pipeline(name).tracker is None:
        return None
    assert settings.store
    follower = Follower(settings, open_store(settings.store.url), name)
    follower._owns_store = True
    return follower


def check_tracker(settings: Settings, store: Store, name: str) -> Iterator[tuple[Literal["error", "warning"], str]]:
    """Yield what keeps the tracker of a pipeline from following its source; nothing without one. Changes no server. Raises StoreError."""
    if settings.pipeline(name).tracker is None:
        return
    try:
        with closing(Follower(settings, store, name)) as follower:
            follower.check()
            here, there = _version(follower.connection), _version_of_source(settings, name)
    except AuditorError as error:
        yield "error", str(error)
        return
    if here < there:
        versions = [".".join(map(str, version)) for version in (here, there)]
        yield (
            "warning",
            f"its version is {versions[0]}, and the source's {versions[1]}, whose statements it may not know; give it the source's",
        )
    for table, history in sorted(trackers.read_columns(store, name).items()):
        if reason := history[-1][1].get("reason"):
            way_out = "rows of it are not read; SET GLOBAL binlog_row_metadata = 'FULL', then copy the table again"
            yield "warning", f"{'.'.join(table)}: the columns are not known: {reason}; {way_out}"


def _version_of_source(settings: Settings, name: str) -> tuple[int, ...]:
    with closing(source_of(settings, name).connect()) as connection:
        return _version(connection)


def _version(connection: Any) -> tuple[int, ...]:
    return tuple(int(digits) for digits in re.findall(r"\d+", server_version(connection))[:2])
