"""When audits run by themselves, and how the service serves."""

from __future__ import annotations

from datetime import UTC, datetime
from ipaddress import ip_network
from typing import Annotated, Any, Literal
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError
from pydantic import AfterValidator, BeforeValidator, Field

from auditor.config._base import Duration, Strict


def _cron(text: str) -> str:
    try:
        CronSim(text, datetime(2000, 1, 1, tzinfo=UTC))
    except CronSimError as error:
        raise ValueError(f"{text!r} is no cron expression ({error}); write minute, hour, day, month, weekday: '30 6 * * 1-5'") from None
    return text


def _zone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise ValueError(f"{name!r} is no time zone; write one such as Europe/Berlin or UTC") from None
    return name


class Schedule(Strict):
    """When an audit is due: a cron expression in a time zone, whose clock may jump."""

    cron: Annotated[str, AfterValidator(_cron)]
    timezone: Annotated[str, AfterValidator(_zone)] = "UTC"
    jitter: Duration = 0.0
    """Each tick is put off by up to so long, by the audit's name, so that audits of one moment do not begin together."""
    catch_up: Literal["last", "none"] = "last"
    """What becomes of ticks that nobody was there for: the last of them is run, or none."""


def _schedule(value: Any) -> Any:
    return {"cron": value} if isinstance(value, str) else value


Schedules = Annotated[Schedule, BeforeValidator(_schedule)]


def _network(text: str) -> str:
    try:
        ip_network(text)
    except ValueError:
        raise ValueError(
            f"{text!r} is no address and no network; write the proxy's own address as the service sees it: 10.0.0.7, or 10.0.0.0/24"
        ) from None
    return text


class Service(Strict):
    """``auditor serve``."""

    host: str = "127.0.0.1"
    port: int = Field(8080, ge=0, le=65535)
    workers: int = Field(2, ge=1, le=32)
    """Runs at once in one process."""
    queue: int = Field(100, ge=1)
    """Runs that may wait; more are refused."""
    grace: Duration = 30.0
    """How long running chunks are waited for when the service is asked to end."""
    max_body: int = Field(16 * 1024 * 1024, ge=1024)
    """Bytes of a request, uploaded summaries among them."""
    proxies: tuple[Annotated[str, AfterValidator(_network)], ...] = ("127.0.0.1", "::1")
    """Addresses and networks of proxies, whose X-Forwarded-Proto and X-Forwarded-For are believed: whether a request came by TLS, and
    from where. Nobody else's are."""
    rate: int = Field(600, ge=1)
    """Requests of one caller in a minute."""
