"""A private MariaDB server that a test can kill and restart on the same files and port."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pymysql
import pytest

from tests.servers import mariadb, mysql
from tests.servers._process import Daemon, find_program, free_port, open_directory, own_directory, run

OPTIONS = ("--innodb-buffer-pool-size=128M", "--innodb-flush-log-at-trx-commit=1", "--skip-log-bin")


class _Daemon(Daemon):
    def kill(self) -> None:
        """Kill the process, as a crash would; its files stay."""
        self._watchman.communicate(b"never mind\n")
        self._process.kill()
        self._process.wait()


class Killable:
    """The server. Its ``url`` stays the same across restarts."""

    def __init__(self, directory: Path) -> None:
        program, install = find_program("mariadbd"), find_program("mariadb-install-db")
        if program is None or install is None:
            pytest.skip("MariaDB is not installed: run scripts/engines.sh")
        self._home = own_directory(directory, "killable")
        account = ["--auth-root-authentication-method=normal", "--skip-test-db"]
        run([install, "--no-defaults", *mysql.as_root(), f"--datadir={self._home}/data", f"--tmpdir={self._home}", *account], self._home)
        self._port = free_port()
        paths = [f"--datadir={self._home}/data", f"--tmpdir={self._home}", "--socket=server.sock", "--pid-file=server.pid"]
        options = [*mariadb.OWN_OPTIONS, *mysql.OPTIONS, *OPTIONS]
        self._command: list[str | Path] = [program, "--no-defaults", *mysql.as_root(), *paths, *options, f"--port={self._port}"]
        self.url = f"mariadb://root@127.0.0.1:{self._port}/audit"
        self._daemon: _Daemon | None = None
        self.start()

    def start(self) -> None:
        """Start the server and wait until it answers."""
        self._daemon = _Daemon(self._command, self._home)
        self._daemon.wait(self._check_answer, pymysql.MySQLError)

    def kill(self) -> None:
        """Kill the server, as a crash would."""
        if self._daemon:
            self._daemon.kill()
            self._daemon = None

    def stop(self) -> None:
        """Stop the server at the end of the tests."""
        if self._daemon:
            self._daemon.stop()

    def _check_answer(self) -> str:
        with mysql.connect(self.url.rpartition("/")[0] + "/") as connection, connection.cursor() as cursor:
            cursor.execute("CREATE DATABASE IF NOT EXISTS audit")
        return ""


@contextmanager
def killable() -> Iterator[Killable]:
    """Run a server for the block."""
    directory = open_directory()
    server = Killable(directory)
    try:
        yield server
    finally:
        server.stop()
        for remaining in directory.iterdir():
            remaining.rmdir()
        directory.rmdir()
