"""How a URL signs in to ClickHouse over HTTP, and how its connection is encrypted.

``secure=true`` is the word of ClickHouse's own client. An encrypted connection is always verified: by the authorities that this machine
trusts, or that of ``ca_cert``. Proxies that the environment names are not used: they could answer for the server.
https://clickhouse.com/docs/interfaces/http
"""

from __future__ import annotations

from dataclasses import replace

from dialects.addresses import Addresses
from dialects.errors import BadUrl
from dialects.url import Url

OPTIONS = ("access_mode", "ca_cert", "client_cert", "client_cert_key", "connect_timeout", "secure")
"""What a URL may have."""

PORT, SECURE_PORT = 8123, 8443
"""Of the HTTP interface, in clear and encrypted."""

NATIVE_PORTS = (9000, 9440)
"""Of the native protocol, which clickhouse-connect does not speak."""


def check(url: Url) -> None:
    """Raise BadUrl for an option that is unknown, has no effect, or names a file that is missing; and for a port of the other protocol."""
    url.refuse_unknown(OPTIONS)
    if url.port in NATIVE_PORTS:
        raise BadUrl(
            f"{url}: {url.port} is the port of ClickHouse's native protocol; write that of HTTP, {PORT}, or {SECURE_PORT} if secure"
        )
    if url.option("access_mode", "read_only") not in ("read_only", "read_write"):
        raise BadUrl(f"{url}: access_mode={url.option('access_mode', '')} is unknown; use read_only or read_write")
    secure = url.flag("secure")
    for name in ("ca_cert", "client_cert", "client_cert_key"):
        url.file_option(name)
        if name in url.options and not secure:
            raise BadUrl(f"{url}: {name} has no effect in clear; add secure=true")
    if "client_cert_key" in url.options and "client_cert" not in url.options:
        raise BadUrl(f"{url}: client_cert_key is the key of a certificate; add client_cert=FILE")


def port_of(url: Url) -> int:
    """Return the port of a URL."""
    return url.port or (SECURE_PORT if url.flag("secure") else PORT)


class ClickHouseAddresses(Addresses):
    """How URLs of ClickHouse are read."""

    DEFAULT_PORT = PORT
    VERIFIED_BY = "secure=true"

    def database_id(self, url: Url) -> str:
        return super().database_id(replace(url, port=port_of(url), database=url.database or "default"))

    def verifies_server(self, url: Url) -> bool:
        return url.flag("secure")

    def write_url(self, url: Url) -> Url:
        return replace(url, options={**url.options, "access_mode": "read_write"})
