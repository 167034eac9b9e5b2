"""Private servers for a demonstration: a source with a binary log, and a PostgreSQL, from this machine's programs or from Docker.

Each has a folder of its own and a free port on the loopback interface, and ends with this process, however that ends.
"""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import dialects
from auditor.durations import durations
from auditor.errors import AuditorError, DemoServerMissing

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "auditor-tests" / "mysql" / "bin"
"""Where scripts/engines.sh unpacks MySQL."""

POSTGRES_FOLDERS = (
    "/usr/lib/postgresql/*/bin",
    "/usr/pgsql-*/bin",
    "/opt/homebrew/opt/postgresql@*/bin",
    "/usr/local/opt/postgresql@*/bin",
)

LOG_OPTIONS = ("--log-bin=binlog", "--binlog-format=ROW", "--binlog-row-metadata=FULL", "--server-id=1")
"""What a change stream needs of a source. https://dev.mysql.com/doc/refman/9.4/en/replication-options-binary-log.html"""

# The server gets its signal when the input of this shell ends, which the kernel brings about when the demonstration is gone.
_KEEPER = 'signal=$1; shift; "$@" </dev/null & server=$!; cat >/dev/null; kill -"$signal" $server; wait $server'


@dataclass(frozen=True, slots=True)
class Server:
    """A server that answers."""

    name: str
    url: str


@contextmanager
def start_source(folder: Path) -> Iterator[Server]:
    """Start MariaDB or MySQL for the block, with an empty database ``shop``. Raises DemoServerMissing."""
    install, mariadb, mysql = _find("mariadb-install-db"), _find("mariadbd"), _find_mysql()
    port, common = _free_port(), ["--no-defaults", *_as_root(), f"--datadir={folder / 'source'}"]
    if install and mariadb:
        _prepare([install, *common, "--auth-root-authentication-method=normal", "--skip-test-db"], folder)
        program, name = mariadb, "MariaDB"
    elif mysql:
        _prepare([mysql, *common, "--initialize-insecure"], folder)
        program, name = mysql, "MySQL"
    else:
        allow = {"MYSQL_ALLOW_EMPTY_PASSWORD": "yes"}
        with _container("mysql:9", 3306, allow, LOG_OPTIONS, "Neither MariaDB nor MySQL", "mariadb-server") as port:
            yield _with_database(Server("MySQL in Docker", f"mysql://root@127.0.0.1:{port}/"))
        return
    # The socket's name is relative to the data, because absolute ones are limited to 107 characters.
    local = ["--bind-address=127.0.0.1", f"--port={port}", "--socket=server.sock", "--pid-file=server.pid"]
    with _running([program, *common, *LOG_OPTIONS, "--innodb-buffer-pool-size=64M", *local], folder, "TERM"):
        yield _with_database(Server(name, f"{name.lower()}://root@127.0.0.1:{port}/"))


@contextmanager
def start_postgres(folder: Path) -> Iterator[Server]:
    """Start PostgreSQL for the block. Raises DemoServerMissing."""
    initdb = _find("initdb", [path for pattern in POSTGRES_FOLDERS for path in sorted(Path("/").glob(pattern[1:]), reverse=True)])
    if initdb is None:
        with _container("postgres:17", 5432, {"POSTGRES_HOST_AUTH_METHOD": "trust"}, (), "No PostgreSQL", "postgresql") as port:
            yield _answering(Server("PostgreSQL in Docker", f"postgresql://postgres@127.0.0.1:{port}/postgres"))
        return
    account, port, data = _unprivileged_account(), _free_port(), folder / "postgres"
    data.mkdir()
    if account:
        shutil.chown(data, account)
    _prepare([initdb, "-D", data / "data", "-U", "postgres", "-E", "UTF8", "--locale=C", "--no-sync", "--auth=trust"], data, account)
    options = ["-c", "listen_addresses=127.0.0.1", "-c", f"port={port}", "-c", "unix_socket_directories=", "-c", "fsync=off"]
    with _running([initdb.resolve().parent / "postgres", "-D", data / "data", *options], data, "INT", account):
        yield _answering(Server("PostgreSQL", f"postgresql://postgres@127.0.0.1:{port}/postgres"))


def _with_database(server: Server) -> Server:
    """Return the server with a database ``shop``, once it answers."""
    _answering(server)
    with closing(dialects.connect(server.url, 30.0, 10.0)) as session:
        session.execute("CREATE DATABASE shop")
    return Server(server.name, f"{server.url}shop")


def _answering(server: Server) -> Server:
    deadline = time.monotonic() + durations().demo_server
    while True:
        try:
            dialects.connect(server.url, 30.0, 10.0).close()
            return server
        except AuditorError as error:
            if time.monotonic() > deadline:
                raise DemoServerMissing(f"{server.name} did not answer within {durations().demo_server:.0f} s: {error}") from error
            time.sleep(0.1)


@contextmanager
def _running(command: Sequence[str | Path], folder: Path, end: str, account: str | None = None) -> Iterator[None]:
    """Run a server for the block, and end it by this signal."""
    with (folder / "server.log").open("wb") as output:
        process = subprocess.Popen(
            ["/bin/sh", "-c", _KEEPER, "keeper", end, *map(str, command)],
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            user=account,
            group=_group(account),
            extra_groups=[] if account else None,
            start_new_session=True,
        )
    assert process.stdin
    try:
        yield
    finally:
        process.stdin.close()
        process.wait()


def _prepare(command: Sequence[str | Path], folder: Path, account: str | None = None) -> None:
    """Run what makes a server's data. Raises DemoServerMissing if it fails."""
    done = subprocess.run(
        command,
        cwd=folder,
        capture_output=True,
        text=True,
        user=account,
        group=_group(account),
        extra_groups=[] if account else None,
        check=False,
    )
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines() or ["it said nothing"]
        raise DemoServerMissing(f"{Path(command[0]).name} failed: {lines[-1]}")


@contextmanager
def _container(image: str, port: int, environment: dict[str, str], options: Sequence[str], what: str, package: str) -> Iterator[int]:
    """Run an image for the block, and yield the port of this machine that leads to it. Raises DemoServerMissing without Docker."""
    docker = shutil.which("docker")
    missing = f"{what} is installed here, and no Docker answers; install one of them, on Debian and Ubuntu: apt-get install {package}"
    if not docker or subprocess.run([docker, "info"], capture_output=True, check=False).returncode:
        raise DemoServerMissing(missing)
    variables = [part for name, value in environment.items() for part in ("-e", f"{name}={value}")]
    command = [docker, "run", "--rm", "-d", "-p", f"127.0.0.1::{port}", *variables, image, *options]
    started = subprocess.run(command, capture_output=True, text=True, check=False)
    if started.returncode:
        raise DemoServerMissing(f"Docker could not run {image}: {started.stderr.strip()}")
    name = started.stdout.strip()
    try:
        shown = subprocess.run([docker, "port", name, str(port)], capture_output=True, text=True, check=True)
        yield int(shown.stdout.split()[0].rpartition(":")[2])
    finally:
        subprocess.run([docker, "rm", "-f", name], capture_output=True, check=False)


def _find(program: str, folders: Sequence[Path] = ()) -> Path | None:
    path = os.pathsep.join([*map(str, folders), os.environ.get("PATH", ""), "/usr/local/sbin", "/usr/sbin"])
    executable = shutil.which(program, path=path)
    return Path(executable) if executable else None


def _find_mysql() -> Path | None:
    local = _find("mysqld")
    return local if local and "mariadb" not in local.resolve().name else _find("mysqld", [CACHE])


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _as_root() -> list[str]:
    return ["--user=root"] if os.geteuid() == 0 else []


def _unprivileged_account() -> str | None:
    """Return an account for PostgreSQL, which refuses to run as root; None if we are somebody else."""
    if os.geteuid() != 0:
        return None
    known = {entry.pw_name for entry in pwd.getpwall()}
    return next(name for name in ("postgres", "nobody") if name in known)


def _group(account: str | None) -> int | None:
    return pwd.getpwnam(account).pw_gid if account else None
