"""Audit two tables that are given by their URLs and names, without a configuration file or a store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import dialects
from auditor.config import validate_settings
from auditor.connections.reader import OnProgress, Reader, ignore_progress
from auditor.errors import ConfigError
from auditor.model import SIDES, Report
from auditor.service.running import run_audit

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
