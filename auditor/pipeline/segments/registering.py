"""Register the segments that a pipeline cuts with the segment audits that compare them."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import dialects
from auditor.config import ANEW, Settings
from auditor.errors import ConfigError
from auditor.escaping import shell_word
from auditor.model import ComparedBy, RegisteredSegment, Segment
from auditor.pipeline.binlog.whole_log import GlobalId
from auditor.pipeline.kafka.offsets import from_json, is_of_topics
from auditor.pipeline.segments.event_text import TEXTS, choose_versions
from auditor.store import Store, pipelines, segment_register, segments
from auditor.store.segment_register import Register

log = logging.getLogger(__name__)

PAGE = 500
"""Segments of the manifest that are registered in one transaction."""


@dataclass(frozen=True, slots=True)
class Registration:
    """A side of a segment audit."""

    register: Register
    side: str

    def enter(self, connection: Any, ended: Iterable[Segment]) -> int:
        """Register segments within a transaction of the store, and return how many are new; or record why they are not comparable."""
        if self.register.by != "gtid":
            entries = [by_position(one) for one in ended]
            if self.register.by == "offset" and (sentence := self._other_topic(connection, entries)):
                segment_register.refuse(connection, self.register.audit, sentence)
                return 0
            return segment_register.enter(connection, self.register.audit, self.side, entries)
        found: list[RegisteredSegment] = []
        for one in ended:
            entry = self._by_global_id(connection, one)
            if isinstance(entry, str):
                segment_register.refuse(connection, self.register.audit, entry)
                return 0
            found.append(entry)
        return segment_register.enter(connection, self.register.audit, self.side, found)

    def _other_topic(self, connection: Any, entries: Sequence[RegisteredSegment]) -> str:
        """Return that a partition's segments are of another topic than those in the register, which was made again; '' if none is."""
        for entry in {one.table: one for one in entries}.values():
            known = segment_register.find_gtid(connection, self.register.audit, entry.table)
            if known and entry.gtid and known.rpartition(":")[0] != entry.gtid.rpartition(":")[0]:
                return (
                    f"the topic of {entry.table} was made again: {self.side} has messages of the topic {entry.gtid.partition(':')[0]}, and"
                    f" registered are some of {known.partition(':')[0]}; forget these: auditor segments reset"
                    f" {shell_word(self.register.audit)}"
                )
        return ""

    def refuse(self, connection: Any, ended: Iterable[Segment], *, sentence: str) -> None:
        """Record within the transaction that registers segments why the sides are no longer comparable."""
        del ended
        segment_register.refuse(connection, self.register.audit, f"{self.side}: {sentence}")

    def take_stream(self, connection: Any, stream: str) -> None:
        """Take what the topics of this side belong to for that of both, or record that the other side's belong to something else."""
        known = segment_register.take_sequence(connection, self.register.audit, stream)
        if known and known != stream:
            sentence = (
                f"the two sides read different topics ({known}, and {stream} in {self.side}), whose messages have other offsets even where"
                " one cluster is a mirror of the other; let both read the same, and then: auditor segments reset"
                f" {shell_word(self.register.audit)}"
            )
            segment_register.refuse(connection, self.register.audit, sentence)

    def _by_global_id(self, connection: Any, one: Segment) -> RegisteredSegment | str:
        """Return a segment whose places are numbers of global ids, or why it has none."""
        if one.gtid is None or one.first_gtid is None:
            return (
                f"the two sides read different servers, and segments of {one.table} from {self.side} have no global ids; switch on"
                f" gtid_mode there, or let both read one server, and then: auditor segments reset {shell_word(self.register.audit)}"
            )
        start, end = GlobalId.parse(one.first_gtid), GlobalId.parse(one.gtid)
        sequence = segment_register.take_sequence(connection, self.register.audit, start.sequence)
        if sequence and {start.sequence, end.sequence} != {sequence}:
            return (
                f"the two sides read different servers, and the global ids of {one.table} from {self.side} begin with {start.text}, others"
                f" with {sequence}, so that they have no common order; once both sides read from the same servers again: auditor segments"
                f" reset {self.register.audit}"
            )
        return _entry(one, (start.number, one.first_row), (end.number, one.last_row))


def by_position(one: Segment) -> RegisteredSegment:
    """Return a segment as it is registered where both sides read one server, or the same topics."""
    return _entry(one, (one.first, one.first_row), (one.last, one.last_row))


def _entry(one: Segment, start: tuple[int, int], end: tuple[int, int]) -> RegisteredSegment:
    content: dict[str, Any] = {"rows": one.rows, "schema_id": one.schema_id, "sha256": one.sha256, "encoding": one.encoding}
    content |= {"older": one.older, "buckets": one.buckets}
    log_places: dict[str, Any] = {"first": one.first, "last": one.last, "gtid": one.gtid, "began": one.began, "ended": one.ended}
    return RegisteredSegment(table=one.table, start=start, end=end, **content, **log_places)


def register_of(settings: Settings, audit: str) -> Register:
    """Return the register of a segment audit. Raises UnknownAudit and BadUrl."""
    found = settings.segment_audit(audit)
    first = settings.pipeline(found.pipelines[0])
    if first.topic_source:
        return Register(audit, found.sides, "offset" if first.reads_partitions else "position")
    connections = [settings.pipeline(name).of_log("a segment audit").connection for name in found.pipelines]
    servers = {_server(settings.connections[name].url) for name in connections}
    by: ComparedBy = "position" if len(servers) == 1 else "gtid"
    return Register(audit, found.sides, by)


def registrations_of(settings: Settings, pipeline: str) -> tuple[Registration, ...]:
    """Return the sides of segment audits that a pipeline is. Raises BadUrl."""
    audits = sorted(name for name, one in settings.segments.items() if pipeline in one.pipelines)
    return tuple(Registration(register_of(settings, name), pipeline) for name in audits)


def read_anew(settings: Settings, audit: str) -> Registration:
    """Return the side of a segment audit that is a log read anew. Raises UnknownAudit and BadUrl."""
    return Registration(register_of(settings, audit), ANEW)


def catch_up(store: Store, pipeline: str, registration: Registration) -> int:
    """Register what a pipeline's manifest lists behind the last registered segment, and return how many. Raises ConfigError, StoreError."""
    segment_register.open_register(store, registration.register)
    if stream := stream_identity(pipelines.get_pipeline(store, pipeline).source_offset):
        store.write(partial(registration.take_stream, stream=stream))
    entered = 0
    for table in segments.last_places(store, pipeline):
        after = (segment_register.last_end(store, registration.register.audit, registration.side, table), -1)
        while page := segments.list_segments(store, pipeline, table, after, PAGE):
            entered += store.write(partial(registration.enter, ended=page))
            after = (page[-1].last, page[-1].last_row)
    return entered


def stream_identity(offset: Any) -> str:
    """Return what the places of messages belong to that were read up to an offset; '' if that is not known, or of a log.

    The cluster; of topics that a pipeline publishes also that pipeline's incarnation, whose positions they have.
    """
    if not is_of_topics(offset):
        return ""
    known = from_json(offset)
    if known.published is None:
        return f"cluster {known.cluster}"
    incarnation = known.published.get("incarnation")
    return f"cluster {known.cluster}, published by incarnation {incarnation}" if incarnation else ""


def begin(store: Store, pipeline: str, registrations: Sequence[Registration]) -> tuple[Registration, ...]:
    """Catch up with all registrations of a pipeline, and return those that take its segments. Raises StoreError.

    Says to the writers of the other sides which versions of the events' text this one makes.
    """
    found = []
    for one in registrations:
        try:
            catch_up(store, pipeline, one)
            segment_register.announce(store, one.register.audit, one.side, TEXTS)
            found.append(one)
        except ConfigError as error:  # no audit keeps a pipeline from cutting
            extra = {"action": "segments_not_registered", "pipeline": pipeline, "audit": one.register.audit}
            log.warning("%s: its segments are not registered for %s: %s", pipeline, one.register.audit, error, extra=extra)
    return tuple(found)


def choose_texts(store: Store, registrations: Sequence[Registration]) -> tuple[int, ...]:
    """Return the versions of the events' text that the next segments are hashed in, the newest first. Raises StoreError.

    While the other side's writer makes another newest one, as during an upgrade, or its segments that wait have another, these are several.
    """
    if len(TEXTS) == 1:
        return choose_versions(())
    return choose_versions(
        versions for one in registrations for versions in segment_register.needed_versions(store, one.register.audit, one.side)
    )


def _server(url: str) -> tuple[Any, ...]:
    """Return what two URLs have in common that lead to one server. Raises BadUrl."""
    parsed = dialects.parse_url(url)
    dialect = dialects.by_scheme(parsed.scheme)
    return parsed.host, parsed.port or dialect.addresses.DEFAULT_PORT, parsed.options.get("unix_socket")
