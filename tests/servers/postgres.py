"""PostgreSQL: from $AUDITOR_TEST_POSTGRES_URL, local binaries (13 or later), or Docker.

`cluster` starts any PostgreSQL; the Redshift stand-in starts one of its own with it, set up as Redshift is.
https://www.postgresql.org/docs/current/runtime-config-client.html
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import shutil
import signal
from base64 import b64encode
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

import psycopg2

from tests.servers import docker
from tests.servers.process import (
    Daemon,
    Server,
    Unavailable,
    find_program,
    free_port,
    given,
    own_directory,
    run,
    unprivileged_account,
)

if TYPE_CHECKING:
    from psycopg2.extensions import connection as Connection

VARIABLE = "AUDITOR_TEST_POSTGRES_URL"
HOME_VARIABLE = "AUDITOR_TEST_POSTGRES_HOME"
"""Names the folder of an unpacked PostgreSQL (bin, lib, share) that tests use instead of this machine's."""

IMAGE = "postgres:17"
#: Where Debian, Fedora and Homebrew keep the programs that are not on PATH.
FOLDERS = ("/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/opt/homebrew/opt/postgresql@*/bin", "/usr/local/opt/postgresql@*/bin")


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """How one PostgreSQL is to be set up."""

    name: str
    #: The method of pg_hba.conf for TCP connections.
    authentication: str
    settings: Mapping[str, str]
    #: initdb's locale options, best first; a build without ICU refuses the first.
    locales: Sequence[Sequence[str]]


SMALL: Mapping[str, str] = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "shared_buffers": "64MB",
    "max_connections": "60",
}
#: Each of these changes how values print, or which instant a timestamp names, in a session that does not pin it.
UNKIND: Mapping[str, str] = {
    "timezone": "America/New_York",
    "datestyle": "SQL, DMY",
    "intervalstyle": "sql_standard",
    "bytea_output": "escape",
    "extra_float_digits": "0",
}
DEFAULT = Cluster(
    name="postgres",
    authentication="scram-sha-256",
    settings=UNKIND,
    locales=(("--locale-provider=icu", "--icu-locale=en-US", "--locale=C"), ("--locale=C",)),
)


def connect(url: str) -> Connection:
    """A plain connection, for setting tests up."""
    parts = urlsplit(url)
    connection = psycopg2.connect(
        host=parts.hostname or "127.0.0.1",
        port=parts.port or 5432,
        user=unquote(parts.username or ""),
        password=unquote(parts.password or ""),
        dbname=parts.path.lstrip("/"),
        connect_timeout=5,
    )
    connection.autocommit = True
    return connection


def version(url: str) -> str:
    """What the server calls itself."""
    with closing(connect(url)) as connection:
        cursor = connection.cursor()
        cursor.execute("SHOW server_version")
        row = cursor.fetchone()
    assert row is not None
    return str(row[0]).split()[0]


def start(directory: Path) -> Server:
    """Start PostgreSQL, or raise Unavailable."""
    return given(VARIABLE, version, psycopg2.Error) or cluster(directory, DEFAULT)


def database(server: Server, name: str) -> Server:
    """Create a database on the server, which is dropped when the result is stopped."""

    def run(statement: str) -> None:
        with closing(connect(server.url)) as connection:
            connection.cursor().execute(statement)

    try:
        run(f"CREATE DATABASE {name}")
    except psycopg2.Error as error:
        raise Unavailable(f"the account may not create the database {name} ({error})") from error
    url = urlsplit(server.url)._replace(path=f"/{name}").geturl()

    def drop() -> None:  # WITH (FORCE) is known from PostgreSQL 13
        run(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
        run(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'")
        run(f"DROP DATABASE {name}")

    return replace(server, url=url, stopper=drop)


def cluster(directory: Path, setup: Cluster) -> Server:
    """Start a private PostgreSQL with one superuser `audit` (password `audit`) and its empty database `audit`."""
    given_home = os.environ.get(HOME_VARIABLE) if setup is DEFAULT else None
    binaries = Path(given_home, "bin") if given_home else find_binaries()
    if binaries is None:
        return _container(setup)
    account = unprivileged_account()
    home = own_directory(directory, setup.name, account)
    if given_home and account is not None:  # which may not enter the folders of the one who runs the tests
        binaries = shutil.copytree(given_home, home / "programs") / "bin"
    initialise(binaries, home, setup, account)
    port = free_port()
    here = {"listen_addresses": "127.0.0.1", "port": str(port), "unix_socket_directories": ""}
    daemon = Daemon(
        [binaries / "postgres", "-D", home / "data", *as_options({**SMALL, **setup.settings, **here})],
        home,
        account=account,
        stop_signal=signal.SIGQUIT,
    )
    base = f"postgresql://audit:audit@127.0.0.1:{port}/"
    answer = daemon.wait(lambda: create_database(base), psycopg2.OperationalError)
    return Server(url=base + "audit", version=answer, how=f"in ${HOME_VARIABLE}" if given_home else "local binary", stopper=daemon.stop)


def standby(directory: Path, primary: Server) -> Server:
    """Start a hot standby of a local server, which streams from it. Raises Unavailable where there are no local programs."""
    binaries = find_binaries()
    if binaries is None:
        raise Unavailable("there is no PostgreSQL here: run scripts/engines.sh")
    account = unprivileged_account()
    home = own_directory(directory, "standby", account)
    run([binaries / "pg_basebackup", "-D", home / "data", "-R", "-c", "fast", "-d", primary.url], home, account)
    port = free_port()
    options = as_options({**SMALL, "listen_addresses": "127.0.0.1", "port": str(port), "unix_socket_directories": ""})
    daemon = Daemon([binaries / "postgres", "-D", home / "data", *options], home, account=account, stop_signal=signal.SIGQUIT)
    url = urlsplit(primary.url)._replace(netloc=f"audit:audit@127.0.0.1:{port}").geturl()
    answer = daemon.wait(lambda: version(url), psycopg2.OperationalError)
    return Server(url=url, version=answer, how="local binary", stopper=daemon.stop)


def initialise(binaries: Path, home: Path, setup: Cluster, account: str | None) -> None:
    password = home / "password"
    password.write_text("audit\n")
    password.chmod(0o644)
    command: list[str | Path] = [
        binaries / "initdb",
        "-D",
        home / "data",
        "-U",
        "audit",
        f"--pwfile={password}",
        "-E",
        "UTF8",
        "--no-sync",
        "--auth-local=trust",
        f"--auth-host={setup.authentication}",
    ]
    *better, last = setup.locales
    for locale in better:
        with suppress(Unavailable):
            run([*command, *locale], home, account)
            return
    run([*command, *last], home, account)


def _container(setup: Cluster) -> Server:
    container = docker.run(
        IMAGE,
        port=5432,
        command=["postgres", *as_options({**SMALL, **setup.settings})],
        environment={
            "POSTGRES_USER": "audit",
            "POSTGRES_PASSWORD": "audit",
            "POSTGRES_DB": "postgres",
            "POSTGRES_INITDB_ARGS": " ".join(setup.locales[0]),
            "POSTGRES_HOST_AUTH_METHOD": setup.authentication,
        },
        missing="there is no PostgreSQL here: run scripts/engines.sh",
    )
    base = f"postgresql://audit:audit@{container.host}:{container.port}/"
    answer = container.wait(lambda: create_database(base), psycopg2.OperationalError)
    return Server(url=base + "audit", version=answer, how="docker", stopper=container.remove)


def create_database(base: str) -> str:
    with closing(connect(base + "postgres")) as connection:
        cursor = connection.cursor()
        cursor.execute("CREATE DATABASE audit")
        cursor.execute("ALTER ROLE audit PASSWORD %s", (quick_secret("audit"),))
    return version(base + "audit")


def quick_secret(password: str) -> str:
    """Return a password as SCRAM-SHA-256 stores it, hashed once and not 4,096 times: of a session that does little it is half the cost.

    https://www.rfc-editor.org/rfc/rfc5803
    """
    salt = os.urandom(16)
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, 1)
    client, server = (hmac.digest(salted, part, "sha256") for part in (b"Client Key", b"Server Key"))
    text = [b64encode(part).decode() for part in (salt, hashlib.sha256(client).digest(), server)]
    return f"SCRAM-SHA-256$1:{text[0]}${text[1]}:{text[2]}"


def as_options(settings: Mapping[str, str]) -> list[str]:
    return [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]


def find_binaries() -> Path | None:
    """The newest local PostgreSQL's folder of programs."""

    def number(folder: Path) -> int:
        return max((int(digits) for digits in re.findall(r"\d+", str(folder))), default=0)

    folders = [folder for pattern in FOLDERS for folder in Path("/").glob(pattern.lstrip("/"))]
    initdb = find_program("initdb", sorted(folders, key=number, reverse=True))
    return initdb.resolve().parent if initdb else None
