"""Connections to databases, and the limits that protect these from load."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

import dialects
from auditor.config._base import Budget, Duration, Share, Strict, Zone
from auditor.errors import BadUrl, EngineBroken
from auditor.model import HEARTBEAT_COLUMN, HEARTBEAT_TABLE


class Heartbeat(Strict):
    """A replicated table to which the source regularly writes the current time: by default the one of ``auditor heartbeat run``."""

    table: str = HEARTBEAT_TABLE
    """The replicated table."""
    column: str = HEARTBEAT_COLUMN
    """Its column with the time."""
    rows: dict[str, str] = Field({}, max_length=8)
    """Which of its rows count: values of other columns, by name, such as the task that wrote them. All, unless stated."""
    ahead: Duration = 60.0
    """Seconds that a beat may lie ahead of the clock that it is compared with, because clocks differ."""


class PauseWhen(Strict):
    """Loads above which no further statements start on a database. A measure that its engine does not have is an error."""

    threads_running: int | None = Field(None, ge=1)
    """Threads_running of MySQL and MariaDB."""
    active_sessions: int | None = Field(None, ge=1)
    """PostgreSQL sessions that are running a statement, except the auditor's own."""
    queued: int | None = Field(None, ge=1)
    """Redshift statements waiting in its queues."""
    lag: Duration | None = None
    """Replication lag, as the replica reports it, or the age of the ``heartbeat``."""
    heartbeat: Heartbeat | None = None
    """Where the lag is read if the replica does not report it."""
    give_up: Duration = 3600.0
    """How long a run waits before it fails; it can be resumed."""

    @model_validator(mode="after")
    def _something(self) -> PauseWhen:
        if self.heartbeat and self.lag is None:
            raise ValueError("heartbeat is given without lag; add the limit, e.g. lag: 30s")
        if not self.limits:
            raise ValueError("no limit is given; write at least one of threads_running, active_sessions, queued, lag")
        return self

    @property
    def limits(self) -> dict[str, float]:
        """The given limits by measure."""
        names = ("threads_running", "active_sessions", "queued", "lag")
        return {name: float(limit) for name in names if (limit := getattr(self, name)) is not None}


class GuestLimits(Strict):
    """Limits of the auditor's statements on a database."""

    statement_timeout: Duration = 3600.0
    """The server cancels a statement that runs longer."""
    lock_timeout: Duration = 10.0
    """The server cancels a statement that waits longer for a lock. As long is waited for a file of DuckDB that another process has open."""
    statements: int | None = Field(None, ge=1, le=64)
    """Maximum concurrent statements on this database, over all audits and all connections that reach it (the smallest number of
    these applies). By default each audit runs as many as its ``connections``."""
    parallel_workers: int | None = Field(None, ge=0, le=64)
    """Further processes of the server that may run one statement (PostgreSQL: max_parallel_workers_per_gather). By default a summary
    is read by one process, and other statements as the server is set up."""
    pause_when: PauseWhen | None = None
    """Loads above which no further statement starts."""
    budget: Budget = Budget()
    """What a run of an audit, or all runs of a day together, may cost on this connection."""
    scan_rows: int = Field(10_000_000, ge=0)
    """Rows above which a table is not scanned by a key that is no index's prefix."""
    force: bool = False
    """Scan such a table anyway."""


class Price(Strict):
    """What the database costs while statements of the auditor run."""

    usd: float = Field(gt=0, allow_inf_nan=False)
    """US dollars for what ``per`` says."""
    per: Literal["hour", "rpu_hour", "executor_hour"] = "hour"
    """An hour of statements, added up over sessions, on every engine; or an hour of one RPU of a Redshift Serverless workgroup, or of one
    executor of Spark, while at least one statement of the run is running."""
    units: float | None = Field(None, gt=0, allow_inf_nan=False)
    """How many RPUs the workgroup has, its base capacity, or how many executors Spark keeps."""

    @model_validator(mode="after")
    def _units_known(self) -> Price:
        if (self.per == "hour") != (self.units is None):
            raise ValueError(
                "units belongs to per: rpu_hour and per: executor_hour; remove it"
                if self.units is not None
                else f"per: {self.per} needs units, how many there are while statements run; add e.g. units: 8"
            )
        return self


def _check_mask(pattern: str) -> str:
    table, _, column = pattern.rpartition(".")
    if not table or not column:
        raise ValueError('write a table and a column, e.g. orders.card, or a pattern of them, e.g. "*.email"')
    return pattern


class SparkCopy(Strict):
    """How Spark copies tables again into a database."""

    master: str = "local[2]"
    """The Spark master whose executors read and load: local[N], or the URL of a cluster."""
    path: str | None = None
    """The folder of a copy's files, which all executors share; by default that of temporary files."""
    above: int | None = Field(None, ge=0)
    """Rows above which Spark makes a copy; by default it does only where ``--spark`` asks for it."""

    @model_validator(mode="after")
    def _some_folder(self) -> SparkCopy:
        if not self.master.startswith("local") and self.path is None:
            raise ValueError("executors on other hosts need a folder that all of them share; add path: /folder beside master")
        return self


class WriteSettings(Strict):
    """How a database is written to: only pipelines and repairs use it."""

    url: str = Field(repr=False)
    """A URL whose user may write."""
    max_rows: int = Field(1000, ge=1)
    """Rows that one patch may change at most."""
    max_share: Share = 0.1
    """Share of a table's rows that one patch may change at most; ten rows are always allowed."""
    max_age: Duration = 86400.0
    """Age of a run beyond which no patch is made of it."""

    rename_above: int = Field(5_000_000, ge=0)
    """Rows above which a copy of a whole table of PostgreSQL takes the table's name; otherwise see docs/bootstrap.md."""
    spark: SparkCopy = SparkCopy()
    """How Spark copies tables again into this database."""


class ConnectionSettings(Strict):
    """A connection to a database."""

    url: str = Field(repr=False)
    """Where the database is and who logs in: ``mysql://user:password@host:port/database?option=value``."""
    connections: int = Field(1, ge=1, le=16)
    """Connections that read the chunks of a table in parallel, if the engine lets them share a snapshot."""
    zone: Zone | None = None
    """The time zone of times whose type has none, as DATETIME; by default UTC."""
    mask: tuple[Annotated[str, AfterValidator(_check_mask)], ...] = ()
    """Columns whose values no report of any audit shows: ``table.column``, with ``*`` and ``?`` as in file names."""
    audit_tables: tuple[str, ...] | None = None
    """The tables that audits defined over HTTP may read: ``table`` or ``schema.table``, with ``*`` and ``?`` as in file names. By default
    all but those of the server's own schemas, which such audits never read."""
    limits: GuestLimits = GuestLimits()
    """Limits of the auditor's statements there."""
    price: Price | None = None
    """What the database costs while statements run, for reports, ``auditor costs`` and budgets in ``usd``. Without it costs in USD are
    unknown."""
    write: WriteSettings | None = None
    """How pipelines and repair write into this database; without it nothing does."""

    @model_validator(mode="after")
    def _price_fits(self) -> ConnectionSettings:
        if self.limits.budget.usd is not None and self.price is None:
            raise ValueError("limits: budget: usd is given without a price; add e.g. price: {usd: 1.20, per: hour}")
        if self.price and self.price.per != "hour":
            with suppress(BadUrl, EngineBroken):  # reported when it is used
                dialect = dialects.by_scheme(dialects.parse_url(self.url).scheme)
                if self.price.per not in dialect.server.PRICED_BY:
                    raise ValueError(f"price: per: {self.price.per} is no unit of {dialect.name}; write per: hour")
        return self

    @property
    def identity(self) -> dict[str, str]:
        """What of the connection decides which values a run compares: the database that it reaches, and the zone of its times.

        Neither how it logs in nor its limits belong to that.
        """
        identity = {"zone": self.zone} if self.zone else {}
        with suppress(BadUrl):  # reported when a run connects
            identity["database"] = self.database[:16]
        return identity

    @property
    def database(self) -> str:
        """An identifier of the database behind the URL (SHA-256 in hexadecimal), equal for different users. Raises BadUrl."""
        return hashlib.sha256(dialects.database_id(self.url).encode()).hexdigest()


def find_unverified(urls: Mapping[tuple[str, ...], str]) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield where a URL stands that leads to another machine without verifying it, and by which of its options it would."""
    for where, text in urls.items():
        with suppress(BadUrl, EngineBroken):  # reported when it is used
            url = dialects.parse_url(text)
            if url.scheme == "sqlite":  # a store
                continue
            addresses = dialects.by_scheme(url.scheme).addresses
            if not addresses.is_local(url) and not addresses.verifies_server(url):
                way_out = f"use {addresses.VERIFIED_BY}"
                yield where, f"the server at {url.host or url} is not verified, so that anybody between could read along; {way_out}"


def share_statement_limits(connections: dict[str, ConnectionSettings]) -> dict[str, ConnectionSettings]:
    """Return the connections with ``limits: statements`` set to the smallest number of all connections that reach the same database."""
    if all(connection.limits.statements is None for connection in connections.values()):
        return connections
    least: dict[str, int] = {}
    databases: dict[str, str] = {}
    for name, connection in connections.items():
        with suppress(BadUrl):  # reported when a run connects
            database = databases[name] = connection.database
            if (statements := connection.limits.statements) is not None:
                least[database] = min(statements, least.get(database, statements))
    return {name: _with_statements(connection, least.get(databases.get(name, ""))) for name, connection in connections.items()}


def _with_statements(connection: ConnectionSettings, statements: int | None) -> ConnectionSettings:
    if statements is None or statements == connection.limits.statements:
        return connection
    return connection.model_copy(update={"limits": connection.limits.model_copy(update={"statements": statements})})
