"""The part of a table that a single run may be asked to look at alone, as it is written."""

from __future__ import annotations

import datetime as dt
from typing import Annotated

from pydantic import AfterValidator, ConfigDict, Field, model_validator

from auditor.config._base import Strict

LEAST, GREATEST = -(2**63), 2**64 - 1
"""The keys that any engine's integers can hold, signed and unsigned."""

Key = Annotated[int, Field(ge=LEAST, le=GREATEST, strict=True)]


def moment(text: str) -> dt.datetime:
    """A time as ISO 8601 writes it, in UTC; without an offset it is UTC. Raises ValueError."""
    try:
        found = dt.datetime.fromisoformat(text)
        return found.replace(tzinfo=dt.UTC) if found.tzinfo is None else found.astimezone(dt.UTC)
    except (ValueError, OverflowError):
        raise ValueError("write a time as 2026-11-01 or 2026-11-01T06:30:00, in UTC unless it says otherwise") from None


def _time(text: str) -> str:
    moment(text)
    return text


Time = Annotated[str, Field(max_length=40), AfterValidator(_time)]


class KeyRange(Strict):
    """Rows by their key, which is one whole number: from the one to the other, both included. Either may be left out."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"from": 1000, "to": 2000}]})

    from_: Key | None = Field(None, alias="from", description="The least key; all from the first on without it.")
    to: Key | None = Field(None, description="The greatest key, included; all to the last without it.")

    @model_validator(mode="after")
    def _holds_keys(self) -> KeyRange:
        if self.from_ is None and self.to is None:
            raise ValueError("write from, to or both")
        if self.from_ is not None and self.to is not None and self.from_ > self.to:
            raise ValueError("from has to be at most to")
        return self


class TimeRange(Strict):
    """Rows by their time: from the one on and before the other, so that neighbouring ranges share no row. Either may be left out."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"from": "2026-11-01", "to": "2026-12-01"}]})

    from_: Time | None = Field(None, alias="from", description="ISO 8601, in UTC unless it says otherwise; rows from then on.")
    to: Time | None = Field(None, description="ISO 8601, in UTC unless it says otherwise; rows before then.")

    @model_validator(mode="after")
    def _holds_times(self) -> TimeRange:
        if self.from_ is None and self.to is None:
            raise ValueError("write from, to or both")
        if self.from_ is not None and self.to is not None and moment(self.from_) >= moment(self.to):
            raise ValueError("from has to be before to")
        return self


class Ranges(Strict):
    """What a run is asked to look at alone: the rows of which all that is written here holds."""

    keys: KeyRange | None = None
    times: TimeRange | None = None
