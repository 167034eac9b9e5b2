"""clickhouse-connect, as it is used here: each client has one connection of its own, whose socket is known.

The parts of the driver that are not its public interface are named here alone: its pool manager, made by ``driver.httputil``, and the
classes of connections of urllib3 that it takes. Tried with clickhouse-connect 1.12 and urllib3 2.
https://clickhouse.com/docs/integrations/language-clients/python/driver-api
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from dialects import extras
from dialects.clickhouse.login import port_of
from dialects.url import Url

READ_FORMATS = {"String": "bytes"}
"""Texts arrive as bytes: of one that is no UTF-8 the driver would make hexadecimal digits, which another text may have."""


def open_client(url: Url, patience: float, answer: float, on_connect: Callable[[Any], None]) -> Any:
    """Return a client of the server behind a URL, which has answered.

    ``patience`` and ``answer`` are the seconds that a connection and an answer may take; ``on_connect`` receives the socket of each new
    connection. Raises exceptions of the driver, and DriverMissing.
    """
    extras.require("ClickHouse", "clickhouse")
    import clickhouse_connect

    logging.getLogger("clickhouse_connect").setLevel(logging.CRITICAL)  # otherwise each error is printed besides being raised
    pool = _pool(url, on_connect)
    secure = url.flag("secure")
    try:
        return clickhouse_connect.get_client(
            interface="https" if secure else "http",
            host=url.host or "localhost",
            port=port_of(url),
            username=url.user or "default",
            password=url.password or "",
            database=url.database or "default",
            connect_timeout=int(patience),
            send_receive_timeout=int(answer),
            client_name="auditor",
            query_retries=0,
            autogenerate_session_id=False,
            autogenerate_query_id=True,
            client_cert=url.options.get("client_cert"),
            client_cert_key=url.options.get("client_cert_key"),
            tz_mode="aware",
            pool_mgr=pool,
        )
    except BaseException:
        pool.clear()
        raise


def _pool(url: Url, on_connect: Callable[[Any], None]) -> Any:
    """Return a pool of one connection at a time, which tells of each that it makes."""
    from clickhouse_connect.driver.httputil import get_pool_manager
    from urllib3.connection import HTTPConnection, HTTPSConnection
    from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool

    class Watched(HTTPConnection):
        def connect(self) -> None:
            super().connect()
            on_connect(self.sock)

    class WatchedTls(HTTPSConnection):
        def connect(self) -> None:
            super().connect()
            on_connect(self.sock)

    class Pool(HTTPConnectionPool):
        ConnectionCls = Watched

    class TlsPool(HTTPSConnectionPool):
        ConnectionCls = WatchedTls

    options: dict[str, Any] = {name: url.options[name] for name in ("ca_cert", "client_cert", "client_cert_key") if name in url.options}
    manager = get_pool_manager(verify=True, maxsize=1, retries=False, **options)
    manager.pool_classes_by_scheme = {"http": Pool, "https": TlsPool}
    return manager
