"""A pipeline that runs while audits of its table are aligned: staging in a thread, and the loader as a pipeline has it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from auditor.background import Service
from auditor.model import Report
from auditor.pipeline.merge.load_tasks import close_sessions
from auditor.pipeline.target_process import TargetProcess
from auditor.service import running
from tests.binlog import LiveLog
from tests.live import LiveEngine
from tests.pipeline.live_road import LiveRoad
from tests.pipeline.road import PIPELINE, leased
from tests.programs.forking import ROOT, Forked

AUDIT = "aligned"


class AlignedRoad(LiveRoad):
    """A pipeline of one table, and an audit of it that is to be aligned."""

    def __init__(
        self, folder: Path, source: LiveEngine, table: str, into: str = "", schema: str = "shop", more: str = "", name: str = PIPELINE,
        store: str = "", columns: str = "{}", output: str = "",
    ) -> None:  # fmt: skip
        """``output`` is the name of the route that is audited, unless that is the table of its own name."""
        into_table = f"{schema}.{output or table}"
        sides = f"source: {{connection: source, table: {table}}}, target: {{connection: warehouse, table: {into_table}}}"
        audits = f"{{{AUDIT}: {{{sides}, align: pipeline{', ' * bool(more)}{more}}}}}"
        super().__init__(folder, source, table, columns, into=into, schema=schema, audits=audits, name=name, store=store)
        self.table, self.schema, self.log = table, schema, LiveLog(source.url)

    def fill(self, rows: int, first: int = 0) -> None:
        """Make the table, with so many rows from a key on, and bring them to the target."""
        values = [f"({number}, 'item {number}', 1)" for number in range(first, first + rows)]
        self.log.run(
            f"DROP TABLE IF EXISTS {self.table}",
            f"CREATE TABLE {self.table} (id int PRIMARY KEY, item varchar(60), price decimal(12,2))",
            *(f"INSERT INTO {self.table} VALUES {', '.join(values[first : first + 1000])}" for first in range(0, rows, 1000)),
        )
        self.merge()

    @contextmanager
    def delivering(self, every: float = 0.1) -> Iterator[None]:
        """Stage in a thread, and merge as a pipeline's loader does, for the block."""
        stopped, staged, paused = threading.Event(), threading.Event(), threading.Event()
        failures: list[BaseException] = []

        def stage() -> None:
            while not stopped.wait(every):
                self.stage()
                staged.set()

        def guarded(work: Callable[[], None]) -> None:
            try:
                work()
            except BaseException as error:
                failures.append(error)
                raise

        load: Callable[..., Service] = self.loader.service
        if self.query_dialect == "duckdb":  # whose file two processes never share
            self.loader.close()
            load = TargetProcess("loader", str(self.config_file), self.name, "wh").service
        threads = [threading.Thread(target=guarded, args=(work,)) for work in (stage, load(0.0, stopped, staged, paused).run)]
        with ExitStack() as held:
            held.enter_context(leased(self.store, self.name))
            for thread in threads:
                held.callback(thread.join)
            held.callback(stopped.set)
            for thread in threads:
                thread.start()
            yield
        assert not failures

    @contextmanager
    def written_to(self, keys: int, rate: float, writers: int = 1, first: int = 0) -> Iterator[None]:
        """Write into the source's table from processes, to keys from ``first`` on, so many writes a second together, for the block."""
        with ExitStack() as held:
            for number in range(writers):
                about = [
                    self.source_url,
                    self.table,
                    str(keys),
                    str(rate / writers),
                    str(number),
                    str(self.root.parent / f"writes{number}"),
                    str(first),
                ]
                process = Forked("tests.pipeline.paced_writer", about, ROOT)
                held.callback(process.close)
                held.callback(process.wait, 60)
                held.callback(process.stdin.close)
            yield

    def count_writes(self) -> int:
        """Return how many writes the writers began."""
        return sum(path.read_text().count("\n") for path in self.root.parent.glob("writes*"))

    def audit(self) -> Report:
        """Run the audit."""
        return running.run_audit(self.settings, AUDIT, store=self.store)

    @property
    def query_dialect(self) -> str:
        """The target's engine."""
        return self.settings.connections["warehouse"].url.partition(":")[0]

    @property
    def source_url(self) -> str:
        """The source's URL."""
        return self.settings.connections["source"].url

    def close(self) -> None:
        """Close everything, and drop what a server has of this pipeline."""
        close_sessions()
        if self.query_dialect != "duckdb":
            cascade = "" if self.query_dialect in ("mysql", "mariadb") else " CASCADE"
            self.execute(f"DROP SCHEMA IF EXISTS {self.schema}{cascade}")
        super().close()
