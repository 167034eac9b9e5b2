"""Trace rows through a topic that somebody else fills, or reads: from the source's table into the topic, and from that into the target's.

The source's row is read before and after all else, with the source's clock; then how far the sink has committed, the target's row, and the
topic, up to where it ends then: so it has all messages that the target can hold. A row is lost on the way into the topic only if the
connector has passed by: if the last message of the row's partition is of a change that the source committed after its row was read, as
connectors publish each partition in the log's order. It is lost behind the topic only if the sink has committed the row's latest message.
"""

from __future__ import annotations

import datetime as dt
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from auditor.api_models.trace import Trace, TracedEvent, TracedPartition, TracedRow, TracedTopic
from auditor.compare.accounting import Key
from auditor.config import Audit, Settings, ThroughTopic
from auditor.durations import durations
from auditor.errors import AuditorError, StatementCancelled, TraceRefused
from auditor.pipeline.kafka.broker import open_admin
from auditor.pipeline.kafka.topics import list_committed
from auditor.pipeline.key_history import Version
from auditor.pipeline.topic_side.fixed_topic import FixedTopic, fix_topic
from auditor.pipeline.topic_side.key_messages import KeyMessages, Placed
from auditor.pipeline.topic_side.messages import read_topic
from auditor.pipeline.topic_side.scratch import describe_removed
from auditor.planning.watermark import read_clock
from auditor.service.trace.rows import SHOWN_EVENTS, Answer, KeyRows, Rows, find_several, in_flight, lost, unknown


@dataclass(frozen=True, slots=True)
class _Look:
    """The rows of both sides, what the topic has of them, and how far the sink is."""

    source: Rows
    target: Rows
    clock: dt.datetime
    """The source's clock behind the first look at its rows."""
    changing: set[Key]
    """Keys whose row in the source changed since."""
    topic: FixedTopic
    messages: KeyMessages
    committed: Mapping[int, int]
    """By partition, up to which offset the sink had committed before the target's rows were read."""
    unread: str
    """Why the topic could not be read; '' if it was."""

    @property
    def is_in_order(self) -> bool:
        """Whether messages say when their changes were committed, by one connector, which publishes each partition in that order."""
        return len(self.messages.origins) == 1

    def has_passed(self, partitions: Sequence[int]) -> bool:
        """Return whether these partitions have everything that the source had committed when its rows were read."""
        since = (self.second + 1) * 1000  # servers write whole seconds into their logs
        return self.is_in_order and all(self.messages.last_committed.get(number, 0) >= since for number in partitions)

    @property
    def second(self) -> int:
        """The second of the source's clock, since 1970."""
        return int(self.clock.replace(tzinfo=dt.UTC).timestamp())


@dataclass(slots=True)
class TopicTrace:
    """Traces rows of one audit that come by the topic which it names."""

    settings: Settings
    audit: Audit
    rows: KeyRows
    stopped: threading.Event
    ref: ThroughTopic = field(init=False)

    def __post_init__(self) -> None:
        assert self.audit.through, "others are traced through pipelines"
        self.ref = self.audit.through
        if self.audit.where is not None and not isinstance(self.audit.where, str):
            raise TraceRefused("messages are filtered by one text for both sides; write where of the audit as one")

    def run(self, name: str, run: str | None, further: int) -> Trace:
        """Trace the keys."""
        look = self._look()
        judged = self._judge(look)
        if self._waits_for_connector(look, judged):
            look = self._read_further(look)
            judged = self._judge(look)
        if any(one.answer[0] == "lost" for one in judged):
            # What a sink has committed it may write a moment later.
            self.stopped.wait(durations().trace_pause)
            look = self._look_again(look)
            judged = self._judge(look)
        read = self.audit.one_source("a trace")
        return Trace(
            audit=name,
            run=run,
            pipeline=None,
            published_by=self.ref.published_by.pipeline if self.ref.published_by else None,
            table=read.table,
            target=self.audit.target.table,
            topic=self._describe(look),
            staged_through=None,
            merged_through=None,
            kept_from=None,
            not_compared=look.messages.not_told,
            rows=[one.row() for one in judged],
            hops=[],
            further=further,
        )

    # reading

    def _look(self) -> _Look:
        source = self.rows.read("source")
        clock = self.rows.reader.ask_side("source", lambda _, session: read_clock(session))
        where = str(self.audit.where or "")
        return self._read_rest(source, clock, KeyMessages(self.rows.plan, where, self.rows.keys), None)

    def _look_again(self, look: _Look) -> _Look:
        return self._read_rest(look.source, look.clock, look.messages, look.topic)

    def _read_rest(self, source: Rows, clock: dt.datetime, messages: KeyMessages, before: FixedTopic | None) -> _Look:
        """Read how far the sink is, the target, the topic from where it was read ``before``, and the source again."""
        fixed = before or fix_topic(self.settings, self.ref)
        committed = self._committed(fixed)
        target = self.rows.read("target")
        now, unread = fix_topic(self.settings, self.ref), ""
        if now.topic.id != fixed.topic.id:
            raise TraceRefused(f"topic {self.ref.label} was made again meanwhile; trace again")
        rest = now if before is None else replace(now, begins=before.ends)
        try:
            read_topic(rest, messages, partial(self.rows.reader.report, "source", "reading the topic"), self.stopped)
        except StatementCancelled:
            raise
        except AuditorError as error:
            unread = str(error)
        changing = self.rows.find_changing(source, self.rows.read("source"))
        return _Look(source, target, clock, changing, now, messages, committed, unread)

    def _committed(self, fixed: FixedTopic) -> dict[int, int]:
        if self.ref.group is None:
            return {}
        return list_committed(open_admin(fixed.broker), self.ref.group, fixed.topic, fixed.broker.timeout)

    def _read_further(self, look: _Look) -> _Look:
        """Read on until the topic shows that the connector has passed by, or for a while."""
        until = time.monotonic() + durations().hold_reach
        while True:
            self.stopped.wait(durations().trace_pause)
            look = self._look_again(look)
            is_over = self.stopped.is_set() or time.monotonic() > until
            if is_over or look.unread or not self._waits_for_connector(look, self._judge(look)):
                return look

    def _waits_for_connector(self, look: _Look, judged: Sequence[_Judgement]) -> bool:
        """Return whether rows are not as the topic has them, and it does not show yet that the connector has passed by."""
        return look.is_in_order and any(one.is_source_ahead and not look.has_passed(one.partitions) for one in judged)

    def _judge(self, look: _Look) -> list[_Judgement]:
        return [_Judgement(self, key, look, look.messages.versions(key)) for key in self.rows.keys]

    def _describe(self, look: _Look) -> TracedTopic:
        committed = look.committed
        partitions = [
            TracedPartition(partition=number, begin=look.topic.begins[number], end=end, committed=committed.get(number))
            for number, end in look.topic.ends.items()
        ]
        return TracedTopic(
            label=self.ref.label,
            partitions=partitions,
            messages=look.messages.messages,
            group=self.ref.group,
            removed=describe_removed(look.topic),
        )


@dataclass(frozen=True, slots=True)
class _Judgement:
    """What is known of one row, and what follows."""

    tracing: TopicTrace
    key: Key
    look: _Look
    versions: Sequence[Version]
    """What messages made of it, in the order of their offsets."""

    @property
    def partitions(self) -> list[int]:
        """The partitions in which messages of the row are, or may come."""
        return sorted({self._placed(version).partition for version in self.versions}) or [*self.look.topic.ends]

    @property
    def is_source_ahead(self) -> bool:
        """Whether the source's row is not as the topic has it."""
        if self.look.unread or self.key in self.look.changing or self._are_equal():
            return False
        if not self.versions:
            return bool(self.look.source.get(self.key))
        return not self.tracing.rows.is_in_source(self.look.source, self.key, self.versions[-1])

    def row(self) -> TracedRow:
        """Return at which hop the row was lost."""
        outcome, hop, sentence = self.answer
        names = [column.name for column in self.tracing.rows.plan.key_columns]
        shown = [self._event(version) for version in self.versions[-SHOWN_EVENTS:]]
        return TracedRow(key=dict(zip(names, self.key, strict=True)), outcome=outcome, hop=hop, sentence=sentence, events=shown)

    def _event(self, version: Version) -> TracedEvent:
        placed = self._placed(version)
        place = placed.source_place
        return TracedEvent(
            position=None if place is None else f"{place}:{placed.row}",
            offset=placed.at,
            gtid=placed.gtid,
            time=placed.time,
            kind=version.kind,
            file=None,
            sha256=None,
            merged=self._is_committed(placed),
            source=self.tracing.rows.is_in_source(self.look.source, self.key, version),
            target=self._is_in_target(version),
        )

    @property
    def answer(self) -> Answer:
        """At which hop the row was lost, and why that is known."""
        look = self.look
        if several := find_several(look.source, look.target, self.key):
            return unknown(several)
        if settled := self.tracing.rows.settle(look.source, look.target, self.key, has_events=bool(self.versions)):
            return settled
        if self.key in look.changing:
            return in_flight("the source's row changed while it was traced; trace it again")
        if look.unread:
            return unknown(f"the topic cannot be read: {look.unread}")
        if not self.versions:
            return self._without_message()
        if len(self.partitions) > 1:
            places = " and ".join(map(str, self.partitions))
            return unknown(f"its messages are in the partitions {places} of the topic, which have no order")
        last = self.versions[-1]
        if not self.tracing.rows.is_in_source(look.source, self.key, last):
            return self._before_topic(last)
        return self._behind_topic(last)

    def _without_message(self) -> Answer:
        look, topic = self.look, self.look.topic
        if describe_removed(topic) and "delete" in (topic.policy or "delete"):
            return unknown(f"the topic has no message of it, and {describe_removed(topic)}")
        if look.source.get(self.key):
            if self._has_passed():
                return lost("capture", f"the topic has no message of it, and in each of its partitions {self._later()}")
            return unknown(f"the topic has no message of it, and {self._not_later()}")
        return unknown(
            "neither the source nor the topic has the row: it came into the target before the topic began, or by others, or the sink missed"
            " its deletion, whose message the topic no longer has"
        )

    def _before_topic(self, last: Version) -> Answer:
        """Say whether what the source has was lost on its way into the topic."""
        look, placed = self.look, self._placed(last)
        if placed.committed is not None and placed.committed >= look.second * 1000:
            return unknown(f"{self._text(last)} may be of a change that was made while the row was traced; trace it again")
        left = f"the source's row is not as the latest message of it left it, {self._text(last)}"
        if not self._has_passed():
            return unknown(f"{left}, and {self._not_later()}")
        if later := next((version for version in reversed(self.versions) if placed.is_before(self._placed(version))), None):
            behind = f"that is of an earlier change than {self._text(later)}, behind which it stands"
            return lost("capture", f"{left}: {behind}, and {self._later()}")
        return lost("capture", f"{left}, and in its partition {self._later()}: what the source has was not published")

    def _behind_topic(self, last: Version) -> Answer:
        """Say whether the sink lost what the topic has."""
        placed, group = self._placed(last), self.tracing.ref.group
        if self._is_in_target(last):
            others = "; ".join(self.look.messages.not_told.values()) or "those that the table got later"
            return unknown(f"the row differs only in columns of which messages do not tell what the audit compares: {others}")
        if group is None:
            return unknown(
                f"{self._text(last)} has the source's row, and it is not known whether what fills the target has read it; name its consumer"
                " group in the audit (through: {group: ...})"
            )
        end = self.look.committed.get(placed.partition)
        if end is None:
            return unknown(f"the consumer group {group} has committed no offset of partition {placed.partition}, so that it shows nothing")
        if placed.offset >= end:
            return self._behind_committed(last, end)
        read = f"the sink's group {group} has read the partition up to offset {end}"
        number = next((number for number in range(len(self.versions) - 2, -1, -1) if self._is_in_target(self.versions[number])), None)
        if number is not None:
            before = self.versions[number + 1]
            why = "it was not applied, or undone in the target by others, or by an older message that was applied behind it"
            return lost("sink", f"the target's row is as before {self._text(before)}: {why}; {read}")
        is_whole = self.versions[0].kind in ("insert", "refresh")  # else the row may be as before the first message that is kept
        if is_whole and not self.look.target.get(self.key):
            return lost("sink", f"the target does not have the row of {self._text(last)}: it was not applied, or others deleted it; {read}")
        left = f"the target's row is not as {self._text(last)} left it, nor as any message before it"
        how = "applied wrongly" if is_whole else "not applied, or wrongly"
        return lost("sink", f"{left}: it was {how}, or changed in the target by others; {read}")

    def _behind_committed(self, last: Version, end: int) -> Answer:
        """Say what is known where the sink has not committed the row's latest message."""
        done = [version for version in self.versions if self._placed(version).offset < end]
        waiting = f"{self._text(last)} is in the topic, and the sink's group has read its partition up to offset {end}"
        if not done or any(self._is_in_target(version) for version in (*self.versions[len(done) :], done[-1])):
            return in_flight(waiting)
        return lost("sink", f"the target's row is not as {self._text(done[-1])} left it, nor as any message behind it; {waiting}")

    def _are_equal(self) -> bool:
        return self.tracing.rows.are_equal(self.look.source, self.look.target, self.key)

    def _is_in_target(self, version: Version) -> bool:
        return self.tracing.rows.is_in_target(self.look.target, self.key, version)

    def _has_passed(self) -> bool:
        return self.look.has_passed(self.partitions)

    def _is_committed(self, placed: Placed) -> bool | None:
        end = self.look.committed.get(placed.partition)
        return None if end is None else placed.offset < end

    def _placed(self, version: Version) -> Placed:
        return self.look.messages.placed(version)

    def _later(self) -> str:
        return f"there is a message of a change that was committed after the row was read ({self.look.clock:%Y-%m-%d %H:%M:%S} UTC)"

    def _not_later(self) -> str:
        """Return why it is not known whether the connector has passed by, as a clause."""
        if not self.look.messages.last_committed:
            return "its messages do not say when the source committed their changes, so that the row's may be on its way"
        if len(self.look.messages.origins) > 1:
            return "several connectors write the topic, so that its messages do not say what is on its way"
        where = "its partition" if self.versions else "each of its partitions"
        return f"the last message in {where} is of no later change, so that the row's may be on its way; trace it after the next one"

    def _text(self, version: Version) -> str:
        placed = self._placed(version)
        what = "message that emptied the table" if version.kind == "clear" else f"message at {placed.at}"
        place = f"{version.kind}, {placed.source_place}" if placed.source_place else version.kind
        return f"the {what} ({place}, {placed.time:%Y-%m-%d %H:%M:%S} UTC)"
