"""Parts duel and growth: run every tool on the same damaged tables, and check its result."""

from __future__ import annotations

import os
import statistics
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from benchmarks import data, process
from benchmarks.data import Damage
from benchmarks.rivals import Answer, Endpoint, Job, Tool
from benchmarks.servers import Servers, at_port, port_of
from benchmarks.shapes import SHAPES, Key
from benchmarks.wire import CountingProxy, Traffic
from tests.servers.process import Unavailable

SHORT = 10.0
"""Seconds below which runs are repeated most often, because the machine's noise matters most to them."""

SMALL_TABLES = (1_000, 10_000, 200_000)
"""Rows of tables as most are, where the start of a tool is more than its comparison."""

SCENARIOS_OF_SMALL_TABLES = ("no difference", "10 scattered")
"""Words of the names of scenarios that small tables are compared in."""

LONG_REPEATS = 3
"""Most repetitions of longer runs."""


@dataclass(frozen=True)
class Row:
    """One tool's measurement in one scenario; if it could not run or failed, ``why`` has the reason and ``seconds`` is None.

    ``memory`` is in bytes, ``verdict`` the text of ``verdict_of``.
    """

    pair: str
    rows: int
    scenario: str
    tool: str
    seconds: float | None = None
    memory: int = 0
    wire: Traffic = field(default_factory=Traffic)
    verdict: str = ""
    why: str = ""
    load: float = 0.0
    """The machine's load average when the scenario began."""

    @property
    def bytes(self) -> int:
        """Bytes over the wire, in both directions, of both sides."""
        return self.wire.received + self.wire.sent


def verdict_of(answer: Answer, expected: set[Key]) -> str:
    """Compare an answer's keys with the expected ones; the text starts with ``right``, or contains ``WRONG``."""
    if answer.keys is None:
        if answer.count == 0:
            return "right" if not expected else f"WRONG: {len(expected)} missed"
        return "differs, rows not named" if expected else "WRONG: false alarm"
    missed, false = len(expected - answer.keys), len(answer.keys - expected)
    if not missed and not false:
        return "right"
    if not false and answer.count == len(expected):
        return f"right count, {len(answer.keys):,} of {len(expected):,} named"
    return f"WRONG: {missed:,} missed, {false:,} false"


class TestBed:
    """A source and a target behind counting proxies, with one table at a time on both."""

    def __init__(self, servers: Servers, pair: tuple[str, str], directory: Path) -> None:
        self.servers = servers
        self.pair = pair
        self.directory = directory
        self.urls = [servers[engine].url for engine in pair]
        self._proxies: dict[float, list[CountingProxy]] = {}
        self._loaded: tuple[str, int] | None = None

    def proxies(self, delay: float) -> list[CountingProxy]:
        """Return the proxies of both sides that add ``delay`` seconds to each exchange; started when first asked for."""
        if delay not in self._proxies:
            self._proxies[delay] = [
                CountingProxy("mysql" if engine in data.MYSQL_FAMILY else "postgres", port_of(url), delay)
                for engine, url in zip(self.pair, self.urls, strict=True)
            ]
        return self._proxies[delay]

    def load(self, damage: Damage, rows: int) -> None:
        """Load the undamaged table of a scenario on both sides, in place of the current table."""
        if self._loaded == (damage.shape.name, rows):
            return
        self.clear()
        path = data.make_file(self.directory, damage.shape, rows)
        for engine, url in zip(self.pair, self.urls, strict=True):
            data.load(engine, url, damage.shape, path)
        self._loaded = (damage.shape.name, rows)

    def clear(self) -> None:
        """Drop the current table on both sides."""
        if self._loaded:
            for engine, url in zip(self.pair, self.urls, strict=True):
                data.drop(engine, url, SHAPES[self._loaded[0]])
        self._loaded = None

    def compare(self, damage: Damage, rows: int, tools: Sequence[Tool], *, repeat: int) -> Iterator[Row]:
        """Run every tool on one damage and yield its median run. The tools take turns, each turn starting with another tool."""
        self.load(damage, rows)
        data.apply_damage(self.pair[1], self.urls[1], damage)
        try:
            for engine, url in zip(self.pair, self.urls, strict=True):
                data.flush_and_warm(engine, url, damage.shape)
            load = os.getloadavg()[0]
            runs: dict[str, list[Row]] = {tool.name: [] for tool in tools}
            for turn in range(repeat):
                start = turn % max(1, len(tools))
                for tool in (*tools[start:], *tools[:start]):
                    done = runs[tool.name]
                    if _is_worth_repeating(done):
                        done.append(replace(self._run_tool(tool, damage, rows), load=load))
                        _print_progress(done[-1])
            for done in runs.values():
                yield _median_run(done)
        finally:
            data.apply_damage(self.pair[1], self.urls[1], damage, undo=True)
            if damage.missing:
                self.clear()

    def _run_tool(self, tool: Tool, damage: Damage, rows: int) -> Row:
        directory = self.directory / "job"
        directory.mkdir(exist_ok=True)
        proxies = self.proxies(damage.delay)
        ends = [Endpoint(engine, at_port(url, proxy.port)) for engine, url, proxy in zip(self.pair, self.urls, proxies, strict=True)]
        job = Job(ends[0], ends[1], damage, rows, directory)
        row = Row(" to ".join(self.pair), rows, damage.name, tool.name)
        if reason := tool.unsupported_reason(self.pair):
            return replace(row, why=f"not run: {reason}")
        tool.set_up(job)
        for proxy in proxies:
            proxy.take_traffic()
        runs = [process.run(command, environment=tool.environment(job), cwd=directory) for command in tool.commands(job)]
        traffic = proxies[0].take_traffic() + proxies[1].take_traffic()
        tool.tear_down(job)
        if any(completed.timed_out for completed in runs):
            return replace(row, why="timed out after 15 minutes")
        try:
            answer = tool.answer(job, runs[-1])
        except (ValueError, LookupError) as error:
            return replace(row, why=f"FAILED: {str(error)[:160]}")
        seconds, memory = sum(completed.seconds for completed in runs), max(completed.memory for completed in runs)
        verdict = "; ".join(part for part in (verdict_of(answer, damage.expected_keys()), answer.note) if part)
        return replace(row, seconds=seconds, memory=memory, wire=traffic, verdict=verdict)

    def close(self) -> None:
        """Drop the tables and stop the proxies."""
        self.clear()
        for proxies in self._proxies.values():
            for proxy in proxies:
                proxy.stop()


def _is_worth_repeating(done: Sequence[Row]) -> bool:
    """Whether a tool runs once more: not after a failure, and rarely where its runs are long."""
    if any(row.seconds is None for row in done):
        return False
    return len(done) < LONG_REPEATS or all(row.seconds is not None and row.seconds < SHORT for row in done)


def _median_run(rows: Sequence[Row]) -> Row:
    """Return the run of median duration, or the first run that failed or was wrong."""
    for row in rows:
        if row.seconds is None or "WRONG" in row.verdict:
            return row
    median = statistics.median_low(row.seconds for row in rows if row.seconds is not None)
    return next(row for row in rows if row.seconds == median)


@contextmanager
def open_test_bed(servers: Servers, pair: tuple[str, str], directory: Path) -> Iterator[TestBed]:
    """Open a test bed for the block. Raises Unavailable if a server cannot start."""
    test_bed = TestBed(servers, pair, directory)
    try:
        yield test_bed
    finally:
        test_bed.close()


def install_tools(tools: Sequence[Tool], missing: dict[str, str]) -> list[Tool]:
    """Install the tools and return those that are available; ``missing`` gets the reason for each of the others."""
    available = []
    for tool in tools:
        try:
            tool.install()
            available.append(tool)
        except (Unavailable, OSError) as reason:
            missing[tool.name] = str(reason)
    return available


def _print_progress(row: Row) -> None:
    figures = f"{row.seconds:6.2f} s {row.bytes:>13,} bytes" if row.seconds is not None else ""
    print(f"  {row.pair:22} {row.scenario:32} {row.tool:34} {figures} {row.verdict}{row.why}", file=sys.stderr, flush=True)
