"""The slice of a table that a single run compares, as it is written in requests."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, ConfigDict, Field, model_validator

from auditor.config._base import Strict
from auditor.model import parse_time

MIN_KEY, MAX_KEY = -(2**63), 2**64 - 1
"""The range of 64-bit integer keys, signed and unsigned."""

Key = Annotated[int, Field(ge=MIN_KEY, le=MAX_KEY, strict=True)]


def _check_time(text: str) -> str:
    parse_time(text)
    return text


Time = Annotated[str, Field(max_length=40), AfterValidator(_check_time)]


class KeyRange(Strict):
    """Rows by a single integer key, from ``from`` to ``to``, both inclusive. Either can be omitted."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"from": 1000, "to": 2000}]})

    from_: Key | None = Field(None, alias="from", description="The least key; by default no lower bound.")
    to: Key | None = Field(None, description="The greatest key, inclusive; by default no upper bound.")

    @model_validator(mode="after")
    def _holds_keys(self) -> KeyRange:
        if self.from_ is None and self.to is None:
            raise ValueError("write from, to or both")
        if self.from_ is not None and self.to is not None and self.from_ > self.to:
            raise ValueError("from is greater than to; exchange them")
        return self


class TimeRange(Strict):
    """Rows by their time, from ``from`` (inclusive) to ``to`` (exclusive), so that adjacent ranges share no row. Either can be omitted."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"from": "2026-11-01", "to": "2026-12-01"}]})

    from_: Time | None = Field(None, alias="from", description="ISO 8601, by default in UTC; rows at this time or later.")
    to: Time | None = Field(None, description="ISO 8601, by default in UTC; rows before this time.")

    @model_validator(mode="after")
    def _holds_times(self) -> TimeRange:
        if self.from_ is None and self.to is None:
            raise ValueError("write from, to or both")
        if self.from_ is not None and self.to is not None and parse_time(self.from_) >= parse_time(self.to):
            raise ValueError("from is not before to; exchange them")
        return self


class SliceSettings(Strict):
    """The slice of a run: the rows that are in all given ranges."""

    keys: KeyRange | None = None
    times: TimeRange | None = None
