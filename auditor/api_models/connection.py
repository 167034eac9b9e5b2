"""Connections: what is configured of them, without where they lead, and whether their databases answer."""

from __future__ import annotations

import datetime as dt

from pydantic import Field

from auditor.api_models import ApiModel


class LoadLimits(ApiModel):
    """What the auditor may do to a database."""

    connections: int = Field(description="Connections that read a table in parallel.")
    statements: int | None = Field(description="Concurrent statements over all audits; null: as many as each audit's connections.")
    statement_seconds: float = Field(description="After how many seconds the server cancels a statement.")
    lock_seconds: float = Field(description="After how many seconds the server cancels a statement that waits for a lock.")
    pause_when: dict[str, float] = Field(description="Loads above which no further statement starts; empty without any.")
    scan_rows: int = Field(description="Rows above which a table is not scanned by a key without an index.")


class ConnectionSummary(ApiModel):
    """A configured connection. Its URL and its user are not shown."""

    name: str
    engine: str = Field(examples=["MySQL"])
    writable: bool = Field(description="Whether pipelines or repairs may write there.")
    audits: int = Field(description="How many audits read it.")
    limits: LoadLimits


class TableRights(ApiModel):
    """What a connection's user may do with a table that audits read."""

    table: str
    audits: list[str] = Field(description="The audits that read it.")
    problems: list[str] = Field(
        description="Why its user may not read it as it is: it is hidden or not there, or columns or rows are; empty if none is known."
    )


class ConnectionCheck(ApiModel):
    """Whether a database answered, and what its user may read."""

    name: str
    at: dt.datetime
    reachable: bool
    server: str = Field(description="The server's name and version; empty if it did not answer.")
    tables: int | None = Field(description="Tables and views that the user sees; null if they could not be listed.")
    rights: list[TableRights] = Field(description="Of the tables that audits read there, 100 at most, what its user may.")
    seconds: float = Field(description="How long connecting and listing took.")
    error: str = Field(description="Why it did not answer, or why its tables could not be listed; empty if all went well.")
