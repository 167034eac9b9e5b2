"""What every answer stands on: the settings, the store, the workers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, cast
from urllib.parse import unquote, urlsplit

from fastapi import Depends, Request

from auditor.api.shared import Shared
from auditor.config import Settings
from auditor.store import Store

if TYPE_CHECKING:
    from auditor.schedule import Ticker
    from auditor.service.queueing import Workers


@dataclass(frozen=True, slots=True)
class Behind:
    """What the service was started with; ``workers`` and ``ticker`` are None where other processes do their work."""

    configured: Settings
    store: Store
    workers: Workers | None = None
    ticker: Ticker | None = None
    shared: Shared = field(default_factory=Shared)

    @property
    def settings(self) -> Settings:
        """The settings with the audits that were defined over HTTP."""
        from auditor.service import audits

        return audits.every(self.configured, self.store)


async def behind(request: Request) -> Behind:
    """What stands behind the application that a request came to. Async, since it waits for nothing and needs no thread."""
    return cast(Behind, request.app.state.behind)


Given = Annotated[Behind, Depends(behind)]


def secrets_of(settings: Settings) -> list[str]:
    """What of a configuration no line of a log may show: passwords, and all of what channels are reached by."""
    urls = [one.url for one in settings.connections.values()] + ([settings.store.url] if settings.store else [])
    found = [one.url for one in settings.notify.channels.values()]
    for url in urls:
        try:
            password = urlsplit(url).password or ""
        except ValueError:  # no URL at all: whatever it is, it is not to be shown
            password = url
        found += [password, unquote(password)]
    return [one for one in found if one]
