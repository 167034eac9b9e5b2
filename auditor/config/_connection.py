"""Where a database is, and how careful a guest the auditor is there."""

from __future__ import annotations

import hashlib
from contextlib import suppress

from pydantic import Field, model_validator

import dialects
from auditor.config._base import Duration, Strict
from auditor.errors import BadUrl


class Heartbeat(Strict):
    """A table to which the source writes the time again and again, and which is replicated with everything else."""

    table: str
    column: str


class PauseWhen(Strict):
    """Loads above which nothing new is begun on a database; what an engine cannot say is refused."""

    threads_running: int | None = Field(None, ge=1)
    """MySQL's and MariaDB's Threads_running."""
    active_sessions: int | None = Field(None, ge=1)
    """PostgreSQL's sessions that run a statement, the auditor's own aside."""
    queued: int | None = Field(None, ge=1)
    """Redshift's statements that wait in its queues."""
    lag: Duration | None = None
    """How far a replica may be behind: what it says of itself, or its heartbeat's age."""
    heartbeat: Heartbeat | None = None
    """Where the lag is read, if the replica cannot say."""
    give_up: Duration = 3600.0
    """How long is waited before the run is left resumable."""

    @model_validator(mode="after")
    def _something(self) -> PauseWhen:
        if self.heartbeat and self.lag is None:
            raise ValueError("a heartbeat needs the lag beside it, e.g. lag: 30s")
        if not self.asked:
            raise ValueError("write at least one of threads_running, active_sessions, queued, lag")
        return self

    @property
    def asked(self) -> dict[str, float]:
        """The limit of each measure that was asked for."""
        names = ("threads_running", "active_sessions", "queued", "lag")
        return {name: float(limit) for name in names if (limit := getattr(self, name)) is not None}


class Guest(Strict):
    """What the auditor keeps to on a database."""

    statement_timeout: Duration = 3600.0
    """A statement that runs longer is ended by the server."""
    lock_timeout: Duration = 10.0
    """A statement that waits longer for a lock is ended by the server."""
    statements: int | None = Field(None, ge=1, le=64)
    """Statements that run at once on this database, over all audits and all connections that lead to it, of which the least such
    number counts; without one each audit runs as many as ``connections`` says."""
    pause_when: PauseWhen | None = None
    scan_rows: int = Field(10_000_000, ge=0)
    """Rows above which a table is not scanned by a key that no index begins with."""
    force: bool = False
    """Scan such a table all the same."""


class Connection(Strict):
    """Where a database is."""

    url: str = Field(repr=False)
    connections: int = Field(1, ge=1, le=16)
    """Connections that read one table's chunks side by side, where the engine lets them share a snapshot."""
    limits: Guest = Guest()

    @property
    def database(self) -> str:
        """A short name of the database that this leads to: the same of connections that differ in their users alone. Raises BadUrl."""
        return hashlib.sha256(dialects.reached(self.url).encode()).hexdigest()


def limited(connections: dict[str, Connection]) -> dict[str, Connection]:
    """The connections with ``statements`` as the databases have them to whom they lead: the least that any of theirs says."""
    if all(one.limits.statements is None for one in connections.values()):
        return connections
    least: dict[str, int] = {}
    places: dict[str, str] = {}
    for name, one in connections.items():
        with suppress(BadUrl):  # who connects is told
            place = places[name] = one.database
            if one.limits.statements is not None:
                least[place] = min(one.limits.statements, least.get(place, one.limits.statements))
    return {name: _with(one, least.get(places.get(name, ""))) for name, one in connections.items()}


def _with(connection: Connection, statements: int | None) -> Connection:
    if statements is None or statements == connection.limits.statements:
        return connection
    return connection.model_copy(update={"limits": connection.limits.model_copy(update={"statements": statements})})
