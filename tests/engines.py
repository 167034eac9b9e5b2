"""The engines under test, and the servers behind them, started when first asked for and once per test run.

Adding an engine is one entry in ENGINES (and a module in tests/servers/, if it needs a server).
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.servers import mariadb, mysql, postgres, redshift, spark
from tests.servers._process import Server, Unavailable, open_directory

if TYPE_CHECKING:
    from _pytest.mark import ParameterSet


@dataclass(frozen=True, kw_only=True)
class Engine:
    """One engine under test."""

    name: str
    #: The module in dialects/ that speaks to it.
    dialect: str
    #: Starts it below a directory, or raises Unavailable.
    start: Callable[[Path], Server]
    #: What it proves that no other engine does.
    why_here: str
    #: The variable that names a server of the user's own.
    variable: str | None = None


def _duckdb(directory: Path) -> Server:
    return Server(url=f"duckdb:///{directory}/audit.duckdb", version=version("duckdb"), how="in process")


ENGINES = (
    Engine(name="mysql", dialect="mysql", start=mysql.start, variable=mysql.VARIABLE,
           why_here="the usual source; its newest release, without MD5() and with the strictest defaults"),
    Engine(name="mariadb", dialect="mysql", start=mariadb.start, variable=mariadb.VARIABLE,
           why_here="speaks MySQL's language with its own optimiser, types and character sets"),
    Engine(name="postgres", dialect="postgres", start=postgres.start, variable=postgres.VARIABLE,
           why_here="source and target in its own right, with a linguistic collation and day-first dates"),
    Engine(name="redshift", dialect="redshift", start=redshift.start, variable=redshift.VARIABLE,
           why_here="the usual target: Amazon's driver and functions, on a stand-in unless the variable names a cluster"),
    Engine(name="spark", dialect="spark", start=spark.start,
           why_here="the lake"),
    Engine(name="duckdb", dialect="duckdb", start=_duckdb,
           why_here="needs nothing, so every checkout can run the whole suite on it"),
)  # fmt: skip


@dataclass(frozen=True)
class LiveEngine:
    """An engine that answers at its URL: what the fixtures `engine` and `pair` hand out."""

    name: str
    dialect: str
    url: str


@dataclass(frozen=True)
class LivePair:
    """Two engines to compare; they may be the same one."""

    source: LiveEngine
    target: LiveEngine


def engine_params(*names: str) -> list[ParameterSet]:
    """Parameters for the fixture `engine`: these engines, or all; each test is marked with the engine's name."""
    return [pytest.param(name, id=name, marks=getattr(pytest.mark, name)) for name in names or _names()]


def pair_params(*names: str) -> list[ParameterSet]:
    """Parameters for the fixture `pair`: all ordered pairs, source first, of these engines, or of all."""
    chosen = names or _names()
    return [
        pytest.param((source, target), id=f"{source}-{target}", marks=[getattr(pytest.mark, name) for name in {source, target}])
        for source in chosen
        for target in chosen
    ]


def ring_params() -> list[ParameterSet]:
    """All ordered pairs for the fixture `pair`, of which a normal run takes each engine with itself and with the next; the rest is slow."""
    names = _names()
    near = {(one, names[(index + step) % len(names)]) for index, one in enumerate(names) for step in (0, 1)}
    made = []
    for source in names:
        for target in names:
            marks = [getattr(pytest.mark, name) for name in {source, target}]
            marks += [] if (source, target) in near else [pytest.mark.slow]
            made.append(pytest.param((source, target), id=f"{source}-{target}", marks=marks))
    return made


def _names() -> tuple[str, ...]:
    return tuple(engine.name for engine in ENGINES)


class Engines:
    """The servers of one test run. Starting happens in threads; asking for a URL waits for that engine only."""

    def __init__(self, engines: Sequence[Engine] = ENGINES) -> None:
        self._engines = {engine.name: engine for engine in engines}
        self._starts: dict[str, Future[Server]] = {}
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(max_workers=len(engines), thread_name_prefix="engine")
        self._directory: Path | None = None

    def start_all(self, names: Iterable[str] | None = None) -> None:
        """Begin to start these engines, or all, side by side, and do not wait for them."""
        for name in self._engines if names is None else names:
            self._begin(name)

    def server(self, name: str) -> Server:
        """The engine's server, started if need be; raises Unavailable each time for one that could not start."""
        return self._begin(name).result()

    def url(self, name: str) -> str:
        """Where the engine answers."""
        return self.server(name).url

    def live(self, name: str) -> LiveEngine:
        """The running engine; where it cannot run, the test is skipped, and says what would make it run."""
        engine = self._engines[name]
        try:
            return LiveEngine(name, engine.dialect, self.url(name))
        except Unavailable as reason:
            hint = f"; set {engine.variable} to use a server of yours" if engine.variable else ""
            pytest.skip(f"{name}: {reason}{hint}")

    def failures(self) -> dict[str, BaseException]:
        """Why each engine that was asked for, and could not be started, could not."""
        reasons = {name: start.exception() for name, start in self._starts.items()}
        return {name: reason for name, reason in reasons.items() if reason is not None}

    def report(self) -> list[str]:
        """A line for each engine: which version ran, and how, or why none did."""
        failures = self.failures()
        lines = []
        for name in self._engines:
            if name not in self._starts:
                lines.append(f"{name:<10}not asked for")
            elif name in failures:
                lines.append(f"{name:<10}NOT RUN: {failures[name]}")
            else:
                server = self._starts[name].result()
                lines.append(f"{name:<10}{server.version} ({server.how})")
        return lines

    def asked(self) -> bool:
        """Whether any engine was asked for."""
        return bool(self._starts)

    def stop(self) -> None:
        """Stop what runs, and leave no file behind."""
        failures = self.failures()
        for name, start in self._starts.items():
            if name not in failures:
                start.result().stop()
        self._pool.shutdown()
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)

    def _begin(self, name: str) -> Future[Server]:
        with self._lock:
            if self._directory is None:
                self._directory = open_directory()
            if name not in self._starts:
                self._starts[name] = self._pool.submit(self._engines[name].start, self._directory)
            return self._starts[name]
