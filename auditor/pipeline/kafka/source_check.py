"""Check what a pipeline needs of the topics that it reads, and what of them will stop it later."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal, TypeAlias

import pyarrow.compute as pc

from auditor.config import Settings, is_pattern
from auditor.errors import AuditorError, BrokerDenied, BrokerError, PositionLost, TopicRefused
from auditor.escaping import shell_word
from auditor.pipeline.events import TableSchema, place_text
from auditor.pipeline.incarnation import packed
from auditor.pipeline.kafka.broker import open_consumer, translated
from auditor.pipeline.kafka.offsets import Range, from_json
from auditor.pipeline.kafka.topic_cluster import TopicCluster, may_use_group, missing_rights, open_cluster
from auditor.pipeline.kafka.topic_reading import CONSUMER, Gap, read_messages, read_range, reader_of
from auditor.pipeline.kafka.topic_stream import check_cluster
from auditor.pipeline.kafka.topics import Topic, read_settings
from auditor.pipeline.messages.registry import shared_registry

LEAST_RETENTION = 86400
"""Seconds for which topics should keep messages, so that a pipeline that stood still for a night can continue."""

SAMPLE = 20
"""Messages at the end of a topic by which its columns are found out."""

Result: TypeAlias = tuple[Literal["error", "warning", "note"], str, str]
"""How grave it is, what it is about, and a sentence."""


def check_source_topics(settings: Settings, name: str) -> Iterator[Result]:
    """Yield what keeps topics from being read, and what may do so later. Raises ConfigError, and BrokerError where a request fails."""
    cluster = open_cluster(settings, name)
    source, subject = cluster.source, f"source {cluster.source.broker}"
    try:
        cluster.identify()
        found = cluster.find()
    except BrokerError as error:
        yield "error", subject, str(error)
        return
    for topic in source.topics:
        if not is_pattern(topic) and topic not in found:
            yield "error", f"topic {topic}", f"it is not on the broker {source.broker}; make it, or correct source: topics"
        elif is_pattern(topic) and not any(source.find(one) is source.topics[topic] for one in found):
            yield "warning", f"topic {topic}", f"no topic of the broker {source.broker} fits this yet"
    for topic in missing_rights(cluster, list(found)):
        yield "error", f"topic {topic}", "the account may not read it; grant READ on the topic"
    if not may_use_group(cluster, group := source.group_of(name)):
        yield "error", f"group {group}", "the account may not use it; grant READ on the consumer group, or name another one (source: group)"
    tables: dict[str, str] = {}
    for topic in found:
        table = source.table_of(topic)
        if table.count(".") != 1:
            yield "error", f"topic {topic}", "its name has no database and table; name it under source: topics with table: database.table"
        elif (other := tables.setdefault(table.lower(), topic)) != topic:
            yield "error", f"topic {topic}", f"it has the table {table}, as the topic {other} does, and both have no order; leave one out"
    yield from _check_retention(cluster, found, bool(settings.pipeline(name).segment))
    yield from _check_registry(cluster)
    if published := source.published_by:
        own = published.positions_topic, published.statements_topic
        for topic in {*own} - {*cluster.describe(own)}:
            yield "error", f"topic {topic}", f"the pipeline {published.pipeline} has not made it yet; start that pipeline first"


def _check_retention(cluster: TopicCluster, found: Mapping[str, Topic], is_segmented: bool) -> Iterator[Result]:
    """Yield which topics forget messages before a pipeline that stood still for a night has read them, or one with segments has."""
    try:
        settings = read_settings(cluster.admin, list(found), cluster.timeout) if found else {}
    except BrokerDenied as error:
        why = f"what topics forget is not checked, because the account may not see their settings: {error}; grant DESCRIBE_CONFIGS on them"
        yield "warning", f"source {cluster.source.broker}", why
        return
    for topic, values in settings.items():
        kept, policy = int(values.get("retention.ms") or -1) / 1000, str(values.get("cleanup.policy"))
        if "delete" in policy and 0 <= kept < LEAST_RETENTION:
            sentence = (
                f"its messages are deleted after {kept:,.0f} s; a pipeline that is stopped for longer misses some, and its table stops"
            )
            yield "warning", f"topic {topic}", f"{sentence}; raise retention.ms"
        if "compact" in policy and is_segmented:
            sentence = (
                "it is compacted: of messages that it forgot before one side of a segment audit read them, the segments of both differ"
            )
            yield "warning", f"topic {topic}", f"{sentence}; raise min.compaction.lag.ms, so that both read them before"
        tombstones = int(values.get("delete.retention.ms") or 0) / 1000
        if "compact" in policy and tombstones < LEAST_RETENTION:
            sentence = (
                f"compaction removes its tombstones after {tombstones:,.0f} s, and a pipeline that is stopped for longer cannot see that:"
                " rows that were deleted would stay in the targets; raise delete.retention.ms"
            )
            yield "warning", f"topic {topic}", sentence


def _check_registry(cluster: TopicCluster) -> Iterator[Result]:
    """Yield why the registry beside a broker does not answer."""
    registry = cluster.broker.registry
    if registry is None:
        return
    try:
        shared_registry(registry).check()
    except AuditorError as error:
        yield "error", f"registry {registry.url}", str(error)


def sample_schemas(settings: Settings, name: str) -> Iterator[tuple[str, TableSchema | str]]:
    """Yield what the last messages of topics say of their tables: the columns, or a sentence why they are not known yet.

    Raises BrokerError.
    """
    cluster = open_cluster(settings, name)
    found = cluster.find()
    partitions = [(topic.name, number) for topic in found.values() for number in range(topic.partitions)]
    begins, ends = cluster.begins(partitions), cluster.ends(partitions)
    consumer = open_consumer(cluster.broker, cluster.source.group_of(name), CONSUMER)
    try:
        for topic in found:
            last = max((one for one in partitions if one[0] == topic), key=lambda one: ends[one] - begins[one])
            start = max(begins[last], ends[last] - SAMPLE)
            table, why = cluster.source.table_of(topic), "it has no message yet, so that its columns are not known"
            schema: TableSchema | None = None
            messages = [one for one in read_range(consumer, Range(topic, last[1], start, ends[last], 0)) if not isinstance(one, Gap)]
            read = read_messages(reader_of(cluster.source, cluster.broker, topic), messages, range(len(messages)))
            for batch in read.events:
                for body in batch.filter(pc.equal(batch["kind"], "schema"))["after"].to_pylist():
                    schema = TableSchema.from_json(body[0])
            for number, reason in read.refused:
                why = f"its message {last[1]}:{messages[number].offset()} cannot be read, and would stop the table {table}: {reason}"
            yield f"topic {topic}", schema or why
    finally:
        with translated("the consumer"):
            consumer.close()


def check_retained(settings: Settings, name: str, offset: Mapping[str, Any]) -> None:
    """Check that topics still have what follows an offset. Raises SourceReplaced, TopicRefused, PositionLost and BrokerError."""
    cluster, known = open_cluster(settings, name), from_json(offset)
    check_cluster(cluster, known.cluster)
    there = cluster.find()
    partitions = [(topic, number) for topic, one in known.topics.items() if topic in there for number in range(len(one.ends))]
    begins, ends = cluster.begins(partitions), cluster.ends(partitions)
    way_out = f"reset the pipeline without this (auditor pipeline reset {shell_word(name)})"
    for topic, one in known.topics.items():
        if topic not in there or there[topic].id != one.id:
            raise TopicRefused(f"the topic {topic} was deleted{' and made again' if topic in there else ''}; {way_out}")
        for number, end in enumerate(one.ends):
            if not begins[topic, number] <= end <= ends[topic, number]:
                raise PositionLost(
                    f"the targets are at {place_text(packed(offset))}, at offset {end} of partition {number} of the topic {topic}, which"
                    f" has offsets from {begins[topic, number]} to {ends[topic, number]}; {way_out}"
                )
