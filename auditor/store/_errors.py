"""What a database says when it cannot keep something, told as errors of the tree: the one place that knows drivers' errors."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import exc

from auditor.errors import StoreError, StoreFull, StoreReadOnly, StoreUnavailable

Told = tuple[type[StoreError], str]

UNREACHABLE: Told = (StoreUnavailable, "it could not be reached; check store: url, and that its server runs")
REFUSED: Told = (StoreError, "the server refused the user name or the password; check store: url")
NO_DATABASE: Told = (StoreError, "the server has no such database; create it, empty: the tables come by themselves")
READ_ONLY: Told = (StoreReadOnly, "it may not be written; check that the server is no replica, and the rights of its user")
FULL: Told = (StoreFull, "its disk is full; make room, or run: auditor prune")
BUSY: Told = (StoreUnavailable, "another process holds it locked; try again, or end the process that does not let go")
CROWDED: Told = (StoreUnavailable, "its server takes no more connections; try again, or raise its limit")

SQLITE: dict[int, Told] = {
    sqlite3.SQLITE_BUSY: BUSY,
    sqlite3.SQLITE_LOCKED: BUSY,
    sqlite3.SQLITE_READONLY: (StoreReadOnly, "it may not be written; check the rights of the file and of its directory"),
    sqlite3.SQLITE_PERM: (StoreReadOnly, "it may not be written; check the rights of the file and of its directory"),
    sqlite3.SQLITE_FULL: FULL,
    sqlite3.SQLITE_IOERR: (StoreUnavailable, "the disk failed to read or write it; check its health, and limits of a file's size"),
    sqlite3.SQLITE_NOTADB: (StoreError, "the file is no SQLite database; choose another path, or move the file away"),
    sqlite3.SQLITE_CORRUPT: (StoreError, "the file is damaged; restore it from a copy, or move it away to begin anew"),
}
"""https://www.sqlite.org/rescode.html"""

MYSQL: dict[int, Told] = {
    **dict.fromkeys((2002, 2003, 2005, 2006, 2013, 1053, 1077, 1927, 4031), UNREACHABLE),
    **dict.fromkeys((1044, 1045, 1130, 1698, 1862), REFUSED),
    **dict.fromkeys((1142, 1227, 1290, 1792, 1836, 3989), READ_ONLY),
    **dict.fromkeys((1021, 1026, 1114, 3675), FULL),
    **dict.fromkeys((1205, 1213), BUSY),
    **dict.fromkeys((1040, 1203, 1226), CROWDED),
    1049: NO_DATABASE,
    1153: (StoreError, "what is to be kept is larger than the server takes; raise its max_allowed_packet"),
}
"""https://dev.mysql.com/doc/mysql-errors/en/server-error-reference.html"""

POSTGRES: dict[str, Told] = {
    "08": UNREACHABLE,
    "57P": UNREACHABLE,
    "28": REFUSED,
    "3D000": NO_DATABASE,
    "25006": READ_ONLY,
    "42501": READ_ONLY,
    "53100": FULL,
    "53300": CROWDED,
    "55P03": BUSY,
    "40": BUSY,
    "57014": (StoreUnavailable, "the server cancelled a statement; try again"),
}
"""By the beginning of the SQLSTATE: https://www.postgresql.org/docs/current/errcodes-appendix.html"""

POSTGRES_SAYS = {
    "authentication failed": REFUSED,
    "no password supplied": REFUSED,
    "pg_hba.conf": REFUSED,
    "role": REFUSED,
    "does not exist": NO_DATABASE,
    "too many": CROWDED,
    "remaining connection slots": CROWDED,
}
"""What libpq says on connecting has no SQLSTATE, in this order."""


@contextmanager
def told(name: str) -> Iterator[None]:
    """Turn what a driver raises within into errors of the tree; ``name`` is the store's."""
    try:
        yield
    except exc.TimeoutError as error:
        raise StoreUnavailable(f"store {name}: every connection is in use; try again") from error
    except exc.DBAPIError as error:
        raise _translated(name, error.orig) from error
    except sqlite3.Error as error:
        raise _translated(name, error) from error


def collided(error: exc.DBAPIError) -> bool:
    """Whether another process wrote the same at the same moment, so that a second try sees what it wrote."""
    if isinstance(error, exc.IntegrityError):
        return True
    driver = error.orig
    return getattr(driver, "pgcode", None) in ("40001", "40P01") or _code(driver) == 1213


def _code(error: Any) -> int | None:
    arguments = getattr(error, "args", ())
    return arguments[0] if arguments and isinstance(arguments[0], int) else None


def _translated(name: str, error: Any) -> StoreError:
    found, sentence = _recognised(name, error)
    arguments = [part for part in getattr(error, "args", ()) if isinstance(part, str)]
    said = " ".join(" ".join(arguments).split())
    return found(f"store {name}: {sentence}{f' ({said[:300]})' if said else ''}")


def _recognised(name: str, error: Any) -> Told:
    unknown: Told = (StoreError, "it could not be read or written")
    if isinstance(error, sqlite3.Error):
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        return _unopened(name) if code == sqlite3.SQLITE_CANTOPEN else SQLITE.get(code, unknown)
    if hasattr(error, "pgcode"):
        if error.pgcode is None:
            says = str(error)
            return next((told for words, told in POSTGRES_SAYS.items() if words in says), UNREACHABLE)
        return next((told for start, told in POSTGRES.items() if error.pgcode.startswith(start)), unknown)
    code = _code(error)
    if code in (3, 1030) and "28" in str(error):  # an error of the storage engine: 28 is ENOSPC, which the text alone says
        return FULL
    return MYSQL.get(code or 0, UNREACHABLE if isinstance(error, OSError) else unknown)


def _unopened(name: str) -> Told:
    directory = Path(name.removeprefix("sqlite:///")).parent
    if not directory.is_dir():
        return StoreUnavailable, f"there is no directory {directory}; make it, or correct store: url"
    return StoreReadOnly, "the file cannot be opened; check the rights of the file and of its directory, and that it is a file"
