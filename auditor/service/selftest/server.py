"""What an audit asks of a server besides tables: its clock, snapshots, catalogue, load, plans, and to cancel a statement."""

from __future__ import annotations

import datetime as dt
import time

from auditor.background import Service
from auditor.durations import durations
from auditor.errors import AuditorError, ConnectionLost, StatementCancelled, Unreachable
from auditor.planning.watermark import read_clock
from auditor.service.selftest.bench import Bench, Differs, require
from auditor.sql import render
from dialects import Kind, Place

GROUP = "server"
CLOCK_SKEW = dt.timedelta(minutes=15)
"""How far a server's clock may be from this host's before it is reported: nothing depends on more than its being UTC."""

ABSENT = "auditor_selftest_no_such_table"
ZONE = "America/New_York"
TABLES_MULTIPLIED = (5, 6, 7, 8)
"""Of how many tables the product is hashed: one million rows, sixteen times as many, and so on."""


def check_server(bench: Bench) -> None:
    """Ask the server what runs ask it."""
    _check_clock(bench)
    _check_snapshot(bench)
    _check_catalogue(bench)
    _check_load(bench)
    _check_zone(bench)
    _check_cancel(bench)


def _check_clock(bench: Bench) -> None:
    with bench.check(GROUP, "the clock, in UTC"):
        here, there = dt.datetime.now(dt.UTC), read_clock(bench.session)
        if abs(here - there) > CLOCK_SKEW:
            raise Differs(f"the server's clock shows {there:%Y-%m-%d %H:%M:%S} UTC, and this host's {here:%Y-%m-%d %H:%M:%S}")
    table = bench.table("beats", [("beat", Kind("timestamp", scale=6))], [(dt.datetime(2001, 2, 3, 4, 5, 6),), (dt.datetime(2020, 1, 1),)])
    if bench.refusal:
        bench.skip(GROUP, "the age of a heartbeat", "it is read from a table by its name, and there is no temporary one")
        return
    with bench.check(GROUP, "the age of a heartbeat"):
        name = table[1:-1]  # a temporary table's, in the engine's quotes
        age = bench.dialect.server.heartbeat_age(bench.session, Place((name,)), "beat")
        wanted = (dt.datetime.now(dt.UTC).replace(tzinfo=None) - dt.datetime(2020, 1, 1)).total_seconds()
        if abs(age - wanted) > CLOCK_SKEW.total_seconds():
            raise Differs(f"a beat of 2020-01-01 00:00:00 UTC is {age:,.0f} s old by the engine, and it is {wanted:,.0f} s old")


def _check_snapshot(bench: Bench) -> None:
    session = bench.session
    if not bench.dialect.BEGIN_SNAPSHOT:
        bench.skip(GROUP, "a snapshot", bench.dialect.READ_CONSISTENCY)
        return
    with bench.check(GROUP, "a snapshot", "; ".join(bench.dialect.BEGIN_SNAPSHOT)):
        session.begin()
        try:
            require(int(session.query("SELECT 1")[0][0]), 1)
        finally:
            session.end()


def _check_catalogue(bench: Bench) -> None:
    """List the tables, describe the first of them, and ask how a scan of it would run; nothing of it is read but its catalogue."""
    session, dialect = bench.session, bench.dialect
    first = None
    with bench.check(GROUP, "the list of tables"):
        first = next((table for table in dialect.catalogue.list_tables(session) if table.is_visible and not table.is_view), None)
    with bench.check(GROUP, "a table that is not there"):
        require(dialect.catalogue.describe(session, Place((ABSENT,))), [])
    if first is None:
        bench.skip(GROUP, "the description of a table", "the database has no table that this session finds by its name alone")
        return
    described = []
    with bench.check(GROUP, "the description of a table"):
        described = dialect.catalogue.describe(session, Place((first.name,)))
        if not any(table.columns for table in described):
            raise Differs(f"the catalogue lists {first.schema}.{first.name}, and has no columns of it")
    for table in described[:1]:
        with bench.check(GROUP, "the indexes of a table"):
            dialect.server.leading_index_columns(session, table.sql)
        statement = render.count(dialect, table.sql, "1 = 1")
        with bench.check(GROUP, "the plan of a statement", statement):
            dialect.server.estimate_scan(session, statement)


def _check_load(bench: Bench) -> None:
    for measure in bench.dialect.server.LOAD_MEASURES:
        with bench.check(GROUP, f"the load: {measure}"):
            load = bench.dialect.server.server_load(bench.session, [measure])[measure]
            if load < 0:
                raise Differs(f"it is {load}, below zero")
    if not bench.dialect.server.LOAD_MEASURES:
        bench.skip(GROUP, "the load", f"{bench.dialect.name} reports none")


def _check_zone(bench: Bench) -> None:
    dialect, at = bench.dialect, Kind("timestamp", scale=6)
    if not dialect.catalogue.knows_zone(bench.session, ZONE):
        bench.skip(GROUP, "times of other zones", f"the server does not know the zone {ZONE}; only audits with zone: need it")
        return
    times = (dt.datetime(2024, 3, 10, 6, 59, 59), dt.datetime(2024, 3, 10, 7))  # around the change to summer time
    table = bench.table("zones", [("at", at)], [(time,) for time in times])
    sql = dialect.times.timestamp_text(dialect.times.wall_time(dialect.names.quote("at"), at, ZONE), at)
    (results,) = bench.values([sql], table, dialect.names.quote("at"))
    with bench.check(GROUP, "times of other zones", sql):
        if isinstance(results, AuditorError):
            raise results
        require(results, ["2024-03-10 01:59:59", "2024-03-10 03:00:00"])


def _check_cancel(bench: Bench) -> None:
    """Cancel a statement that takes long enough: each further table makes it sixteen times as long.

    No longer than needed, because there are engines whose tasks go on to their ends although nobody waits for them.
    """
    with bench.check(GROUP, "the cancelling of a statement"):
        for tables in TABLES_MULTIPLIED:
            began = time.monotonic()
            if _is_cancelled(bench, _long_statement(bench, tables)):
                break
            if time.monotonic() - began > 4 * durations().cancel_again:
                raise Differs("the statement went on to its end although it was cancelled")
        else:
            raise Differs("no statement took long enough to be cancelled")
        try:
            require(int(bench.session.query("SELECT 1")[0][0]), 1)
        except (ConnectionLost, Unreachable) as error:
            raise Differs(f"the connection had to be cut, because the server did not end the statement: {error}") from None


def _long_statement(bench: Bench, tables: int) -> str:
    """Return a statement that hashes the product of so many tables of sixteen rows."""
    dialect, number = bench.dialect, bench.dialect.names.quote("n")
    names = [dialect.names.quote(f"t{index}") for index in range(tables)]
    derived = ", ".join(dialect.types.values_table(name, [(number, Kind("integer"))], [[str(n)] for n in range(16)]) for name in names)
    hashed = dialect.hashes.row_hash(dialect.text.concat([dialect.text.as_text(f"{name}.{number}") for name in names]), "sha256")
    return f"SELECT COUNT(*) FROM {derived} WHERE {hashed} = 'none'"


def _is_cancelled(bench: Bench, statement: str) -> bool:
    """Run a statement and cancel it; return whether it was cancelled before it ended."""
    # A request that arrives before the statement has begun is lost.
    with Service("cancel", bench.session.cancel, durations().cancel_again, waits_first=True):
        try:
            bench.session.query(statement)
        except StatementCancelled:
            return True
    return False
