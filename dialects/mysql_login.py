"""How a URL signs in to MySQL or MariaDB, without what only some logins need: authorities' certificates, and a package of ciphers.

To load both takes longer than the server takes to answer, and a tenth of a run's memory.
"""

from __future__ import annotations

import importlib
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from types import ModuleType
from typing import Any

from dialects.url import Url

CIPHER_MODULES = (
    "cryptography.hazmat.primitives.hashes",
    "cryptography.hazmat.primitives.serialization",
    "cryptography.hazmat.primitives.asymmetric.padding",
)
"""Modules that PyMySQL imports at once, and uses only to encrypt a password that is sent without TLS."""

_STANDING_IN = threading.Lock()
"""Held while modules have stand-ins: both sides of a run log in at once, and one must not remove what the other is about to."""


def open_connection(url: Url, port: int) -> Any:
    """Return a new connection of PyMySQL in autocommit mode; ``port`` is used if the URL has none. Raises the driver's errors.

    Each answer is waited for as long as the URL's ``connect_timeout`` says, or 10 seconds.
    """
    options: dict[str, Any] = {}
    if "ssl_ca" in url.options:
        options["ssl_ca"] = url.options["ssl_ca"]
    if url.option("ssl", "") in ("false", "0"):
        options["ssl_disabled"] = True
    patience = url.integer_option("connect_timeout", 10)
    return _connection_class()(
        host=url.host or "localhost",
        port=url.port or port,
        user=url.user or "",
        password=url.password or "",
        database=url.database or None,
        unix_socket=url.options.get("unix_socket"),
        charset="utf8mb4",
        autocommit=True,
        connect_timeout=patience,
        read_timeout=patience,
        write_timeout=patience,
        **options,
    )


@cache
def _connection_class() -> Any:
    """Return PyMySQL's class with one TLS context for all connections that verify no certificate."""
    with _loaded_when_used(CIPHER_MODULES):
        from pymysql.connections import Connection

    plain: Any = Connection  # whose annotations leave this method out

    class SharingConnection(plain):  # type: ignore[misc]
        def _create_ssl_ctx(self, settings: Any) -> Any:
            return super()._create_ssl_ctx(settings) if settings else _unverified_tls()

    return SharingConnection


@cache
def _unverified_tls() -> ssl.SSLContext:
    """Return the TLS context of connections that verify no certificate: PyMySQL's, without loading those of all known authorities."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


class _LoadedWhenUsed(ModuleType):
    """Stands for a module, which is imported when something of it is first used."""

    def __getattr__(self, name: str) -> Any:
        return getattr(importlib.import_module(self.__name__), name)


@contextmanager
def _loaded_when_used(names: tuple[str, ...]) -> Iterator[None]:
    """Let what is imported meanwhile by ``from package import module`` bind a stand-in for each of these modules.

    A package that is not installed has none, so that its import fails as before.
    """
    with _STANDING_IN:
        stand_ins: list[tuple[ModuleType, str]] = []
        for parent, _, name in (module.rpartition(".") for module in names):
            with suppress(ImportError):
                package = importlib.import_module(parent)
                if not hasattr(package, name):
                    setattr(package, name, _LoadedWhenUsed(f"{parent}.{name}"))
                    stand_ins.append((package, name))
        try:
            yield
        finally:
            for package, name in stand_ins:
                if isinstance(getattr(package, name), _LoadedWhenUsed):  # and not the module, which another thread has imported
                    delattr(package, name)
