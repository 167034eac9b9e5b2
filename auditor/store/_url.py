"""Convert a store's URL to what SQLAlchemy and the drivers need."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import URL

import dialects
from auditor.errors import BadUrl
from auditor.waits import waits
from dialects.mysql import login as mysql_login
from dialects.postgres import login as postgres_login

DRIVERS = {"mysql": "mysql+pymysql", "mariadb": "mysql+pymysql", "postgresql": "postgresql+psycopg2", "postgres": "postgresql+psycopg2"}
"""SQLAlchemy's name of the driver by a URL's scheme; a scheme that already names the driver means the same."""


@dataclass(frozen=True, slots=True)
class Address:
    """The address of a store. ``name`` is its URL without the password; ``options`` are arguments of the driver's ``connect``."""

    name: str
    url: URL
    options: Mapping[str, Any]


def parse_store_url(text: str) -> Address:
    """Parse a store's URL. Raises BadUrl; its message does not contain ``text``, which may hold a password."""
    if text.startswith("sqlite:"):
        return _sqlite_address(text)
    given = dialects.parse_url(text)
    driver = DRIVERS.get(given.scheme.removesuffix("+pymysql").removesuffix("+psycopg2"))
    if driver is None:
        raise BadUrl(
            f"store: url has the scheme {given.scheme}://, which is not supported; use sqlite:///, postgresql://, mysql:// or mariadb://"
        )
    if not given.database:
        raise BadUrl(f"store: url {given} names no database; append its name: /DATABASE")
    if driver.startswith("postgresql"):
        options = postgres_login.libpq_options(given)
        url = URL.create(driver, database=given.database)
        return Address(str(given), url, options)
    url = URL.create(driver, given.user, given.password, given.host or "localhost", given.port, given.database)
    return Address(str(given), url, _mysql_options(given))


def _sqlite_address(text: str) -> Address:
    path = text.removeprefix("sqlite:///")
    if path == text or path in ("", ":memory:"):
        raise BadUrl("store: url names no SQLite file; write sqlite:///relative/path or sqlite:////absolute/path")
    if "?" in path:
        raise BadUrl("store: url of a SQLite file has options after a question mark, and SQLite's has none; remove them")
    return Address(text, URL.create("sqlite", database=path), {"timeout": waits().store_lock})


def _mysql_options(url: dialects.Url) -> dict[str, Any]:
    return {
        **mysql_login.login_options(url),
        "charset": "utf8mb4",
        "read_timeout": waits().store_answer,
        "write_timeout": waits().store_answer,
        "sql_mode": "STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION",
        "init_command": f"SET time_zone = '+00:00', innodb_lock_wait_timeout = {waits().store_lock}",
    }


def postgres_settings() -> str:
    """Return a session's settings, which are statements because connection poolers reject them as connection options."""
    lock = f"SET lock_timeout = '{waits().store_lock}s'"
    return f"SET TIME ZONE 'UTC'; SET extra_float_digits = 3; {lock}; SET standard_conforming_strings = on"
