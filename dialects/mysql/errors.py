"""What MySQL's and MariaDB's error numbers mean."""

from __future__ import annotations

import ssl

from dialects import errors

_ERROR_BY_NUMBER: dict[int, type[errors.AuditorError]] = {
    1044: errors.AccessDenied, 1045: errors.AccessDenied, 1698: errors.AccessDenied, 1142: errors.AccessDenied,
    1143: errors.AccessDenied, 1227: errors.AccessDenied, 1049: errors.NoSuchObject, 1054: errors.NoSuchObject, 1146: errors.NoSuchObject,
    1969: errors.StatementTimeout, 3024: errors.StatementTimeout, 1205: errors.LockTimeout, 1213: errors.SerializationConflict,
    1412: errors.SnapshotLost, 1317: errors.StatementCancelled, 1927: errors.ConnectionLost, 1053: errors.ConnectionLost,
    2002: errors.Unreachable, 2003: errors.Unreachable, 2005: errors.Unreachable,
    2006: errors.ConnectionLost, 2013: errors.ConnectionLost, 2055: errors.ConnectionLost, 0: errors.ConnectionLost,
    1040: errors.Unreachable, 2026: errors.NotVerified, 4031: errors.ConnectionLost,
}  # fmt: skip
"""Error class by error number of server or client. https://dev.mysql.com/doc/mysql-errors/9.4/en/"""


def driver_errors() -> tuple[type[Exception], ...]:
    """Return the classes of what PyMySQL raises when a server, or the network to it, fails."""
    import pymysql

    return pymysql.MySQLError, OSError


def translate_error(error: BaseException, where: str = "") -> errors.AuditorError | None:
    """Return the error of ``dialects.errors`` for an exception of PyMySQL, or None; ``where`` names the URL while connecting."""
    import pymysql

    prefix = f"{where}: " if where else ""
    if isinstance(error, RuntimeError) and "cryptography" in str(error):
        return errors.DriverMissing(f"{prefix}a login without TLS needs the package cryptography: pip install cryptography, or enable TLS")
    if isinstance(error, RuntimeError) and "LOAD_LOCAL" in str(error):
        return errors.NotVerified(
            f"{prefix}the server asked for a file of this machine (LOAD DATA LOCAL), which is never sent: it is not one to trust"
        )
    if not isinstance(error, pymysql.err.Error):
        return None
    code = error.args[0] if error.args and isinstance(error.args[0], int) else -1
    text = str(error.args[1]) if len(error.args) > 1 else str(error)
    known = _ERROR_BY_NUMBER.get(code, errors.StatementRefused)
    if isinstance(cause := getattr(error, "original_exception", None), ssl.SSLCertVerificationError):
        return errors.NotVerified(f"{prefix}the server's certificate is not trusted: {cause.verify_message}")
    if known is errors.AccessDenied and where and "using password: NO" in text:
        text += "; the URL has no password, and option files of the client (~/.my.cnf) are not read"
    return known(f"{prefix}{text or 'the connection was lost'} (MySQL error {code})")
