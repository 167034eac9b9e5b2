"""Every error there is, in one tree. Each class has an exit code, an HTTP status, and says whether trying again can help.

::

    AuditorError                      exit 3, 500
    ├── EngineError                   exit 3, 502   a database refused or failed a statement
    │   ├── Unreachable               retryable
    │   ├── AccessDenied
    │   ├── ConnectionLost            retryable
    │   ├── StatementTimeout          504, retryable
    │   ├── LockTimeout               504, retryable
    │   ├── StatementCancelled        retryable
    │   ├── StatementRefused
    │   ├── NoSuchObject              exit 2, 422
    │   └── DriverMissing             exit 2
    ├── BadUrl                        exit 2, 422
    ├── ConfigError                   exit 2, 422   auditor.yaml, the environment or the command line
    │   └── UnknownAudit              404
    ├── PlanError                     exit 2, 422   the two tables cannot be compared as asked
    │   ├── NoKey
    │   ├── ColumnRefused
    │   ├── BadExpression
    │   └── HashMissing
    │   ├── SchemaChanged             409           schema: strict, and a column is not what it was
    │   └── ScanRefused               409           a large table, a key without an index, and no force
    ├── ResultError                   exit 3, 422   saved results that cannot be compared
    ├── GuestWaited                   exit 3, 503   retryable   a database was too busy for too long
    ├── StoreError                    exit 3, 503   what is kept cannot be read or written
    │   ├── StoreUnavailable          retryable
    │   ├── StoreReadOnly
    │   ├── StoreFull
    │   ├── StoreTooNew
    │   ├── UnknownRun                exit 2, 404
    │   ├── UnknownRepair             exit 2, 404
    │   ├── AlreadyRunning            exit 2, 409
    │   ├── NotResumable              exit 2, 409
    │   └── QueueFull                 exit 3, 429   retryable
    ├── Forbidden                     exit 2, 403   a token that may not do this
    │   └── Unauthorised              401           no token, or one that is not known, expired or revoked
    ├── NotifyError                   exit 3, 502   a channel could not be told
    ├── DemoDataMissing               exit 2
    └── NotOurTable                   exit 2, 409

The root and the branches an engine can cause stand in ``dialects._errors``, which imports nothing from here.
"""

from __future__ import annotations

from dialects._errors import (
    AccessDenied,
    AuditorError,
    BadUrl,
    ConnectionLost,
    DriverMissing,
    EngineError,
    LockTimeout,
    NoSuchObject,
    StatementCancelled,
    StatementRefused,
    StatementTimeout,
    Unreachable,
)

__all__ = [
    "AccessDenied",
    "AlreadyRunning",
    "AuditorError",
    "BadExpression",
    "BadUrl",
    "ColumnRefused",
    "ConfigError",
    "ConnectionLost",
    "DemoDataMissing",
    "DriverMissing",
    "EngineError",
    "Forbidden",
    "GuestWaited",
    "HashMissing",
    "LockTimeout",
    "NoKey",
    "NoSuchObject",
    "NotOurTable",
    "NotResumable",
    "NotifyError",
    "PlanError",
    "QueueFull",
    "ResultError",
    "ScanRefused",
    "SchemaChanged",
    "StatementCancelled",
    "StatementRefused",
    "StatementTimeout",
    "StoreError",
    "StoreFull",
    "StoreReadOnly",
    "StoreTooNew",
    "StoreUnavailable",
    "Unauthorised",
    "UnknownAudit",
    "UnknownRepair",
    "UnknownRun",
    "Unreachable",
]  # fmt: skip


class ConfigError(AuditorError):
    """The configuration is wrong."""

    exit_code = 2
    http_status = 422


class UnknownAudit(ConfigError):
    """There is no audit of that name in the configuration."""

    http_status = 404


class PlanError(AuditorError):
    """The two tables cannot be compared as the audit asks."""

    exit_code = 2
    http_status = 422


class NoKey(PlanError):
    """No key identifies a row: the source has no primary key and the audit names none; write key: [column, ...]."""


class ColumnRefused(PlanError):
    """A column cannot be compared; exclude it or say how under columns."""


class BadExpression(PlanError):
    """A filter or expression could not be understood."""


class HashMissing(PlanError):
    """The server has no MD5(), which the audit's encoding or hash needs."""


class SchemaChanged(PlanError):
    """A column is not what it was at the last run, and the audit's schema is strict."""

    http_status = 409


class ScanRefused(PlanError):
    """The table is large and no index begins with the key; add one, or write force: true under the connection's limits."""

    http_status = 409


class GuestWaited(AuditorError):
    """A database was too busy for too long; start a new run later, or resume this one where it is told as resumable."""

    http_status = 503
    retryable = True


class StoreError(AuditorError):
    """What is kept of runs cannot be read or written."""

    http_status = 503


class StoreUnavailable(StoreError):
    """The store could not be reached; check store: url, and that its server runs."""

    retryable = True


class StoreReadOnly(StoreError):
    """The store may not be written; check the rights of the file, its directory, or the database's user."""


class StoreFull(StoreError):
    """The store's disk is full; make room, or run: auditor prune."""


class StoreTooNew(StoreError):
    """The store was made by a newer version of the auditor; use that version, or another store."""


class UnknownRun(StoreError):
    """There is no such run; see: auditor runs."""

    exit_code = 2
    http_status = 404


class UnknownRepair(StoreError):
    """There is no such repair; see those of its run."""

    exit_code = 2
    http_status = 404


class AlreadyRunning(StoreError):
    """This audit is being run already."""

    exit_code = 2
    http_status = 409


class NotResumable(StoreError):
    """This run cannot be resumed; start a new one."""

    exit_code = 2
    http_status = 409


class QueueFull(StoreError):
    """Too many runs are waiting already; try again later, or raise service: queue."""

    http_status = 429
    retryable = True


class Forbidden(AuditorError):
    """The token's scope does not allow this."""

    exit_code = 2
    http_status = 403


class Unauthorised(Forbidden):
    """There is no valid token; make one with: auditor token create --scope read --name NAME."""

    http_status = 401


class NotifyError(AuditorError):
    """A channel could not be told."""

    http_status = 502


class ResultError(AuditorError):
    """Saved results cannot be compared."""

    http_status = 422


class DemoDataMissing(AuditorError):
    """The demonstration's data set is not installed: pip install 'auditor[demo]'."""

    exit_code = 2


class NotOurTable(AuditorError):
    """A table of that name exists that the demonstration did not make; it is left alone. Choose another schema."""

    exit_code = 2
    http_status = 409
