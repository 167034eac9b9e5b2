"""What a URL says of where it leads, before anything is opened."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from dialects.url import Url


class Addresses:
    """How an engine's URLs are read."""

    def __init__(self, engine: str) -> None:
        self.engine = engine
        """The engine's name, with which identifiers begin."""

    DEFAULT_PORT: ClassVar[int | None] = None
    """The port of a URL without one; None for an engine without a port."""

    VERIFIED_BY: ClassVar[str] = ""
    """The options of a URL by which the server's identity is verified; empty for an engine without a server."""

    def database_id(self, url: Url) -> str:
        """Return a canonical identifier of the database behind a URL, without credentials; equal for URLs of the same database.

        Only the URLs are compared: two names of one host give two identifiers.
        """
        return f"{self.engine}://{url.host or 'localhost'}:{url.port or self.DEFAULT_PORT or ''}/{url.database}"

    def is_local(self, url: Url) -> bool:
        """Return whether a URL leads to this machine, so that nothing crosses a network."""
        return url.is_local

    def verifies_server(self, url: Url) -> bool:
        """Return whether a connection is encrypted, and made only if the server's certificate and name were verified. Raises BadUrl."""
        return not self.VERIFIED_BY

    def write_url(self, url: Url) -> Url:
        """Return the URL with which a session may write."""
        return url


class FileAddresses(Addresses):
    """How URLs are read of an engine whose database is a file, which is opened to be read unless ``access_mode`` is ``read_write``."""

    def database_id(self, url: Url) -> str:
        return f"{self.engine}://{Path(url.database).resolve()}"

    def write_url(self, url: Url) -> Url:
        return replace(url, options={**url.options, "access_mode": "read_write"})
