"""Parts (b), (c) and (d): the same question to every tool, and whether its answer is right."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from benchmarks import data, process
from benchmarks.data import Damage, Key
from benchmarks.rivals import Answer, End, Job, Tool
from benchmarks.servers import Servers, at_port, port_of
from benchmarks.wire import Counted, Wire
from tests.servers._process import Unavailable

QUICK_ENOUGH = 10.0
"""Seconds below which a measurement is repeated."""


@dataclass(frozen=True)
class Row:
    """One tool's showing in one scenario; ``why`` instead of figures where it could not be asked or failed."""

    pair: str
    rows: int
    scenario: str
    tool: str
    threads: int = 1
    seconds: float | None = None
    memory: int = 0
    wire: Counted = field(default_factory=Counted)
    verdict: str = ""
    why: str = ""

    @property
    def bytes(self) -> int:
        """Bytes over the wire, both ways, both sides."""
        return self.wire.received + self.wire.sent


def judged(answer: Answer, expected: set[Key]) -> str:
    """Whether an answer is right, from the keys that it names."""
    if answer.keys is None:
        if answer.count == 0:
            return "right" if not expected else f"WRONG: {len(expected)} missed"
        return "differs, which rows is not said" if expected else "WRONG: false alarm"
    missed, false = len(expected - answer.keys), len(answer.keys - expected)
    if not missed and not false:
        return "right"
    if not false and answer.count == len(expected):
        return f"right count, {len(answer.keys):,} of {len(expected):,} named"
    return f"WRONG: {missed:,} missed, {false:,} false"


class Arena:
    """A source and a target behind wires, with one table at a time on both."""

    def __init__(self, servers: Servers, pair: tuple[str, str], directory: Path) -> None:
        self.servers = servers
        self.pair = pair
        self.directory = directory
        self.urls = [servers[engine].url for engine in pair]
        self.wires = [Wire("mysql" if engine in data.MYSQL_FAMILY else "postgres", port_of(url))
                      for engine, url in zip(pair, self.urls, strict=True)]  # fmt: skip
        self.ends = [End(engine, at_port(url, wire.port)) for engine, url, wire in zip(pair, self.urls, self.wires, strict=True)]
        self._loaded: tuple[str, int] | None = None

    def load(self, damage: Damage, rows: int) -> None:
        """The damage's table on both sides, undamaged; a table of another shape goes."""
        if self._loaded == (damage.shape.name, rows):
            return
        self.clear()
        path = data.make_file(self.directory, damage.shape, rows)
        for engine, url in zip(self.pair, self.urls, strict=True):
            data.load(engine, url, damage.shape, path)
        self._loaded = (damage.shape.name, rows)

    def clear(self) -> None:
        """Remove the table that is there."""
        if self._loaded:
            for engine, url in zip(self.pair, self.urls, strict=True):
                data.drop(engine, url, data.SHAPES[self._loaded[0]])
        self._loaded = None

    def duel(self, damage: Damage, rows: int, tools: Sequence[Tool], *, repeat: int, threads: int = 1) -> Iterator[Row]:
        """Ask every tool about one damage; they take turns, and each turn begins with another tool."""
        self.load(damage, rows)
        data.damage(self.pair[1], self.urls[1], damage)
        try:
            for engine, url in zip(self.pair, self.urls, strict=True):
                data.settle(engine, url, damage.shape)
            found: dict[str, list[Row]] = {tool.name: [] for tool in tools}
            for turn in range(repeat):
                start = turn % max(1, len(tools))
                for tool in (*tools[start:], *tools[:start]):
                    done = found[tool.name]
                    if not any(row.seconds is None or row.seconds > QUICK_ENOUGH for row in done):
                        done.append(self._asked(tool, damage, rows, threads))
                        _tell(done[-1])
            for done in found.values():
                yield _middle(done)
        finally:
            data.damage(self.pair[1], self.urls[1], damage, undo=True)
            if damage.missing:
                self.clear()

    def _asked(self, tool: Tool, damage: Damage, rows: int, threads: int) -> Row:
        directory = self.directory / "job"
        directory.mkdir(exist_ok=True)
        job = Job(self.ends[0], self.ends[1], damage, rows, directory, threads)
        asked = Row(" to ".join(self.pair), rows, damage.name, tool.name, threads)
        if reason := tool.refuses(self.pair, threads):
            return replace(asked, why=f"not asked: {reason}")
        tool.before(job)
        for wire in self.wires:
            wire.counted()
        runs = [process.run(command, environment=tool.environment(job), cwd=directory) for command in tool.commands(job)]
        counted = self.wires[0].counted() + self.wires[1].counted()
        tool.after(job)
        if any(ran.timed_out for ran in runs):
            return replace(asked, why="ended after 15 minutes")
        try:
            answer = tool.answer(job, runs[-1])
        except (ValueError, LookupError) as error:
            return replace(asked, why=f"FAILED: {str(error)[:160]}")
        seconds, memory = sum(ran.seconds for ran in runs), max(ran.memory for ran in runs)
        verdict = "; ".join(part for part in (judged(answer, damage.expected()), answer.note) if part)
        return replace(asked, seconds=seconds, memory=memory, wire=counted, verdict=verdict)

    def close(self) -> None:
        """Remove the tables and end the wires."""
        self.clear()
        for wire in self.wires:
            wire.stop()


def _middle(rows: Sequence[Row]) -> Row:
    """The run of median time; a run that failed or was wrong stands for all."""
    for row in rows:
        if row.seconds is None or "WRONG" in row.verdict:
            return row
    middle = statistics.median_low(row.seconds for row in rows if row.seconds is not None)
    return next(row for row in rows if row.seconds == middle)


@contextmanager
def arena(servers: Servers, pair: tuple[str, str], directory: Path) -> Iterator[Arena]:
    """An arena for the block. Raises Unavailable where a server cannot start."""
    opened = Arena(servers, pair, directory)
    try:
        yield opened
    finally:
        opened.close()


def prepared(tools: Sequence[Tool], missing: dict[str, str]) -> list[Tool]:
    """The tools that are or could be installed; why the others are not goes to ``missing``."""
    ready = []
    for tool in tools:
        try:
            tool.prepare()
            ready.append(tool)
        except (Unavailable, OSError) as reason:
            missing[tool.name] = str(reason)
    return ready


def _tell(row: Row) -> None:
    figures = f"{row.seconds:6.2f} s {row.bytes:>13,} bytes" if row.seconds is not None else ""
    print(f"  {row.pair:22} {row.scenario:32} {row.tool:34} {figures} {row.verdict}{row.why}", file=sys.stderr, flush=True)
