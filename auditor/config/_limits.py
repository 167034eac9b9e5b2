"""How much a run reads of a table, and how many differing rows it lists and stores. Limits of connections: ``_connection.py``."""

from __future__ import annotations

from pydantic import Field, model_validator

from auditor.config._base import Duration, Share, Strict


class Limits(Strict):
    """Limits within which the method exact names differences; beyond them it estimates."""

    max_rows_listed: int | None = Field(None, ge=0)
    """Maximum rows listed of partitions that do not decode; by default 1 % of the table, and at least 100,000."""
    max_differences: int = Field(10_000, ge=0)
    """Maximum differences stored with their keys; all are counted."""
    max_seconds: Duration = 600.0
    """Maximum seconds spent on finding the rows that differ."""
    value_length: int = Field(200, ge=1)
    """Maximum characters of a value that are reported: around where the two sides differ, with both lengths where one is longer."""


class Rolling(Strict):
    """Read only some partitions in each run: those that were read least recently."""

    per_run: Share | None = None
    """Share of the table that a run reads."""
    budget: Duration | None = None
    """Seconds after which a run starts no further chunks."""

    @model_validator(mode="after")
    def _one_of_both(self) -> Rolling:
        if (self.per_run is None) == (self.budget is None):
            raise ValueError("rolling needs exactly one of per_run (per_run: 5%) and budget (budget: 10m)")
        if self.per_run == 0:
            raise ValueError("per_run: 0 would read nothing; write a larger share")
        return self
