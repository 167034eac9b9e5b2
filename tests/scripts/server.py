"""The server on which scripts run, its replica, and the client that sends them."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pymysql

from tests.scripts.written import FILES, HOME, Script, with_points
from tests.servers import mariadb, mysql
from tests.servers.process import Server, Unavailable, folder_in_memory, own_directory, run

OPTIONS = ("--log-bin-trust-function-creators=1", "--secure-file-priv=", "--character-set-server=latin1", "--loose-feedback=OFF")
"""What scripts take for granted of a server, beside what the tests' own servers have."""

REPLICA = ("--server-id=2", "--log-slave-updates", "--skip-slave-start", "--report-host=127.0.0.1")

SYSTEM = ("information_schema", "mysql", "mtr", "performance_schema", "sys")
"""Databases that are not a script's."""

CLIENT = HOME / "usr" / "bin" / "mariadb-test"

VOLATILE = re.compile(r"gtid_|innodb_(buffer_pool_(dump|load)|.*_now$)|rpl_semi_sync|slow_query_log_file")
"""Global variables that change by themselves."""

SCRIPT_SECONDS, LONGEST = 30.0, 120.0
"""Seconds that a script may take by itself, and with what is done at its points."""


class Stage:
    """A server of scripts, made anew where one left something that cannot be taken back."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._server: Server | None = None
        self._replica: Server | None = None
        self._before: Any = None
        self._made: Path | None = None

    @property
    def url(self) -> str:
        """Where it answers, with the database of scripts."""
        assert self._server
        return self._server.url.rpartition("/")[0] + "/test"

    @property
    def version(self) -> str:
        """What the server calls itself."""
        return self._server.version if self._server else ""

    def prepare(self) -> None:
        """Start the server, if there is none as a script expects it."""
        if self._server is not None and not self._is_as_before():
            self.close()
        if self._server is None:
            self._server = self._start(OPTIONS)
            self._run("SET GLOBAL sql_mode = DEFAULT", "DROP DATABASE audit", "CREATE DATABASE test", "CREATE DATABASE mtr")
            self._run("CREATE TABLE mtr.test_suppressions (pattern VARCHAR(255))")
            self._run("CREATE PROCEDURE mtr.add_suppression(pattern TEXT) BEGIN END")
            self._before = self._look()

    @contextmanager
    def sending(self, script: Script, folder: Path, point: Path, seed: int) -> Iterator[subprocess.Popen[bytes]]:
        """Yield the client, which sends a script, and ends where the block does."""
        text = folder / f"{script.path.stem}.test"
        text.write_text(with_points(script.whole(), seed), encoding="utf-8", errors="surrogateescape")
        source = self.url.rpartition(":")[2].partition("/")[0]
        replica = self._replica_port() if script.replicates else source
        login = f"--no-defaults --host=127.0.0.1 --port={source} --user=root"
        environment = {
            **os.environ,
            "LD_LIBRARY_PATH": str(HOME / "usr" / "lib" / "x86_64-linux-gnu"),
            "MYSQLTEST_VARDIR": str(folder), "MYSQL_TMP_DIR": str(folder), "MYSQL_TEST_DIR": str(FILES),
            "MASTER_MYPORT": source, "SLAVE_MYPORT": replica, "SERVER_MYPORT_1": source, "SERVER_MYPORT_2": replica,
            "MYSQL": f"/usr/bin/mariadb {login}", "MYSQL_DUMP": f"/usr/bin/mariadb-dump {login}", "AUDITOR_POINT": str(point),
        }  # fmt: skip
        for name in ("tmp", "log", "std_data"):
            (folder / name).mkdir(exist_ok=True)
        command: list[str | Path] = [
            CLIENT, "--no-defaults", "--host=127.0.0.1", f"--port={source}", "--user=root", "--protocol=tcp", "--database=test", "--silent",
            f"--tmpdir={folder}", f"--logdir={folder}/log", "--character-sets-dir=/usr/share/mysql/charsets", "--continue-on-error",
            f"--suite-dir={script.path.parent.parent if script.path.parent.name == 't' else script.path.parent}/",
            "--wait-for-pos-timeout=20", f"--test-file={text}",
        ]  # fmt: skip
        with (folder / "client.log").open("wb") as said:
            process = subprocess.Popen(command, cwd=FILES, env=environment, stdin=subprocess.DEVNULL, stdout=said, stderr=said)
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()

    def close(self) -> None:
        """Stop the server and its replica."""
        for server in (self._replica, self._server):
            if server is not None:
                server.stop()
        self._replica = self._server = None

    def _start(self, options: Sequence[str]) -> Server:
        """Start a server on a copy of the tables with which the first one began: to make these takes longer than a script."""
        found = mariadb.programs()
        if found is None:
            raise Unavailable("there is no MariaDB here: run scripts/engines.sh")
        if self._made is None:
            self._made = own_directory(self._directory, "made")
            account = ["--auth-root-authentication-method=normal", "--skip-test-db"]
            places = [f"--datadir={self._made}/data", f"--tmpdir={self._made}"]
            run([found[1], "--no-defaults", *mysql.as_root(), *places, *account], self._made)
        home = own_directory(self._directory, "scripts")
        shutil.copytree(self._made / "data", home / "data")
        return mysql.start_local("mariadb", home, [found[0], "--no-defaults", *mariadb.OWN_OPTIONS, *options], "local binary")

    def _replica_port(self) -> str:
        if self._replica is None:
            self._replica = self._start((*OPTIONS, *REPLICA))
            with closing(mysql.connect(self._replica.url)) as connection, connection.cursor() as cursor:
                for statement in ("CREATE DATABASE test", "CREATE DATABASE mtr", "CREATE PROCEDURE mtr.add_suppression(p TEXT) BEGIN END"):
                    cursor.execute(statement)
        return self._replica.url.rpartition(":")[2].partition("/")[0]

    def _is_as_before(self) -> bool:
        """Take back what a script left; return whether that is possible."""
        if self._replica is not None:  # what it replicated is not worth a look
            self._replica.stop()
            self._replica = None
        try:
            self._clean()
            return bool(self._look() == self._before)
        except pymysql.MySQLError:
            return False

    def _clean(self) -> None:
        with closing(mysql.connect(self.url.removesuffix("test"))) as connection, connection.cursor() as cursor:
            mysql.end_sessions(cursor, "user = 'root'")
            for name, value in self._before["settings"].items():
                cursor.execute(f"SHOW GLOBAL VARIABLES WHERE variable_name = '{name}'")
                if [one[1] for one in cursor.fetchall()] != [value]:
                    cursor.execute(f"SET GLOBAL {name} = {value if re.fullmatch(r'-?[0-9.]+', value) else json.dumps(value)}")
            cursor.execute("SET SESSION foreign_key_checks = 0, lock_wait_timeout = 5")
            cursor.execute("SHOW DATABASES")
            for (name,) in list(cursor.fetchall()):
                if name not in SYSTEM:
                    cursor.execute(f"DROP DATABASE `{name.replace('`', '``')}`")
            cursor.execute("CREATE DATABASE test")

    def _look(self) -> dict[str, Any]:
        """Return what scripts may leave that has to be taken back."""
        asked = {
            "users": "SELECT user, host, priv FROM mysql.global_priv ORDER BY 1, 2",
            "plugins": "SELECT plugin_name, plugin_status FROM information_schema.plugins ORDER BY 1",
            "databases": "SHOW DATABASES", "prepared": "XA RECOVER", "replicates": "SHOW ALL SLAVES STATUS",
            "system": "SELECT table_name FROM information_schema.tables WHERE table_schema IN ('mysql', 'mtr') ORDER BY 1",
            "functions": "SELECT name FROM mysql.func", "servers": "SELECT server_name FROM mysql.servers",
            "routines": "SELECT db, name FROM mysql.proc ORDER BY 1, 2",
        }  # fmt: skip
        settings = {name: value for name, value in self._run("SHOW GLOBAL VARIABLES") if not VOLATILE.match(name)}
        return {"settings": settings, **{about: self._run(statement) for about, statement in asked.items()}}

    def _run(self, *statements: str) -> list[tuple[Any, ...]]:
        assert self._server
        with closing(mysql.connect(self._server.url.rpartition("/")[0] + "/")) as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
            return list(cursor.fetchall())


def write_point(folder: Path) -> Path:
    """Write the command of a point: it says that it was reached, and waits until it may go on; a second time it waits for nothing."""
    path = folder / "point"
    done = f'[ -e "{folder}/done.$1" ]'
    path.write_text(f'#!/bin/sh\n{done} && exit 0\n: >"{folder}/reached.$1"\nuntil {done} || [ ! -d "{folder}" ]; do sleep 0.05; done\n')
    path.chmod(0o755)
    return path


def own_folder() -> tempfile.TemporaryDirectory[str]:
    """Return a new folder for what one script writes, which the server may enter."""
    return tempfile.TemporaryDirectory(prefix="script-", dir=folder_in_memory())
