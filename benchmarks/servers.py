"""The servers of the benchmarks: private ones on loopback, started by the tests' modules, but with enough memory for the data.

All tools use the same servers: a buffer pool of 1 GB (MySQL, MariaDB), shared_buffers of 512 MB (PostgreSQL and the stand-in
for Redshift), no TLS, no parallel query, UTC and ISO dates. MySQL has its MD5() component, without which two of the tools fail.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import tests.servers.process as process
from tests.servers import kafka, mariadb, mysql, postgres, redshift, spark
from tests.servers.process import Server, Unavailable

POSTGRES = {
    "timezone": "UTC",
    "shared_buffers": "512MB",
    "work_mem": "64MB",
    "max_parallel_workers_per_gather": "0",
    "max_wal_size": "4GB",
}
MYSQL = (
    "SET GLOBAL innodb_buffer_pool_size = 1073741824",
    "SET GLOBAL time_zone = '+00:00'",
    "SET GLOBAL sql_mode = 'STRICT_TRANS_TABLES,NO_ENGINE_SUBSTITUTION'",
)
UTC_ZONE = (
    "INSERT INTO mysql.time_zone (Time_zone_id, Use_leap_seconds) VALUES (1, 'N')",
    "INSERT INTO mysql.time_zone_name (Name, Time_zone_id) VALUES ('UTC', 1)",
    "INSERT INTO mysql.time_zone_transition_type (Time_zone_id, Transition_type_id, `Offset`, Is_DST, Abbreviation)"
    " VALUES (1, 0, 0, 0, 'UTC')",
)
"""One of the tools runs SET time_zone = 'UTC', which needs a time zone of that name."""

MD5_COMPONENT = "INSTALL COMPONENT 'file://component_classic_hashing'"
CONDITIONS = (
    "Servers on the same machine, loopback, without TLS; innodb_buffer_pool_size 1 GB, shared_buffers 512 MB and work_mem 64 MB;"
    " no parallel query in PostgreSQL; MySQL with component_classic_hashing. 'redshift' is the stand-in: PostgreSQL with Redshift's"
    " functions behind a front end for Amazon's driver, so its times are PostgreSQL's, not Redshift's: SHA2()"
    " and STRTOL() become expressions of its own functions, on one core, by rows, without Redshift's columns, slices and compiled plans."
)


def _mysql(directory: Path) -> Server:
    program, how = mysql.find_server()
    if program is None:
        raise Unavailable("MySQL is not installed; run scripts/engines.sh")
    home = process.own_directory(directory, "mysql")
    options = [*mysql.OWN_OPTIONS, "--loose-innodb-redo-log-capacity=1G", "--tls-version=", "--secure-file-priv="]
    process.run([program, "--no-defaults", *mysql.as_root(), f"--datadir={home}/data", "--initialize-insecure", *mysql.OWN_OPTIONS], home)
    server = mysql.start_local("mysql", home, [program, "--no-defaults", *options], how)
    with mysql.connect(server.url) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT VERSION()")
        for statement in (*MYSQL, *UTC_ZONE):
            cursor.execute(statement)
        try:
            cursor.execute("SELECT MD5('')")
        except Exception:  # MySQL 9.6 and later have no MD5(); the exception class depends on the driver
            cursor.execute(MD5_COMPONENT)
    return server


def _mariadb(number: int) -> Callable[[Path], Server]:
    def start(directory: Path) -> Server:
        program, install = process.find_program("mariadbd"), process.find_program("mariadb-install-db")
        if program is None or install is None:
            raise Unavailable("MariaDB is not installed; run scripts/engines.sh")
        home = process.own_directory(directory, f"mariadb{number}")
        account = ["--auth-root-authentication-method=normal", "--skip-test-db"]
        process.run([install, "--no-defaults", *mysql.as_root(), f"--datadir={home}/data", f"--tmpdir={home}", *account], home)
        options = [option for option in mariadb.OWN_OPTIONS if "server-id" not in option and "log-file-size" not in option]
        options += [f"--server-id={number}", "--loose-innodb-log-file-size=1G"]
        server = mysql.start_local("mariadb", home, [program, "--no-defaults", *options], "local binary")
        with mysql.connect(server.url) as connection, connection.cursor() as cursor:
            for statement in (*MYSQL, *UTC_ZONE):
                cursor.execute(statement)
        return server

    return start


def _postgres(directory: Path) -> Server:
    return postgres.cluster(directory, replace(postgres.DEFAULT, settings=POSTGRES))


def _redshift(directory: Path) -> Server:
    cluster = replace(redshift.CLUSTER, settings={**redshift.CLUSTER.settings, **POSTGRES})
    behind = postgres.cluster(directory, cluster)
    with closing(postgres.connect(behind.url)) as connection:
        connection.cursor().execute(redshift.FUNCTIONS.read_text())
    return redshift._front(directory, behind)


def _duckdb(directory: Path) -> Server:
    from importlib.metadata import version

    return Server(url=f"duckdb:///{directory}/bench.duckdb", version=version("duckdb"), how="in process")


def _spark(directory: Path) -> Server:
    return replace(spark.start(directory), url="spark://local?master=local[1]")


STARTS: dict[str, Callable[[Path], Server]] = {
    "mysql": _mysql,
    "mariadb": _mariadb(1),
    "replica": _mariadb(2),
    "postgres": _postgres,
    "redshift": _redshift,
    "kafka": kafka.start,
    "duckdb": _duckdb,
    "spark": _spark,
}


class Servers:
    """Starts servers when they are first used, and remembers those that cannot start."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.running: dict[str, Server] = {}
        self.missing: dict[str, str] = {}

    def __getitem__(self, name: str) -> Server:
        """Return the running server, starting it if needed. Raises Unavailable."""
        if name in self.missing:
            raise Unavailable(self.missing[name])
        if name not in self.running:
            try:
                self.running[name] = STARTS[name](self.directory)
            except Unavailable as reason:
                self.missing[name] = str(reason)
                raise
        return self.running[name]

    def stop(self) -> None:
        """Stop all running servers."""
        for server in self.running.values():
            server.stop()

    def versions(self) -> dict[str, str]:
        """Return the version of each server that was used, or why it could not start."""
        ran = {name: f"{server.version} ({server.how})" for name, server in self.running.items()}
        return ran | {name: f"not run: {reason}" for name, reason in self.missing.items()}


@contextmanager
def open_servers() -> Iterator[Servers]:
    """Provide servers for the block, in a temporary directory; stops them and removes the directory at its end."""
    directory = process.open_directory()
    servers = Servers(directory)
    try:
        yield servers
    finally:
        servers.stop()
        shutil.rmtree(directory, ignore_errors=True)


def at_port(url: str, port: int) -> str:
    """Return the URL with another port."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition(":")[0] + f":{port}"))


def port_of(url: str) -> int:
    """Return the URL's port, which must be given."""
    port = urlsplit(url).port
    assert port is not None, url
    return port


def cache() -> Path:
    """Return the directory of the other tools' virtual environments."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "auditor-bench"
