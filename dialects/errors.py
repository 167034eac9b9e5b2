"""The root of the project's error tree, and the errors that an engine can cause.

They are defined here because dialects raise them and import nothing from ``auditor``; ``auditor.errors`` draws the whole tree.
Each class states the exit code of a command that fails with it, and whether a retry can help (``retryable``).
The docstring of a class is its default message.
"""

from __future__ import annotations

from typing import ClassVar


class AuditorError(Exception):
    """The auditor failed for a known reason."""

    exit_code: ClassVar[int] = 3
    retryable: ClassVar[bool] = False

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or type(self).__doc__)


class EngineError(AuditorError):
    """The database refused or failed a statement."""

    names: tuple[str, ...] = ()
    """Names of tables, columns and constraints that the message quotes, as far as the database says which of it are names."""


class Unreachable(EngineError):
    """The database could not be reached; check host, port and network."""

    retryable = True


class FileInUse(Unreachable):
    """Another process has the database's file open, in a way that excludes this one; close it there, or retry later."""


class AccessDenied(EngineError):
    """The database refused the user name or password, or the user does not have a privilege."""


class NotVerified(EngineError):
    """The server's identity could not be verified; check the authority in the URL, the host's name, and who answers there."""


class ConnectionLost(EngineError):
    """The connection to the database was lost during a statement."""

    retryable = True


class ServerSilent(ConnectionLost):
    """The database said nothing for longer than a statement may run, so its connection was cut; check that it is not stuck."""


class UnloadFailed(EngineError):
    """Rows that Redshift unloaded to S3 could not be read from there, or are not those that it wrote."""


class FilesUnreachable(EngineError):
    """Files that the engine loads could not be written to S3, or deleted there; check the bucket and this process's rights."""

    retryable = True


class StatementTimeout(EngineError):
    """A statement exceeded its time limit; raise statement_timeout, or reduce the number of partitions per statement."""

    retryable = True


class LockTimeout(EngineError):
    """A statement waited too long for a lock held by another session; retry later, or raise lock_timeout."""

    retryable = True


class SnapshotLost(EngineError):
    """A table was altered since the snapshot began, so the server no longer shows it; read in a new snapshot."""

    retryable = True


class SerializationConflict(EngineError):
    """The server ended a statement because it could not be put in order with transactions of others; retry it."""

    retryable = True


class StatementCancelled(EngineError):
    """A statement was cancelled on the server."""

    retryable = True


class StatementRefused(EngineError):
    """The database could not run a statement."""


class ResultIncomplete(EngineError):
    """A result did not arrive as a whole: a setting of the server, what is between, or the driver cuts results; find and undo that."""


class NoSuchObject(EngineError):
    """The database has no such table, column or schema."""

    exit_code = 2


class DriverMissing(EngineError):
    """The Python driver of this engine is not installed."""

    exit_code = 2


class JarsDoNotFit(EngineError):
    """A jar that Spark needs is missing, or was built for another version of Spark; see the versions in docs/spark-lakes.md."""

    exit_code = 2


class EngineBroken(EngineError):
    """The package of an engine cannot be loaded; repair it or uninstall it."""

    exit_code = 2


class ServerTooOld(EngineError):
    """The server is older than the oldest version that the auditor supports; upgrade it, or audit a newer replica of it."""

    exit_code = 2


class SessionNotKept(EngineError):
    """A session does not keep what it sets: a pooler lends another one for each transaction, or the server has values of its own."""

    exit_code = 2


class SessionSwitched(EngineError):
    """Statements that belong to one session were answered by another, or it lost its settings: connect to the server itself."""


class ServerRefused(EngineError):
    """The server speaks the protocol of another product, and what is read from it would be wrong; the message names the reason."""

    exit_code = 2


class BadUrl(AuditorError):
    """A connection URL is malformed."""

    exit_code = 2
