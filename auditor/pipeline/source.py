"""The options of the change source ``mysql_binlog``."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.types import ArrayType, LongType, StringType, StructField, StructType, TimestampType

from auditor.config import find_file, load
from auditor.errors import AuditorError, ConfigError, OffsetWentBack, PackageMissing, PositionLost
from auditor.pipeline.binlog.cascades import Reference, made_references, read_references
from auditor.pipeline.binlog.decode import Reading
from auditor.pipeline.binlog.log_connection import Patience, Request, Source, first_place, log_status, other_server_id, query
from auditor.pipeline.binlog.ranges import LogRange, LogScan, Mark, SourceOffset, as_offset, check_born, from_offset, offsets, read_born
from auditor.pipeline.binlog.refreshes import Refreshes
from auditor.pipeline.binlog.selection import Selection
from auditor.pipeline.binlog.server import check_server, identify_server
from auditor.pipeline.binlog.table_statements import read_statements
from auditor.pipeline.events import Place
from auditor.pipeline.tracker.follower import TRACKED, Follower, open_follower
from dialects import by_scheme, extras
from dialects.mysql.session import server_version
from dialects.url import parse_url


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """The options of a source; they hold no secret."""

    connection: str
    tables: tuple[str, ...]
    config: str | None
    start: str = "latest"
    end: str = "latest"
    max_bytes: int = 64 << 20
    range_bytes: int = 4 << 20
    server_id: int | None = None
    patience: float = 60.0
    notes: bool = False
    refreshes: str = ""
    skip_pipelines: tuple[str, ...] = ()
    pipeline: str = ""

    def source(self) -> Source:
        """Return the connection's source. Raises ConfigError."""
        path: Path = find_file(self.config)
        connections = load(path).connections
        if self.connection not in connections:
            raise ConfigError(f"{path} has no connection {self.connection!r}; connections: {', '.join(sorted(connections)) or 'none'}")
        url = parse_url(connections[self.connection].url)
        if by_scheme(url.scheme).CHANGE_STREAM != "binlog":
            raise ConfigError(
                f"connection {self.connection!r} leads to {url.scheme}, which has no binary log; name one to MySQL or MariaDB"
            )
        return Source(connections[self.connection].url, self.connection)

    def selection(self, source: Source) -> Selection:
        """Return the chosen tables. Raises ConfigError."""
        schema, _, pipeline = self.refreshes.partition("/")
        refreshes = Refreshes(schema, pipeline) if schema else None
        return Selection(self.tables, parse_url(source.url).database, refreshes, self.skip_pipelines)

    def reading(self, epoch: int, tracked: bytes, references: tuple[Reference, ...] = ()) -> Reading:
        """Return what a task decodes."""
        source = self.source()
        return Reading(source, self.selection(source), epoch, self.patience, notes=self.notes, tracked=tracked, references=references)

    def tracker(self) -> Follower | None:
        """Return the tracker of the pipeline; None if it has none. Raises ConfigError and StoreError."""
        return open_follower(load(find_file(self.config)), self.pipeline) if self.pipeline else None


_NUMBERS = {"max_bytes", "range_bytes", "server_id", "patience"}


def parse_options(given: Mapping[str, str], end_allowed: bool) -> StreamOptions:
    """Return the options that were given; those of a batch if an ``end`` is allowed. Raises ConfigError."""
    known = [name for name in StreamOptions.__dataclass_fields__ if name != ("pipeline" if end_allowed else "end")]
    values: dict[str, Any] = {}
    for name, text in given.items():
        if name.lower() not in known:
            raise ConfigError(f"mysql_binlog has no option {name!r}; its options are {', '.join(known)}")
        if name.lower() in _NUMBERS and (not text.isdecimal() or int(text) < 1):
            raise ConfigError(f"option {name} of mysql_binlog must be a whole number from 1 on, not {text!r}")
        values[name.lower()] = int(text) if name.lower() in _NUMBERS else text.lower() == "true" if name.lower() == "notes" else text
    for name in ("connection", "tables"):
        if not values.get(name):
            raise ConfigError(f"mysql_binlog needs the option {name}")
    for name in ("tables", "skip_pipelines"):
        values[name] = tuple(part.strip() for part in values.get(name, "").split(",") if part.strip())
    for name in ("start", "end"):
        if values.get(name, "latest") not in ("latest", "earliest") and (end_allowed or not parse_offset(values[name])):
            Place.parse(values[name])
    return StreamOptions(**{"config": None, **values})


def parse_offset(text: str) -> SourceOffset | None:
    """Return the offset that a text is the JSON of, or None if it is something else. Raises ConfigError for JSON of anything else."""
    if not text.startswith("{"):
        return None
    try:
        offset: SourceOffset = json.loads(text)
        from_offset(offset)
        return offset if isinstance(offset["epoch"], int) else None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ConfigError(f"start of mysql_binlog is no offset: {text}; give one as Spark logs it, or FILE:POS") from None


try:
    from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxBytes, SupportsTriggerAvailableNow
except ImportError as error:
    raise PackageMissing(f"the change source needs PySpark 4.2 or later; run: {extras.install_command('pipeline')}") from error

Answer = TypeVar("Answer")

REFERENCES = "references"
"""Where an offset has the source's foreign keys whose cascades its log does not hold, as they were when the batch was planned."""

_TEXTS = ArrayType(StringType(), containsNull=True)
EVENT_TYPE = StructType(
    [
        StructField("kind", StringType(), nullable=False),
        StructField("database", StringType(), nullable=False),
        StructField("table", StringType(), nullable=False),
        StructField("schema_id", StringType(), nullable=False),
        StructField("gtid", StringType()),
        StructField("position", LongType(), nullable=False),
        StructField("row", LongType(), nullable=False),
        StructField("time", TimestampType(), nullable=False),
        StructField("before", _TEXTS),
        StructField("after", _TEXTS),
    ]
)
"""`auditor.pipeline.events.ARROW_SCHEMA` as Spark writes it."""


class MySQLBinlog(DataSource):
    """The change source.

    Options: ``connection``, ``tables`` (names and patterns, separated by commas), ``config``, ``start`` (``latest``, ``earliest`` or
    ``FILE:POS``, the end of a transaction; of a stream also the JSON of an offset, as Spark logs it), of a batch ``end`` (``latest`` or
    ``FILE:POS``), ``skip_pipelines`` (whose transactions are left out, separated by commas), ``max_bytes`` (of the log in a batch of a
    stream), ``range_bytes`` (of the log that a task decodes), ``server_id`` (a stream ends an older one that has the same; by default a
    number of its own), ``patience`` (seconds for which a source that went away is waited for), ``notes`` (``true`` for events of kind
    ``poison`` and ``change``; else rows that are not available end the query), ``refreshes`` (``SCHEMA/PIPELINE``: rows that refreshes of
    this pipeline write into that schema are events), ``pipeline`` (the one whose tracker knows the columns of tables; of a stream).
    """

    @classmethod
    def name(cls) -> str:
        """Return the name that a Spark job calls it by."""
        return "mysql_binlog"

    def schema(self) -> StructType:
        """Return the columns of an event."""
        return EVENT_TYPE

    def streamReader(self, schema: StructType) -> BinlogStream:
        """Return the reader of a stream. Raises ConfigError for a wrong option."""
        del schema
        return BinlogStream(parse_options(self.options, end_allowed=False))

    def reader(self, schema: StructType) -> BinlogBatch:
        """Return the reader of a range of the log. Raises ConfigError for a wrong option."""
        del schema
        return BinlogBatch(parse_options(self.options, end_allowed=True))


@dataclass(frozen=True)
class RangePartition(InputPartition):
    """A range of the log, which one task decodes."""

    log_range: LogRange
    epoch: int
    tracked: bytes = b""
    """The columns of tables, where a tracker knows them."""
    references: tuple[Reference, ...] = ()
    """The source's foreign keys whose cascades its log does not hold."""


class _Reader:
    """What the readers of a stream and of a batch share."""

    def __init__(self, options: StreamOptions) -> None:
        self.options = options

    def _resolve(self, text: str, connection: Any) -> Place:
        if text == "latest":
            return log_status(connection).end
        return first_place(connection) if text == "earliest" else Place.parse(text)

    def _scan(self, source: Source, mark: Mark, server_id: int) -> LogScan:
        size, patience = self.options.range_bytes, self.options.patience
        notes_statements = bool(self.options.pipeline) or self.options.notes
        return LogScan(Request(source, mark.place, server_id), mark, size, patience, notes_statements)

    def read(self, partition: RangePartition) -> Iterator[pa.RecordBatch]:
        """Yield the events of a partition. Raises the errors of `Reading.batches`."""
        return self.options.reading(partition.epoch, partition.tracked, partition.references).batches(partition.log_range)


class BinlogStream(_Reader, DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
    """Plans the batches of a stream, in one process for the whole query, and reads their partitions in others."""

    def __init__(self, options: StreamOptions) -> None:
        super().__init__(options)
        self._server_id = options.server_id or random.randrange(1 << 24, 1 << 30)
        self._forget()

    def _forget(self) -> None:
        self._control: Any = None
        self._log: LogScan | None = None
        self._initial: Mark | None = None
        self._last_start: Place | None = None
        self._stop_at: Place | None = None
        self._planned: tuple[Place, Place, list[LogRange], list[LogRange], list[LogRange]] | None = None
        """Start and end of a batch, its ranges, its transactions with statements that may change tables, and those that may make keys."""
        self._tracker: Follower | None = None
        self._server = ""
        self._is_checked = self._knows_references = False

    def __getstate__(self) -> dict[str, Any]:
        """Return what a task needs: no socket."""
        return {"options": self.options, "_server_id": self._server_id}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._forget()

    def initialOffset(self) -> dict[str, Any]:
        """Return where a stream begins that nothing is known of."""
        if given := parse_offset(self.options.start):
            return {**given}
        if self._initial is None:
            self._initial = Mark(self._ask(lambda connection: self._resolve(self.options.start, connection)))
            self._server = self._ask(identify_server)
        return {**as_offset(self._initial, epoch=0), "server": self._server}

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return how much a batch brings at most; a single transaction may be larger."""
        return ReadMaxBytes(self.options.max_bytes)

    def prepareForTriggerAvailableNow(self) -> None:
        """Let the stream end where the log ends now."""
        self._stop_at = self._log_end()

    def reportLatestOffset(self) -> dict[str, Any]:
        """Return where the log ends now."""
        return {**as_offset(Mark(self._log_end()), epoch=0)}

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Return where the next batch ends: at a transaction end, after so many bytes of the log, or where the log ends now.

        Raises OffsetWentBack if an earlier batch began later, PositionLost if the log does not reach so far, and SourceReplaced if it is
        the log of another server.
        """
        mark = from_offset(start)
        self._check_forward(mark.place)
        end = self._stop_at or self._log_end()
        self._check_server(start)
        if end.order < mark.place.order:
            raise PositionLost(
                f"{mark.place} lies beyond the end of the source's binary log, {end}: the log was reset, or the source replaced by another;"
                " refresh the tables"
            )
        ranges = self._log_from(mark).advance(end, limit.max_bytes if isinstance(limit, ReadMaxBytes) else None)
        assert self._log is not None
        self._planned = mark.place, self._log.mark.place, ranges, self._log.statements, self._log.references
        kept = {name: start[name] for name in ("known", "left", REFERENCES) if name in start}  # the first two by earlier failovers
        if self.options.notes and self._log.mark.place != mark.place:
            kept[REFERENCES] = self._look_up_references(start, bool(self._log.statements))
        tracked = {TRACKED: tracker.token} if (tracker := self._open_tracker()) else {}
        return {**as_offset(self._log.mark, start["epoch"]), "server": self._server, **kept, **tracked}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Return the ranges of a batch, the same whenever it is planned; after a crash, nothing was planned before.

        Raises OffsetWentBack if it ends before it begins, PositionLost if no transaction ends there any more.
        """
        first, last = from_offset(start), from_offset(end)
        if last.place.order < first.place.order:
            raise OffsetWentBack(f"a batch ends at {last.place}, before it begins at {first.place}; give the offset at which it ended")
        if self._planned and self._planned[:2] == (first.place, last.place):
            ranges, statements, makers = self._planned[2:]
        else:
            self._check_server(start)
            log = self._log_from(first)
            ranges = log.advance(last.place)
            statements, makers = log.statements, log.references
            if log.mark.place != last.place:
                raise PositionLost(f"no transaction ends at {last.place} in the source's binary log; refresh the tables")
        tracked = self._track(start, last.place, ranges, statements)
        references = self._references_in(start, end, makers)
        return [RangePartition(log_range, start["epoch"], tracked, references) for log_range in ranges]

    def _look_up_references(self, start: dict[str, Any], has_statements: bool) -> list[Any]:
        """Return the foreign keys whose cascades the source does not log, as an offset holds them; asked again where they may be others."""
        if REFERENCES not in start or has_statements or not self._knows_references:
            self._knows_references = True
            return [reference.to_json() for reference in self._ask(_read_references)]
        known: list[Any] = start[REFERENCES]
        return known

    def _references_in(self, start: dict[str, Any], end: dict[str, Any], makers: list[LogRange]) -> tuple[Reference, ...]:
        """Return all foreign keys that there were anywhere in a batch: before it, after it, and made and dropped by its statements."""
        if REFERENCES not in end:
            return ()
        references = [Reference.from_json(body) for offset in (start, end) for body in offset.get(REFERENCES, ())]
        source = self.options.source()
        for log_range in makers:
            for statement in read_statements(source, log_range.start, log_range.end):
                references += made_references(statement.characters, statement.database, statement.sql_mode)
        return tuple(dict.fromkeys(references))

    def _track(self, start: dict[str, Any], end: Place, ranges: list[LogRange], statements: list[LogRange]) -> bytes:
        """Bring the tracker to the end of a batch; return the columns that tables have in it. Raises the errors of `Follower.follow`."""
        tracker = self._open_tracker()
        if tracker is None:
            return b""
        mark, epoch = from_offset(start), start["epoch"]
        tracker.follow(mark, epoch, start.get(TRACKED) == tracker.token, statements, end)
        places = [mark.place, *(prepared.start for log_range in ranges for prepared in log_range.prepared.values())]
        return tracker.columns(min(place.position(epoch).pack() for place in places))

    def _open_tracker(self) -> Follower | None:
        if self._tracker is None:
            self._tracker = self.options.tracker()
        return self._tracker

    def commit(self, end: dict[str, Any]) -> None:
        """Do nothing: the log belongs to the source."""

    def stop(self) -> None:
        """End the connections."""
        if self._log:
            self._log.close()
        if self._control:
            self._control.close()
        if self._tracker:
            self._tracker.close()
        self._forget()

    def _check_forward(self, start: Place) -> None:
        if self._last_start and start.order < self._last_start.order:
            raise OffsetWentBack(f"a batch would begin at {start}, but an earlier one began at {self._last_start}; restart the query")
        self._last_start = start

    def _check_server(self, start: dict[str, Any]) -> None:
        """Check once for each connection that it leads to the server of the offset. Raises SourceReplaced."""
        if not self._is_checked:
            known, mark = start.get("server", ""), from_offset(start)
            self._server = self._ask(lambda connection: check_server(connection, self.options.connection, known, mark))
            if mark.born:
                source = self.options.source()
                check_born(source, mark.place, mark.born, self._ask(lambda _: read_born(source, mark.place.file)))
            self._is_checked = True

    def _log_from(self, mark: Mark) -> LogScan:
        """Return a scan that is at the mark: the one that is open, if it is."""
        if self._log and self._log.mark.place != mark.place:
            self._log.close()
            self._log = None
        self._log = self._log or self._scan(self.options.source(), mark, self._server_id)
        return self._log

    def _log_end(self) -> Place:
        return self._ask(lambda connection: log_status(connection).end)

    def _ask(self, question: Callable[[Any], Answer]) -> Answer:
        """Return what the source answers, after connecting again if need be."""
        patience = Patience(self.options.patience)
        while True:
            try:
                if self._control is None:
                    self._is_checked = False
                    self._control = self.options.source().connect()
                return question(self._control)
            except AuditorError as error:
                self._control = None
                patience.wait(error)


def _read_references(connection: Any) -> list[Reference]:
    return read_references(partial(query, connection), server_version(connection))


class BinlogBatch(_Reader, DataSourceReader):  # type: ignore[misc]
    """Reads a range of the log once."""

    def partitions(self) -> list[InputPartition]:
        """Return the ranges between the options ``start`` and ``end``. Raises ConfigError if they are the wrong way round."""
        source = self.options.source()
        connection = source.connect()
        try:
            start, end = (self._resolve(text, connection) for text in (self.options.start, self.options.end))
        finally:
            connection.close()
        if end.order < start.order:
            raise ConfigError(f"the range ends at {end}, before it begins at {start}; exchange start and end")
        log = self._scan(source, Mark(start), other_server_id())
        try:
            ranges = log.advance(end)
            if log.mark.place != end:
                raise PositionLost(f"no transaction ends at {end} in the source's binary log; give one that does as end")
        finally:
            log.close()
        return [RangePartition(log_range, 0) for log_range in ranges] or [RangePartition(LogRange(start, offsets()), 0)]
