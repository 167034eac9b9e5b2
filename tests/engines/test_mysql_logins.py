"""Logins to MySQL and MariaDB: with TLS, with a password and no TLS, and without what neither needs."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import closing
from urllib.parse import urlsplit

import pytest

import dialects
from tests import tables
from tests.live import LiveEngine, engine_params

READER, SECRET = "reader_of_logins", "s3cr3t-p@ss-Word"


@pytest.fixture
def reader(engine: LiveEngine) -> Iterator[str]:
    """The URL of a user with a password, of which the server has no digest yet: MySQL then wants it encrypted, or TLS."""
    account = f"{READER}@'%'"
    tables.execute(engine, f"CREATE USER {account} IDENTIFIED BY '{SECRET}'", "FLUSH PRIVILEGES")
    parts = urlsplit(engine.url)
    try:
        yield parts._replace(netloc=f"{READER}:{SECRET.replace('@', '%40')}@{parts.hostname}:{parts.port}", path="").geturl()
    finally:
        tables.execute(engine, f"DROP USER {account}")


@pytest.mark.parametrize("engine", engine_params("mysql", "mariadb"), indirect=True)
def test_password_is_encrypted_without_tls_by_two_connections_at_once(engine: LiveEngine, reader: str) -> None:
    """In a process of its own, where nothing has loaded the ciphers before."""
    program = """
        import sys
        from concurrent.futures import ThreadPoolExecutor
        import dialects

        def log_in(_):
            session = dialects.connect(sys.argv[1])
            try:
                return session.query("SELECT CURRENT_USER()")[0][0]
            finally:
                session.close()

        with ThreadPoolExecutor(2) as threads:
            print(*threads.map(log_in, range(2)))
    """
    command = [sys.executable, "-c", textwrap.dedent(program), f"{reader}?ssl=false"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [f"{READER}@%"] * 2


@pytest.mark.parametrize("engine", engine_params("mysql"), indirect=True)
def test_connection_uses_tls_where_the_server_has_it(engine: LiveEngine, reader: str) -> None:
    with closing(dialects.connect(reader)) as session:
        ((_, cipher),) = session.query("SHOW SESSION STATUS LIKE 'Ssl_cipher'")
    assert str(cipher).startswith("TLS_")
