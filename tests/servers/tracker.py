"""A second, empty MySQL or MariaDB, which logs nothing: the server of a schema tracker."""

from __future__ import annotations

from pathlib import Path

from tests.servers import mariadb, mysql
from tests.servers.process import Server, Unavailable, find_program, own_directory, run

SMALL = ("--skip-log-bin", "--innodb-buffer-pool-size=32M")


def start_mysql(directory: Path) -> Server:
    """Start MySQL, or raise Unavailable."""
    program, how = mysql.find_server()
    if program is None:
        raise Unavailable("there is no second MySQL here: run scripts/engines.sh")
    home = own_directory(directory, "mysql-tracker")
    run([program, "--no-defaults", *mysql.as_root(), f"--datadir={home}/data", "--initialize-insecure", *mysql.OWN_OPTIONS], home)
    return mysql.start_local("mysql", home, [program, "--no-defaults", *mysql.OWN_OPTIONS], how, SMALL)


def start_mariadb(directory: Path) -> Server:
    """Start MariaDB, or raise Unavailable."""
    program, install = find_program("mariadbd"), find_program("mariadb-install-db")
    if program is None or install is None:
        raise Unavailable("there is no second MariaDB here: run scripts/engines.sh")
    home = own_directory(directory, "mariadb-tracker")
    account = ["--auth-root-authentication-method=normal", "--skip-test-db"]
    run([install, "--no-defaults", *mysql.as_root(), f"--datadir={home}/data", f"--tmpdir={home}", *account], home)
    own = [one for one in mariadb.OWN_OPTIONS if "log-bin" not in one]
    return mysql.start_local("mariadb", home, [program, "--no-defaults", *own], "local binary", SMALL)


START = {"mysql": start_mysql, "mariadb": start_mariadb}
