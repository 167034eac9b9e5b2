"""Translate the errors of database drivers to `StoreError` and its subclasses. No other module knows drivers' errors."""

from __future__ import annotations

import sqlite3
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import exc

from auditor.errors import StoreError, StoreFull, StoreReadOnly, StoreUnavailable
from dialects.postgres import errors as postgres_errors

Fault = tuple[type[StoreError], str]
"""The error to raise, and its message: what is wrong, and what to do next."""

UNREACHABLE: Fault = (StoreUnavailable, "cannot connect to the server; check store: url, and that the server is running")
REFUSED: Fault = (StoreError, "the server rejected the user name or password; check store: url")
NOT_VERIFIED: Fault = (StoreError, "the server's identity could not be verified; check the authority in store: url, and who answers there")
NO_DATABASE: Fault = (StoreError, "the database does not exist; create an empty one (its tables are created automatically)")
READ_ONLY: Fault = (StoreReadOnly, "it is read-only; check that the server is not a replica, and the privileges of its user")
FULL: Fault = (StoreFull, "the disk is full; free some space, or run: auditor prune, which needs a free megabyte itself")
BUSY: Fault = (StoreUnavailable, "it is locked by another process; retry, or stop the process that holds the lock")
TOO_MANY_CONNECTIONS: Fault = (StoreUnavailable, "the server accepts no more connections; retry, or raise its connection limit")

SQLITE: dict[int, Fault] = {
    sqlite3.SQLITE_BUSY: BUSY,
    sqlite3.SQLITE_LOCKED: BUSY,
    sqlite3.SQLITE_READONLY: (StoreReadOnly, "it is read-only; check the permissions of the file and its directory"),
    sqlite3.SQLITE_PERM: (StoreReadOnly, "it is read-only; check the permissions of the file and its directory"),
    sqlite3.SQLITE_FULL: FULL,
    sqlite3.SQLITE_IOERR: (StoreUnavailable, "the disk failed to read or write the file; check the disk, and any limit on file sizes"),
    sqlite3.SQLITE_NOTADB: (StoreError, "the file is not a SQLite database; choose another path, or move the file away"),
    sqlite3.SQLITE_CORRUPT: (StoreError, "the file is corrupt; restore it from a backup, or move it away to start with an empty store"),
}
"""Faults by SQLite's primary result code: https://www.sqlite.org/rescode.html"""

MYSQL: dict[int, Fault] = {
    **dict.fromkeys((2002, 2003, 2005, 2006, 2013, 1053, 1077, 1927, 4031), UNREACHABLE),
    **dict.fromkeys((1044, 1045, 1130, 1698, 1862), REFUSED),
    **dict.fromkeys((1142, 1227, 1290, 1792, 1836, 3989), READ_ONLY),
    **dict.fromkeys((1021, 1026, 1114, 3675), FULL),
    **dict.fromkeys((1205, 1213), BUSY),
    **dict.fromkeys((1040, 1203, 1226), TOO_MANY_CONNECTIONS),
    1049: NO_DATABASE,
    2026: NOT_VERIFIED,
    1153: (StoreError, "the data is larger than the server accepts; raise its max_allowed_packet"),
}
"""Faults by the error number of MySQL and MariaDB: https://dev.mysql.com/doc/mysql-errors/en/server-error-reference.html"""

POSTGRES: dict[str, Fault] = {
    "08": UNREACHABLE,
    "57P": UNREACHABLE,
    "28": REFUSED,
    "3D000": NO_DATABASE,
    "25006": READ_ONLY,
    "42501": READ_ONLY,
    "53100": FULL,
    "53300": TOO_MANY_CONNECTIONS,
    "55P03": BUSY,
    "40": BUSY,
    "57014": (StoreUnavailable, "the server cancelled the statement; retry"),
}
"""Faults by the first characters of the SQLSTATE: https://www.postgresql.org/docs/current/errcodes-appendix.html"""

POSTGRES_MESSAGES = {
    **dict.fromkeys(postgres_errors.NOT_VERIFIED, NOT_VERIFIED),
    "authentication failed": REFUSED,
    "no password supplied": REFUSED,
    "pg_hba.conf": REFUSED,
    "role": REFUSED,
    "does not exist": NO_DATABASE,
    "too many": TOO_MANY_CONNECTIONS,
    "remaining connection slots": TOO_MANY_CONNECTIONS,
}
"""Faults by a part of libpq's message, for connection errors, which have no SQLSTATE. The first match counts."""


@contextmanager
def translate_errors(name: str) -> Iterator[None]:
    """Raise a StoreError in place of a driver's error in the block. ``name`` is the store's URL without the password."""
    try:
        yield
    except exc.TimeoutError as error:
        raise StoreUnavailable(f"store {name}: every connection is in use; retry") from error
    except exc.DBAPIError as error:
        raise _translate(name, error.orig) from error
    except sqlite3.Error as error:
        raise _translate(name, error) from error
    except RuntimeError as error:
        if "LOAD_LOCAL" not in str(error):
            raise
        raise StoreError(
            f"store {name}: the server asked for a file of this machine, which is never sent; check who answers there"
        ) from error


def is_write_conflict(error: exc.DBAPIError) -> bool:
    """Return whether another process wrote the same rows concurrently, so that a retry will see what it wrote."""
    if isinstance(error, exc.IntegrityError):
        return True
    driver = error.orig
    return getattr(driver, "pgcode", None) in ("40001", "40P01") or _error_code(driver) == 1213


def _error_code(error: Any) -> int | None:
    arguments = getattr(error, "args", ())
    return arguments[0] if arguments and isinstance(arguments[0], int) else None


def _translate(name: str, error: Any) -> StoreError:
    kind, sentence = _classify(name, error)
    arguments = [part for part in getattr(error, "args", ()) if isinstance(part, str)]
    message = " ".join(" ".join(arguments).split())
    return kind(f"store {name}: {sentence}{f' ({message[:300]})' if message else ''}")


def _classify(name: str, error: Any) -> Fault:
    unknown: Fault = (StoreError, "it could not be read or written; see the database's message")
    if isinstance(error, sqlite3.Error):
        extended = getattr(error, "sqlite_errorcode", 0)
        if extended == sqlite3.SQLITE_IOERR_SHMSIZE:  # there is no room even for the index of SQLite's log
            return FULL
        code = extended & 0xFF
        return _classify_unopenable(name) if code == sqlite3.SQLITE_CANTOPEN else SQLITE.get(code, unknown)
    if hasattr(error, "pgcode"):
        if error.pgcode is None:
            message = str(error)
            return next((fault for words, fault in POSTGRES_MESSAGES.items() if words in message), UNREACHABLE)
        return next((fault for start, fault in POSTGRES.items() if error.pgcode.startswith(start)), unknown)
    code = _error_code(error)
    if code in (3, 1030) and "28" in str(error):  # a storage engine's error; only its text holds the errno, and 28 is ENOSPC
        return FULL
    if isinstance(getattr(error, "original_exception", None), ssl.SSLCertVerificationError):
        return NOT_VERIFIED
    return MYSQL.get(code or 0, UNREACHABLE if isinstance(error, OSError) else unknown)


def _classify_unopenable(name: str) -> Fault:
    directory = Path(name.removeprefix("sqlite:///")).parent
    if not directory.is_dir():
        return StoreUnavailable, f"directory {directory} does not exist; create it, or correct store: url"
    return StoreReadOnly, "the file cannot be opened; check the permissions of the file and its directory, and that it is not a directory"
