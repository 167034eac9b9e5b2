"""Which pipeline carries the table of an audit from its source to its target, and what an audit may ask of it."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

import dialects
from auditor.config._audit import Audit
from auditor.config._base import suggest
from auditor.config._connection import ConnectionSettings
from auditor.config._pipeline import Pipeline
from auditor.config._sides import QueryRef, SideRef, TableRef, TopicRef
from auditor.errors import BadUrl


@dataclass(frozen=True, slots=True)
class Carrier:
    """A pipeline that carries a table into a target."""

    pipeline: str
    database: str
    """The table's database in the source."""
    table: str
    """Its name there."""
    output: str
    """What the stream calls it: the name of the route by which rows come into the target's table, else the same."""
    where: str | None
    """Which rows the pipeline carries there; None for all."""
    target: str
    """The pipeline's name of the target."""
    schema: str
    """The target's schema."""
    placed: str = ""
    """What the table is called there; empty for a topic."""

    @property
    def place(self) -> tuple[str, str]:
        """The schema and the name that the table has in the target."""
        return self.schema, self.placed


TOPIC_SCHEMA = "main"
"""The schema of the table into which a run reads a topic."""


def find_carriers(
    read: SideRef, target: SideRef, pipelines: Mapping[str, Pipeline], connections: Mapping[str, ConnectionSettings]
) -> list[Carrier]:
    """Return the pipelines and targets that bring a table of an audit's source to the table, or the topic, of its target."""
    if not isinstance(read, TableRef) or isinstance(target, QueryRef):
        return []
    source, into = read.place.parts, target.place.parts
    if not source or not into:
        return []
    carriers: list[Carrier] = []
    for name, pipeline in pipelines.items():
        database = _read_database(read, pipeline, connections)
        if database is None:
            continue
        if isinstance(target, TopicRef):
            published = _find_published(read, name, pipeline, connections)
            carriers += [
                one
                for one in published
                if (pipeline.topic_targets[one.target].broker, _topic_of(one, pipeline)) == (target.broker, target.topic)
            ]
        else:
            carriers += _find_merged(name, pipeline, database, source[-1], target, connections)
    return carriers


def _find_merged(
    name: str, pipeline: Pipeline, database: str, table: str, target: TableRef, connections: Mapping[str, ConnectionSettings]
) -> list[Carrier]:
    """Return by which of its targets a pipeline brings a table that it reads to an audit's target."""
    into, carriers = target.place.parts, list[Carrier]()
    for chosen_name, chosen in pipeline.table_targets.items():
        if not _is_same(connections, chosen.connection, target.connection):
            continue
        for output, where in pipeline.columns_of(table).outputs(table).items():
            schema, placed = chosen.place_in(database, output)
            if into[-1:] and into[-1].lower() == placed.lower() and into[-2:-1] in ((), (schema,)):
                carriers.append(Carrier(name, database, table, output, where, chosen_name, schema, placed))
    return carriers


def _find_published(read: TableRef, name: str, pipeline: Pipeline, connections: Mapping[str, ConnectionSettings]) -> list[Carrier]:
    """Return into which of its targets that are topics a pipeline publishes a table of an audit's source."""
    database, table = _read_database(read, pipeline, connections), read.place.parts[-1]
    if database is None:
        return []
    outputs = pipeline.columns_of(table).outputs(table).items()
    return [
        Carrier(name, database, table, output, where, target, TOPIC_SCHEMA)
        for target in pipeline.topic_targets
        for output, where in outputs
    ]


def _topic_of(carrier: Carrier, pipeline: Pipeline) -> str:
    """Return the topic into which a pipeline publishes a table."""
    return pipeline.topic_targets[carrier.target].topic_of(carrier.pipeline, carrier.target, f"{carrier.database}.{carrier.output}")


def _read_database(read: TableRef, pipeline: Pipeline, connections: Mapping[str, ConnectionSettings]) -> str | None:
    """Return the database of a table of an audit's source if a pipeline reads it in the log of its server; None if it does not."""
    source, by = read.place.parts, pipeline.log_source
    if not source or by is None or not _is_same(connections, by.connection, read.connection):
        return None
    home = _database(connections[by.connection])
    database = source[-2] if len(source) > 1 else home
    return database if pipeline.replicates(source[-1], database, home) else None


@dataclass(frozen=True, slots=True)
class Chain:
    """The pipelines by which a table comes into an audit's target."""

    last: Carrier
    """The one that merges into the target."""
    feed: Carrier | None = None
    """The one before it, which publishes the topics that the last one reads; None where that reads the source's log."""

    @property
    def first(self) -> Carrier:
        """The one that reads the source's log."""
        return self.feed or self.last


def find_chains(
    read: SideRef, target: SideRef, pipelines: Mapping[str, Pipeline], connections: Mapping[str, ConnectionSettings]
) -> list[Chain]:
    """Return the chains of pipelines that bring a table of an audit's source to that of its target."""
    chains = [Chain(one) for one in find_carriers(read, target, pipelines, connections)]
    if not (isinstance(read, TableRef) and isinstance(target, TableRef)):
        return chains
    for name, pipeline in pipelines.items():
        topics = pipeline.topic_source
        feed = pipelines.get(topics.published_by.pipeline) if topics and topics.published_by else None
        if not topics or not topics.published_by or not feed:
            continue
        for before in _find_published(read, topics.published_by.pipeline, feed, connections):
            topic = _topic_of(before, feed)
            if before.target != topics.published_by.target or topics.find(topic) is None:
                continue
            database, _, table = topics.table_of(topic).partition(".")
            chains += [Chain(one, before) for one in _find_merged(name, pipeline, database, table, target, connections)]
    return chains


def find_unalignable(
    audits: Mapping[str, Audit], pipelines: Mapping[str, Pipeline], connections: Mapping[str, ConnectionSettings]
) -> list[tuple[tuple[str, ...], str]]:
    """Return which audits cannot be aligned as they ask for: where that is written, and a sentence.

    One whose pipeline reads another server is not among them: a failover leads the pipeline elsewhere, and must not leave a configuration
    that is refused. Its runs say why they are not aligned.
    """
    return [
        (("audits", name, "summaries" if audit.summaries else "align"), why)
        for name, audit in audits.items()
        if audit.align
        and not any(_reads_elsewhere(audit, read, pipelines, connections) for read in audit.sources)
        and (why := why_not_aligned(audit, pipelines, connections))
    ]


def why_not_aligned(audit: Audit, pipelines: Mapping[str, Pipeline], connections: Mapping[str, ConnectionSettings]) -> str:
    """Return why an audit cannot be aligned, as a sentence; '' if it can. Every shard of its source needs a pipeline of its own."""
    if any(ref.connection not in connections for ref in (*audit.sources, audit.target) if not isinstance(ref, TopicRef)):
        return ""  # reported on its own
    carrying: dict[str, Carrier] = {}
    for read in audit.sources:
        carriers = find_carriers(read, audit.target, pipelines, connections)
        if len(carriers) > 1:
            names = ", ".join(f"{carrier.target} of {carrier.pipeline}" for carrier in carriers)
            return f"several targets of pipelines may hold {read.table} ({names}); write the target's table with its schema"
        if not carriers:
            return _why_not_carried(audit, read, pipelines, connections)
        carrying[read.label] = carriers[0]
    [first, *_] = carrying.values()
    if audit.summaries and (why := _why_not_summed_up(audit, first)):
        return why
    if why := _why_not_together(carrying):
        return why
    if isinstance(audit.target, TopicRef):
        by = audit.target.published_by
        if by is None or (by.pipeline, by.target) != (first.pipeline, first.target):
            said = f"published_by: {{pipeline: {first.pipeline}, target: {first.target}}}"
            return f"the topic is published by the pipeline {first.pipeline}, whose messages say their positions; add {said} to it"
        return ""
    return _why_no_commit(audit, connections[audit.target.connection]) if isinstance(audit.target, TableRef) else ""


def _why_no_commit(audit: Audit, target: ConnectionSettings) -> str:
    """Return why a target whose tables are written by commits cannot serve an audit; '' if it can."""
    with suppress(BadUrl):  # reported when a run connects
        dialect = dialects.by_scheme(dialects.parse_url(target.url).scheme)
        if not (dialect.is_written and dialect.writing.WRITES_COMMITS):
            return ""
        written = f"{dialect.name} tables are written by commits of single tables"
        if audit.ledger:
            return f"{written}, which have no room for a ledger; remove ledger"
        if isinstance(audit.target, TableRef) and (audit.target.version is not None or audit.target.timestamp is not None):
            older = "the pipeline brings the newest version of a table to a position, and the target is an older one"
            return f"{older}; remove version, or {_setting(audit)}"
    return ""


def _setting(audit: Audit) -> str:
    return "summaries: live" if audit.summaries else "align"


def _why_not_summed_up(audit: Audit, carrier: Carrier) -> str:
    """Return why the stream does not show each change of a row that the audit compares; '' if it does."""
    if carrier.where is None or carrier.where == audit.where:
        return ""
    return (
        f"the pipeline {carrier.pipeline} carries only rows of {carrier.table} where {carrier.where}, so its stream cannot keep the"
        " summaries of other rows; write the same where in the audit, or remove summaries: live"
    )


def _why_not_together(carrying: Mapping[str, Carrier]) -> str:
    """Return why the carriers of shards, by the shards' labels, do not fill one table, each with its own rows; '' if they do."""
    (first, leader), *others = carrying.items()
    for label, other in others:
        if other.schema != leader.schema:
            return (
                f"{first} and {label} are carried into different schemas ({leader.schema} by {leader.pipeline}, {other.schema} by"
                f" {other.pipeline}); write the target's table with its schema"
            )
    labels: dict[tuple[str, str, str], list[str]] = {}
    for label, carrier in carrying.items():
        labels.setdefault((carrier.pipeline, carrier.database, carrier.table), []).append(label)
    for (pipeline, _, _), same in labels.items():
        if len(same) > 1:
            return f"{' and '.join(same)} are one table, which the pipeline {pipeline} carries; remove one of these shards"
    return ""


def _why_not_carried(audit: Audit, read: SideRef, pipelines: Mapping[str, Pipeline], connections: Mapping[str, ConnectionSettings]) -> str:
    target = audit.target
    if elsewhere := _reads_elsewhere(audit, read, pipelines, connections):
        return elsewhere
    if carrying := _replicating(audit, read, pipelines, connections):
        refusal = f"the pipeline {carrying[0]} does not carry {read.table} into {target.table} of {target.connection}"
        return f"{refusal}; name a {'topic' if isinstance(target, TopicRef) else 'table'} of its targets"
    each = "; each shard needs one" if audit.shards else ""
    return f"no pipeline carries {read.table} of {read.connection} into {target.table}{each}; add it to one, or remove {_setting(audit)}"


def _reads_elsewhere(audit: Audit, read: SideRef, pipelines: Mapping[str, Pipeline], connections: Mapping[str, ConnectionSettings]) -> str:
    """Return that every pipeline which replicates a table of this name reads another server than the audit; '' if one does not."""
    carrying = _replicating(audit, read, pipelines, connections)
    if not carrying or any(_is_same(connections, pipelines[name].source_name, read.connection) for name in carrying):
        return ""
    by = pipelines[carrying[0]].source_name
    return (
        f"the pipeline {carrying[0]} reads {read.table} by the connection {by}, which leads elsewhere than {read.connection};"
        " audit the same server"
    )


def _replicating(
    audit: Audit, read: SideRef, pipelines: Mapping[str, Pipeline], connections: Mapping[str, ConnectionSettings]
) -> list[str]:
    """Return the pipelines that replicate a table of this name, without those that read another shard of the audit."""
    parts, others = read.place.parts, [source.connection for source in audit.sources if source is not read]
    return [
        name
        for name, pipeline in pipelines.items()
        if parts
        and pipeline.log_source
        and pipeline.replicates(parts[-1])
        and (
            _is_same(connections, pipeline.source_name, read.connection)
            or not any(_is_same(connections, pipeline.source_name, other) for other in others)
        )
    ]


def _database(connection: ConnectionSettings) -> str:
    """Return the name of the database that a connection leads to, whose tables a pipeline reads; '' if its URL is wrong."""
    try:
        return dialects.parse_url(connection.url).database
    except BadUrl:  # reported on its own
        return ""


def _is_same(connections: Mapping[str, ConnectionSettings], name: str, other: str) -> bool:
    if name == other:
        return True
    try:
        return connections[name].database == connections[other].database
    except (BadUrl, KeyError):  # reported on their own
        return False


def find_unordered(
    audits: Mapping[str, Audit], pipelines: Mapping[str, Pipeline], connections: Mapping[str, ConnectionSettings]
) -> list[tuple[tuple[str, ...], str]]:
    """Return which audits wait for a heartbeat that may overtake their rows: where that is written, and a sentence."""
    return [
        (
            ("audits", name, "settle", "barrier"),
            f"the pipeline {carrier.pipeline!r} merges each table on its own, so that a heartbeat may arrive before the rows of"
            f" {carrier.table}; remove barrier, and give a lag (lag: 10m)",
        )
        for name, audit in audits.items()
        if audit.settle and audit.settle.barrier is not None
        for read in audit.sources
        for carrier in find_carriers(read, audit.target, pipelines, connections)
    ]


def find_history_problems(
    audits: Mapping[str, Audit], pipelines: Mapping[str, Pipeline], connections: Mapping[str, ConnectionSettings]
) -> list[tuple[tuple[str, ...], str]]:
    """Return which audits name a pipeline that cannot keep the versions of their rows: where that is written, and a sentence."""
    return [
        (("audits", name, "history"), why)
        for name, audit in audits.items()
        if audit.history and (why := _why_no_history(audit, audit.history.pipeline, pipelines, connections))
    ]


def _why_no_history(audit: Audit, name: str, pipelines: Mapping[str, Pipeline], connections: Mapping[str, ConnectionSettings]) -> str:
    read = audit.one_source("history")
    if name not in pipelines:
        return f"there is no pipeline {name!r}{suggest(name, pipelines)}"
    pipeline = pipelines[name]
    if pipeline.history is None:
        return f"the pipeline {name} keeps no versions of rows; add history: {{}} to it"
    if read.connection not in connections or pipeline.source_name not in connections:
        return ""  # reported on its own
    if _read_database(read, pipeline, connections) is None:
        return f"the pipeline {name} does not read {read.table} of {read.connection}; add it to its source: tables, or name another one"
    rules = pipeline.columns_of(read.place.parts[-1])
    if rules.table or rules.where not in (None, audit.where):
        return f"the pipeline {name} does not stage every row of {read.table}; let another one keep its history, with targets: {{}}"
    return ""


def history_table(audit: Audit, pipeline: Pipeline, connections: Mapping[str, ConnectionSettings]) -> str:
    """Return what the stream of the pipeline that keeps an audit's history calls the audited table: ``database.table``."""
    read = audit.one_source("history")
    return f"{_read_database(read, pipeline, connections)}.{read.place.parts[-1]}"
