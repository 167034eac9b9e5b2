"""How a URL signs in to MySQL or MariaDB, and how its connection is encrypted.

``ssl_mode`` has the words of MySQL's client: DISABLED, PREFERRED (without a word), REQUIRED, VERIFY_CA and VERIFY_IDENTITY, which is meant
where ``ssl_ca`` names an authority's certificate: a file, or ``system`` for those that this machine trusts. Option files (``~/.my.cnf``)
are not read. https://dev.mysql.com/doc/refman/9.4/en/connection-options.html#encrypted-connection-options
"""

from __future__ import annotations

import ssl
from typing import Any

from dialects.addresses import Addresses
from dialects.errors import BadUrl
from dialects.mysql.driver import connection_class, unverified_tls
from dialects.url import Url

SSL_MODES = ("DISABLED", "PREFERRED", "REQUIRED", "VERIFY_CA", "VERIFY_IDENTITY")
"""From least to most."""

SYSTEM = "system"
"""The value of ``ssl_ca`` that stands for the authorities which this machine trusts."""

OPTIONS = ("connect_timeout", "ssl", "ssl_ca", "ssl_cert", "ssl_key", "ssl_mode", "unix_socket")
"""What a URL may have."""


def open_connection(url: Url, port: int) -> Any:
    """Return a new connection of PyMySQL in autocommit mode; ``port`` is used if the URL has none. Raises BadUrl and the driver's errors.

    Each answer is waited for as long as the URL's ``connect_timeout`` says, or 10 seconds.
    """
    return connection_class()(
        host=url.host or "localhost",
        port=url.port or port,
        user=url.user or "",
        database=url.database or None,
        charset="utf8mb4",
        autocommit=True,
        read_timeout=url.patience,
        write_timeout=url.patience,
        **login_options(url),
    )


def login_options(url: Url) -> dict[str, Any]:
    """Return arguments of PyMySQL: how a URL proves who it is and asks the same of the server, and how long it waits. Raises BadUrl."""
    url.refuse_unknown(OPTIONS, hint="option files of the client are not read")
    options: dict[str, Any] = {"password": (url.password or "").encode(), "connect_timeout": url.patience}  # a text would become Latin-1
    if "unix_socket" in url.options:
        options["unix_socket"] = url.options["unix_socket"]
    mode = ssl_mode(url)
    if mode == "DISABLED":
        return options | {"ssl_disabled": True}
    return options if mode == "PREFERRED" else options | {"ssl": _tls(url, mode)}


def ssl_mode(url: Url) -> str:
    """Return the mode that a URL means. Raises BadUrl for one that is none, or goes against another option."""
    plain = url.option("ssl", "").lower()
    if "ssl" in url.options and plain not in ("false", "0"):
        raise BadUrl(f"{url}: ssl={plain} does not say what is verified; write ssl_mode=VERIFY_IDENTITY with ssl_ca, or ssl_mode=REQUIRED")
    proofs = [name for name in ("ssl_ca", "ssl_cert") if name in url.options]
    default = "DISABLED" if plain else "VERIFY_IDENTITY" if "ssl_ca" in proofs else "REQUIRED" if proofs else "PREFERRED"
    mode = url.option("ssl_mode", default).upper()
    if mode not in SSL_MODES:
        raise BadUrl(f"{url}: ssl_mode={mode} is unknown; use one of {', '.join(SSL_MODES)}")
    if plain and mode != "DISABLED":
        raise BadUrl(f"{url}: ssl={plain} and ssl_mode={mode} contradict each other; remove one of them")
    if proofs and SSL_MODES.index(mode) < SSL_MODES.index("VERIFY_CA" if "ssl_ca" in proofs else "REQUIRED"):
        raise BadUrl(f"{url}: with ssl_mode={mode}, {proofs[0]} would have no effect; remove one of them")
    if mode.startswith("VERIFY") and "ssl_ca" not in proofs:
        raise BadUrl(f"{url}: ssl_mode={mode} needs an authority: ssl_ca=FILE, or ssl_ca={SYSTEM} for those that this machine trusts")
    if "ssl_key" in url.options and "ssl_cert" not in proofs:
        raise BadUrl(f"{url}: ssl_key is the key of a certificate; add ssl_cert=FILE")
    return mode


def _tls(url: Url, mode: str) -> ssl.SSLContext:
    """Return the TLS context of a URL that has to be encrypted. Raises BadUrl for a file that is missing or cannot be used."""
    if mode == "REQUIRED" and "ssl_cert" not in url.options:
        return unverified_tls()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = mode == "VERIFY_IDENTITY"
    context.verify_mode = ssl.CERT_REQUIRED if mode.startswith("VERIFY") else ssl.CERT_NONE
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT  # which the certificates that MySQL makes for itself do not stand
    try:
        if url.options.get("ssl_ca") == SYSTEM:
            context.load_default_certs()
        elif authority := url.file_option("ssl_ca"):
            context.load_verify_locations(authority)
        if certificate := url.file_option("ssl_cert"):
            context.load_cert_chain(certificate, url.file_option("ssl_key"), password=lambda: "")  # else OpenSSL asks at the terminal
    except OSError as error:
        raise BadUrl(f"{url}: the files of ssl_ca, ssl_cert and ssl_key cannot be used: {error}") from error
    return context


class MySQLAddresses(Addresses):
    """How URLs of MySQL and MariaDB are read."""

    DEFAULT_PORT = 3306
    VERIFIED_BY = "ssl_ca=FILE, or ssl_ca=system"

    def database_id(self, url: Url) -> str:
        socket = url.options.get("unix_socket")
        return f"{self.engine}:{socket}:{url.database}" if socket else super().database_id(url)

    def is_local(self, url: Url) -> bool:
        return "unix_socket" in url.options or url.is_local

    def verifies_server(self, url: Url) -> bool:
        return ssl_mode(url) == "VERIFY_IDENTITY"
