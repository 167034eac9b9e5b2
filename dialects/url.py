"""Connection URLs: ``scheme://user:password@host:port/database?option=value``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, unquote, urlsplit

from dialects.errors import BadUrl


@dataclass(frozen=True, slots=True)
class Url:
    """A parsed connection URL; neither ``str()`` nor ``repr()`` shows the password.

    User, password and database are percent-decoded; ``options`` are the values of the query string, and of parameters at the end of the
    path (``/;name=value;name=value``), as Spark Connect writes them.
    """

    scheme: str
    user: str | None
    password: str | None = field(repr=False)
    host: str | None
    port: int | None
    database: str
    options: Mapping[str, str] = field(repr=False)
    """They may hold secrets, as a token."""

    def __str__(self) -> str:
        user = f"{self.user}{':***' if self.password else ''}@" if self.user else ""
        port = f":{self.port}" if self.port else ""
        return f"{self.scheme}://{user}{self.host or ''}{port}/{self.database}"

    def option(self, name: str, default: str) -> str:
        """Return the value of ``?name=...``, or ``default``."""
        return self.options.get(name, default)

    def integer_option(self, name: str, default: int) -> int:
        """Return the value of ``?name=...`` as a non-negative integer, or ``default``. Raises BadUrl if it is none."""
        text = self.options.get(name, str(default))
        if not text.isdecimal():
            raise BadUrl(f"{self}: option {name} must be a whole number, not {text!r}")
        return int(text)


def parse_url(text: str) -> Url:
    """Parse a connection URL. Raises BadUrl, whose message never repeats the text, because it may contain a password."""
    encode = "percent-encode special characters of the password: @ is %40, / is %2F, # is %23"
    scheme, separator, rest = text.partition("://")
    try:
        parts = urlsplit(f"url://{rest}")  # whose own schemes have no underscore, as SQLAlchemy's do
        port = parts.port
    except ValueError:  # the text of this error repeats a piece of the URL
        raise BadUrl(f"a connection URL is malformed: its host or port cannot be parsed; {encode}") from None
    if not separator or not re.fullmatch(r"[a-z][a-z0-9+._-]*", scheme, re.IGNORECASE):
        raise BadUrl("a connection URL must have the form mysql://user:password@host:3306/database")
    if parts.fragment or (":" in parts.netloc and "@" in parts.path):
        raise BadUrl(f"a connection URL has a # or @ after its host; {encode}")
    path, _, parameters = parts.path.partition(";")
    return Url(
        scheme=scheme.lower(),
        user=unquote(parts.username) if parts.username else None,
        password=unquote(parts.password) if parts.password else None,
        host=parts.hostname,
        port=port,
        database=unquote((path if "=" in parameters else parts.path).removeprefix("/")),
        options={**dict(parse_qsl(parameters, separator=";")), **dict(parse_qsl(parts.query))},
    )
