"""The engines under test, and the servers behind them, each started once per test run, when a test first needs it.

Adding an engine is one entry in ENGINES (and a module in tests/servers/, if it needs a server). Their order is a ring: a normal run
compares each with the next, so that a usual source stands before a usual target; an engine that is a target only stands beside it.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.kept_open import STARTING_SERVERS
from tests.servers import clickhouse, kafka, mariadb, mysql, postgres, redshift, spark
from tests.servers.desk import Address, Desk, turns
from tests.servers.process import Server, Unavailable, do_nothing, open_directory

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
    #: Whether a normal run takes it as a target only: with a lake on both sides, or as the source, each audit takes seconds.
    only_target: bool = False
    #: Whether it runs only in tests that name it: it is another engine over other files.
    only_named: bool = False
    #: Whether no run fails because it is missing: it is another version of an engine that is there.
    beside: bool = False
    #: Creates a database of this name on the server, for one worker; None where each worker starts its own engine.
    database: Callable[[Server, str], Server] | None = None


def _duckdb(directory: Path) -> Server:
    return Server(url=f"duckdb:///{directory}/audit.duckdb", version=version("duckdb"), how="in process")


def _delta(directory: Path) -> Server:
    root = directory / "lake"
    root.mkdir()
    return Server(url=f"delta://{root}", version=version("deltalake"), how="in process")


def _iceberg(directory: Path) -> Server:
    from tests.icebergs import open_catalog, url_of  # which takes a second that most runs need not spend

    root = directory / "icebergs"
    open_catalog(root).create_namespace("audit")
    return Server(url=url_of(root, "audit"), version=version("pyiceberg"), how="in process")


def _parquet(directory: Path) -> Server:
    root = directory / "pointed"
    root.mkdir()
    return Server(url=f"parquet://{root}", version=version("duckdb"), how="in process")


ENGINES = (
    Engine(name="mysql", dialect="mysql", start=mysql.start, variable=mysql.VARIABLE, database=mysql.database,
           why_here="the usual source; its newest release, without MD5() and with the strictest defaults"),
    Engine(name="redshift", dialect="redshift", start=redshift.start, variable=redshift.VARIABLE, database=redshift.database,
           why_here="the usual target: Amazon's driver and functions, on a stand-in unless the variable names a cluster"),
    Engine(name="mariadb", dialect="mysql", start=mariadb.start, variable=mariadb.VARIABLE, database=mysql.database,
           why_here="speaks MySQL's language with its own optimiser, types and character sets"),
    Engine(name="mariadb_new", dialect="mysql", start=mariadb.start_new, variable=mariadb.NEW_VARIABLE, database=mysql.database,
           only_named=True, beside=True,
           why_here="a change source whose log does not say where the events of a transaction end"),
    Engine(name="kafka", dialect="", start=kafka.start, variable=kafka.VARIABLE, database=lambda server, _: server,
           only_named=True, beside=True,
           why_here="topics, into which a pipeline publishes, and from which it reads"),
    Engine(name="registry", dialect="", start=kafka.start_registry, variable=kafka.REGISTRY_VARIABLE, database=lambda server, _: server,
           only_named=True, beside=True,
           why_here="the schemas of topics"),
    Engine(name="spark", dialect="spark", start=spark.start, only_target=True,
           why_here="the lake"),
    Engine(name="postgres", dialect="postgres", start=postgres.start, variable=postgres.VARIABLE, database=postgres.database,
           why_here="source and target in its own right, with a linguistic collation and day-first dates"),
    Engine(name="duckdb", dialect="duckdb", start=_duckdb,
           why_here="needs nothing, so every checkout can run the whole suite on it"),
    Engine(name="clickhouse", dialect="clickhouse", start=clickhouse.start, variable=clickhouse.VARIABLE, database=clickhouse.database,
           only_named=True, beside=True,
           why_here="rows of which several versions are stored, and FINAL makes one"),
    Engine(name="delta", dialect="delta", start=_delta, only_target=True, only_named=True,
           why_here="the lake without Spark: versions of a table in files"),
    Engine(name="iceberg", dialect="iceberg", start=_iceberg, only_target=True, only_named=True,
           why_here="the lake of catalogues: snapshots of a table, whose columns are found by their ids"),
    Engine(name="parquet", dialect="delta", start=_parquet, only_target=True, only_named=True,
           why_here="the lake without Delta: files that a pointer lists"),
)  # fmt: skip
SERVERS = frozenset(engine.name for engine in ENGINES if engine.database)
"""Engines of which all workers share one server."""


ONLY_TARGETS = frozenset(engine.name for engine in ENGINES if engine.only_target)
"""Engines that a normal run takes as targets only."""


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


def engine_params(*names: str, slow: Sequence[str] = ()) -> list[ParameterSet]:
    """Parameters for the fixture `engine`: these engines, or all; each test is marked with the engine's name.

    A normal run leaves out those of ``slow``.
    """
    return [pytest.param(name, id=name, marks=_marks(name, is_slow=name in slow)) for name in names or _names()]


def and_lakes() -> list[ParameterSet]:
    """Parameters for the fixture `engine`: all engines, and tables of lakes."""
    return engine_params(*_names(), "delta", "iceberg")


def quick_on(*names: str) -> list[ParameterSet]:
    """Parameters for the fixture `engine`: all engines, of which a normal run takes these alone."""
    return engine_params(slow=[name for name in _names() if name not in names])


def _marks(engine: str, *, is_slow: bool) -> list[pytest.MarkDecorator]:
    return [getattr(pytest.mark, engine), *([pytest.mark.slow] if is_slow else [])]


def pair_params(*names: str) -> list[ParameterSet]:
    """Parameters for the fixture `pair`: all ordered pairs, source first, of these engines, or of all.

    A normal run takes each engine with the next one in the list, so that each is the source once and the target once; an engine that is
    a target only is left out of this ring, and taken with the one before it. The other pairs are marked slow.
    """
    chosen = names or _names()
    ring = [name for name in chosen if name not in ONLY_TARGETS]
    near = {(one, ring[(index + 1) % len(ring)]) for index, one in enumerate(ring)}
    near |= {(chosen[index - 1], name) for index, name in enumerate(chosen) if name in ONLY_TARGETS}
    return [_pair(source, target, *([] if (source, target) in near else [pytest.mark.slow])) for source in chosen for target in chosen]


def each_once() -> list[ParameterSet]:
    """Parameters for the fixture `pair`: all ordered pairs, of which a normal run takes every second one of the ring.

    So each engine stands in one of them, as the source or as the target: for tests of what an audit does with what its sides answered,
    where other tests prove on the whole ring that any two engines answer alike.
    """
    near = set(zip(_names()[::2], _names()[1::2], strict=True))
    return [_pair(one, other, *([] if (one, other) in near else [pytest.mark.slow])) for one in _names() for other in _names()]


def chosen_pairs(*pairs: str) -> list[ParameterSet]:
    """Parameters for the fixture `pair`: these pairs, each written as ``source-target``."""
    return [_pair(source, target) for source, target in (pair.split("-") for pair in pairs)]


def _pair(source: str, target: str, *marks: pytest.MarkDecorator) -> ParameterSet:
    engines = [getattr(pytest.mark, name) for name in sorted({source, target})]
    return pytest.param((source, target), id=f"{source}-{target}", marks=[*engines, *marks])


def _names() -> tuple[str, ...]:
    return tuple(engine.name for engine in ENGINES if not engine.only_named)


class Engines:
    """The engines of one process of a test run. Starting happens in threads; asking for a URL waits for that engine only.

    Without ``address`` it starts the servers; with it, a worker's, it asks the first process of the run for a database on them.
    """

    def __init__(self, engines: Sequence[Engine] = ENGINES, address: Address | None = None) -> None:
        self._engines = {engine.name: engine for engine in engines}
        self._starts: dict[str, Future[Server]] = {}
        self._databases: list[Server] = []
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(max_workers=len(engines), thread_name_prefix=STARTING_SERVERS)
        self._address = address
        self._directory: Path | None = None
        self._desk: Desk | None = None

    def open_desk(self) -> Address:
        """Let workers ask for servers; return where, for `address` of their own Engines."""
        with self._lock:
            if self._desk is None:
                self._desk = Desk(self._own_directory(), self._answer)
            return self._desk.address

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

    def companion(self, name: str, start: Callable[[Path], Server]) -> Server:
        """A server beside the engines, started if need be; where it cannot run, the test is skipped, and the run's end names it."""
        with self._lock:
            if name not in self._starts:
                self._starts[name] = self._pool.submit(self._start_companion, name, start)
            started = self._starts[name]
        try:
            return started.result()
        except Unavailable as reason:
            pytest.skip(f"{name}: {reason}")

    def _start_companion(self, name: str, start: Callable[[Path], Server]) -> Server:
        try:
            server = start(self._own_directory())
        except Unavailable as reason:
            if self._address is not None:
                self._address.ask("failed", name, str(reason))
            raise
        if self._address is not None:
            self._address.ask("started", name, replace(server, stopper=do_nothing))
        return server

    def turn(self, names: Iterable[str], alone: bool) -> AbstractContextManager[None]:
        """Hold these engines' servers for a block: with other workers, or alone; without workers there is nothing to hold."""
        if self._address is None:
            return nullcontext()
        return turns(Path(self._address.path).parent, SERVERS.intersection(names), alone)

    def failures(self) -> dict[str, BaseException]:
        """Why each engine that was asked for, and could not be started, could not."""
        reasons = {name: start.exception() for name, start in self._starts.items()}
        return {name: reason for name, reason in reasons.items() if reason is not None}

    def report(self) -> list[str]:
        """A line for each engine: which version ran, and how, or why none did."""
        failures = self.failures()
        lines = []
        names = dict.fromkeys([*self._engines, *self._starts])
        width = max(len(name) for name in names) + 1 if names else 0
        for name in names:
            if name not in self._starts:
                lines.append(f"{name:<{width}}not asked for")
            elif name in failures:
                lines.append(f"{name:<{width}}NOT RUN: {failures[name]}")
            else:
                server = self._starts[name].result()
                lines.append(f"{name:<{width}}{server.version} ({server.how})")
        return lines

    def asked(self) -> bool:
        """Whether any engine was asked for."""
        return bool(self._starts)

    def stop(self) -> None:
        """Stop what runs, and leave no file behind."""
        if self._desk is not None:
            self._desk.close()
        failures = self.failures()
        for database in self._databases:
            if database.given:  # the others go with their servers
                database.stop()
        for name, start in self._starts.items():
            if name not in failures:
                start.result().stop()
        self._pool.shutdown()
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)

    def _begin(self, name: str) -> Future[Server]:
        with self._lock:
            if name not in self._starts:
                self._starts[name] = self._pool.submit(self._start, self._engines[name], self._own_directory())
            return self._starts[name]

    def _start(self, engine: Engine, directory: Path) -> Server:
        if self._address is None:
            return engine.start(directory)
        if engine.database:
            found = self._address.ask("database", engine.name)
            assert found is not None
            return found
        try:
            server = engine.start(directory)
        except Unavailable as reason:
            self._address.ask("failed", engine.name, str(reason))
            raise
        self._address.ask("started", engine.name, replace(server, stopper=do_nothing))
        return server

    def _answer(self, verb: str, worker: str, name: str, detail: Any) -> Server | None:
        """Answer a worker: a database of its own on a server, or nothing where it tells which engine it started."""
        if verb == "database":
            create = self._engines[name].database
            assert create is not None
            made = create(self.server(name), f"audit_{worker}")
            self._databases.append(made)
            return made
        started: Future[Server] = Future()
        if verb == "failed":
            started.set_exception(Unavailable(detail))
        else:
            started.set_result(detail)
        with self._lock:
            self._starts[name] = started
        return None

    def _own_directory(self) -> Path:
        """The run's directory, or the worker's in it."""
        if self._directory is None:
            shared = self._address and Path(self._address.path).parent
            self._directory = open_directory(shared, self._address.worker) if self._address and shared else open_directory()
        return self._directory
