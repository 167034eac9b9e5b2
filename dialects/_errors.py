"""The root of the project's one tree of errors, and the errors that an engine can cause.

They stand here because a dialect may raise them and imports nothing from above; ``auditor.errors`` draws the whole tree.
Each class says what its command should exit with, what an HTTP answer's status is, and whether trying again can help.
The docstring of a class is its default message.
"""

from __future__ import annotations

from typing import ClassVar


class AuditorError(Exception):
    """Something went wrong that the auditor knows how to name."""

    exit_code: ClassVar[int] = 3
    http_status: ClassVar[int] = 500
    retryable: ClassVar[bool] = False

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or type(self).__doc__)


class EngineError(AuditorError):
    """The database refused or failed a statement."""

    http_status = 502


class Unreachable(EngineError):
    """The database could not be reached; check host, port and network."""

    retryable = True


class AccessDenied(EngineError):
    """The database refused the user name or the password, or the user lacks a right."""


class ConnectionLost(EngineError):
    """The connection to the database was lost while a statement ran."""

    retryable = True


class StatementTimeout(EngineError):
    """A statement ran longer than its time limit; raise statement_timeout or make the partitions of a statement fewer."""

    http_status = 504
    retryable = True


class LockTimeout(EngineError):
    """A statement waited too long for a lock that another session holds; try again later, or raise lock_timeout."""

    http_status = 504
    retryable = True


class StatementCancelled(EngineError):
    """A statement was cancelled on the server."""

    retryable = True


class StatementRefused(EngineError):
    """The database could not run a statement."""


class NoSuchObject(EngineError):
    """The database has no such table, column or schema."""

    exit_code = 2
    http_status = 422


class DriverMissing(EngineError):
    """The Python driver of this engine is not installed."""

    exit_code = 2


class BadUrl(AuditorError):
    """A connection URL could not be understood."""

    exit_code = 2
    http_status = 422
