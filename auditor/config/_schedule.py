"""When an audit is due, and when its target is copied again. Ticks: ``auditor/service/cron.py``; when an audit is stale:
``auditor/history/audit_status.py``.
"""

from __future__ import annotations

import datetime as dt
from typing import Annotated, Any, Literal

from cronsim import CronSim, CronSimError
from pydantic import AfterValidator, BeforeValidator

from auditor.config._base import Duration, Strict, Zone


def _check_cron(text: str) -> str:
    try:
        CronSim(text, dt.datetime(2000, 1, 1, tzinfo=dt.UTC))
    except CronSimError as error:
        raise ValueError(f"{text!r} is not a cron expression ({error}); write minute, hour, day, month, weekday: '30 6 * * 1-5'") from None
    return text


class Schedule(Strict):
    """When an audit is due: a cron expression in a time zone, which may have daylight saving time."""

    cron: Annotated[str, AfterValidator(_check_cron)]
    """Minute, hour, day, month and weekday, as in cron: ``30 6 * * 1-5``."""
    timezone: Zone = "UTC"
    """The time zone of the expression."""
    jitter: Duration = 0.0
    """Maximum delay of each tick, in seconds. It depends on the audit's name, so that audits due at the same time do not start together."""
    catch_up: Literal["last", "none"] = "last"
    """Whether the last of the ticks missed while no scheduler was running is run, or none."""
    bootstrap: Annotated[str, AfterValidator(_check_cron)] | None = None
    """When the target is copied again, as a cron expression: by ``auditor bootstrap --due --apply`` alone. By default never."""


def _from_cron(value: Any) -> Any:
    return {"cron": value} if isinstance(value, str) else value


ScheduleField = Annotated[Schedule, BeforeValidator(_from_cron)]
