"""Oracle MySQL: from $AUDITOR_TEST_MYSQL_URL, a local mysqld, the packages unpacked by scripts/engines.sh, or Docker.

Deliberately as delivered: no time zone tables, no MD5() (MySQL 9.6 moved it to the component
`file://component_classic_hashing`, which a test may install), binary log and GTIDs on.
https://dev.mysql.com/doc/refman/en/server-option-variable-reference.html
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pymysql
import pytest
from pymysql.connections import Connection
from pymysql.constants import ER
from pymysql.cursors import Cursor

from tests.servers import docker
from tests.servers.process import Daemon, Server, Unavailable, find_program, free_port, given, own_directory, run

VARIABLE = "AUDITOR_TEST_MYSQL_URL"
IMAGE = "mysql:9"

#: What both MySQL and MariaDB understand. `loose-` marks options that only some versions know.
OPTIONS = (
    "--bind-address=127.0.0.1",
    "--default-time-zone=-05:00",  # a session that does not pin its time zone shows it
    "--max-allowed-packet=64M",
    "--local-infile=ON",
    "--performance-schema=OFF",
    "--innodb-buffer-pool-size=256M",
    "--innodb-flush-log-at-trx-commit=0",
    "--innodb-doublewrite=OFF",
    "--sync-binlog=0",
)
OWN_OPTIONS = (
    "--loose-innodb-redo-log-capacity=64M",
    "--loose-mysqlx=OFF",
    "--secure-file-priv=NULL",
    "--loose-binlog-row-metadata=FULL",  # a change stream needs the names of columns
)

#: What makes the server ready for tests, whoever started it.
PREPARE = (
    "CREATE DATABASE IF NOT EXISTS audit",
    # CHAR columns then come back padded, unless the session pins its mode.
    "SET GLOBAL sql_mode = CONCAT(@@GLOBAL.sql_mode, ',PAD_CHAR_TO_FULL_LENGTH')",
)


def connect(url: str) -> Connection[Cursor]:
    """A plain connection, for setting tests up; mysql:// and mariadb:// alike."""
    parts = urlsplit(url)
    return pymysql.connect(
        host=parts.hostname or "127.0.0.1",
        port=parts.port or 3306,
        user=unquote(parts.username or "root"),
        password=unquote(parts.password or ""),
        database=parts.path.lstrip("/") or None,
        charset="utf8mb4",
        autocommit=True,
        connect_timeout=5,
    )


def end_sessions(cursor: Cursor, condition: str, choose: Callable[[list[int]], list[int]] = sorted) -> list[int]:
    """End the sessions of which a condition on information_schema.processlist holds; return their numbers.

    ``choose`` returns those that are ended. Some may end before they are ended, which is no error.
    """
    cursor.execute(f"SELECT id FROM information_schema.processlist WHERE id <> CONNECTION_ID() AND ({condition})")
    numbers = choose(sorted(int(number) for (number,) in cursor.fetchall()))
    for number in numbers:
        try:
            cursor.execute(f"KILL {number}")
        except pymysql.MySQLError as error:
            if error.args[0] != ER.NO_SUCH_THREAD:
                raise
    return numbers


def share_tls_context(patch: pytest.MonkeyPatch) -> None:
    """Let all connections of the driver that name no certificates use one TLS context.

    The driver makes one for each, with the system's certificates, which takes ten times as long as to connect.
    """
    make, made = Connection._create_ssl_ctx, list[Any]()  # type: ignore[attr-defined]

    def share(self: Connection[Cursor], settings: Any) -> Any:
        if settings:
            return make(self, settings)
        if not made:
            made.append(make(self, settings))
        return made[0]

    patch.setattr(Connection, "_create_ssl_ctx", share)


def version(url: str) -> str:
    """What the server calls itself."""
    with connect(url) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT VERSION()")
        row = cursor.fetchone()
    assert row is not None
    return str(row[0])


def start(directory: Path) -> Server:
    """Start MySQL, or raise Unavailable."""
    server = given(VARIABLE, version, pymysql.MySQLError)
    if server is not None:
        return server
    if find_server()[0] is None:
        return start_container("mysql", IMAGE, "there is no MySQL here: run scripts/engines.sh")
    return start_private(directory)


def start_private(directory: Path, more: Sequence[str] = ()) -> Server:
    """Start a MySQL of the caller's own from local programs, with ``more`` options, or raise Unavailable."""
    program, how = find_server()
    if program is None:
        raise Unavailable("there is no MySQL here: run scripts/engines.sh")
    home = own_directory(directory, "mysql")
    run([program, "--no-defaults", *as_root(), f"--datadir={home}/data", "--initialize-insecure", *OWN_OPTIONS], home)
    return start_local("mysql", home, [program, "--no-defaults", *OWN_OPTIONS], how, more)


def database(server: Server, name: str) -> Server:
    """Create a database on the server, which is dropped when the result is stopped."""

    def run(statement: str) -> None:
        with connect(server.url) as connection, connection.cursor() as cursor:
            cursor.execute(statement)

    try:
        run(f"CREATE DATABASE IF NOT EXISTS {name}")
    except pymysql.MySQLError as error:
        raise Unavailable(f"the account may not create the database {name} ({error})") from error
    url = urlsplit(server.url)._replace(path=f"/{name}").geturl()
    return replace(server, url=url, stopper=lambda: run(f"DROP DATABASE {name}"))


def start_local(scheme: str, home: Path, command: list[str | Path], how: str, more: Sequence[str] = ()) -> Server:
    """Start mysqld or mariadbd on its initialised `home/data`."""
    port = free_port()
    # The socket's name is relative to the data directory: absolute ones are limited to 107 characters.
    options = [*as_root(), f"--datadir={home}/data", f"--tmpdir={home}", "--socket=server.sock", "--pid-file=server.pid"]
    daemon = Daemon([*command, *options, *OPTIONS, *more, f"--port={port}"], home)
    root = f"{scheme}://root@127.0.0.1:{port}/"
    return Server(url=root + "audit", version=daemon.wait(lambda: _prepare(root), pymysql.MySQLError), how=how, stopper=daemon.stop)


def start_container(scheme: str, image: str, missing: str) -> Server:
    """Start the vendor's image, with the same options."""
    options = [option for option in OPTIONS if not option.startswith("--bind-address")]
    allow = {"MYSQL_ALLOW_EMPTY_PASSWORD": "yes", "MARIADB_ALLOW_EMPTY_ROOT_PASSWORD": "yes"}
    container = docker.run(image, port=3306, environment=allow, command=options, missing=missing)
    root = f"{scheme}://root@{container.host}:{container.port}/"
    answer = container.wait(lambda: _prepare(root), pymysql.MySQLError)
    return Server(url=root + "audit", version=answer, how="docker", stopper=container.remove)


def as_root() -> list[str]:
    """mysqld runs as root only when told so."""
    return ["--user=root"] if os.geteuid() == 0 else []


def _prepare(root: str) -> str:
    with connect(root) as connection, connection.cursor() as cursor:
        for statement in PREPARE:
            cursor.execute(statement)
    return version(root)


def find_server() -> tuple[Path | None, str]:
    """A mysqld that is not MariaDB's in disguise, else the unpacked one."""
    local = find_program("mysqld")
    if local is not None and "mariadb" not in local.resolve().name:
        return local, "local binary"
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    unpacked = cache / "auditor-tests" / "mysql" / "bin" / "mysqld"
    return (unpacked, "unpacked packages") if unpacked.exists() else (None, "")
