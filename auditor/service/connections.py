"""List the configured connections with their limits, and check whether a database answers and what its user may read."""

from __future__ import annotations

import datetime as dt
import time
from collections import Counter
from collections.abc import Mapping
from functools import partial

import dialects
from auditor.api_models.connection import ConnectionCheck, ConnectionSummary, LoadLimits, TableRights
from auditor.config import Audit, ConnectionSettings, Settings, TableRef, describe_unknown
from auditor.connections.reader import Reader
from auditor.errors import AuditorError, BadUrl, EngineBroken, NoSuchObject, PlanError, UnknownConnection
from auditor.model import SIDES, Side
from auditor.planning import introspect
from auditor.service.audits import with_defined_audits
from auditor.store import Store
from dialects import Session

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


MOST_TABLES = 100
"""Tables of audits whose rights a check asks for."""


def check_connection(settings: Settings, store: Store, name: str) -> ConnectionCheck:
    """Connect to a database once, without waiting for its load; list its tables, and what its user may do with those that audits read.

    Raises UnknownConnection and StoreError.
    """
    if name not in settings.connections:
        raise UnknownConnection(describe_unknown("connection", name, settings.connections))
    at, began = dt.datetime.now(dt.UTC), time.monotonic()
    reader, tables, reachable, problem = Reader("check", {"source": name}, settings.connections, patient=False), None, False, ""
    reading, rights = _tables_read(with_defined_audits(settings, store), name), list[TableRights]()
    try:
        with reader.open():
            reachable = True
            tables = len(reader.ask_side("source", lambda _, session: session.dialect.catalogue.list_tables(session)))
            for table, (audit, side, names) in list(reading.items())[:MOST_TABLES]:
                problems = reader.ask_side("source", partial(_find_problems, audit, side))
                rights.append(TableRights(table=table, audits=names, problems=problems))
    except AuditorError as error:
        problem = str(error)
    return ConnectionCheck(
        name=name,
        at=at,
        reachable=reachable,
        server=reader.servers().get("source", ""),
        tables=tables,
        rights=rights,
        seconds=time.monotonic() - began,
        error=problem,
    )


def _tables_read(settings: Settings, name: str) -> dict[str, tuple[Audit, Side, list[str]]]:
    """Return the tables of a connection that audits read: by name one of these audits, which side of it the table is, and all of them."""
    reading: dict[str, tuple[Audit, Side, list[str]]] = {}
    for audit_name, audit in settings.audits.items():
        for side in SIDES:
            ref = audit.places.get(side)
            if isinstance(ref, TableRef) and ref.connection == name and ref.place.path is None:
                reading.setdefault(ref.table, (audit, side, []))[2].append(audit_name)
    return reading


def _find_problems(audit: Audit, side: Side, _: Side, session: Session) -> list[str]:
    """Return why a session may not read a table as it is, as far as its dialect states it."""
    try:
        table = introspect.describe_table(audit, side, session).table
    except (NoSuchObject, PlanError) as error:
        return [str(error)]
    catalogue = session.dialect.catalogue
    columns = ["columns of it are hidden from this user (GRANT SELECT on it)"] if catalogue.hides_columns(session, table) else []
    return [*columns, *catalogue.protections(session, table)]
