"""The ClickHouse stand-in: ClickHouse's engine, as the package chdb has it in process, behind an HTTP server of the tests.

No package of the registries has a server of ClickHouse that clickhouse-connect speaks to, so without $AUDITOR_TEST_CLICKHOUSE_URL the
tests run against chdb (clickhouse_serve.py), reached by clickhouse-connect over HTTP.

What it proves: that ClickHouse itself parses, analyses and computes the rendered SQL, its types, FINAL and its settings; and that
clickhouse-connect's reading of the Native format yields the values.

What it cannot prove: the server's authentication, TLS and HTTP interface (its limits, its compression, when an error comes); what other
sessions see while rows are inserted, merged or mutated; replicas, shards, Keeper and ClickHouse Cloud.
"""

from __future__ import annotations

import logging
import sys
from contextlib import closing
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from tests.servers.process import Daemon, Server, Unavailable, free_port, given, own_directory

VARIABLE = "AUDITOR_TEST_CLICKHOUSE_URL"
SERVE = "import sys; sys.path.insert(0, {root!r}); from tests.servers import clickhouse_serve; clickhouse_serve.main()"


def connect(url: str) -> Any:
    """A plain client, for setting tests up."""
    import clickhouse_connect

    logging.getLogger("clickhouse_connect").setLevel(logging.CRITICAL)  # it would print each attempt while the server starts
    parts = urlsplit(url)
    return clickhouse_connect.get_client(
        host=parts.hostname,
        port=parts.port or 8123,
        username=unquote(parts.username or "default"),
        password=unquote(parts.password or ""),
        database=parts.path.lstrip("/") or "default",
        autogenerate_session_id=False,
    )


def version(url: str) -> str:
    """The version of the server."""
    with closing(connect(url)) as client:
        return str(client.server_version)


def start(directory: Path) -> Server:
    """Start the stand-in, or raise Unavailable."""
    if missing := [name for name in ("clickhouse_connect", "chdb") if find_spec(name) is None]:
        raise Unavailable(f"there is no {' and no '.join(missing)}: pip install {' '.join(missing).replace('_', '-')}")
    from clickhouse_connect.driver.exceptions import ClickHouseError

    server = given(VARIABLE, version, ClickHouseError)
    if server is not None:
        return server
    home, port = own_directory(directory, "clickhouse"), free_port()
    daemon = Daemon([sys.executable, "-c", SERVE.format(root=str(Path(__file__).parents[2])), str(port), home], home)
    url = f"clickhouse://auditor:audit@127.0.0.1:{port}/default"
    answer = daemon.wait(lambda: version(url), ClickHouseError)
    return Server(url=url, version=answer, how="chdb behind an HTTP server of the tests", stopper=daemon.stop)


def database(server: Server, name: str) -> Server:
    """Create a database on the server; it is dropped when the result is stopped."""

    def run(statement: str) -> None:
        with closing(connect(server.url)) as client:
            client.command(statement)

    run(f"CREATE DATABASE {name}")
    url = urlsplit(server.url)._replace(path=f"/{name}").geturl()
    return replace(server, url=url, stopper=lambda: run(f"DROP DATABASE {name}"))
