"""Connection URLs: ``scheme://user:password@host:port/database?option=value``."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

from dialects.errors import BadUrl

LOOPBACK = re.compile(r"localhost|127(\.\d+){3}|::1|/.*", re.IGNORECASE)
"""Hosts that are this machine, and folders of local sockets."""


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

    @property
    def patience(self) -> int:
        """Seconds that a server may take for each answer while a connection is made: ``connect_timeout``, by default 10. Raises BadUrl."""
        if not (seconds := self.integer_option("connect_timeout", 10)):
            raise BadUrl(f"{self}: option connect_timeout must be at least 1 second")
        return seconds

    def flag(self, name: str) -> bool:
        """Return whether ``?name=true`` is given. Raises BadUrl if it is neither true nor false."""
        text = self.option(name, "false").lower()
        if text not in ("true", "false", "1", "0"):
            raise BadUrl(f"{self}: option {name} must be true or false, not {text!r}")
        return text in ("true", "1")

    def refuse_unknown(self, known: Collection[str], more: Callable[[str], bool] = lambda _: False, hint: str = "") -> None:
        """Raise BadUrl, with the nearest known name, for an option that is neither in ``known`` nor ``more``."""
        for name in sorted(set(self.options) - set(known)):
            if not more(name):
                near = get_close_matches(name.lower().replace("-", "_"), known, n=1, cutoff=0.5)
                suggestion = f"did you mean {near[0]}?" if near else f"use {', '.join(sorted(known))}" if known else "this engine has none"
                raise BadUrl(f"{self}: unknown option {name}; {suggestion}{f' ({hint})' if hint else ''}")

    def file_option(self, name: str) -> str | None:
        """Return the path of ``?name=...``; None without that option. Raises BadUrl if there is no such file."""
        path = self.options.get(name)
        if path is not None and not Path(path).is_file():
            raise BadUrl(f"{self}: {name}={path}: there is no such file; write an absolute path")
        return path

    @property
    def is_local(self) -> bool:
        """Whether the host is this machine, so that nothing crosses a network."""
        return LOOPBACK.fullmatch(self.host or "localhost") is not None


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
    host = parts.hostname
    if host and "%" in host:  # a folder of sockets, as libpq takes it; the parser has made small letters of it
        host = unquote(re.sub(r":\d*$", "", parts.netloc.rpartition("@")[2]))
    path, _, parameters = parts.path.partition(";")
    given = [*parse_qsl(parameters, True, separator=";"), *parse_qsl(parts.query, True)]
    names = [name for name, _ in given]
    if twice := sorted(name for name in set(names) if names.count(name) > 1):
        raise BadUrl(f"a connection URL has the option {twice[0]} twice; remove one of them")
    return Url(
        scheme=scheme.lower(),
        user=unquote(parts.username) if parts.username else None,
        password=unquote(parts.password) if parts.password else None,
        host=host,
        port=port,
        database=unquote((path if "=" in parameters else parts.path).removeprefix("/")),
        options=dict(given),
    )
