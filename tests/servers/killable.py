"""Private servers that a test can kill and restart on the same files and port."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg2
import pymysql
import pytest

from tests.servers import mariadb, mysql, postgres
from tests.servers.process import Daemon, Unavailable, find_program, free_port, open_directory, own_directory, run, unprivileged_account

OPTIONS = ("--innodb-buffer-pool-size=128M", "--innodb-flush-log-at-trx-commit=1")
"""What is committed outlives a server that is killed."""


class _Daemon(Daemon):
    def kill(self) -> None:
        """Kill the process and its children, as a crash would; its files stay."""
        self._watchman.communicate(b"never mind\n")
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()
        self._process.kill()
        for child in children:
            with suppress(ProcessLookupError):
                os.kill(int(child), signal.SIGKILL)
        self._process.wait()


class Killable:
    """A server. Its ``url`` stays the same across restarts."""

    def __init__(self, url: str, home: Path, command: Sequence[str | Path], check_answer: Callable[[], None], account: str | None) -> None:
        self.url, self.home = url, home
        self._command, self._check_answer, self._account = command, check_answer, account
        self._daemon: _Daemon | None = None
        self.start()

    def start(self) -> None:
        """Start the server and wait until it answers."""
        self._daemon = _Daemon(self._command, self.home, account=self._account)
        self._daemon.wait(self._answer, (pymysql.MySQLError, psycopg2.Error))  # type: ignore[arg-type]

    def kill(self) -> None:
        """Kill the server, as a crash would."""
        if self._daemon:
            self._daemon.kill()
            self._daemon = None

    def stop(self) -> None:
        """Stop the server at the end of the tests."""
        if self._daemon:
            self._daemon.stop()

    def _answer(self) -> str:
        self._check_answer()
        return ""


@contextmanager
def killable(engine: str = "mariadb", *options: str) -> Iterator[Killable]:
    """Run a server of an engine for the block; without ``options`` a source keeps no binary log."""
    directory = open_directory()
    made: list[Killable] = []
    try:
        made.append(_STARTS[engine](directory, options or ("--skip-log-bin",)))
        yield made[0]
    except Unavailable as reason:
        pytest.skip(f"{engine}: {reason}")
    finally:
        for server in made:
            server.stop()
        for remaining in directory.iterdir():
            remaining.rmdir()
        directory.rmdir()


def _mariadb(directory: Path, options: Sequence[str]) -> Killable:
    program, install = find_program("mariadbd"), find_program("mariadb-install-db")
    if program is None or install is None:
        raise Unavailable("MariaDB is not installed: run scripts/engines.sh")
    home = own_directory(directory, "killable")
    account = ["--auth-root-authentication-method=normal", "--skip-test-db"]
    run([install, "--no-defaults", *mysql.as_root(), f"--datadir={home}/data", f"--tmpdir={home}", *account], home)
    return _of_family("mariadb", home, [program, "--no-defaults", *mariadb.OWN_OPTIONS], options)


def _mysql(directory: Path, options: Sequence[str]) -> Killable:
    program, _ = mysql.find_server()
    if program is None:
        raise Unavailable("MySQL is not installed: run scripts/engines.sh")
    home = own_directory(directory, "killable")
    run([program, "--no-defaults", *mysql.as_root(), f"--datadir={home}/data", "--initialize-insecure", *mysql.OWN_OPTIONS], home)
    return _of_family("mysql", home, [program, "--no-defaults", *mysql.OWN_OPTIONS], options)


def _of_family(scheme: str, home: Path, program: Sequence[str | Path], options: Sequence[str]) -> Killable:
    port = free_port()
    url = f"{scheme}://root@127.0.0.1:{port}/audit"
    paths = [f"--datadir={home}/data", f"--tmpdir={home}", "--socket=server.sock", "--pid-file=server.pid"]
    command = [*program, *mysql.as_root(), *paths, *mysql.OPTIONS, *OPTIONS, *options, f"--port={port}"]

    def check_answer() -> None:
        with mysql.connect(url.rpartition("/")[0] + "/") as connection, connection.cursor() as cursor:
            cursor.execute("CREATE DATABASE IF NOT EXISTS audit")

    return Killable(url, home, command, check_answer, None)


def _postgres(directory: Path, options: Sequence[str]) -> Killable:
    del options
    binaries = postgres.find_binaries()
    if binaries is None:
        raise Unavailable("PostgreSQL is not installed: run scripts/engines.sh")
    account, port = unprivileged_account(), free_port()
    home = own_directory(directory, "killable", account)
    postgres.initialise(binaries, home, postgres.DEFAULT, account)
    here = {"listen_addresses": "127.0.0.1", "port": str(port), "unix_socket_directories": ""}
    settings = postgres.as_options({**postgres.SMALL, "synchronous_commit": "on", **here})
    command: list[str | Path] = [binaries / "postgres", "-D", home / "data", *settings]
    base = f"postgresql://audit:audit@127.0.0.1:{port}/"

    def check_answer() -> None:
        with suppress(psycopg2.errors.DuplicateDatabase):
            postgres.create_database(base)

    return Killable(base + "audit", home, command, check_answer, account)


_STARTS: dict[str, Callable[[Path, Sequence[str]], Killable]] = {"mariadb": _mariadb, "mysql": _mysql, "postgres": _postgres}
