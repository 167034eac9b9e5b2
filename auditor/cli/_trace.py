"""The command trace: say at which hop of a pipeline rows of an audit were lost."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from auditor.cli._ending import stopped_by_signals
from auditor.cli._output import print_json, settings_and_store
from auditor.cli._progress import watching
from auditor.escaping import visible
from auditor.quantities import plural
from auditor.service import audits
from auditor.service.trace import HOP_NAMES, Asked, count_outcomes, trace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from auditor.api_models.trace import Trace, TracedEvent, TracedTopic

LOST, UNKNOWN = 1, 3
"""Exit codes: the hop of a row that was lost is known; of no row one is, and of some it cannot be told."""


def trace_rows(options: argparse.Namespace) -> int:
    """Trace rows, and return 0 if none is lost."""
    with (
        settings_and_store(options) as (configured, store),
        watching(options.quiet) as watch,
        stopped_by_signals("stopping; once more to interrupt it") as stopped,
    ):
        asked = Asked(options.key, options.limit, options.run in audits.with_defined_audits(configured, store).audits, stopped, watch)
        found = trace(configured, store, options.run, asked)
    if options.format == "json":
        print_json(found)
    else:
        for line in _lines(found):
            print(line)
    outcomes = {row.outcome for row in found.rows}
    return LOST if "lost" in outcomes else UNKNOWN if "unknown" in outcomes else 0


def _lines(found: Trace) -> Iterator[str]:
    of_run = f" of run {found.run[:12]}" if found.run else ""
    yield f"{visible(found.audit)}: {plural(len(found.rows), 'row')}{of_run}: {count_outcomes(found)}"
    for row in found.rows:
        key = ", ".join(f"{visible(name)} {visible(value or 'NULL')}" for name, value in row.key.items())
        yield ""
        yield f"{key}: {HOP_NAMES[row.hop] if row.hop else row.outcome.replace('_', ' ')}"
        yield f"  {visible(row.sentence)}"
        yield from (f"    {_event(event)}" for event in row.events)
    yield ""
    for hop in found.hops:
        at = f", at {visible(hop.position)}" if hop.position else ""
        yield f"{hop.verdict.value.upper()} {visible(hop.source)} -> {visible(hop.target)}{at}: {visible(hop.sentence)}"
    if found.hops:
        yield ""
    if found.topic:
        yield from _topic_lines(found.topic)
    if found.pipeline:
        holds = f"holds it up to {found.merged_through}" if found.merged_through else "says nothing of it"
        yield f"the pipeline {visible(found.pipeline)} staged up to {found.staged_through}; its target {visible(found.target)} {holds}"
    if found.kept_from:
        yield f"events of {visible(found.table)} up to {found.kept_from} were deleted"
    yield from (f"not compared: {visible(why)}" for why in found.not_compared.values())
    if found.further:
        yield f"{plural(found.further, 'further row')} of the run differ and were not traced; --limit traces more"


def _event(event: TracedEvent) -> str:
    where = " and ".join(f"the {name}" for name, holds in (("source", event.source), ("target", event.target)) if holds)
    at = " ".join(filter(None, (event.offset, event.position, event.gtid)))
    return f"{event.time:%Y-%m-%d %H:%M:%S} UTC  {event.kind:<7}  {at}{f'; still so in {where}' if where else ''}"


def _topic_lines(topic: TracedTopic) -> Iterator[str]:
    yield f"topic {visible(topic.label)}: {plural(topic.messages, 'message')}"
    for one in topic.partitions:
        read = "" if one.committed is None else f"; group {visible(topic.group or '')} has read it up to {one.committed}"
        yield f"  partition {one.partition}: offsets {one.begin} to {one.end}{read}"
    if topic.removed:
        yield f"  {visible(topic.removed)}"
