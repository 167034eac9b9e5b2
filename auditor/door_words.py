"""The words of each door in messages: their commands as requests over HTTP, left out of pages, and back again for the command line."""

from __future__ import annotations

import re
from collections.abc import Mapping

FIELDS = {
    "accept": "accept",
    "columns": "columns",
    "days": "days",
    "delete-extra": "delete_extra",
    "key": "key",
    "key-list": "keys",
    "keys": "keys",
    "limit": "limit",
    "partitions": "partitions",
    "since": "since",
    "table": "table",
}
"""What requests call that which messages call by an option of the command line."""

REQUESTS: Mapping[str, str] = {
    "runs": "GET /api/v1/runs",
    "incidents": "GET /api/v1/incidents",
    "ls": "GET /api/v1/audits",
    "show": "GET /api/v1/runs/{}",
    "run": "POST /api/v1/audits/{}/runs",
    "resume": "POST /api/v1/runs/{}/resume",
    "cancel": "POST /api/v1/runs/{}/cancel",
}
"""The request that does what a command does, with the command's only argument in it."""

_END = r"(?=$|[;,)]|\.(?:\s|$))"
"""What follows a command that has no option."""

_NAMES = "|".join(f"{name}{' (?:[^ ;,)]+)' if '{}' in request else ''}" for name, request in REQUESTS.items())
_COMMAND = re.compile(rf"\bauditor ({_NAMES}){_END}")
_CLAUSE = re.compile(rf"(?:; (?:see|see it with))?(?:,? with)?:? ?\bauditor (?:{_NAMES}){_END}")
_REQUEST = re.compile("|".join(re.escape(request).replace(r"\{\}", "([^ ;,)/]+)") + r"(?![/\w])" for request in REQUESTS.values()))


def in_requests(text: str) -> str:
    """Return a message in the words of requests: fields in place of options, and requests in place of commands that one does as well.

    Commands of the operator, which no request does, stay as they are.
    """
    told = re.sub(rf"\bauditor [^;)]*|--({'|'.join(FIELDS)})\b(?!-)", lambda found: FIELDS[found[1]] if found[1] else found[0], text)
    return _COMMAND.sub(_to_request, told)


def in_pages(text: str) -> str:
    """Return a message in the words of pages, which have links and buttons where the command line has commands."""
    return _CLAUSE.sub("", text)


def in_commands(text: str, server: str) -> str:
    """Return a message of a service in the words of the command line that asked it at ``server``."""
    names = {request: name for name, request in REQUESTS.items()}

    def to_command(found: re.Match[str]) -> str:
        argument = next((group for group in found.groups() if group), "")
        name = names[found[0].replace(f"/{argument}", "/{}", 1) if argument else found[0]]
        return " ".join(filter(None, ("auditor", name, argument, "--server", server)))

    return _REQUEST.sub(to_command, text)


def _to_request(found: re.Match[str]) -> str:
    name, _, argument = found[1].partition(" ")
    return REQUESTS[name].format(argument)
