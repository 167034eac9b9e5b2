"""Each command that a page shows is executed on two embedded databases; the exceptions name the test that executes them, and why."""

from __future__ import annotations

import csv
import re
import shlex
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pytest
import uvicorn

from auditor import config
from auditor.api.app import create_app
from auditor.cli import main
from auditor.service.workers import Workers
from auditor.store import open_store, runs
from tests import documents

CONFIGURATION = """
connections:
  shop: {url: "duckdb:///shop.duckdb"}
  dwh: {url: "duckdb:///dwh.duckdb", write: {url: "duckdb:///dwh.duckdb"}}
  lake: {url: "duckdb:///:memory:"}
audits:
  orders:
    source: {connection: shop, table: orders}
    target: {connection: dwh, table: orders}
    settle: {column: changed, lag: 15m}
store: {url: "sqlite:///auditor.db"}
"""

WHOLE_PAGES = {
    "first-pipeline": "tests/pipeline/test_first_pipeline.py",
    "alerts": "tests/unit/test_incidents.py",
    "quickstart": "tests/pairs/test_documented_sessions.py",
    "one-line": "tests/unit/test_docs.py",
    "conventions": "tests/unit/test_docs.py",
    "recipes": "tests/unit/test_docs.py",
    "segments": "tests/pipeline/test_segment_commands.py",
    "stream-and-table": "tests/pipeline/test_documented_events.py",
    "evidence": "tests/unit/test_evidence.py",
}
"""Pages whose commands a test of their own executes in order, and that test."""


@dataclass(frozen=True)
class Elsewhere:
    """A command that cannot run here: why, and the words by which its own test starts it."""

    why: str
    file: str
    words: str


PIPELINE_PAGE = "tests/pipeline/test_documented_pipelines.py"
UNTIL_A_SIGNAL = "runs until a signal"
ELSEWHERE = {
    "serve": Elsewhere(UNTIL_A_SIGNAL, "tests/programs/serve.py", '"serve"'),
    "heartbeat run": Elsewhere(UNTIL_A_SIGNAL, "tests/engines/test_heartbeat.py", '"heartbeat", "run"'),
    "pipeline run": Elsewhere("starts Spark", "tests/pipeline/test_processes.py", '"pipeline", "run"'),
    "pipeline failover": Elsewhere("needs a server and its replica", "tests/engines/test_failover.py", '"pipeline-stops.md", "console"'),
    "pipeline segments": Elsewhere("needs segments", "tests/pipeline/test_pipeline_commands.py", '"segments", PIPELINE, "--verify"'),
    **{f"pipeline {action}": Elsewhere("needs a server's log", PIPELINE_PAGE, f'"{action}"') for action in ("check", "init", "refresh")},
    **{f"pipeline {action}": Elsewhere("needs a table that stopped", PIPELINE_PAGE, f'("{action}")') for action in ("status", "skip")},
    "pipeline schemas": Elsewhere("needs tables", "tests/pipeline/test_schema_versions.py", '"pipeline", "schemas", PIPELINE'),
    "pipeline reset shop --target": Elsewhere("needs a target that is lost", "tests/pipeline/test_reset_target.py", "--target"),
    "pipeline reset shop --from-targets": Elsewhere("needs a server's log", "tests/pipeline/test_incarnations.py", "--from-targets"),
    "certify": Elsewhere("tries a server", "tests/pipeline/test_certify.py", '"certify"'),
    "diff sqlite": Elsewhere("needs the page's own package", "tests/third_party/test_installed_engine.py", '"auditor", "diff"'),
    "segments reset": Elsewhere("needs two pipelines", "tests/pipeline/test_segment_commands.py", '"segments", "reset"'),
    "resume": Elsewhere("needs a run that failed", "tests/unit/test_cli_store.py", '"resume"'),
    "run zones": Elsewhere("needs two pipelines", "tests/pipeline/test_segment_commands.py", "auditor run zones"),
    "run orders --rescan": Elsewhere("needs a pipeline", "tests/pipeline/test_live_audits.py", '"rescan": True'),
    "bisect": Elsewhere("needs a pipeline", "tests/pipeline/test_bisect.py", '["bisect", AUDIT'),
    "bootstrap orders --spark": Elsewhere("starts Spark", "tests/repair/test_bootstrap_spark.py", "spark"),
    "trace": Elsewhere("needs a pipeline", "tests/pipeline/test_trace.py", '"trace", "orders"'),
    "patch orders --through refresh": Elsewhere("needs a pipeline", "tests/pipeline/test_patch_through.py", '"--through", "refresh"'),
    "patch orders --through command": Elsewhere("needs what delivers", "tests/pipeline/test_patch_through.py", '"--through", "command"'),
}
"""Commands by their first words."""

OTHER_PROGRAMS = {"make", "pip", "cat", "curl"}
"""Programs that are not the auditor: others than these are run, or stood in for."""


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tables of the page on repair, of which three rows differ."""
    folder = tmp_path_factory.mktemp("documented")
    rows = "SELECT i AS id, 'customer ' || i AS customer, CAST(i * 1.5 AS DECIMAL(10,2)) AS total, TIMESTAMP '2026-11-15' AS changed"
    for name, last in (("shop", 1999), ("dwh", 2000)):
        with duckdb.connect(str(folder / f"{name}.duckdb")) as database:
            database.execute(
                "CREATE TABLE orders (id BIGINT PRIMARY KEY, customer VARCHAR, total DECIMAL(10,2), changed TIMESTAMP);"
                f"INSERT INTO orders {rows} FROM range(1, {last + 1}) r(i)"
            )
    with duckdb.connect(str(folder / "dwh.duckdb")) as database:
        database.execute("UPDATE orders SET total = 0 WHERE id = 17; DELETE FROM orders WHERE id = 400")
    (folder / "auditor.yaml").write_text(CONFIGURATION, encoding="utf-8")
    open_store(f"sqlite:///{folder}/auditor.db").close()
    return folder


class Project:
    """A folder in which the commands of one page are executed, one after the other."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self.capsys, self.printed, self.patch = capsys, "", ""

    def run(self, command: str) -> None:
        """Execute a command of a page, with what it stands for in place of its placeholders; 2 and 3 are no exit codes of a page."""
        words, _, file = command.partition(" > ")
        given = [self._replace(word, "--undo" in words) for word in shlex.split(words, comments=True)]
        try:
            code = main(given)
        except SystemExit as ended:  # --help and --version
            code = int(ended.code or 0)
        out, error = self.capsys.readouterr()
        assert code in (0, 1), f"auditor {shlex.join(given)} ended with {code}: {error}"
        self.printed = out
        if applied := re.search(r"auditor patch --undo ([0-9a-f]{12})", out):
            self.patch = applied[1]
        if file:
            Path(file.split()[0]).write_text(out, encoding="utf-8")

    def _replace(self, word: str, is_patch: bool) -> str:
        run = newest_run()
        stands_for = {"RUN": run, "AUDIT": "orders", "NAME": "shop", "COMMAND": "run", "wh": "dwh"}
        stands_for |= {"URL1": "duckdb:///shop.duckdb", "URL2": "duckdb:///dwh.duckdb", "TABLE1": "orders", "TABLE2": "orders"}
        if re.fullmatch(r"[0-9a-f]{12}", word):  # an id as a page shows it, behind --undo of the patch that was applied
            return self.patch if is_patch else run[:12]
        return stands_for.get(word, word)


def newest_run() -> str:
    store = open_store("sqlite:///auditor.db")
    try:
        return next(run.run for run in runs.list_runs(store, audit="orders", limit=20) if run.verdict == "mismatch")
    finally:
        store.close()


@pytest.fixture
def project(template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Project:
    monkeypatch.delenv("AUDITOR_CONFIG", raising=False)
    shutil.copytree(template, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    assert main(["run", "orders", "-q"]) == 1
    capsys.readouterr()
    return Project(capsys)


def elsewhere(command: str) -> str | None:
    """Return the first words under which a command is an exception."""
    return next((words for words in ELSEWHERE if re.match(rf"{re.escape(words)}\b", command)), None)


def shown(page: Path) -> Iterator[str]:
    """Yield the commands of a page's blocks, in order; those of other programs with their name."""
    for block in documents.blocks(page):
        if "$ " in block:
            for command, _ in documents.sessions(block):
                yield command.removeprefix("auditor ")
        elif block.startswith("auditor "):
            yield from (line.removeprefix("auditor ") for line in block.splitlines())


PAGES = [page for page in documents.PAGES if page.stem not in WHOLE_PAGES and any(shown(page))]


@pytest.mark.parametrize("page", [page for page in PAGES if page.stem not in ("service", "consoles", "dumps")], ids=lambda page: page.stem)
def test_commands_of_blocks_are_executed(page: Path, project: Project) -> None:
    for command in shown(page):
        if command.split()[0] in OTHER_PROGRAMS or elsewhere(command):
            continue
        if command.split()[0] == "init":
            Path("auditor.yaml").rename("own.yaml")
            project.run(command)
            Path("own.yaml").replace("auditor.yaml")
            continue
        project.run(command)


def test_commands_of_the_service_are_executed(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """All but `serve` itself, against the same application in a thread."""
    install, create, serve, remote = shown(documents.ROOT / "docs" / "service.md")
    assert install.startswith("pip install ") and elsewhere(serve) == "serve"
    project.run(create)
    monkeypatch.setenv("AUDITOR_TOKEN", project.printed.strip())
    with listening() as url:
        project.run(remote.replace("http://127.0.0.1:8080", url))
    assert "MISMATCH  orders" in project.printed


def test_requests_of_the_api_page_are_answered(project: Project, tmp_path: Path) -> None:
    """The page's scripts run as one, by curl and jq, against a service of this folder."""
    if not (shutil.which("curl") and shutil.which("jq")):
        pytest.skip("curl and jq are needed")
    project.run("token create --name ops --scope define")
    setup, *scripts = documents.blocks(documents.ROOT / "docs" / "api.md", "sh")
    with listening() as url:
        begin = setup.replace("http://127.0.0.1:8080", url).replace("AUDITOR_TOKEN=...", f"AUDITOR_TOKEN={project.printed.strip()}")
        script = "\n".join(["set -e -o pipefail", begin, *scripts])
        done = subprocess.run(["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr
    assert "done\nmismatch\n" in done.stdout
    assert len((tmp_path / "differences.csv").read_text(encoding="utf-8").splitlines()) == 4


class listening:
    """The service of this folder, which listens on a free port for a block."""

    def __enter__(self) -> str:
        settings = config.load(Path("auditor.yaml"))
        assert settings.store
        self.store = open_store(settings.store.url)
        self.workers = Workers(settings, self.store, 1)
        app = create_app(settings, self.store, workers=self.workers)
        self.server = uvicorn.Server(uvicorn.Config(app, port=0, log_config=None, server_header=False, lifespan="off"))
        self.thread = threading.Thread(target=self.server.run)
        self.thread.start()
        while not self.server.started:
            time.sleep(0.02)
        self.workers.start()
        return f"http://127.0.0.1:{self.server.servers[0].sockets[0].getsockname()[1]}"

    def __exit__(self, *_: object) -> None:
        self.workers.stop(5)
        self.server.should_exit = True
        self.thread.join(10)
        self.store.close()


def test_statements_of_consoles_are_executed_and_compared(project: Project) -> None:
    """DuckDB stands in for all clients, and writes what the first of them writes: tabs under a header."""
    source, *clients, compare = shown(documents.ROOT / "docs" / "consoles.md")
    written = Path("auditor.yaml").read_text(encoding="utf-8")
    Path("auditor.yaml").write_text(written.replace("    settle: {column: changed, lag: 15m}\n", ""), encoding="utf-8")
    project.run(source)
    project.run(source.replace("source", "target"))
    assert [client.split()[0] for client in clients] == ["mysql", "psql", "duckdb", "spark-sql", "beeline"]
    for client in clients:
        database, script = ("shop", "source.sql") if "source.sql" in client else ("dwh", "target.sql")
        assert script in client
        paste(database, script, client.partition(" > ")[2].split()[0])
    project.run(compare)
    assert project.printed.startswith("MISMATCH")


def paste(database: str, script: str, result: str) -> None:
    """Run a script as a console does, and save its last result."""
    with duckdb.connect(f"{database}.duckdb", read_only=True) as connection, Path(result).open("w", encoding="utf-8", newline="") as file:
        found = connection.execute(Path(script).read_text(encoding="utf-8"))
        writer = csv.writer(file, delimiter="\t")
        writer.writerow([column[0] for column in found.description or []])
        writer.writerows(found.fetchall())


def test_commands_of_dumps_are_executed(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """The task runs in this process instead of in Spark's, as tests/pipeline/test_dump.py says for other engines."""
    from auditor.pipeline.dump import write_dump

    monkeypatch.setattr("auditor.pipeline.spark.start_session", lambda _: None)
    monkeypatch.setattr("auditor.pipeline.dump.dump", lambda _, task: write_dump(task))
    via = f"    via: {{connection: lake, table: {Path.cwd()}/dumps/current/*.parquet}}\n    key: [id]\n"
    written = Path("auditor.yaml").read_text(encoding="utf-8")
    Path("auditor.yaml").write_text(written.replace("store:", f"{via}store:"), encoding="utf-8")
    for command in shown(documents.ROOT / "docs" / "dumps.md"):
        project.run(command)
    assert "MATCH  orders.dump" in project.printed and "MISMATCH  orders.target" in project.printed


PREPARED: Mapping[str, str] = {
    "token revoke NAME": "token create --name shop --scope read",
    "unpause AUDIT": "pause AUDIT",
}
"""What has to come before a command of the text."""

SPOKEN_OF = {
    "init",
    "run",
    "diff",
    "demo",
    "patch",
    "patch --apply",
    "bootstrap",
    "schema",
    "dump",
    "forget",
    "show",
    "run shop",
    "sql AUDIT --side target",
    "pipeline reset",
    "verify",
    "wait",
}
"""Commands that the text names without their arguments, or with some that stand for many."""


def test_commands_of_the_text_are_executed(project: Project) -> None:
    pages = [page for page in documents.PAGES if page.stem != "engines"]
    commands = sorted({command for page in pages for command in documents.commands_in_text(page)})
    ran = []
    for command in commands:
        if command in SPOKEN_OF or elsewhere(command):
            continue
        if command in PREPARED:
            project.run(PREPARED[command])
        project.run(command.replace("run --verbose", "run orders --verbose"))
        ran.append(command)
    assert len(ran) > 20, ran


# the exceptions


def test_each_exception_is_shown_and_its_test_executes_it() -> None:
    found = {
        words for page in documents.PAGES for command in [*shown(page), *documents.commands_in_text(page)] if (words := elsewhere(command))
    }
    assert found == set(ELSEWHERE), "an exception that no page shows any more"
    for words, one in ELSEWHERE.items():
        assert one.words in (documents.ROOT / one.file).read_text(encoding="utf-8"), (words, one)


@pytest.mark.parametrize("page", sorted(WHOLE_PAGES))
def test_pages_with_a_test_of_their_own_are_read_by_it(page: str) -> None:
    assert f"{page}.md" in (documents.ROOT / WHOLE_PAGES[page]).read_text(encoding="utf-8")


def test_a_command_that_does_not_run_would_be_found(project: Project) -> None:
    with pytest.raises(AssertionError, match="auditor run ordres ended with 2"):
        project.run("run ordres")
