"""How far values may differ and still be equal, and how many rows may differ in a match: ``tolerance`` and ``threshold``."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field, model_validator

from auditor.config._base import Duration, Share, Strict


class Tolerance(Strict):
    """How far two values of a column may differ and still count as equal; ``time`` is in seconds."""

    absolute: float | None = Field(None, gt=0)
    """The greatest difference of two numbers."""
    relative: float | None = Field(None, gt=0, lt=1)
    """The greatest difference as a share of the greater number."""
    time: Duration | None = Field(None, gt=0)
    """The greatest difference of two times."""

    @model_validator(mode="after")
    def _one(self) -> Tolerance:
        if sum(value is not None for value in (self.absolute, self.relative, self.time)) != 1:
            raise ValueError("tolerance needs exactly one of absolute (absolute: 0.01), relative (relative: 0.000001) and time (time: 1s)")
        return self


class Threshold(Strict):
    """What still counts as a match: at least this ``score``, or at most this many differing ``rows``, or this ``share`` of them.

    Rows are counted, not keys: a key that the target holds 5,000 times too often is 5,000 rows.
    """

    score: float = Field(1.0, ge=0, le=1)
    """The least similarity."""
    rows: int | None = Field(None, ge=0)
    """The most rows that may differ."""
    share: Share | None = None
    """The greatest share of rows that may differ."""


def _from_number(value: Any) -> Any:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return {"score": value}
    return value


ThresholdField = Annotated[Threshold, BeforeValidator(_from_number)]
