"""What ClickHouse's error codes mean.

https://github.com/ClickHouse/ClickHouse/blob/master/src/Common/ErrorCodes.cpp
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Iterator

from dialects import errors

_ERROR_BY_CODE: dict[int, type[errors.AuditorError]] = {
    16: errors.NoSuchObject, 47: errors.NoSuchObject, 60: errors.NoSuchObject, 81: errors.NoSuchObject, 1055: errors.NoSuchObject,
    159: errors.StatementTimeout, 160: errors.StatementTimeout, 473: errors.LockTimeout,
    394: errors.StatementCancelled, 734: errors.StatementCancelled, 735: errors.StatementCancelled,
    164: errors.AccessDenied, 192: errors.AccessDenied, 193: errors.AccessDenied, 194: errors.AccessDenied, 195: errors.AccessDenied,
    497: errors.AccessDenied, 516: errors.AccessDenied,
    202: errors.Unreachable, 203: errors.Unreachable, 209: errors.ConnectionLost, 210: errors.ConnectionLost, 236: errors.ConnectionLost,
    279: errors.Unreachable, 425: errors.ConnectionLost, 999: errors.Unreachable,
}  # fmt: skip
"""Error class by error code of the server."""

_END = re.compile(r"\((?:version [^()]*(?:\([^()]*\))?|for url [^()]*)\)$")
"""What ends a message: the server's version and build, and the address to which the driver has sent the statement."""


def translate_error(error: BaseException, where: str = "") -> errors.AuditorError | None:
    """Return the error of ``dialects.errors`` for an exception of clickhouse-connect, or None; ``where`` names the URL while connecting."""
    from clickhouse_connect.driver import exceptions
    from urllib3.exceptions import HTTPError

    if not isinstance(error, (exceptions.ClickHouseError, HTTPError, OSError)):
        return None
    prefix = f"{where}: " if where else ""
    for cause in _causes(error):
        if isinstance(cause, ssl.SSLCertVerificationError):
            return errors.NotVerified(f"{prefix}the server's certificate is not trusted: {cause.verify_message}")
        if isinstance(cause, ssl.SSLError):
            return errors.NotVerified(
                f"{prefix}no encrypted connection was made ({cause.reason or 'TLS failed'}); secure=true needs its port"
            )
    code = getattr(error, "code", None)
    text = _message(str(error))
    if code is None:
        system = [cause.strerror for cause in _causes(error) if isinstance(cause, OSError) and cause.strerror]
        return (errors.Unreachable if where else errors.ConnectionLost)(f"{prefix}{system[-1] if system else text or type(error).__name__}")
    return _ERROR_BY_CODE.get(code, errors.StatementRefused)(f"{prefix}{text} (ClickHouse error {code})")


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an exception and what it was made of: urllib3 keeps the cause of a retry in ``reason``, and others among their arguments."""
    seen: list[BaseException] = []
    pending = [error]
    while pending:
        current = pending.pop()
        if isinstance(current, BaseException) and current not in seen:
            seen.append(current)
            yield current
            pending += [current.__cause__, current.__context__, getattr(current, "reason", None), *current.args]


def _message(text: str) -> str:
    """Return the server's sentence, without the address and the error's number that the driver puts before it."""
    found = re.search(r"DB::Exception: (.*)", text, re.DOTALL)
    sentence = found[1] if found else text
    while sentence != (shorter := _END.sub("", sentence).strip()):
        sentence = shorter
    return " ".join(sentence.removesuffix(".").split())
