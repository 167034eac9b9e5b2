"""What is not compared, looked at again, or looked up, because it may be in flight: ``settle``, ``recheck`` and ``history``."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from auditor.config._base import Duration, Strict
from auditor.config._connection import Heartbeat


class Settle(Strict):
    """Leave out rows of both sides that may still be in flight: those whose ``column`` is not older than the watermark.

    The watermark is the source's clock minus ``lag``, or the latest heartbeat that has reached the target, minus ``lag``. A row whose
    time is more than a day ahead of the source's clock is compared, because its time must be wrong. A deleted row has no time: until
    the delete arrives at the target it is reported as extra, unless the audit also has a ``recheck``.
    """

    column: str
    """The time of a row's last change, by the source's name; with an index that begins with it, runs also know where rows were written."""
    lag: Duration | None = None
    """How long a change may take to arrive."""
    heartbeat: Heartbeat | None = None
    """A table by which the target shows how far it has come."""
    barrier: Duration | None = None
    """How long a run waits until a ``heartbeat`` reaches the target that was written after the source's snapshot was opened; the watermark
    is then the source's clock right before that, minus ``lag``. Only for targets that get the transactions of all tables in order."""
    nulls: Literal["compare", "leave_out"] = "compare"
    """Whether rows whose ``column`` is NULL are compared or left out."""

    @model_validator(mode="after")
    def _some_watermark(self) -> Settle:
        if self.lag is None and self.heartbeat is None:
            raise ValueError(
                "settle needs a watermark; add lag (lag: 15m), or the source's heartbeat (heartbeat: {table: ..., column: ...})"
            )
        if self.barrier is not None and self.heartbeat is None:
            raise ValueError("barrier waits for a heartbeat, and none is given; add the source's (heartbeat: {})")
        return self


class Recheck(Strict):
    """Confirm a difference only if it is still found at up to ``times`` rechecks. Each wait is ``backoff`` times the one before."""

    times: int = Field(3, ge=1, le=10)
    """Rechecks at most."""
    wait: Duration = 30.0
    """Time before the first recheck."""
    backoff: float = Field(2.0, ge=1, le=10)
    """Factor by which each wait is longer than the one before."""


class History(Strict):
    """Look up each row that differs among the versions that a pipeline keeps of the source's rows: whether it is in flight, or wrong."""

    pipeline: str
    """The pipeline that keeps the versions: it reads the source's log, and need not be the one that fills the target."""
    at_most: Duration = Field(600.0, ge=1)
    """How long a change may take to arrive: a row that holds an older version for longer is wrong. Seconds; write ``10m``."""


def _of_name(given: Any) -> Any:
    return {"pipeline": given} if isinstance(given, str) else given


HistoryField = Annotated[History, BeforeValidator(_of_name)]
"""Also just the pipeline's name."""
