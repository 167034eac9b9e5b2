"""Let a pipeline go on from another server than the one that it read."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from auditor.config import Settings, set_source
from auditor.durations import durations
from auditor.errors import ConfigError, FailoverRefused
from auditor.escaping import shell_word
from auditor.pipeline.binlog.log_connection import Source
from auditor.pipeline.binlog.selection import Selection
from auditor.pipeline.failover import find_failover
from auditor.store import events, leases, live_epochs, parts, pipelines
from dialects.url import parse_url

if TYPE_CHECKING:
    from auditor.pipeline.failover import Failover
    from auditor.store import Store


MOST_COMMANDS = 3
"""Tables up to which each has a command of its own that mends it."""


@dataclass(frozen=True, slots=True)
class FailedOver:
    """Where a pipeline goes on."""

    place: str
    behind: str
    """The transaction, or the heartbeat with what follows it, that the place is behind; empty for the end of the log."""
    gaps: tuple[str, ...]
    """What may be missing, and was accepted."""
    mend: str
    """The commands that send all rows again that may be missing; empty if none is."""


def fail_over(
    settings: Settings, config_file: Path, store: Store, name: str, to: str, accept_gap: bool, dry_run: bool, *, by: str
) -> FailedOver:
    """Let a stopped pipeline go on from connection ``to``, and write its name into the configuration file.

    With ``dry_run`` only say where. Raises FailoverRefused where rows may be missing, unless that is accepted; LeaseTaken while the
    pipeline runs; ConfigError, EngineError and StoreError.
    """
    pipeline = settings.pipeline(name)
    _check_connection(settings, name, to)
    database = parse_url(settings.connections[to].url).database
    with ExitStack() as leases_held:
        _hold(settings, store, name, to, leases_held)
        offset = pipelines.get_pipeline(store, name).source_offset
        failover = find_failover(offset, Source(settings.connections[to].url, to), Selection(pipeline.source.tables, database))
        mend = _mend(name, failover.tables) if failover.gaps else ""
        if failover.gaps and not accept_gap and not dry_run:
            raise FailoverRefused(
                f"{'; '.join(failover.gaps)}; fail over with --accept-gap --apply, start the pipeline, and then run: {mend}"
            )
        if not dry_run:
            end_live_summaries(store, name, failover)
            # In this order: whatever ends this between, the pipeline goes on from the old server, or refuses to until this is done again.
            parts.record_batch(store, name, [], {}, failover.offset)
            set_source(config_file, name, to)
            events.record_event(store, actor=by, action="pipeline failed over", subject=f"{name} to {to} at {failover.place}")
    return FailedOver(str(failover.place), failover.behind, failover.gaps, mend)


def end_live_summaries(store: Store, name: str, failover: Failover) -> None:
    """End the sums that the stream keeps of tables with a gap: they would lack rows of it, or count some twice."""
    for epoch in live_epochs.list_epochs(store, pipeline=name, lasting=True) if failover.gaps else ():
        if not failover.tables or epoch.table in failover.tables:
            live_epochs.end_epoch(store, epoch.id, f"the pipeline failed over with a gap: {'; '.join(failover.gaps)}")


def _mend(name: str, tables: Sequence[str]) -> str:
    """Return the commands that send the rows of these tables again, or of all."""
    again = f"auditor pipeline refresh {shell_word(name)}"
    chosen = [f" --table {shell_word(table)}" for table in tables] if len(tables) <= MOST_COMMANDS else []
    return "; ".join(f"{again}{table} --apply" for table in chosen or [""])


def _check_connection(settings: Settings, name: str, to: str) -> None:
    old = settings.pipeline(name).of_log("a failover").connection
    databases = [parse_url(settings.connection(connection).url).database for connection in (old, to)]
    if databases[0] != databases[1]:
        raise ConfigError(f"connection {to} leads to database {databases[1]!r}, and {old} to {databases[0]!r}; both must lead to the same")


def _hold(settings: Settings, store: Store, name: str, to: str, leases_held: ExitStack) -> None:
    """Hold the leases of both servers, so that nobody reads them for the pipeline meanwhile. Raises LeaseTaken."""
    old = settings.pipeline(name).of_log("a failover").connection
    for lease in sorted({settings.connections[connection].database for connection in (old, to)}):
        leases_held.enter_context(leases.keep(store, "source", lease, durations().command_lease))
