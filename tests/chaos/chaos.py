"""A pipeline from a source into several targets, of which everything can be killed, and which is held against the source at the end."""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import dialects
from auditor import config
from auditor.config import Audit
from auditor.connections.writer import open_writer
from auditor.model import Score, Verdict
from auditor.pipeline.binlog.log_connection import Source, log_status
from auditor.pipeline.events import Place
from auditor.run import audit_run
from auditor.service import pipelines as service
from auditor.store import open_store, parts, pipelines
from tests.chaos.application import Application, kill
from tests.chaos.steps import LOADER_STEPS, STEPS, loader_step
from tests.chaos.targets import SCHEMA, Target
from tests.chaos.writer import Writer
from tests.servers import mysql
from tests.servers.killable import Killable

PIPELINE = "shop"
VICTIMS = ("driver", "worker", "JVM", "source", "target", "connection")
BEAT = 1.0
"""Seconds between two small changes while something is waited for."""

LONGEST_PAUSE = 3.0
"""Seconds at most between the beginning of a round's writes and its kill at a random moment."""

EXPECTED_ENDS = {-9, 3}
"""Exit codes of a driver that was killed, or that lost its Java process."""


class Chaos:
    """A pipeline from a source into all targets, with everything that can be killed."""

    def __init__(
        self,
        folder: Path,
        writer: Writer,
        source: Killable,
        targets: Mapping[str, Target],
        seed: int,
        keep: str = "60s",
        held: Sequence[str] = (),
    ) -> None:
        """``keep`` is how long parts are kept; ``held`` are tables of which there are aligned audits."""
        self.folder, self.source, self.targets = folder, source, dict(targets)
        self.random = random.Random(seed)
        self.writer, self._keep, self._held = writer, keep, held
        self.settings = self._configure()
        assert self.settings.store
        self.store = open_store(self.settings.store.url)
        self.writer.create()
        self.application = Application(folder, "pipeline", "run", PIPELINE)
        self.kills: Counter[str] = Counter()
        self.refreshes = 0
        """How many commands sent existing rows again."""

    def close(self) -> None:
        self.application.close()
        self.store.close()

    def _configure(self) -> config.Settings:
        """Write the configuration with all targets, at once for those who read it meanwhile, and return it."""
        connections = [f'  {name}: {{url: "{one.url}", write: {{url: "{one.url}"}}}}' for name, one in self.targets.items()]
        paces = dict(zip(self.targets, itertools.cycle(("0s", "1s")), strict=False))
        counted = ', tables: {ledger: {accept: ["trigger count_applied"]}}'
        chosen = [
            f"      {name}: {{connection: {name}, schema: {SCHEMA}, every: {pace}{counted if self.targets[name].counts else ''}}}"
            for name, pace in paces.items()
        ]
        audits = [
            f"  {name}: {{source: {{connection: source, table: {table}}},"
            f" target: {{connection: {target}, table: {SCHEMA}.{table}}}, align: pipeline}}"
            for (target, table), name in self.aligned_audits().items()
        ]
        lines = {"connections": "\n".join(connections), "targets": "\n".join(chosen), "audits": "\n".join(["", *audits]) or " {}"}
        written = self.folder / "auditor.yaml.new"
        written.write_text(
            f"""\
connections:
  source: {{url: "{self.source.url}", write: {{url: "{self.source.url}"}}}}
{lines["connections"]}
audits:{lines["audits"]}
keep: {{parts: {self._keep}}}
pipelines:
  {PIPELINE}:
    source: {{connection: source, tables: [{", ".join(self.writer.tables)}]}}
    staging: {{path: "{self.folder}/staging"}}
    targets:
{lines["targets"]}
"""
        )
        return config.load(written.replace(self.folder / "auditor.yaml"))

    def aligned_audits(self) -> dict[tuple[str, str], str]:
        """Return the aligned audits by target and table, of the targets that can be held."""
        return {(name, table): f"{table}_{name}" for name, one in self.targets.items() if one.can_be_held for table in self._held}

    def add_target(self, name: str, target: Target) -> None:
        """Add a target to the configuration, and let the pipeline's process begin again with it."""
        self.targets = {**self.targets, name: target}  # others go through them meanwhile
        self.settings = self._configure()
        self.application.restart()

    def positions(self) -> dict[str, int]:
        """Where each target said that it stands with the ledger."""
        merges = pipelines.list_merges(self.store, PIPELINE)
        return {target: found["audit.ledger"].position for target, found in merges.items() if "audit.ledger" in found}

    def begin(self) -> None:
        """Wait until all targets have tables, and let servers count what is applied to their ledgers from then on.

        Nothing is written before the pipeline has stored where it begins, which is where the log ends then.
        """
        self.application.until(lambda: pipelines.get_pipeline(self.store, PIPELINE).source_offset is not None, "the beginning")
        beat = self._beating(lambda: len(self.positions()) == len(self.targets))
        self.application.until(beat, "the first merge", every=BEAT)
        self.wait_for_end("the beginning")
        self.first_counted = self._query_source("SELECT MAX(number) FROM ledger")[0][0] + 1
        for target in self.targets.values():
            if target.counts:
                target.count_applied()

    def go_on(self) -> None:
        """Wait until all targets have merged something that was committed from now on."""
        before = {**dict.fromkeys(self.targets, 0), **self.positions()}
        progressed = lambda: all(found > before[target] for target, found in self.positions().items())  # noqa: E731
        self.application.until(self._beating(progressed), "progress", every=BEAT)

    def _beating(self, reached: Any) -> Any:
        def look() -> bool:
            self.writer.beat()
            return bool(reached())

        return look

    def kill_at(self, step: str, events: int) -> None:
        """Write, and let a process kill itself at a named step; prove that it did."""
        hit = self.folder / "hit"
        hit.unlink(missing_ok=True)
        (self.folder / "armed").write_text(step)
        if step.endswith(": stage"):  # which a loader takes once in a session
            self._end_connections(every=True)
        with self.writing(events):
            self.application.until(self._beating(hit.exists), f"the step {step}", every=BEAT)
        self.kills[step] += 1

    def kill_one(self, victim: str, events: int) -> None:
        """Write, and kill a victim at a random moment."""
        with self.writing(events):
            time.sleep(self.random.uniform(0, LONGEST_PAUSE))
            self.application.until(lambda: self._kill(victim), f"a {victim} to kill")
        self.kills[victim] += 1

    def _kill(self, victim: str) -> bool:
        if victim in ("source", "target"):
            servers = [self.source] if victim == "source" else [one.server for one in self.targets.values() if one.server]
            server = self.random.choice(servers)
            server.kill()
            time.sleep(self.random.uniform(0, LONGEST_PAUSE))
            server.start()
            return True
        if victim == "connection":
            return self._end_connections()
        found = [self.application.process.pid] if victim == "driver" else self.application.find(victim)
        return bool(found) and kill(self.random.choice(found))

    def _end_connections(self, every: bool = False) -> bool:
        """End one connection of a loader, or every one; return whether there was any."""
        ended = [one.end_connections(self.random, every) for one in self.targets.values() if one.counts]
        return any(ended)

    def writing(self, events: int) -> _Writing:
        return _Writing(self.writer, events)

    def wait_for_end(self, what: str) -> None:
        """Wait until everything that is committed was staged, and merged into all targets."""
        self.application.until(self.arrival(list(self.targets), self.writer.tables), what)

    def arrival(self, targets: Sequence[str], tables: Sequence[str]) -> Callable[[], bool]:
        """Return what says whether these targets hold all that is committed in these tables when this is called."""
        with closing(Source(self.source.url, "source").connect()) as connection:
            end = log_status(connection).end
        needed: dict[str, int] = {}

        def has_arrived() -> bool:
            if not needed:
                offset = pipelines.get_pipeline(self.store, PIPELINE).source_offset
                if offset is None or Place(offset["file"], offset["position"]).order < end.order:
                    return False
                staged = parts.list_tables(self.store, PIPELINE)
                needed.update({table: staged[full].staged_through for table in tables if (full := full_name(table)) in staged})
            held = {target: self.held(target) for target in targets}
            return all(held[target].get(table, 0) >= through for table, through in needed.items() for target in targets)

        return has_arrived

    def held(self, target: str) -> dict[str, int]:
        """Return up to where a target said that it holds each table."""
        merges = pipelines.list_merges(self.store, PIPELINE, target).get(target, {})
        return {table.partition(".")[2]: found.position for table, found in merges.items()}

    def _query_source(self, sql: str) -> list[tuple[Any, ...]]:
        with mysql.connect(self.source.url) as connection, connection.cursor() as cursor:
            cursor.execute(sql)
            return list(cursor.fetchall())

    def query(self, target: str, sql: str) -> list[tuple[Any, ...]]:
        with open_writer(target, self.settings.connections[target]) as session:
            return session.query(sql)

    def check_ledger(self) -> int:
        """Compare the ledgers, and return how many events they have: none is lost, none was applied twice."""
        numbers = [int(number) for (number,) in self._query_source("SELECT number FROM ledger ORDER BY number")]
        for target in self.targets:
            ledger = dialects.by_scheme(urlsplit(self.targets[target].url).scheme).names.table(SCHEMA, "ledger")
            found = [int(number) for (number,) in self.query(target, f"SELECT number FROM {ledger} ORDER BY number")]
            assert found == numbers, f"{target}: {len(found)} of {len(numbers)} events"
            if self.targets[target].counts:
                applied = self.query(target, f"SELECT number, COUNT(*) FROM {SCHEMA}.applied GROUP BY number ORDER BY number")
                counted = [(int(number), int(count)) for number, count in applied]
                if not self.targets[target].dialect.writing.MERGES_BY_UPDATE:  # rows that a refresh sends are inserted again there
                    again = {number: 1 if count <= 1 + self.refreshes else count for number, count in counted}
                    counted = [(number, count) for number, count in again.items() if number >= self.first_counted]
                assert counted == [(one, 1) for one in numbers if one >= self.first_counted], target
        return len(numbers)

    def check_tables(self) -> None:
        """Audit every table of all targets by the exact method."""
        proposed = service.propose_audits(self.settings, PIPELINE, self.writer.tables)
        assert len(proposed) == len(self.targets) * len(self.writer.tables)
        for name, definition in proposed.items():
            report = audit_run.run(name, Audit.model_validate(definition), self.settings.connections)
            assert (report.verdict, report.method) == (Verdict.MATCH, "exact"), (name, report.reasons)
            assert report.jaccard and report.jaccard.score == Score(value=1, lower=1, upper=1), name


def full_name(table: str) -> str:
    """Return a table's name with the database of the source."""
    return f"audit.{table}"


class _Writing(threading.Thread):
    """Writes during a block, and waits at its end until all is written."""

    def __init__(self, writer: Writer, events: int) -> None:
        super().__init__(name="writing")
        self._writer, self._events = writer, events
        self._error: Exception | None = None

    def run(self) -> None:
        try:
            self._writer.write(self._events)
        except Exception as error:
            self._error = error

    def __enter__(self) -> _Writing:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.join()
        assert self._error is None, self._error


def choose_kills(count: int, targets: Mapping[str, Target], choice: random.Random) -> list[str]:
    """Return one kill at each named step, of some target's loader, and the others at random moments, of each victim alike.

    Of fewer kills than there are steps, some steps.
    """
    anew = [name for name, target in targets.items() if not target.stages_once]
    chosen = {step: choice.choice(anew if step == "stage" else list(targets)) for step in LOADER_STEPS if anew or step != "stage"}
    steps = [*STEPS, *(loader_step(target, step) for step, target in chosen.items())]
    if not any(one.url.startswith(("postgres", "redshift")) for one in targets.values()):
        steps.remove("worker: loaded")  # every target is loaded by a session of its own
    there = {"target": any(target.server for target in targets.values()), "connection": any(target.counts for target in targets.values())}
    victims = [one for one in VICTIMS if there.get(one, True)]
    at_random = [victims[number % len(victims)] for number in range(max(0, count - len(steps)))]
    return choice.sample([*steps, *at_random], min(count, len(steps) + len(at_random)))
