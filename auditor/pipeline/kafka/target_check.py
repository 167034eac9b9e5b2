"""Check what a target that is topics needs of its broker, its registry and its topics, and say all that is missing at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal

from auditor.config import Settings
from auditor.errors import AuditorError
from auditor.pipeline.events import TableSchema
from auditor.pipeline.kafka.broker import open_admin, translated
from auditor.pipeline.kafka.table_messages import refuse_registry
from auditor.pipeline.kafka.target_topics import refuse_keyless
from auditor.pipeline.kafka.topics import describe_topics, read_settings, refuse_settings
from auditor.pipeline.messages.registry import shared_registry

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient, DescribeClusterResult

    from auditor.config import Broker, TopicTarget

Said = tuple[Literal["error", "warning", "note"], str]
"""How grave something is, and a sentence."""

LONGEST_TRANSACTION = "transaction.max.timeout.ms"


def check_topics(settings: Settings, pipeline: str, target: str, schemas: Sequence[TableSchema]) -> Iterator[Said]:
    """Yield what stands against publishing these tables, and what is worth a note; an error of the broker is one of them."""
    chosen = settings.pipeline(pipeline).topic_targets[target]
    broker = settings.brokers[chosen.broker]
    try:
        admin = open_admin(broker)
        yield from _check_cluster(broker, admin, chosen)
        yield from _check_each(broker, admin, chosen, pipeline, target, schemas)
    except AuditorError as error:
        yield "error", str(error)
    if chosen.messages.has_registry:
        if broker.registry is None:
            yield "error", refuse_registry(chosen)
        else:
            try:
                shared_registry(broker.registry).check()
            except AuditorError as error:
                yield "error", str(error)


def _check_cluster(broker: Broker, admin: AdminClient, chosen: TopicTarget) -> Iterator[Said]:
    from confluent_kafka.admin import AclOperation, ConfigResource

    with translated("the cluster"):
        cluster: DescribeClusterResult = admin.describe_cluster(include_authorized_operations=True, request_timeout=broker.timeout).result(
            broker.timeout
        )
        resource = ConfigResource(ConfigResource.Type.BROKER, str(cluster.controller.id))
        found = admin.describe_configs([resource], request_timeout=broker.timeout)[resource].result(broker.timeout)
    longest = int(found[LONGEST_TRANSACTION].value) if LONGEST_TRANSACTION in found else None
    if longest is not None and longest < chosen.timeout * 1000:
        yield (
            "error",
            f"timeout is {chosen.timeout:g} s, and the broker allows transactions of {longest / 1000:g} s ({LONGEST_TRANSACTION}); lower"
            " the one, or raise the other",
        )
    allowed = cluster.authorized_operations
    if chosen.make and allowed and AclOperation.CREATE not in allowed and AclOperation.ALL not in allowed:
        yield (
            "warning",
            "the account may not CREATE topics in the whole cluster; let it make those of the target, or make them yourself",
        )


def _check_each(
    broker: Broker, admin: AdminClient, chosen: TopicTarget, pipeline: str, target: str, schemas: Sequence[TableSchema]
) -> Iterator[Said]:
    names = {f"{schema.database}.{schema.table}": schema for schema in schemas}
    topics: dict[str, list[str]] = {}
    for table in names:
        topics.setdefault(chosen.topic_of(pipeline, target, table), []).append(table)
    for topic, tables in topics.items():
        if len(tables) > 1:
            yield "error", f"{' and '.join(sorted(tables))} would both be topic {topic}; give one of them a name of its own (tables: name)"
    found = describe_topics(admin, list(topics), broker.timeout)
    settings = read_settings(admin, list(found), broker.timeout) if found else {}
    missing = sorted(set(topics) - set(found))
    if missing:
        named = f"{', '.join(missing[:3])}{' and others' if len(missing) > 3 else ''}"
        yield ("note", f"topics are made: {named}") if chosen.make else ("error", f"there is no topic {named}, and make is false")
    for name, described in found.items():
        if why := refuse_settings(described, settings.get(name, {}), chosen.partitions_of(topics[name][0]), chosen.made_with):
            yield "error", why
    for table, schema in names.items():
        if why := refuse_keyless(table, schema, chosen):
            yield "error", why
