"""Run one audit: one of the configuration, or of two tables that are given by their URLs and names, without a file or a store.

What touches a store is in ``stored_runs``, so that a run that is not stored loads no store's library.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import dialects
from auditor.background import Interruption
from auditor.config import Settings, validate_settings
from auditor.connections.reader import OnProgress, Reader, ignore_progress
from auditor.errors import ConfigError
from auditor.model import SIDES, Report, Side, describe_other_settings
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
    interruption: Interruption | None = None,
) -> Report:
    """Run one audit; with a ``store``, store the run and record the event.

    ``overrides`` are settings for this run alone; with ``keys`` or ``times`` (each with ``from``, ``to`` or both) the run compares that
    slice of the tables. A run with other settings than its audit's is a one-off run, which changes nothing of the audit's standing.
    An ``interruption`` cancels the run, unless it has a verdict already.

    Raises UnknownAudit, ConfigError for settings that may not be overridden, PlanError for a slice that the tables do not allow,
    AlreadyRunning, and StoreError if the run cannot be stored from its start; everything else that goes wrong is in the report.
    """
    if store is not None:
        from auditor.service import stored_runs

        about: dict[str, Any] = {"reason": reason, "requested_by": requested_by}
        return stored_runs.start(settings, store, name, overrides, on_progress, **about, interruption=interruption)
    from auditor.pipeline.topic_side import open_topics
    from auditor.run import audit_run  # which loads numpy

    configured = definitions.audit(settings, name)
    overrides = without_own_settings(configured, overrides)
    audit, slice = apply_overrides(configured, overrides)
    with open_topics(settings, audit) as topics:
        report = audit_run.run(name, audit, connections_of_run(settings, overrides), on_progress, slice, topics, interruption)
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

    A topic is given as (``kafka://HOST:PORT``, its name); the URL's options are TOPIC_OPTIONS. A query is given in place of a table's name.

    ``options`` are further settings of an audit, and of the target: ``renamed``, its names of columns by the source's, and ``convention``.
    With ``patient=False``,
    for a person who waits, it raises the error of a database that cannot be reached instead of retrying for a minute. Raises BadUrl and
    ConfigError for URLs and settings that are wrong; whatever goes wrong after that is in the report.
    """
    for side, given in zip(SIDES, (source, target), strict=True):
        _check_table(side, given)
    if isinstance(key, str):
        raise ConfigError(f"key is the text {key!r}; write a list of column names: key=[{key!r}]")
    settings, connections, brokers, sides = dict(options), dict[Side, Any](), dict[Side, Any](), dict[Side, Any]()
    renamed, convention = settings.pop("renamed", {}), settings.pop("convention", None)
    for side, (text, table) in zip(SIDES, (source, target), strict=True):
        url = dialects.parse_url(text)
        if url.scheme == TOPICS:
            brokers[side], sides[side] = _topic_behind(url, side, table)
        else:
            dialects.by_scheme(url.scheme)
            connections[side], sides[side] = {"url": text}, {"connection": side, "query" if is_query(table) else "table": table}
    if renamed:
        sides["target"]["columns"] = renamed
    if convention:
        sides["target"]["convention"] = convention
    audit: dict[str, Any] = {"source": sides["source"], "target": sides["target"], "key": tuple(key), **settings}
    values: dict[str, Any] = {"connections": connections, "brokers": brokers, "audits": {name: audit}}
    configured = validate_settings(values)
    if not patient and connections:
        with Reader(name, {side: side for side in connections}, configured.connections, patient=False).open():
            pass
    return run_audit(configured, name, on_progress)


def is_query(table: str) -> bool:
    """Return whether what is given as a table is a query: its first word is SELECT or WITH, and more follows."""
    return re.match(r"\s*(SELECT|WITH)\s", table, re.IGNORECASE) is not None


TOPICS = "kafka"
"""The scheme of a URL that leads to topics."""

TOPIC_OPTIONS = ("values", "format", "registry", "published_by")
"""Options of such a URL: how messages are written, the URL of the registry, and PIPELINE/TARGET of the pipeline that publishes."""


def _topic_behind(url: dialects.Url, side: Side, topic: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the broker, and the side of an audit, that a URL and the name of a topic mean. Raises ConfigError."""
    if url.user or url.database or not url.host or not url.port:
        raise ConfigError(
            f"{side}: write kafka://HOST:PORT and the name of a topic; what an account needs belongs in auditor.yaml (brokers:)"
        )
    if unknown := sorted({*url.options} - {*TOPIC_OPTIONS}):
        raise ConfigError(f"{side}: {url} has no option {unknown[0]!r}; its options are {', '.join(TOPIC_OPTIONS)}")
    registry, by = url.options.get("registry"), url.options.get("published_by")
    pipeline, _, published = (by or "").partition("/")
    said = {"published_by": {"pipeline": pipeline, "target": published}} if by else {}
    messages = {name: url.options[name] for name in ("values", "format") if name in url.options}
    broker = {"servers": [f"{url.host}:{url.port}"], **({"registry": {"url": registry}} if registry else {})}
    return broker, {"broker": side, "topic": topic, "messages": messages, **said}


def _check_table(side: str, given: object) -> None:
    """Raise ConfigError unless a side is a URL and a table; the message repeats neither, because URLs hold passwords."""
    if isinstance(given, str):
        what = "a URL alone" if "://" in given else "a text"
        raise ConfigError(f"{side}: {what} names no table; write a pair of URL and table, as in {EXAMPLE}")
    if not isinstance(given, Sequence) or len(given) != 2 or not all(isinstance(part, str) for part in given):
        raise ConfigError(f"{side}: write a pair of URL and table, both text, as in {EXAMPLE}")
    if "://" in given[1] and "://" not in given[0]:
        raise ConfigError(f"{side}: the URL comes first, then the table, as in {EXAMPLE}")
