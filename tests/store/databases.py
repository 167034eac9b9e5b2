"""A database of its own on a server, for one test module."""

from __future__ import annotations

import uuid
from contextlib import closing
from typing import Any
from urllib.parse import urlsplit

from tests.servers import mysql, postgres


def create(server: str) -> str:
    """Make an empty database and return its URL."""
    name = f"store_{uuid.uuid4().hex[:12]}"
    run(server, f"CREATE DATABASE {name}")
    return urlsplit(server)._replace(path=f"/{name}").geturl()


def drop(server: str, url: str) -> None:
    """Drop a database that `create` made, whoever is still connected."""
    name = urlsplit(url).path.lstrip("/")
    run(server, f"DROP DATABASE {name}{' WITH (FORCE)' if server.startswith('postgres') else ''}")


def run(url: str, *statements: str) -> None:
    """Run statements past the store."""
    connection: Any = postgres.connect(url) if url.startswith("postgres") else mysql.connect(url)
    with closing(connection):
        cursor = connection.cursor()
        for statement in statements:
            cursor.execute(statement)
