"""Run one audit: one of the configuration, or of two tables that are given by their URLs and names, without a file or a store.

What touches a store is in ``stored_runs``, so that a run that is not stored loads no store's library.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import dialects
from auditor.config import Settings, validate_settings
from auditor.connections.reader import OnProgress, Reader, ignore_progress
from auditor.errors import ConfigError
from auditor.model import SIDES, Report, describe_other_settings
from auditor.service import definitions
from auditor.service.definitions import apply_overrides, connections_of_run, without_own_settings

if TYPE_CHECKING:
    from auditor.store import Store


def run_audit(
    settings: Settings,
    name: str,
    on_progress: OnProgress = ignore_progress,
    store: Store | None = None,
    *,
    reason: str = "",
    requested_by: str = "",
    overrides: Mapping[str, Any] = {},
) -> Report:
    """Run one audit; with a ``store``, store the run and record the event.

    ``overrides`` are settings for this run alone; with ``keys`` or ``times`` (each with ``from``, ``to`` or both) the run compares that
    slice of the tables. A run with other settings than its audit's is a one-off run, which changes nothing of the audit's standing.

    Raises UnknownAudit, ConfigError for settings that may not be overridden, PlanError for a slice that the tables do not allow,
    AlreadyRunning, and StoreError if the run cannot be stored from its start; everything else that goes wrong is in the report.
    """
    if store is not None:
        from auditor.service import stored_runs

        return stored_runs.start(settings, store, name, overrides, on_progress, reason=reason, requested_by=requested_by)
    from auditor.pipeline.topic_side import open_topics
    from auditor.run import audit_run  # which loads numpy

    configured = definitions.audit(settings, name)
    overrides = without_own_settings(configured, overrides)
    audit, slice = apply_overrides(configured, overrides)
    with open_topics(settings, audit) as topics:
        report = audit_run.run(name, audit, connections_of_run(settings, overrides), on_progress, slice, topics)
    return replace(report, other_settings=describe_other_settings(overrides))


EXAMPLE = 'auditor.audit(("mysql://reader@db1/shop", "orders"), ("postgresql://reader@wh/dwh", "public.orders"))'


def audit_tables(
    source: tuple[str, str],
    target: tuple[str, str],
    *,
    key: Sequence[str] = (),
    name: str = "audit",
    options: Mapping[str, Any] = {},
    on_progress: OnProgress = ignore_progress,
    patient: bool = True,
) -> Report:
    """Run one audit of two tables, each given as (connection URL, table name or path), and return its report.

    ``options`` are further settings of an audit, and ``renamed``: the target's names of columns by the source's. With ``patient=False``,
    for a person who waits, it raises the error of a database that cannot be reached instead of retrying for a minute. Raises BadUrl and
    ConfigError for URLs and settings that are wrong; whatever goes wrong after that is in the report.
    """
    for side, given in zip(SIDES, (source, target), strict=True):
        _check_table(side, given)
        dialects.by_scheme(dialects.parse_url(given[0]).scheme)
    if isinstance(key, str):
        raise ConfigError(f"key is the text {key!r}; write a list of column names: key=[{key!r}]")
    settings = dict(options)
    values = {
        "connections": {"source": {"url": source[0]}, "target": {"url": target[0]}},
        "audits": {
            name: {
                "source": {"connection": "source", "table": source[1]},
                "target": {"connection": "target", "table": target[1], "columns": settings.pop("renamed", {})},
                "key": tuple(key),
                **settings,
            }
        },
    }
    configured = validate_settings(values)
    if not patient:
        with Reader(name, {side: side for side in SIDES}, configured.connections, patient=False).open():
            pass
    return run_audit(configured, name, on_progress)


def _check_table(side: str, given: object) -> None:
    """Raise ConfigError unless a side is a URL and a table; the message repeats neither, because URLs hold passwords."""
    if isinstance(given, str):
        what = "a URL alone" if "://" in given else "a text"
        raise ConfigError(f"{side}: {what} names no table; write a pair of URL and table, as in {EXAMPLE}")
    if not isinstance(given, Sequence) or len(given) != 2 or not all(isinstance(part, str) for part in given):
        raise ConfigError(f"{side}: write a pair of URL and table, both text, as in {EXAMPLE}")
    if "://" in given[1] and "://" not in given[0]:
        raise ConfigError(f"{side}: the URL comes first, then the table, as in {EXAMPLE}")
