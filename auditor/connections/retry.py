"""The retry rule: which errors are retried, and how long to wait before each retry."""

from __future__ import annotations

from auditor.errors import AuditorError, EngineError, ServerSilent, StatementTimeout
from auditor.waits import waits


def is_worth_retrying(error: AuditorError, attempts: int) -> bool:
    """Whether an error of an engine may succeed when retried after ``attempts`` failures.

    A statement that timed out would take as long again: it is cut smaller where it can be, and never repeated. One that was never
    answered took longer still, but perhaps only its connection was lost: it is repeated once.
    """
    if isinstance(error, ServerSilent) and attempts:
        return False
    return (
        isinstance(error, EngineError) and error.retryable and not isinstance(error, StatementTimeout) and attempts < len(waits().retries)
    )
