"""Send a message to the services of a channel's URL: by apprise, with its type and link, and under the key of its incident.

What apprise cannot do is asked of the service itself: Opsgenie closes an alert by its alias.

The URL of a channel contains secrets, so texts of apprise and of drivers are never logged or returned; errors are described in our own
words.
"""

from __future__ import annotations

import html
import json
import logging
import re
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from http.client import HTTPException
from typing import Any, Literal
from urllib.parse import quote

from auditor.config import Channel
from auditor.durations import durations
from auditor.errors import NotifyError
from auditor.escaping import chat_line, markdown_text
from auditor.report import formatting

Kind = Literal["failure", "warning", "success", "info"]
"""The types of messages, as apprise calls them."""


@dataclass(frozen=True, slots=True)
class Message:
    """A title and one sentence per line; `body` renders the lines for a service."""

    title: str
    lines: tuple[str, ...]
    kind: Kind = "info"
    key: str = ""
    """What stays the same from an incident's first message to that of its recovery, where a service knows incidents; empty: it is none."""
    link: str = ""
    """The URL of the page about it; empty if the service's ``public_url`` is not known."""

    def body(self, form: str) -> str:
        """Return the lines as ``text``, ``markdown`` or ``html``, with the link as the last one."""
        if form == "html":
            lines = [chat_line(html.escape(formatting.visible(line))) for line in self.lines]
            lines += [f'<a href="{html.escape(self.link)}">{html.escape(self.link)}</a>'] if self.link else []
            return f"<ul>{''.join(f'<li>{line}</li>' for line in lines)}</ul>"
        link = [self.link] if self.link else []
        if form == "markdown":
            return "\n".join(f"- {line}" for line in [*(chat_line(markdown_text(line)) for line in self.lines), *link])
        return "\n".join([*(chat_line(formatting.visible(line)) for line in self.lines), *link])


def send(name: str, channel: Channel, message: Message) -> None:
    """Send a message to a channel within ``send_limit`` seconds. Raises NotifyError, whose text contains nothing of the URL."""
    within_limit(f"channel {formatting.visible(name)}", lambda: _send_all(channel.url, message))


def within_limit(receiver: str, work: Callable[[], str]) -> None:
    """Do what returns a failure or '' within ``send_limit`` seconds. Raises NotifyError."""
    results: list[str] = []
    # A service that sends a byte now and then would never time out in its plugin.
    thread = threading.Thread(target=lambda: results.append(work()), name=f"notify {receiver}", daemon=True)
    thread.start()
    thread.join(limit := durations().send_limit)
    if not results:
        raise NotifyError(f"{receiver}: the service did not answer within {limit:g} s")
    if results[0]:
        raise NotifyError(f"{receiver}: {results[0]}")


def _send_all(url: str, message: Message) -> str:
    """Send to every service of a URL, stopping at the first failure; returns its reason, or ''."""
    import apprise

    with _captured_logs() as logged:
        try:
            asset = apprise.AppriseAsset(app_id="auditor", app_desc="auditor", async_mode=False, secure_logging=True)
            services = apprise.Apprise(asset=asset)
            if not services.add(url) or not len(services):
                return "apprise does not support its URL; see https://appriseit.com/services/"
            for service in services:
                logged.clear()
                if failure := _send_one(service, message, asset, logged):
                    return failure
        except Exception as error:  # plugins raise errors of any type
            return f"sending failed ({type(error).__name__})"
    return ""


def _send_one(service: Any, message: Message, asset: Any, logged: Sequence[str]) -> str:
    """Send to one service; returns the failure, or ''."""
    import apprise

    if prepare := _PREPARE.get(type(service).__name__):
        prepare(service, message)
    if type(service).__name__ == "NotifyOpsgenie" and message.kind == "success" and message.key and service.action == "map":
        return _close_alert(service, message)
    form = _body_format(service)
    sender = apprise.Apprise(asset=asset)
    sender.add(service)
    title = chat_line(formatting.visible(message.title))
    kind = apprise.NotifyType(message.kind)
    if sender.notify(body=message.body(form), title=title, body_format=apprise.NotifyFormat(form), notify_type=kind):
        return ""
    return _failure_reason(logged)


def _prepare_pagerduty(service: Any, message: Message) -> None:
    """Let a message raise the incident of its key, and let recovery resolve it. What the URL names itself stays."""
    if message.key:
        service.action = "map"
        service.dedup = service.dedup or message.key
    service.click = service.click or message.link or None


def _prepare_opsgenie(service: Any, message: Message) -> None:
    """Give an alert its alias, and let messages that are of no incident be alerts, too: a note needs an alert that it is added to."""
    service.alias = service.alias or message.key or None
    service.mapping = {**service.mapping, "info": "new"}
    if message.link:
        service.details = {"link": message.link, **service.details}


def _prepare_webhook(service: Any, message: Message) -> None:
    """Add the key and the link to what is posted, beside title, message and type."""
    service.payload_extras = {"key": message.key, "link": message.link, **service.payload_extras}


_PREPARE: Mapping[str, Callable[[Any, Message], None]] = {
    "NotifyPagerDuty": _prepare_pagerduty,
    "NotifyOpsgenie": _prepare_opsgenie,
    "NotifyJSON": _prepare_webhook,
}
"""What is done with a service of apprise before it is used, by the name of its class."""


INCIDENT_SCHEMES = ("pagerduty", "opsgenie")
"""Schemes of URLs of services that know incidents by a key."""


def knows_incidents(channel: Channel) -> bool:
    """Return whether a channel's service opens an incident for a message's key, and ends it with the recovery of that key."""
    return channel.url.partition("://")[0].lower() in INCIDENT_SCHEMES


def _close_alert(service: Any, message: Message) -> str:
    """Close Opsgenie's alert by its alias; returns the failure, or ''.

    apprise knows an alert by the answer to the request that made it alone, which another process has had.
    """
    from apprise.plugins.opsgenie import OPSGENIE_API_LOOKUP

    url = f"{OPSGENIE_API_LOOKUP[service.region_name]}/{quote(service.alias, safe='')}/close?identifierType=alias"
    body = {"source": "auditor", "note": f"{message.title}\n{message.body('text')}", **({"user": service.user} if service.user else {})}
    return post_json(url, body, {"Authorization": f"GenieKey {service.apikey}"})


def post_json(url: str, body: Mapping[str, Any], headers: Mapping[str, str] = {}) -> str:
    """Post a value as JSON; returns the failure, in words that contain nothing of the URL, or ''."""
    sent = {"Content-Type": "application/json", "User-Agent": "auditor", **headers}
    request = urllib.request.Request(url, json.dumps(body).encode(), sent, method="POST")
    try:
        with urllib.request.build_opener(_NoRedirect).open(request, timeout=durations().send_limit):
            return ""
    except urllib.error.HTTPError as error:
        with error:
            return f"the service answered with status {error.code}"
    except (OSError, HTTPException, ValueError) as error:
        return f"the service could not be reached or did not answer in time ({type(error).__name__})"


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Follow no redirects: they could send the token to another host."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        """Return None: do not follow."""


def _body_format(service: Any) -> str:
    """Return the body format that a service prefers, text, markdown or html, and text rather than Markdown where it takes both.

    Slack takes both, and has a Markdown of its own, in which escapes show.
    """
    if not hasattr(service, "resolve_format"):
        return str(getattr(service.notify_format, "value", service.notify_format))
    chosen = service.resolve_format()
    if getattr(chosen, "value", chosen) == "markdown":
        chosen = service.resolve_format("text")
    return str(getattr(chosen, "value", chosen))


def _failure_reason(logged: Sequence[str]) -> str:
    """Describe the failure that apprise logged, in words that contain nothing of the URL."""
    text = " ".join(logged).lower()
    if code := re.search(r"error[= ]+(\d{3})\b", text):
        return f"the service answered with status {code[1]}"
    if "auth" in text:
        return "the service rejected the user, the password or the token"
    if "connection" in text or "socket" in text:
        return "the service could not be reached or did not answer in time"
    return "the service rejected the message"


_LOGGED: ContextVar[list[str] | None] = ContextVar("logged", default=None)
"""Where log lines of the current send are collected; apprise copies the context to the threads of its plugins."""


@contextmanager
def _captured_logs() -> Iterator[list[str]]:
    """Collect warnings logged during this send, and suppress all its log lines: debug lines contain URLs with tokens."""
    logged: list[str] = []

    def capture(record: logging.LogRecord) -> bool:
        if _LOGGED.get() is not logged:
            return True
        if record.levelno >= logging.WARNING:
            logged.append(record.getMessage())
        return False

    _LOGGED.set(logged)
    loggers = [logging.getLogger(name) for name in ("apprise", "urllib3.connectionpool", "requests", "urllib3.util.retry")]
    for logger in loggers:
        logger.addFilter(capture)
    try:
        yield logged
    finally:
        for logger in loggers:
            logger.removeFilter(capture)
