"""The demonstration of a pipeline: from the binary log of a private server into PostgreSQL and DuckDB, audited, damaged, audited again."""

from __future__ import annotations

import logging
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

import dialects
from auditor import config, service
from auditor.config import Settings
from auditor.connections.writer import open_writer
from auditor.demo import shop
from auditor.demo.servers import start_postgres, start_source
from auditor.durations import durations
from auditor.errors import AuditorError, PackageMissing
from auditor.escaping import shell_word
from auditor.model import Report, Verdict
from auditor.report import text
from auditor.service import pipelines
from auditor.service.pipeline_status import status
from auditor.store import Store, open_store
from auditor.store import pipelines as stored
from dialects import extras

PIPELINE, TARGETS = "shop", ("duck", "pg")

CONFIGURATION = """\
connections:
  source: {{url: "{source}"}}
  pg: {{url: "{postgres}", write: {{url: "{postgres}"}}}}
  duck: {{url: "duckdb:///{folder}/warehouse.duckdb", write: {{url: "duckdb:///{folder}/warehouse.duckdb"}}}}
audits: {{}}
pipelines:
  shop:
    source: {{connection: source, tables: [orders, customers]}}
    columns: {{customers: {{exclude: [password], mask: [email], rename: {{name: full_name}}, where: "country <> 'XX'"}}}}
    staging: {{path: "{folder}/staging"}}
    targets:
      pg: {{connection: pg, schema: shop, every: 1s}}
      duck: {{connection: duck, schema: shop, every: 1s}}
"""

DAMAGE = {
    "pg": ("UPDATE shop.orders SET price = price + 0.01 WHERE id = 7", "DELETE FROM shop.orders WHERE id = 11"),
    "duck": ("UPDATE shop.orders SET item = 'mangled' WHERE id = 13",),
}
"""What is broken in each target."""

EXPECTED = {"pg": {("changed", "7"), ("missing", "11")}, "duck": {("changed", "13")}}
"""The differences that the audits of the damaged targets must name, and no others."""


@dataclass(slots=True)
class Demonstration:
    """The demonstration, as it prints what it does."""

    console: Console
    folder: Path
    kept: list[str] = field(default_factory=list)
    """What was promised and came true."""
    broken: list[str] = field(default_factory=list)
    """What was promised and did not come true."""

    def run(self) -> None:
        """Do everything, in order. Raises AuditorError if it cannot be done."""
        with ExitStack() as servers:
            path = self._start_servers(servers)
            settings = config.load(path)
            assert settings.store
            store = servers.enter_context(closing(open_store(settings.store.url)))
            self._check(settings, path, store)
            with _running(settings, path, store):
                self._wait_for_start(store)
                self._write(settings, store)
                self._catch_up(settings, store)
            self._say("The pipeline was stopped; it ended after its batch.")
            added = config.add_audits(path, pipelines.propose_audits(settings, PIPELINE))
            self._say(f"auditor pipeline init shop: wrote the audits {', '.join(added)}")
            settings = config.load(path)
            self._audit_equal(settings)
            self._damage(settings)
            self._audit_damaged(settings)

    def _start_servers(self, servers: ExitStack) -> Path:
        self._say("Starting a private source and a PostgreSQL ...")
        with ThreadPoolExecutor(2) as pool:
            starts = [start_source(self.folder), start_postgres(self.folder)]
            futures = [pool.submit(servers.enter_context, start) for start in starts]
        source, postgres = (future.result() for future in futures)
        with closing(dialects.connect(source.url, 60.0, 10.0)) as session:
            for statement in shop.TABLES:
                session.execute(statement)
        path = self.folder / "auditor.yaml"
        path.write_text(CONFIGURATION.format(source=source.url, postgres=postgres.url, folder=self.folder))
        self._say(f"{source.name} is the source; PostgreSQL and DuckDB are the targets. The pipeline:")
        self.console.print(
            "\n".join(f"    {line}" for line in path.read_text().splitlines()[5:]), style="dim", highlight=False, markup=False
        )
        return path

    def _check(self, settings: Settings, path: Path, store: Store) -> None:
        self._say("auditor pipeline check shop: looks at source, targets and Spark's executors ...")
        problems = pipelines.check(settings, path, store, PIPELINE)
        for problem in problems:
            self._say(f"auditor pipeline check shop: {problem.severity}: {problem.subject}: {problem.sentence}")
        self._promise("nothing is missing", not any(problem.severity == "error" for problem in problems))

    def _wait_for_start(self, store: Store) -> None:
        self._say("auditor pipeline run shop ...")
        _wait(lambda: stored.get_pipeline(store, PIPELINE).source_offset is not None, "did not start")

    def _write(self, settings: Settings, store: Store) -> None:
        self._say("A writer inserts, updates and deletes rows, and gives some another key, in transactions of 1 to 2,000 rows:")
        stop, writer = threading.Event(), shop.Writer(settings.connections["source"].url)
        with ThreadPoolExecutor(1) as pool:
            done = pool.submit(writer.run, stop, durations().demo_pause)
            try:
                began, has_arrived = time.monotonic(), False
                least, limit = began + durations().demo_writing, began + durations().demo_pipeline
                while not done.done() and not (has_arrived and time.monotonic() > least) and time.monotonic() < limit:
                    time.sleep(durations().demo_progress)
                    has_arrived = self._show_progress(settings, store)
            finally:
                stop.set()
            done.result()
        self._say(f"It committed {writer.transactions:,} transactions.")

    def _catch_up(self, settings: Settings, store: Store) -> None:
        def has_caught_up() -> bool:
            progress = status(settings, store, PIPELINE)
            return progress.lag_bytes == 0 and not any(target.pending_events for target in progress.targets.values())

        earlier = stored.get_pipeline(store, PIPELINE).progress
        _wait(lambda: stored.get_pipeline(store, PIPELINE).progress != earlier, "reported nothing")
        _wait(has_caught_up, "did not catch up")
        self._show_progress(settings, store)

    def _show_progress(self, settings: Settings, store: Store) -> bool:
        """Print how far the pipeline is, and return whether each target holds something."""
        progress = status(settings, store, PIPELINE)
        merged = {name: sum(table.events for table in progress.targets[name].tables.values()) for name in TARGETS}
        counts = ", ".join(f"{name} holds {events:,}" for name, events in merged.items())
        size = "" if progress.lag_bytes is None else f" and {progress.lag_bytes:,} bytes"
        self._say(f"  {progress.events:>9,} events staged, {progress.lag_seconds or 0:.0f} s{size} behind the source; {counts}")
        for sentence in (progress.reason, *progress.warnings):
            if sentence:
                self._say(f"  {sentence}")
        return all(merged.values())

    def _audit_equal(self, settings: Settings) -> None:
        for name in sorted(settings.audits):
            report = service.run_audit(settings, name)
            rows = report.comparison.rows["source"] if report.comparison else 0
            line = f"auditor run {shell_word(name)}: {report.verdict.value.upper()}, {rows:,} rows equal, by the method {report.method}"
            self._promise(line, report.verdict is Verdict.MATCH and rows > 0)

    def _damage(self, settings: Settings) -> None:
        for target, statements in DAMAGE.items():
            with open_writer(target, settings.connections[target]) as session:
                for statement in statements:
                    self._say(f"Breaking {target}: {statement}")
                    session.execute(statement)

    def _audit_damaged(self, settings: Settings) -> None:
        for target, expected in EXPECTED.items():
            report = service.run_audit(settings, f"{PIPELINE}_orders_{target}")
            self.console.print(text.report(report))
            named = ", ".join(f"{kind} order {key}" for kind, key in sorted(expected))
            self._promise(f"the audit of {target} names exactly what was broken: {named}", _named(report) == expected)

    def _promise(self, line: str, is_kept: bool) -> None:
        (self.kept if is_kept else self.broken).append(line)
        kept = ("as promised", "green") if is_kept else ("not as promised", "bold red")
        self.console.print(Text.assemble(kept, f"  {line}"), soft_wrap=True)

    def _say(self, line: str) -> None:
        self.console.print(line, highlight=False, soft_wrap=True)


def run(console: Console) -> int:
    """Run the demonstration in a folder that is removed afterwards; return 0 if all was as promised, else 1. Raises AuditorError."""
    if names := [*extras.missing("pipeline"), *extras.missing("postgres")]:
        raise PackageMissing(extras.explain("the demonstration of pipelines", names, "pipeline,postgres"))
    logging.getLogger("auditor").setLevel(logging.ERROR)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="auditor-pipeline-demo-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o711)  # a server with an account of its own passes through it
        demonstration = Demonstration(console, Path(folder))
        demonstration.run()
    kept, broken = len(demonstration.kept), len(demonstration.broken)
    how = f"all {kept} promises were kept" if not broken else f"{broken} of {kept + broken} promises were not kept"
    console.print(f"\n{how}, in {time.monotonic() - began:.0f} s; everything that was started is gone again", highlight=False)
    return 1 if broken else 0


@contextmanager
def _running(settings: Settings, path: Path, store: Store) -> Iterator[None]:
    """Run the pipeline for the block. Raises the error with which it ended."""
    stop = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(pipelines.run, settings, path, store, PIPELINE, None, stop)
        try:
            yield
        finally:
            stop.set()
        running.result()


def _wait(reached: Any, otherwise: str) -> None:
    """Wait until something is so. Raises AuditorError if that takes longer than ``demo_pipeline``."""
    deadline = time.monotonic() + durations().demo_pipeline
    while not reached():
        if time.monotonic() > deadline:
            raise AuditorError(f"the pipeline {otherwise} within {durations().demo_pipeline:.0f} s; see its log by: auditor pipeline run")
        time.sleep(0.2)


def _named(report: Report) -> set[tuple[str, str]]:
    """Return the kinds and keys of the differences that a report names."""
    named = report.differences.named if report.differences is not None else ()
    return {(difference.kind, str(difference.key["id"])) for difference in named}
