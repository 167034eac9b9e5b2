"""The page docs/first-pipeline.md from its first statement to its last, on two private servers."""

from __future__ import annotations

import re
import shlex
import signal
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg2
import pymysql
import pytest

from auditor.demo.servers import start_postgres, start_source
from auditor.errors import DemoServerMissing
from tests import documents
from tests.programs import processes
from tests.programs.processes import Process

PAGE = documents.ROOT / "docs" / "first-pipeline.md"
EXIT_CODES = {"MISMATCH": 1}
"""Of a command by the word that its first line of output begins with; 0 of all others."""

STATUSES = 60
"""How often the status is asked for until the targets hold everything."""


class Servers:
    """A source and a target of the page's own, and its statements on them."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        try:
            self.places = [urlsplit(stack.enter_context(start(folder)).url) for start in (start_source, start_postgres)]
        except DemoServerMissing as error:
            pytest.skip(str(error))
        self.source = stack.enter_context(closing(self._connect_source()))
        with closing(self._connect_target("postgres")) as connection, connection.cursor() as cursor:
            cursor.execute("CREATE DATABASE dwh")
        self.target = stack.enter_context(closing(self._connect_target("dwh")))
        self._run(self.source, "DROP DATABASE shop")  # which the page creates

    def _connect_source(self) -> Any:
        place = self.places[0]
        return pymysql.connect(host=place.hostname, port=place.port or 0, user=place.username, autocommit=True)

    def _connect_target(self, database: str) -> Any:
        place = self.places[1]
        connection = psycopg2.connect(host=place.hostname, port=place.port, user=place.username, dbname=database)
        connection.autocommit = True
        return connection

    def run(self, script: str) -> None:
        """Run statements of the page on the side that their first line names."""
        self._run({"-- source": self.source, "-- target": self.target}[script.splitlines()[0]], script)

    def _run(self, connection: Any, script: str) -> None:
        with connection.cursor() as cursor:
            for statement in re.sub(r"--[^\n]*", "", script).split(";"):
                if statement.strip():
                    cursor.execute(statement)

    def localise(self, text: str) -> str:
        """Return a configuration with the ports of these servers."""
        for standard, place in zip((3306, 5432), self.places, strict=True):
            text = text.replace(f"127.0.0.1:{standard}", f"127.0.0.1:{place.port}")
        return text


def blocks() -> Iterator[tuple[str, str]]:
    """Yield language and text of each block of the page, in order."""
    yield from re.findall(r"^```(\w+)\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


@pytest.mark.alone
@pytest.mark.slow
@pytest.mark.spark
def test_the_page_leads_from_two_servers_to_a_repaired_pipeline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AUDITOR_CONFIG", raising=False)
    monkeypatch.setattr(processes, "PATIENCE", 600.0)
    folder, pipeline, ran = tmp_path / "work", None, []
    folder.mkdir()
    try:
        with ExitStack() as stack:
            place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="auditor-first-pipeline-", ignore_cleanup_errors=True)))
            place.chmod(0o711)  # a server with an account of its own passes through it
            servers = Servers(place, stack)
            for language, text in blocks():
                if language == "sql":
                    servers.run(text)
                elif language == "yaml":
                    (folder / "auditor.yaml").write_text(servers.localise(text), encoding="utf-8")
                for command, shown in documents.sessions(text) if language == "console" else ():
                    words = shlex.split(command)
                    if words[0] == "export":
                        monkeypatch.setenv(*words[1].split("=", 1))
                    elif words[1:3] == ["pipeline", "run"]:
                        pipeline = Process(folder, *words[1:], settings={})
                        assert pipeline.wait_for_output("it begins at"), pipeline.stderr_lines
                    else:
                        execute(folder, words[1:], shown)
                        ran.append({"pipeline": words[2], "run": words[-1]}.get(words[1], words[1]))
            assert pipeline is not None
            pipeline.send(signal.SIGTERM)
            assert pipeline.wait() == 0
    finally:
        processes.kill_unfinished()
    assert ran == ["check", "refresh", "status", "init", "--all", "shop_orders", "patch"]


def execute(folder: Path, words: list[str], shown: list[str]) -> None:
    """Execute a command, which must print the lines that the page shows, or more in each; ``status`` until both tables are merged."""
    code = EXIT_CODES.get(shown[0].split()[0], 0) if shown else 0
    for _ in range(STATUSES if "status" in words else 1):
        done = Process(folder, *words, settings={})
        assert done.wait() == code, (words, done.stdout, done.stderr_lines)
        printed = [documents.plain(line) for line in done.stdout.splitlines()]
        missing = [line for line in shown if not any(documents.plain(line) in one for one in printed)]
        if not missing and ("status" not in words or sum(line.endswith(" 0 0 0 s merged") for line in printed) == 2):
            return
    pytest.fail(f"{words} did not print {missing}: {done.stdout}")
