"""What the documentation shows with two servers: the quickstart from the first table to a report, and the rights of a user who audits."""

from __future__ import annotations

import http.server
import json
import os
import re
import shlex
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import psycopg2
import pymysql
import pytest
import yaml

from auditor import service
from auditor.cli import main
from auditor.config import load
from auditor.model import Verdict
from tests import documents
from tests.live import Engines, LiveEngine, LivePair, chosen_pairs, engine_params

QUICKSTART = documents.ROOT / "docs" / "quickstart.md"
PRODUCTION = documents.ROOT / "docs" / "production.md"
PASSWORD = "choose-1-Password"


@dataclass(frozen=True)
class Sandbox:
    """A database and a user of names of their own on a server that other tests use too."""

    engine: LiveEngine
    database: str
    user: str

    @property
    def place(self) -> str:
        """Host, port and database, as in a URL."""
        address = urlsplit(self.engine.url)
        return f"{address.hostname}:{address.port}/{self.database}"

    def run(self, script: str) -> None:
        """Run statements of the documentation, in this database and for this user; on MySQL from the server's own level."""
        text = re.sub(r"--[^\n]*", "", script).replace("shop", self.database)
        text = re.sub(r"\bauditor\b", self.user, text)
        with closing(self._connect(not self._is_mysql)) as connection, connection.cursor() as cursor:
            for statement in text.split(";"):
                if statement.strip():
                    cursor.execute(statement)

    def create(self) -> None:
        """Create the database, which on MySQL the quickstart does itself."""
        with closing(self._connect(False)) as connection, connection.cursor() as cursor:
            cursor.execute(f"CREATE DATABASE {self.database}")

    def drop(self) -> None:
        """Remove the database and the user, if they are there."""
        user = f"USER IF EXISTS {self.user}" if self._is_mysql else f"ROLE IF EXISTS {self.user}"
        with closing(self._connect(False)) as connection, connection.cursor() as cursor:
            cursor.execute(f"DROP DATABASE IF EXISTS {self.database}{'' if self._is_mysql else ' WITH (FORCE)'}")
            cursor.execute(f"DROP {user}")

    @property
    def _is_mysql(self) -> bool:
        return self.engine.dialect == "mysql"

    def _connect(self, inside: bool) -> Any:
        address = urlsplit(self.engine.url)
        given: dict[str, Any] = {
            "host": address.hostname,
            "port": address.port,
            "user": address.username,
            "password": address.password or "",
        }
        if self._is_mysql:
            return pymysql.connect(**given, autocommit=True)
        connection = psycopg2.connect(**given, dbname=self.database if inside else address.path.lstrip("/"))
        connection.autocommit = True
        return connection


def sandbox(engine: LiveEngine, worker: str) -> Sandbox:
    found = Sandbox(engine, f"documented_{worker}", f"documented_reader_{worker}")
    found.drop()
    return found


@pytest.fixture
def worker(engines: Engines) -> str:
    return os.environ.get("PYTEST_XDIST_WORKER", "alone")


@pytest.fixture
def sides(pair: LivePair, worker: str) -> Iterator[tuple[Sandbox, Sandbox]]:
    source, target = sandbox(pair.source, worker), sandbox(pair.target, worker)
    target.create()
    yield source, target
    source.drop()
    target.drop()


NIGHTLY = [("notify", 0), ("crontab", 0), ("run", 0)]
"""The commands of the step to a nightly audit; none is due by day."""


class Receiver(http.server.BaseHTTPRequestHandler):
    """Keeps the messages that a channel is sent."""

    def do_POST(self) -> None:
        """Take a message."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        cast(Any, self.server).received.append(json.loads(body))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def receiver() -> Iterator[Any]:
    server: Any = http.server.HTTPServer(("127.0.0.1", 0), Receiver)
    server.received, server.place = [], f"127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def _add(path: Path, added: dict[str, Any]) -> None:
    """Add what a page says to add to the configuration that init wrote."""
    written = yaml.safe_load(path.read_text(encoding="utf-8"))
    for name, audit in added["audits"].items():
        written["audits"][name] |= audit
    path.write_text(yaml.safe_dump({**written, "notify": added["notify"]}), encoding="utf-8")


@pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")  # a plugin of apprise's imports it
@pytest.mark.parametrize("pair", chosen_pairs("mariadb-postgres"), indirect=True)
def test_quickstart_goes_from_two_tables_to_a_report(
    sides: tuple[Sandbox, Sandbox],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    receiver: Any,
) -> None:
    """Every statement and command of the page, with the tests' hosts, databases and user in the place of those that it names.

    What it adds to the configuration is added before the first command that needs it, and its message is received.
    """
    source, target = sides
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("AUDITOR_CONFIG", raising=False)
    for script in documents.blocks(QUICKSTART, "sql"):
        {"-- source": source, "-- target": target}[script.splitlines()[0]].run(script)
    (nightly,) = map(yaml.safe_load, documents.blocks(QUICKSTART, "yaml"))
    ran = []
    for command, shown in (one for block in documents.blocks(QUICKSTART, "console") for one in documents.sessions(block)):
        if command == "auditor notify test":
            _add(Path("auditor.yaml"), nightly)
        local = command.replace("127.0.0.1:3306/shop", source.place).replace("127.0.0.1:5432/dwh", target.place)
        local = local.replace("127.0.0.1:8025", receiver.place)
        words = shlex.split(os.path.expandvars(local.replace("//auditor:", f"//{source.user}:")))
        if words[0] != "auditor":
            for name, _, value in (word.partition("=") for word in words if word != "export"):
                monkeypatch.setenv(name, value)
            continue
        ran.append((words[1], main(words[1:])))
        out = capsys.readouterr().out
        printed = [documents.plain(line) for line in out.splitlines()]
        missing = [line for line in shown if not any(documents.plain(line) in one for one in printed)]
        assert not missing, (command, out)
    assert ran == [("diff", 1), ("init", 0), ("check", 0), ("run", 1), ("ls", 0), ("report", 0), *NIGHTLY]
    assert [body["title"] for body in receiver.received] == ["auditor: test message"]
    assert load(Path("auditor.yaml")).audits["orders"].schedule is not None
    assert "521.24" in Path("orders.html").read_text(encoding="utf-8")


LIMITS = {
    "mysql": "{threads_running: 4000, lag: 1d}",
    "mariadb": "{threads_running: 4000, lag: 1d}",
    "postgres": "{active_sessions: 4000, lag: 1d}",
}
HEADINGS = {"mysql": "MySQL", "mariadb": "MariaDB", "postgres": "PostgreSQL"}
TABLES = "CREATE TABLE {0}orders (id INT PRIMARY KEY, v INT); INSERT INTO {0}orders VALUES (1, 1), (2, 2)"


@pytest.mark.parametrize("engine", engine_params(*LIMITS), indirect=True)
def test_user_with_the_documented_rights_audits_with_every_limit(engine: LiveEngine, worker: str, tmp_path: Path) -> None:
    """And one with the first of them alone, which is SELECT, audits without."""
    (section,) = re.findall(rf"### {HEADINGS[engine.name]}\n\n```sql\n(.*?)```", PRODUCTION.read_text(encoding="utf-8"), re.DOTALL)
    lines = section.splitlines()
    needed = [line for line in lines if "only" not in line]
    where = sandbox(engine, worker)
    where.create()
    scheme = urlsplit(engine.url).scheme
    limits = f"connections: 2, limits: {{pause_when: {LIMITS[engine.name]}}}"
    try:
        where.run(TABLES.format("shop." if engine.dialect == "mysql" else ""))
        for statements, settings in ((needed, "connections: 2"), (set(lines) - set(needed), limits)):
            where.run("\n".join(statements))
            url = f"{scheme}://{where.user}:{PASSWORD}@{where.place}"
            audit = "{source: {connection: here, table: orders}, target: {connection: here, table: orders}}"
            path = tmp_path / "auditor.yaml"
            path.write_text(f"connections: {{here: {{url: '{url}', {settings}}}}}\naudits: {{orders: {audit}}}\n", encoding="utf-8")
            report = service.run_audit(load(path), "orders")
            assert report.verdict is Verdict.MATCH, report.reasons
    finally:
        where.drop()
