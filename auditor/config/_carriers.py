"""Which pipeline carries the table of an audit from its source to its target, and what an audit may ask of it."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

import dialects
from auditor.config._audit import Audit, SideRef, TopicRef
from auditor.config._connection import ConnectionSettings
from auditor.config._pipeline import Pipeline
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


TOPIC_SCHEMA = "main"
"""The schema of the table into which a run reads a topic."""


def find_carriers(
    read: SideRef, target: SideRef, pipelines: Mapping[str, Pipeline], connections: Mapping[str, ConnectionSettings]
) -> list[Carrier]:
    """Return the pipelines and targets that bring a table of an audit's source to the table, or the topic, of its target."""
    if isinstance(read, TopicRef):
        return []
    source, into = read.place.parts, target.place.parts
    if not source or not into:
        return []
    carriers: list[Carrier] = []
    for name, pipeline in pipelines.items():
        by = pipeline.log_source
        if by is None or not _is_same(connections, by.connection, read.connection):
            continue
        home = _database(connections[by.connection])
        database = source[-2] if len(source) > 1 else home
        if not pipeline.replicates(source[-1], database, home):
            continue
        outputs = pipeline.columns_of(source[-1]).outputs(source[-1])
        if isinstance(target, TopicRef):
            carriers += [
                Carrier(name, database, source[-1], output, where, topics_name, TOPIC_SCHEMA)
                for topics_name, topics in pipeline.topic_targets.items()
                for output, where in outputs.items()
                if topics.broker == target.broker and topics.topic_of(name, topics_name, f"{database}.{output}") == target.topic
            ]
            continue
        for chosen_name, chosen in pipeline.table_targets.items():
            if not _is_same(connections, chosen.connection, target.connection):
                continue
            for output, where in outputs.items():
                schema, table = chosen.place_in(database, output)
                if into[-1].lower() == table.lower() and into[-2:-1] in ((), (schema,)):
                    carriers.append(Carrier(name, database, source[-1], output, where, chosen_name, schema))
    return carriers


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
    with suppress(BadUrl):  # reported when a run connects
        dialect = dialects.by_scheme(dialects.parse_url(connections[audit.target.connection].url).scheme)
        if dialect.is_written and dialect.writing.WRITES_COMMITS:
            written = f"{dialect.name} tables are written by commits of single tables, and audits of them are not aligned"
            return f"{written}; remove {_setting(audit)}"
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
