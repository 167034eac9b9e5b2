"""Repairs that people record. The auditor itself writes nothing into a target: it offers neither patch nor bootstrap."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from auditor import keep
from auditor.compare.account import MASK
from auditor.errors import ConfigError, UnknownRun
from auditor.store import repairs, runs
from auditor.store.repairs import Key, Kind, Repair

if TYPE_CHECKING:
    from auditor.store import Store


def record(
    store: Store,
    run: str,
    *,
    kind: Kind,
    note: str,
    who: str,
    rows: int | None = None,
    keys: Sequence[Key] = (),
    idempotency: str | None = None,
) -> Repair:
    """Keep what was done outside to mend the target after a run, and note the event.

    ``keys`` are those of rows that were mended, as the run's differences write them; what masked columns hold is not kept. Raises
    UnknownRun, and ConfigError for keys of other columns or an idempotency key that was used otherwise.
    """
    found = runs.find(store, run)
    kept = _masked(store, found.run, keys) if keys else []
    about = {"run": found.run, "audit": found.audit}
    return repairs.record(store, **about, kind=kind, note=note, who=who, rows=rows, keys=kept, idempotency=idempotency)


def of_run(store: Store, run: str, *, limit: int = 50, before: str | None = None) -> list[Repair]:
    """The repairs of a run, the newest first. Of a run that is kept no longer, by its whole id. Raises UnknownRun."""
    try:
        return repairs.listed(store, runs.find(store, run).run, limit=limit, before=before)
    except UnknownRun:
        if found := repairs.listed(store, run, limit=limit, before=before):
            return found
        raise


def _masked(store: Store, run: str, keys: Sequence[Key]) -> list[Key]:
    found = keep.report(store, run, most=0)
    if found is None or found.plan is None:
        raise ConfigError(f"run {run} has no plan, so that nobody knows its key; leave the keys out")
    columns = found.plan.key_columns
    names = [column.name for column in columns]
    if any(set(key) != set(names) for key in keys):
        raise ConfigError(f"each key of this run has these columns and no others: {', '.join(names)}")
    return [{c.name: MASK if c.masked and key[c.name] is not None else key[c.name] for c in columns} for key in keys]
