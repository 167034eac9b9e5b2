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


class Allowed(Strict):
    """What may differ: at least this ``score``, or at most this many differing ``rows``, or this ``share`` of them.

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


class Threshold(Allowed):
    """What still counts as a match, and beyond which ``warn`` channels are warned although it is one.

    Written as a score, as what is allowed, or as both levels: ``{warn: {rows: 10}, fail: {rows: 100}}``.
    """

    warn: Annotated[Allowed, BeforeValidator(_from_number)] | None = None
    """What may differ without a warning; less than what counts as a match."""

    @model_validator(mode="after")
    def _warns_first(self) -> Threshold:
        if self.warn is None:
            return self
        if (self.score, self.rows, self.share) == (1.0, None, None):
            raise ValueError("warn needs fail, beyond which a run is a mismatch: {warn: {rows: 10}, fail: {rows: 100}}")
        more = {
            "score": self.warn.score < self.score,
            "rows": self.warn.rows is not None and self.rows is not None and self.warn.rows > self.rows,
            "share": self.warn.share is not None and self.share is not None and self.warn.share > self.share,
        }
        if name := next((name for name, allows_more in more.items() if allows_more), None):
            raise ValueError(f"warn: {name} allows more than fail does; warn has to come first")
        return self


def _from_levels(value: Any) -> Any:
    """Bring ``{warn: ..., fail: ...}`` into the form of a `Threshold`. Raises ValueError for ``fail`` beside what it stands for."""
    value = _from_number(value)
    if not isinstance(value, dict) or "fail" not in value:
        return value
    if others := sorted(set(value) - {"warn", "fail"}):
        raise ValueError(f"fail and {others[0]} cannot be combined; write {others[0]} below fail:")
    fail = _from_number(value["fail"])
    if not isinstance(fail, dict):
        raise ValueError("fail is a score, or has score, rows or share: {rows: 100}")
    if "warn" in fail:
        raise ValueError("write warn beside fail, not below it")
    return {**fail, **({"warn": value["warn"]} if "warn" in value else {})}


ThresholdField = Annotated[Threshold, BeforeValidator(_from_levels)]
