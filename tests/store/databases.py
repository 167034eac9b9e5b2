"""Create and drop databases on a server, for one test module each."""

from __future__ import annotations

import uuid
from contextlib import closing
from typing import Any
from urllib.parse import urlsplit

from tests.servers import mysql, postgres


def create(server: str) -> str:
    """Create an empty database and return its URL."""
    name = f"store_{uuid.uuid4().hex[:12]}"
    run(server, f"CREATE DATABASE {name}")
    return urlsplit(server)._replace(path=f"/{name}").geturl()


def drop(server: str, url: str) -> None:
    """Drop a database that `create` created, even with open connections."""
    name = urlsplit(url).path.lstrip("/")
    run(server, f"DROP DATABASE {name}{' WITH (FORCE)' if server.startswith('postgres') else ''}")


def run(url: str, *statements: str) -> None:
    """Run statements on a connection that is not the store's."""
    connection: Any = postgres.connect(url) if url.startswith("postgres") else mysql.connect(url)
    with closing(connection):
        cursor = connection.cursor()
        for statement in statements:
            cursor.execute(statement)
