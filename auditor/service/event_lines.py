"""The events of a pipeline's table as lines of JSON in Debezium's form, for the command line and over HTTP."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from threading import Event

import dialects
from auditor.config import MessageSettings, Settings
from auditor.durations import durations
from auditor.errors import ConfigError, PartsGone
from auditor.model import TableNote
from auditor.pipeline.events import TableSchema
from auditor.pipeline.folders import folder_at
from auditor.pipeline.messages.source_block import Names
from auditor.pipeline.messages.writing import Encoder
from auditor.pipeline.poison import log_file, skipped_line
from auditor.pipeline.stream_positions import place_in_stream, place_texts
from auditor.pipeline.table_events import EventPlace, Events, TableEvents, find_place, leave_out, without
from auditor.planning.columns import is_masked_table, masked_columns
from auditor.service.pipeline_status import match_tables
from auditor.store import Store, parts, schema_changes
from dialects import Place

MESSAGES = MessageSettings(tombstones=False)
"""Debezium's envelope as JSON without schemas; a tombstone is for topics that are compacted."""


@dataclass(slots=True)
class EventLines:
    """Lines of a table's events behind a place."""

    settings: Settings
    store: Store
    name: str
    events: TableEvents
    clock: Callable[[], int] = time.time_ns
    _encoders: dict[str, tuple[TableSchema, Sequence[str], Encoder]] = field(default_factory=dict)
    """By schema: the columns of events, those that are left out, and what writes the others."""

    @property
    def place(self) -> str:
        """The place behind which the next lines begin."""
        return self._text(self.events.place)

    def read(self) -> Iterator[list[bytes]]:
        """Yield the lines of what is staged behind the place now, in pieces. Raises AuditorError, behind the lines of what was before.

        A line is an object with ``position``, behind which one can go on, and ``key`` and ``value``; or ``note``. Of an event with two
        lines, which changed the key, the first one has no position.
        """
        for found in self.events.read():
            yield [self._note(found)] if isinstance(found, TableNote) else self._lines(found)

    def follow(self, stopped: Event) -> Iterator[list[bytes]]:
        """Yield the same, and what is staged later, until ``stopped`` is set; an empty list whenever there is nothing more yet."""
        while not stopped.is_set():
            yield from self.read()
            yield []
            stopped.wait(durations().staged_poll)

    def _lines(self, found: Events) -> list[bytes]:
        schema, hidden, encoder = self._encoder(found.part.schema_id)
        batch = leave_out(schema, found.batch, hidden)
        messages = encoder.encode(batch, self.clock())
        numbers, keys, values = (messages[name].to_pylist() for name in ("event", "key", "value"))
        text = place_texts(self.store, self.name)
        at = zip(*(batch[name].to_pylist() for name in ("position", "row")), strict=True)
        places = [f"{text(position)}:{row}" for position, row in at]
        is_last = [one != other for one, other in zip(numbers, [*numbers[1:], -1], strict=True)]
        return [
            _line(_json(places[number]) if last else b"null", b'"key":%b,"value":%b' % (key or b"null", value or b"null"))
            for number, key, value, last in zip(numbers, keys, values, is_last, strict=True)
        ]

    def _note(self, note: TableNote) -> bytes:
        """Return the line of a statement that emptied the table, as Debezium writes it, or of events that somebody skipped."""
        place = self._text(EventPlace(note.position, note.row))
        if note.skip:
            said = f"{skipped_line(note.events, place)} by {note.skip.by}: {note.skip.reason}"
            return _line(_json(place), b'"note":%b' % _json(said))
        micros = int(note.time.timestamp() * 1_000_000)
        value = self._encoder(self._schema_at(note))[2].truncate(None, note.position, micros, self.clock())
        return _line(_json(place), b'"key":null,"value":%b' % (value or b"null"))

    def _schema_at(self, note: TableNote) -> str:
        """Return the schema of a table that was emptied: that of the next event, or of the last one."""
        for after in (note.position, 0):
            if found := parts.list_parts(self.store, self.name, note.table, after, 1):
                return found[0].schema_id
        history = schema_changes.list_history(self.store, self.name, note.table)
        if not history:
            raise PartsGone(f"{note.table} was emptied, and no event of it was staged, so that its columns are not known")
        return history[-1].schema_id

    def _encoder(self, schema_id: str) -> tuple[TableSchema, Sequence[str], Encoder]:
        if schema_id not in self._encoders:
            body = parts.get_schema(self.store, self.name, schema_id)
            if body is None:
                raise PartsGone(f"the schema {schema_id} of a part is not in the store")
            schema = TableSchema.from_json(json.dumps(body))
            hidden = hidden_columns(self.settings, self.name, schema)
            self._encoders[schema_id] = (
                schema,
                hidden,
                Encoder(without(schema, hidden), MESSAGES, _names(self.settings, self.store, self.name)),
            )
        return self._encoders[schema_id]

    def _text(self, place: EventPlace) -> str:
        text = place_in_stream(self.store, self.name, place.position)
        return text if place.row is None or place.row < 0 else f"{text}:{place.row}"


def last_position(lines: Sequence[bytes]) -> str:
    """Return the position of the last line that has one; '' if none has."""
    found = (json.loads(line)["position"] for line in reversed(lines))
    return next((str(position) for position in found if position), "")


def open_lines(settings: Settings, store: Store, name: str, table: str, start: str) -> EventLines:
    """Return the lines of a table's events behind ``earliest``, ``latest``, ``FILE:POS``, or the ``position`` of an earlier line.

    Raises UnknownPipeline, ConfigError, PartsGone if events behind it were deleted, and StoreError.
    """
    pipeline = settings.pipeline(name)
    found = match_tables(settings, store, name, [table])
    if len(found) > 1:
        raise ConfigError(f"{table!r} is {' or '.join(found)}; write one of them")
    place = find_place(store, name, found[0], start)
    events = TableEvents(store, name, folder_at(pipeline.staging.path), found[0], place)
    events.check()
    return EventLines(settings, store, name, events)


def hidden_columns(settings: Settings, name: str, schema: TableSchema) -> list[str]:
    """Return the columns of a stream's table that no line shows: those that the source's connection masks, and what is computed of them."""
    pipeline = settings.pipeline(name)
    if pipeline.log_source is None:  # of topics, what is masked is masked by the pipeline
        return []
    patterns = settings.connections[pipeline.log_source.connection].mask
    database, _, table = pipeline.origin_of(f"{schema.database}.{schema.table}").partition(".")
    place = Place((database, table))
    if not is_masked_table(patterns, place):
        return []
    renamed = {new.lower(): old for old, new in pipeline.columns_of(table).rename.items()}

    def is_masked(column: str) -> bool:
        return bool(masked_columns(patterns, place, [column]))

    hidden = []
    for column in schema.columns:
        if column.computed is None:
            hidden += [column.name] if is_masked(renamed.get(column.name.lower(), column.name)) else []
        elif not column.inputs or any(_is_prefix_masked(text, is_masked) for text in column.inputs):  # a function may read any column
            hidden.append(column.name)
    return hidden


def _is_prefix_masked(text: str, is_masked: Callable[[str], bool]) -> bool:
    """Return whether the name with which a text begins, that a type follows, is masked; names may have blanks."""
    words = text.split(" ")
    return any(is_masked(" ".join(words[:count])) for count in range(1, len(words)))


def _names(settings: Settings, store: Store, name: str) -> Names:
    source = settings.pipeline(name).log_source
    scheme = dialects.parse_url(settings.connections[source.connection].url).scheme if source else ""
    base = log_file(store, name).rpartition(".")[0]
    names = Names(name, version("auditor"), "mariadb" if scheme == "mariadb" else "mysql")
    return replace(names, log_name=base) if base else names


def _line(place: bytes, rest: bytes) -> bytes:
    return b'{"position":%b,%b}\n' % (place, rest)


def _json(text: str) -> bytes:
    return json.dumps(text, ensure_ascii=False).encode()
