"""PgBouncer, which pools the sessions of a PostgreSQL server: installed by scripts/engines.sh.

https://www.pgbouncer.org/config.html
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from urllib.parse import unquote, urlsplit

import psycopg2

from tests.servers import postgres
from tests.servers.process import Daemon, Server, Unavailable, find_program, free_port, own_directory, unprivileged_account

_SETTINGS = """\
[databases]
{database} = host={host} port={port} dbname={database} user={user} password={password}

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {own_port}
unix_socket_dir =
auth_type = any
pool_mode = {mode}
default_pool_size = {size}
"""


def starter(behind: str, mode: str, size: int = 5) -> Callable[[Path], Server]:
    """Return a function that starts PgBouncer in a pool mode before the server at the URL ``behind``, or raises Unavailable."""

    def start(directory: Path) -> Server:
        program = find_program("pgbouncer")
        if program is None:
            raise Unavailable("there is no PgBouncer here: run scripts/engines.sh")
        account, parts, own_port = unprivileged_account(), urlsplit(behind), free_port()
        home = own_directory(directory, "pgbouncer", account)
        settings = home / "pgbouncer.ini"
        settings.write_text(
            _SETTINGS.format(
                database=parts.path.lstrip("/"),
                host=parts.hostname,
                port=parts.port,
                user=unquote(parts.username or ""),
                password=unquote(parts.password or ""),
                own_port=own_port,
                mode=mode,
                size=size,
            )
        )
        url = parts._replace(netloc=f"{parts.username}:{parts.password}@127.0.0.1:{own_port}").geturl()
        daemon = Daemon([program, settings], home, account=account)
        version = daemon.wait(lambda: postgres.version(url), psycopg2.Error, 20)
        return Server(url=url, version=f"pool_mode {mode}, PostgreSQL {version}", how="local binary", stopper=daemon.stop)

    return start
