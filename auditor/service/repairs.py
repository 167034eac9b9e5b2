"""Record and list repairs made by people, and those that a patch made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from auditor.api_models.repair import Repair, RepairKind
from auditor.errors import ConfigError, UnknownRun
from auditor.history import records
from auditor.masking import mask_key
from auditor.store import repairs, runs
from auditor.store.repairs import Key

if TYPE_CHECKING:
    from auditor.store import Store


def record(
    store: Store,
    run: str,
    *,
    kind: RepairKind,
    note: str,
    who: str,
    rows: int | None = None,
    keys: Sequence[Key] = (),
    idempotency: str | None = None,
) -> Repair:
    """Store how a target was repaired after a run, and record the event.

    ``keys`` are the keys of repaired rows as in the run's differences; values of masked columns are not stored. Raises UnknownRun, and
    ConfigError for keys with other columns or an idempotency key that was used for another request.
    """
    audited = runs.get_run(store, run)
    masked_keys = _mask_keys(store, audited.run, keys) if keys else []
    values = {"run": audited.run, "audit": audited.audit}
    return repairs.record_repair(store, **values, kind=kind, note=note, who=who, rows=rows, keys=masked_keys, idempotency_key=idempotency)


def list_repairs(store: Store, run: str, *, limit: int = 50, before: str | None = None) -> list[Repair]:
    """List the repairs of a run, newest first; those of a deleted run by its complete id. Raises UnknownRun."""
    try:
        return repairs.list_repairs(store, runs.get_run(store, run).run, limit=limit, before=before)
    except UnknownRun:
        if page := repairs.list_repairs(store, run, limit=limit, before=before):
            return page
        raise


def _mask_keys(store: Store, run: str, keys: Sequence[Key]) -> list[Key]:
    report = records.load_report(store, run, max_differences=0)
    if report is None or report.plan is None:
        raise ConfigError(f"run {run} has no plan, so its key is unknown; omit keys")
    columns = report.plan.key_columns
    names, masked = [column.name for column in columns], {column.name for column in columns if column.masked}
    if any(set(key) != set(names) for key in keys):
        raise ConfigError(f"keys of run {run} must have exactly these columns: {', '.join(names)}")
    return [mask_key({name: key[name] for name in names}, masked) for key in keys]
