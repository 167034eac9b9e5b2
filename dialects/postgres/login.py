"""How a URL signs in to PostgreSQL: by libpq, which takes its own options from the URL, and what these leave open from ``service``, from
``PG*`` variables and ``.pgpass``.

https://www.postgresql.org/docs/current/libpq-connect.html#LIBPQ-PARAMKEYWORDS
"""

from __future__ import annotations

import os
from typing import Any, ClassVar

from dialects.addresses import Addresses
from dialects.errors import BadUrl
from dialects.url import LOOPBACK, Url

OPTIONS = frozenset(
    {"channel_binding", "connect_timeout", "dbname", "fallback_application_name", "gssdelegation", "gssencmode", "gsslib", "host"}
    | {"hostaddr", "keepalives", "keepalives_count", "keepalives_idle", "keepalives_interval", "krbsrvname", "load_balance_hosts"}
    | {"max_protocol_version", "min_protocol_version", "options", "passfile", "password", "port", "require_auth", "requirepeer"}
    | {"requiressl", "scram_client_key", "scram_server_key", "service", "ssl_max_protocol_version", "ssl_min_protocol_version", "sslcert"}
    | {"sslcertmode", "sslcompression", "sslcrl", "sslcrldir", "sslkey", "sslkeylogfile", "sslmode", "sslnegotiation", "sslpassword"}
    | {"sslrootcert", "sslsni", "target_session_attrs", "tcp_user_timeout", "tty", "user"}
)
"""What a URL may have: libpq's options. One that this libpq does not have is refused by it."""

FILES = ("sslcert", "sslkey", "sslcrl", "passfile")
"""Options whose files must be there; libpq itself continues without some of them."""

FIXED = {"application_name": "the auditor's own, by which its sessions know each other", "client_encoding": "always UTF8"}
"""Options of libpq that are not the URL's to choose, and why."""


def libpq_options(url: Url) -> dict[str, Any]:
    """Return libpq's options of a URL: those that it gives, and how long a server may take. Raises BadUrl."""
    for name, why in FIXED.items():
        if name in url.options:
            raise BadUrl(f"{url}: option {name} is {why}; remove it")
    url.refuse_unknown(OPTIONS, hint="sslmode says what is encrypted and verified")
    for name in FILES:
        url.file_option(name)
    if url.options.get("sslrootcert") != "system":  # which stands for the authorities that this machine trusts
        url.file_option("sslrootcert")
    parts = {"host": url.host, "port": url.port, "user": url.user, "password": url.password, "dbname": url.database}
    given = {name: value for name, value in parts.items() if value}
    if twice := sorted(given.keys() & url.options.keys()):
        raise BadUrl(f"{url}: {twice[0]} is there twice, as a part of the URL and as an option; remove one of them")
    return {**given, **url.options, "connect_timeout": url.patience}


def host_of(url: Url) -> str:
    """Return the host or folder of sockets that a URL leads to; empty where a service names it."""
    named = url.options.get("hostaddr") or url.options.get("host") or url.host
    return named or ("" if "service" in url.options else os.environ.get("PGHOSTADDR") or os.environ.get("PGHOST") or "localhost")


def verifies_server(url: Url) -> bool:
    """Return whether libpq verifies the server's certificate and name, as the URL or the environment asks it to."""
    mode = url.options.get("sslmode") or os.environ.get("PGSSLMODE", "")
    authority = url.options.get("sslrootcert") or os.environ.get("PGSSLROOTCERT", "")
    return mode == "verify-full" or (authority == "system" and not mode)


def describe_encryption(connection: Any) -> str:
    """Return how a connection of psycopg2 is encrypted, and what was verified of its server."""
    info = connection.info
    if not info.ssl_in_use:
        return "by a local socket" if (info.host or "").startswith("/") else "in clear"
    known = {"verify-full": "verified", "verify-ca": "host not verified"}
    return (
        f"by {str(info.ssl_attribute('protocol')).replace('v', ' ')}, {known.get(info.dsn_parameters.get('sslmode', ''), 'not verified')}"
    )


class PostgresAddresses(Addresses):
    """How URLs of PostgreSQL are read."""

    DEFAULT_PORT: ClassVar[int] = 5432
    VERIFIED_BY: ClassVar[str] = "sslmode=verify-full, with sslrootcert=FILE or sslrootcert=system"

    def database_id(self, url: Url) -> str:
        host = host_of(url) or f"service={url.options['service']}"
        port = url.port or url.options.get("port") or os.environ.get("PGPORT", self.DEFAULT_PORT)
        return f"{self.engine}://{host}:{port}/{url.database or url.options.get('dbname') or os.environ.get('PGDATABASE', '')}"

    def is_local(self, url: Url) -> bool:
        return LOOPBACK.fullmatch(host_of(url)) is not None

    def verifies_server(self, url: Url) -> bool:
        return verifies_server(url)
