"""What PostgreSQL's SQLSTATEs mean, which Redshift shares."""

from __future__ import annotations

import re

from dialects import errors

ERROR_BY_SQLSTATE: dict[str, type[errors.AuditorError]] = {
    "28": errors.AccessDenied, "42501": errors.AccessDenied, "3D000": errors.NoSuchObject, "3F000": errors.NoSuchObject,
    "42P01": errors.NoSuchObject, "42703": errors.NoSuchObject, "08": errors.ConnectionLost, "57P": errors.ConnectionLost,
    "53300": errors.Unreachable, "55P03": errors.LockTimeout, "40001": errors.SerializationConflict, "57014": errors.StatementCancelled,
}  # fmt: skip
"""Error class by SQLSTATE or its first characters. https://www.postgresql.org/docs/current/errcodes-appendix.html"""

NOT_VERIFIED = ("certificate verify failed", "does not match host name", "does not support SSL, but SSL was required")
"""How libpq says that the server is not the one that the URL asks for, or does not encrypt."""

UNUSABLE = ("root certificate file", "certificate file", "private key file", "definition of service", "invalid sslmode", "weak sslmode")
"""How libpq says that it cannot use what an option names."""

DATA = "22"
"""Class of the SQLSTATEs of values that cannot be stored."""

_COPIED = re.compile(r"^COPY .+?, line \d+, column ([^:]+)")
"""How the context of an error names the column that a value was copied into."""

BYTES_ARE_NO_TEXT = "22021"
"""SQLSTATE of text that cannot be converted to UTF-8, as in a database of SQL_ASCII, which checks nothing that it stores."""


def error_class(state: str, text: str) -> type[errors.AuditorError]:
    """Return the error class of an SQLSTATE; timeout and cancellation share 57014 and differ only in the message."""
    if state == "57014" and "timeout" in text:
        return errors.StatementTimeout
    matches = [known for start, known in ERROR_BY_SQLSTATE.items() if state.startswith(start)]
    return matches[0] if matches else errors.StatementRefused


def translate_error(error: BaseException, where: str = "") -> errors.AuditorError | None:
    """Return the error of ``dialects.errors`` for an exception of psycopg2, or None; ``where`` names the URL while connecting."""
    import psycopg2

    if not isinstance(error, psycopg2.Error):
        return None
    prefix = f"{where}: " if where else ""
    text = " ".join((error.diag.message_primary or str(error)).split())
    if error.pgcode == BYTES_ARE_NO_TEXT:
        text += ": the database holds bytes that are no UTF-8; exclude the column, or compare it by columns: override: ... expr:"
    if error.pgcode:
        known, said = error_class(error.pgcode, text), error.diag
        column = _COPIED.search(said.context or "") if error.pgcode[:2] == DATA else None
        if column:
            text += f", in column {column[1]}"
        translated = known(f"{prefix}{text} (SQLSTATE {error.pgcode})")
        if isinstance(translated, errors.EngineError):
            names = (said.schema_name, said.table_name, said.column_name, said.constraint_name, said.datatype_name)
            translated.names = tuple(name for name in names if name)
        return translated
    if where and isinstance(error, psycopg2.ProgrammingError):
        return errors.BadUrl(f"{prefix}{text}")
    if where and any(words in text for words in NOT_VERIFIED):
        return errors.NotVerified(f"{prefix}{text}")
    if where and any(words in text for words in UNUSABLE):
        return errors.BadUrl(f"{prefix}{text}")
    if where:
        denied = "password" in text or "authentication" in text
        missing = "does not exist" in text
        kind = errors.AccessDenied if denied else errors.NoSuchObject if missing else errors.Unreachable
        return kind(f"{prefix}{text}")
    if isinstance(error, psycopg2.OperationalError | psycopg2.InterfaceError):
        return errors.ConnectionLost(text or None)
    return errors.StatementRefused(text)
