"""A MariaDB of a test's own, which can be killed and started again where it was."""

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
        """End the process as a crash would; its files stay."""
        self._watchman.communicate(b"never mind\n")
        self._process.kill()
        self._process.wait()


class Killable:
    """The server. It always answers at the same ``url``, when it runs."""

    def __init__(self, directory: Path) -> None:
        program, install = find_program("mariadbd"), find_program("mariadb-install-db")
        if program is None or install is None:
            pytest.skip("there is no MariaDB here to be killed: run scripts/engines.sh")
        self._home = own_directory(directory, "killable")
        account = ["--auth-root-authentication-method=normal", "--skip-test-db"]
        run([install, "--no-defaults", *mysql.as_root(), f"--datadir={self._home}/data", f"--tmpdir={self._home}", *account], self._home)
        self._port = free_port()
        places = [f"--datadir={self._home}/data", f"--tmpdir={self._home}", "--socket=server.sock", "--pid-file=server.pid"]
        own = [*mariadb.OWN_OPTIONS, *mysql.OPTIONS, *OPTIONS]
        self._command: list[str | Path] = [program, "--no-defaults", *mysql.as_root(), *places, *own, f"--port={self._port}"]
        self.url = f"mariadb://root@127.0.0.1:{self._port}/audit"
        self._daemon: _Daemon | None = None
        self.start()

    def start(self) -> None:
        """Start it, and wait until it answers."""
        self._daemon = _Daemon(self._command, self._home)
        self._daemon.wait(self._answer, pymysql.MySQLError)

    def kill(self) -> None:
        """Kill it."""
        if self._daemon:
            self._daemon.kill()
            self._daemon = None

    def stop(self) -> None:
        """End it for good."""
        if self._daemon:
            self._daemon.stop()

    def _answer(self) -> str:
        with mysql.connect(self.url.rpartition("/")[0] + "/") as connection, connection.cursor() as cursor:
            cursor.execute("CREATE DATABASE IF NOT EXISTS audit")
        return ""


@contextmanager
def killable() -> Iterator[Killable]:
    """A server for the block."""
    directory = open_directory()
    server = Killable(directory)
    try:
        yield server
    finally:
        server.stop()
        for left in directory.iterdir():
            left.rmdir()
        directory.rmdir()
