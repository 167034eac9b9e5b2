"""Every error there is, in one tree. Each class has an exit code, an HTTP status, and says whether trying again can help.

::

    AuditorError                      exit 3, 500
    ├── EngineError                   exit 3, 502   a database refused or failed a statement
    │   ├── Unreachable               retryable
    │   ├── AccessDenied
    │   ├── ConnectionLost            retryable
    │   ├── StatementTimeout          504, retryable
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
    ├── ResultError                   exit 3, 422   saved results that cannot be compared
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
    NoSuchObject,
    StatementCancelled,
    StatementRefused,
    StatementTimeout,
    Unreachable,
)

__all__ = [
    "AccessDenied", "AuditorError", "BadExpression", "BadUrl", "ColumnRefused", "ConfigError", "ConnectionLost",
    "DemoDataMissing", "DriverMissing", "EngineError", "HashMissing", "NoKey", "NoSuchObject", "NotOurTable", "PlanError",
    "ResultError", "StatementCancelled", "StatementRefused", "StatementTimeout", "UnknownAudit", "Unreachable",
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
