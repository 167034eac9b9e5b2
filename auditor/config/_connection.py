"""Where a database is, and how careful a guest the auditor is there."""

from __future__ import annotations

from pydantic import Field, model_validator

from auditor.config._base import Duration, Strict


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
    """Statements that run at once on this database, over all audits; without it each audit runs as many as ``connections`` says."""
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
