"""A run ends at once, by whatever means, though a database says nothing: a proxy falls silent before a real server.

The limits are those of production, an hour for a statement, and five minutes for a login so that it does not end by itself.
"""

from __future__ import annotations

import signal
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.live import Engines
from tests.programs import processes
from tests.programs.processes import run_command, start_run, write_config
from tests.servers import mysql, postgres, redshift
from tests.servers.proxy import Proxy, proxied

if TYPE_CHECKING:
    from _pytest.mark import ParameterSet

pytestmark = pytest.mark.clock

CONNECT: dict[str, Any] = {"mysql": mysql.connect, "postgres": postgres.connect, "redshift": redshift.connect}
SETTINGS = {**processes.SMALL, "durations.cancel_grace": 0.5}

CASES = [
    ("mysql", "login", "SIGINT", False),
    ("redshift", "login", "cancel", True),
    ("postgres", "login", "SIGTERM", True),
    ("postgres", "statement", "SIGTERM", False),
    ("redshift", "statement", "cancel", False),
    ("mysql", "statement", "lost lease", False),
    ("postgres", "statement", "lost lease", True),
    ("mysql", "statement", "SIGINT", True),
    ("redshift", "statement", "SIGINT", True),
]


def _case(engine: str, stage: str, how: str, slow: bool) -> ParameterSet:
    marks = [getattr(pytest.mark, engine), *([pytest.mark.slow] if slow else [])]
    return pytest.param(engine, stage, how, id=f"{engine}-{stage}-{how.replace(' ', '-')}", marks=marks)


@pytest.mark.quick_for("mysql-login", "mysql-statement", "postgres-statement")
@pytest.mark.parametrize(("engine", "stage", "how"), [_case(*one) for one in CASES])
def test_run_ends_though_its_database_says_nothing(engines: Engines, tmp_path: Path, engine: str, stage: str, how: str) -> None:
    url = engines.live(engine).url
    with closing(CONNECT[engine](url)) as connection, closing(connection.cursor()) as cursor:
        connection.autocommit = True
        for statement in ("DROP TABLE IF EXISTS unheard", "CREATE TABLE unheard (id INT)", "INSERT INTO unheard VALUES (1), (2)"):
            cursor.execute(statement)
    with proxied(url) as proxy:
        proxy.allowed_at_login = 0 if stage == "login" else None
        proxy.silencing_text = b"" if stage == "login" else b"word_0"
        source = f"{proxy.url}{'&' if '?' in proxy.url else '?'}connect_timeout=300"
        write_config(tmp_path, source, url, table="unheard")
        process = start_run(tmp_path, settings=SETTINGS)
        assert process.wait_for_output("source: connecting"), process.stderr_lines
        assert stage == "login" or proxy.heard.wait(processes.PATIENCE), process.stderr_lines
        _end(process, proxy, tmp_path, how)
        report = process.report()
    assert (report["state"], report["verdict"], process.wait()) == ("cancelled", "unknown", 3)
    if how == "lost lease":
        assert any("no longer belongs" in reason for reason in report["reasons"]), report["reasons"]
    else:
        assert processes.list_runs(tmp_path)[0]["state"] == "cancelled"


def _end(process: processes.Process, proxy: Proxy, folder: Path, how: str) -> None:
    """Ask the run to end, while the server accepts connections and answers none."""
    proxy.allowed_at_login = 0
    if how == "cancel":
        assert run_command(folder, "cancel", processes.list_runs(folder)[0]["run"]).wait() == 0
    elif how == "lost lease":
        with closing(sqlite3.connect(folder / "auditor.db")) as store, store:
            store.execute("UPDATE auditor_leases SET pid = 1 WHERE kind = 'run'")  # another process has taken the run over
    else:
        process.send(signal.Signals[how])
