"""List the configured connections with their limits, and check whether a database answers and what its user may read."""

from __future__ import annotations

import datetime as dt
import time
from collections import Counter
from collections.abc import Mapping

import dialects
from auditor.api_models.connection import ConnectionCheck, ConnectionSummary, LoadLimits
from auditor.config import ConnectionSettings, Settings, describe_unknown
from auditor.connections.reader import Reader
from auditor.errors import AuditorError, BadUrl, EngineBroken, UnknownConnection
from auditor.service.audits import with_defined_audits
from auditor.store import Store

UNKNOWN_ENGINE = "unknown"
"""In place of the engine of a URL that is wrong, or whose engine cannot be loaded; a check says why."""


def list_connections(settings: Settings, store: Store) -> list[ConnectionSummary]:
    """Return the configured connections in the order of their names, without where they lead. Raises StoreError."""
    audits = with_defined_audits(settings, store).audits.values()
    read = Counter(name for audit in audits for name in {place.connection for place in audit.places.values()})
    return [_summarize(name, connection, read) for name, connection in sorted(settings.connections.items())]


def _summarize(name: str, connection: ConnectionSettings, read: Mapping[str, int]) -> ConnectionSummary:
    limits = connection.limits
    return ConnectionSummary(
        name=name,
        engine=_name_engine(connection),
        writable=connection.write is not None,
        audits=read.get(name, 0),
        limits=LoadLimits(
            connections=connection.connections,
            statements=limits.statements,
            statement_seconds=limits.statement_timeout,
            lock_seconds=limits.lock_timeout,
            pause_when=limits.pause_when.limits if limits.pause_when else {},
            scan_rows=limits.scan_rows,
        ),
    )


def _name_engine(connection: ConnectionSettings) -> str:
    try:
        return dialects.by_scheme(dialects.parse_url(connection.url).scheme).name
    except (BadUrl, EngineBroken):
        return UNKNOWN_ENGINE


def check_connection(settings: Settings, name: str) -> ConnectionCheck:
    """Connect to a database once, without waiting for its load, and list its tables. Raises UnknownConnection."""
    if name not in settings.connections:
        raise UnknownConnection(describe_unknown("connection", name, settings.connections))
    at, began = dt.datetime.now(dt.UTC), time.monotonic()
    reader, tables, reachable, problem = Reader("check", {"source": name}, settings.connections, patient=False), None, False, ""
    try:
        with reader.open():
            reachable = True
            tables = len(reader.ask_side("source", lambda _, session: session.dialect.catalogue.list_tables(session)))
    except AuditorError as error:
        problem = str(error)
    return ConnectionCheck(
        name=name,
        at=at,
        reachable=reachable,
        server=reader.servers().get("source", ""),
        tables=tables,
        seconds=time.monotonic() - began,
        error=problem,
    )
