"""A store's URL, made into what SQLAlchemy and the driver need."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import URL

import dialects
from auditor.errors import BadUrl

WAIT = 20
"""Seconds to wait for another's lock."""

SILENCE = 60
"""Seconds after which a server that says nothing is taken for gone; longer than any statement takes, and than WAIT."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where a store is. ``name`` is its URL without the password."""

    name: str
    url: URL
    options: Mapping[str, Any]


def parsed(text: str) -> Address:
    """Take a store's URL apart. Raises BadUrl, without repeating the text, which may hold a password."""
    if text.startswith("sqlite:"):
        return _file(text)
    given = dialects.parse(text)
    drivers = {"mysql": "mysql+pymysql", "mariadb": "mysql+pymysql", "postgresql": "postgresql+psycopg2", "postgres": "postgresql+psycopg2"}
    driver = drivers.get(given.scheme)
    if driver is None:
        raise BadUrl(f"a store cannot be kept in {given.scheme}://; write sqlite:///, postgresql://, mysql:// or mariadb://")
    if not given.database:
        raise BadUrl(f"{given}: a store's URL must end with the name of a database")
    url = URL.create(driver, given.user, given.password, given.host or "localhost", given.port, given.database)
    return Address(str(given), url, _mysql(given) if driver.startswith("mysql") else _postgres(given))


def _file(text: str) -> Address:
    path = text.removeprefix("sqlite:///")
    if path == text or path in ("", ":memory:"):
        raise BadUrl("a store in SQLite is a file: sqlite:///relative/path or sqlite:////absolute/path")
    return Address(text, URL.create("sqlite", database=path), {"timeout": WAIT})


def _mysql(url: dialects.Url) -> dict[str, Any]:
    options: dict[str, Any] = {name: url.options[name] for name in ("ssl_ca", "unix_socket") if name in url.options}
    if url.option("ssl", "") in ("false", "0"):
        options["ssl_disabled"] = True
    return {
        **options,
        "charset": "utf8mb4",
        "connect_timeout": url.number("connect_timeout", 10),
        "read_timeout": SILENCE,
        "write_timeout": SILENCE,
        "sql_mode": "STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION",
        "init_command": f"SET time_zone = '+00:00', innodb_lock_wait_timeout = {WAIT}",
    }


def _postgres(url: dialects.Url) -> dict[str, Any]:
    options = {name: value for name, value in url.options.items() if name.startswith("ssl")}
    return {**options, "connect_timeout": url.number("connect_timeout", 10)}


POSTGRES_PINS = f"SET TIME ZONE 'UTC'; SET extra_float_digits = 3; SET lock_timeout = '{WAIT}s'; SET standard_conforming_strings = on"
"""Set by a statement, not by options of the connection, which poolers refuse."""
