"""Settings of methods: which one a run begins with and escalates to, and what the method counts measures and allows."""

from __future__ import annotations

import re
from typing import Any

from pydantic import Field, model_validator

from auditor.config._base import Strict
from auditor.model import Method


class Ladder(Strict):
    """Methods from cheapest to most expensive: a run starts with the first, and escalates to the next when it finds a difference."""

    levels: tuple[Method, ...] = Field(min_length=2)
    """The methods, in this order; a list in place of these settings is the same."""
    every: int = Field(10, ge=0)
    """Every n-th run executes all levels, whatever the lower ones find; 0: never."""

    @model_validator(mode="before")
    @classmethod
    def _list(cls, value: Any) -> Any:
        return {"levels": value} if isinstance(value, list) else value

    @model_validator(mode="after")
    def _upwards(self) -> Ladder:
        order = ["counts", "signature", "minhash", "exact"]
        places = [order.index(level) for level in self.levels]
        if sorted(set(places)) != places:
            raise ValueError(f"the levels are not in order; write them from cheapest to most expensive: {', '.join(order)}")
        return self


class Histogram(Strict):
    """Count the values of a column in ``buckets`` of equal width between its least and greatest value."""

    column: str
    """A column of numbers, dates or timestamps."""
    buckets: int = Field(20, ge=2, le=1000)
    """Number of buckets."""


class Counts(Strict):
    """What the method counts measures in addition to counts and sums, and which deviations are allowed."""

    classes: tuple[str, ...] = ()
    """Columns whose rows are counted for each distinct value."""
    most_classes: int = Field(1000, ge=1, le=100_000)
    """Maximum distinct values of a column; of one with more, only the most frequent are compared."""
    histogram: tuple[Histogram, ...] = ()
    """Histograms that are compared."""
    allow: dict[str, str | float] = {}
    """Allowed deviation from the source by measure: a number, or a percentage. A measure is ``rows``, ``column measure``
    (``price sum``) or ``* measure`` (``* nulls``)."""

    @model_validator(mode="before")
    @classmethod
    def _one_histogram(cls, value: Any) -> Any:
        if isinstance(value, dict) and isinstance(value.get("histogram"), dict):
            return {**value, "histogram": [value["histogram"]]}
        return value

    @model_validator(mode="after")
    def _numbers(self) -> Counts:
        invalid = [str(text) for text in self.allow.values() if not re.fullmatch(r"\d+(\.\d+)?(e-?\d+)?%?", str(text).strip())]
        if invalid:
            raise ValueError(f"{invalid[0]!r} is not a deviation; write a number (10) or a percentage ('0.1%')")
        return self
