"""Fixtures and options of the whole suite: the engines, the workers, `--slow` and `--deep`.

A test that takes the fixture `engine` runs on every engine, one that takes `pair` on each engine with the next one of the ring, and
on every ordered pair with --slow; to narrow that down, parametrise it:
`@pytest.mark.parametrize("engine", engine_params("mysql"), indirect=True)`. `pytest -m mysql` runs what needs MySQL. Where an
engine cannot be started its tests are skipped by name, and the last lines of the run name it; with CI=true the run then fails.

`pytest -n 2` runs two workers. They share the servers, which the first process starts when a test first needs one, and have a
database each on them. A module's tests stay in one worker, and so do all tests on Spark, so that one Java process runs.
"""

from __future__ import annotations

import gc
import json
import os
from collections.abc import Generator, Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from _pytest.unraisableexception import gc_collect_iterations_key
from hypothesis import settings

from auditor import cli
from auditor.sql import user_sql
from tests import few, kept_open, new_stores
from tests.durations import POLLS, SetDurations
from tests.live import ENGINES, Engines, LiveEngine, LivePair, engine_params, pair_params
from tests.servers import kafka, mysql, spark
from tests.servers.desk import Address
from tests.servers.process import folder_in_memory

if TYPE_CHECKING:
    from xdist.scheduler import LoadScopeScheduling

pytest_plugins = ("auditor.testing.engine_oracle",)

_ADDRESS = pytest.StashKey[Address | None]()
_ENGINES = pytest.StashKey[Engines]()
_NEEDED = pytest.StashKey[list[str]]()

GROUPS = ("spark", "browser", "kafka")
"""Markers whose tests run in one worker: there is one Java process, one browser, and one producer of each name."""

FOLDERS = ("process", "deep", "pipeline", "pairs", "repair", "engines", "store", "third_party", "browser", "api", "unit")
"""Folders in the order in which workers take their modules: those with long tests first, so that no worker ends with one alone."""

LONG = ("test_documented_commands", "test_rolling_table", "test_cli", "test_limits", "test_documentation")
"""Modules that workers take before the others of the last folder, for the same reason."""

user_sql.CHECK_RENDERED_SQL = True
settings.register_profile("quick", deadline=None, max_examples=20)
settings.register_profile("slow", deadline=None)
settings.register_profile("deep", deadline=None, max_examples=5_000)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the switches that make a run longer, and the one that writes the golden files anew."""
    group = parser.getgroup("auditor")
    group.addoption("--slow", action="store_true", help="also run the tests that are marked slow")
    group.addoption("--update-golden", action="store_true", help="write the golden SQL anew instead of comparing it")
    group.addoption(
        "--deep", action="store_true", help="let hypothesis look for counterexamples much longer, and run thousands of random audits"
    )
    group.addoption("--deep-runs", type=int, default=10_000, help="random audits of a deep run (default: %(default)s)")
    group.addoption("--deep-seed", type=int, default=1, help="first seed of random audits (default: %(default)s)")
    group.addoption("--deep-scripts", type=int, default=300, help="regression scripts of a deep run (default: %(default)s)")
    group.addoption("--deep-longest", type=int, default=10_000, help="characters of a regression script at most (default: %(default)s)")
    group.addoption("--deep-script", action="append", default=[], help="one regression script by its name, as main/alter_table, instead")
    group.addoption("--chaos", action="store_true", help="run the tests that kill everything a pipeline consists of, and no others")
    group.addoption("--chaos-events", type=int, default=500_000, help="changes that each of these tests replicates (default: %(default)s)")
    group.addoption("--chaos-batches", type=int, default=10_000, help="batches among which faults are hidden (default: %(default)s)")
    group.addoption("--chaos-kills", type=int, default=30, help="kills, of which one at each named step (default: %(default)s)")
    group.addoption(
        "--chaos-targets",
        default="pg,duck",
        help="targets of each: some of pg, duck, redshift, my, maria, lake, files (default: %(default)s)",
    )
    group.addoption("--chaos-tables", type=int, default=50, help="tables between which money is transferred (default: %(default)s)")
    group.addoption("--chaos-seed", type=int, default=15, help="seed of the changes and of the kills (default: %(default)s)")


@pytest.hookimpl(tryfirst=True)  # before pytest reads where its temporary directories are
def pytest_configure(config: pytest.Config) -> None:
    """Declare the markers, so that a misspelt one is an error, let tests write in memory where there is room, and Java start quickly.

    Stores and DuckDB's files are written through to the disk with each transaction, which tests wait for otherwise.
    """
    for name, options in spark.COMPILES_QUICKLY.items():
        os.environ.setdefault(name, options)
    if folder := folder_in_memory():
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(folder))
    config.addinivalue_line("markers", "slow: takes long; runs only with --slow")
    config.addinivalue_line("markers", "deep: runs thousands of random audits, or hundreds of regression scripts; runs only with --deep")
    config.addinivalue_line("markers", "chaos: kills what a pipeline consists of, for minutes; runs only with --chaos")
    config.addinivalue_line("markers", "slow_on(engine): as slow where it runs on this engine, whose part other tests prove in less time")
    config.addinivalue_line("markers", "quick_for(*ids): slow where none of these is a part of what the test's name has in brackets")
    config.addinivalue_line("markers", "few(*together): each value of each parameter once; the other combinations are slow (tests/few.py)")
    config.addinivalue_line("markers", "engines_in_turn: as few, but each engine once in the module (tests/few.py)")
    config.addinivalue_line("markers", "clock: watches other processes against the clock; runs once more where it fails")
    config.addinivalue_line("markers", "closes_files: opens and closes DuckDB files as processes do, instead of keeping them open")
    config.addinivalue_line("markers", "alone: changes or measures a whole server, which no other worker may use meanwhile")
    for engine in ENGINES:
        config.addinivalue_line("markers", f"{engine.name}: runs on the engine {engine.name}: {engine.why_here}")
    config.stash[gc_collect_iterations_key] = 1  # of five rounds at the end, the last four find nothing in CPython, and take seconds
    settings.load_profile(next((name for name in ("deep", "slow") if config.getoption(f"--{name}")), "quick"))
    given: tuple[str, str, str] | None = getattr(config, "workerinput", {}).get("desk")
    config.stash[_ADDRESS] = Address(*given) if given else None
    config.stash[_ENGINES] = Engines(address=config.stash[_ADDRESS])


def pytest_unconfigure(config: pytest.Config) -> None:
    """Stop the servers, however the run ended, and let the garbage collector see what was left out."""
    gc.unfreeze()
    config.stash[_ENGINES].stop()


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell a new worker where to ask for servers."""
    address = node.config.stash[_ENGINES].open_desk()
    node.workerinput["desk"] = (address.path, address.key, node.gateway.id)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    """Give each worker whole modules, and all tests of a group to one worker, in the order in which they were collected."""
    from xdist.scheduler import LoadScopeScheduling

    groups: dict[str, str] = {}

    class ByModule(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            if not groups:
                groups.update(json.loads(_groups(config.stash[_ENGINES].open_desk()).read_text()))
            return groups[nodeid]

    config.option.loadscopereorder = False
    return ByModule(config, log)


def _groups(address: Address) -> Path:
    """The file in which workers name the group of each test; the first process collects none."""
    return Path(address.path).with_name("groups.json")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Leave what is imported and collected out of the garbage collector's rounds, which go through all of it time and again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(200_000, 20, 20)  # audits leave few reference cycles, so it finds little
        gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect what its option does not ask for: slow, deep and chaos; let those that watch the clock run twice where they fail."""
    is_chaos = config.getoption("--chaos")
    config.hook.pytest_deselected(items=[item for item in items if bool(item.get_closest_marker("chaos")) != is_chaos])
    items[:] = [item for item in items if bool(item.get_closest_marker("chaos")) == is_chaos]
    if not config.getoption("--deep"):
        config.hook.pytest_deselected(items=[item for item in items if item.get_closest_marker("deep")])
        items[:] = [item for item in items if not item.get_closest_marker("deep")]
    if not config.getoption("--slow"):
        if not any("::" in argument for argument in config.args):
            few.refuse_unknown(items)
        quick = [item for item in items if not _is_slow(item)]
        chosen = set(quick).difference(few.slow_ones(quick))
        config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
        items[:] = [item for item in items if item in chosen]
    for item in items:
        if item.get_closest_marker("clock"):
            item.add_marker(pytest.mark.flaky(reruns=1, reruns_delay=2))
    if config.stash[_ADDRESS]:
        items.sort(key=_order)


def _is_slow(item: pytest.Item) -> bool:
    engines = [str(name) for mark in item.iter_markers("slow_on") for name in mark.args]
    is_left = bool(item.get_closest_marker("slow")) or not few.is_quick_one(item)
    return is_left or any(item.get_closest_marker(name) for name in engines)


def _order(item: pytest.Item) -> tuple[int, bool]:
    if _group(item) in GROUPS:
        return -1, False
    folder = item.path.parent.name
    return FOLDERS.index(folder) if folder in FOLDERS else len(FOLDERS), item.path.stem not in LONG


def _group(item: pytest.Item) -> str:
    """Which tests run in one worker: those of a module, or those that need one thing of which there is one."""
    return next((name for name in GROUPS if item.get_closest_marker(name)), item.nodeid.partition("::")[0])


@pytest.hookimpl(tryfirst=True)  # before the worker tells that it has collected
def pytest_collection_finish(session: pytest.Session) -> None:
    """Note which engines the chosen tests need, so that these can start side by side, and tell the first process the groups."""
    names = [engine.name for engine in ENGINES]
    session.config.stash[_NEEDED] = [name for name in names if any(item.get_closest_marker(name) for item in session.items)]
    if address := session.config.stash[_ADDRESS]:
        part = _groups(address).with_suffix(f".{address.worker}")
        part.write_text(json.dumps({item.nodeid: _group(item) for item in session.items}))
        part.replace(_groups(address))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Keep other workers off a server that a test needs alone, and let a report in JUnit's XML name the engines of each test."""
    names = [engine.name for engine in ENGINES if item.get_closest_marker(engine.name)]
    item.user_properties.append(("engines", " ".join(names)))
    with item.config.stash[_ENGINES].turn(names, alone=item.get_closest_marker("alone") is not None):
        return (yield)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a build server's run where an engine could not be started; servers beside the engines, such as poolers, are only named."""
    failed = {engine.name for engine in ENGINES if not engine.beside} & set(session.config.stash[_ENGINES].failures())
    if failed and _is_build_server() and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print one line per engine, the absent ones by name."""
    engines = config.stash[_ENGINES]
    if not engines.asked():
        return
    terminalreporter.section("engines")
    for line in engines.report():
        terminalreporter.write_line(line)
    if {engine.name for engine in ENGINES if not engine.beside} & set(engines.failures()) and _is_build_server():
        terminalreporter.write_line("CI is set, and not every engine could be started: the run counts as failed", red=True)


def _is_build_server() -> bool:
    return os.environ.get("CI", "").lower() == "true"


@pytest.fixture(scope="session", autouse=True)
def what_is_alike_is_made_once() -> Iterator[None]:
    """Let new stores share what the first one got and compiled, connections to MySQL and MariaDB one TLS context, commands one parser."""
    with pytest.MonkeyPatch.context() as patch:
        new_stores.copy_new_stores(patch)
        new_stores.compile_once(patch)
        mysql.share_tls_context(patch)
        kafka.know_leaders(patch)
        patch.setattr(cli, "parser", cache(cli.parser))  # as many commands are run in this process as tests, and it takes longer than some
        yield


@pytest.fixture(scope="session", autouse=True)
def looks_are_frequent() -> Iterator[None]:
    """Let what waits in this process look again soon."""
    with SetDurations() as until_end:
        until_end(**POLLS)
        yield


@pytest.fixture(autouse=True)
def databases_stay_open(request: pytest.FixtureRequest) -> Iterator[None]:
    """Keep DuckDB files open until the end of a test, unless it is marked ``closes_files``."""
    if request.node.get_closest_marker("closes_files"):
        yield
        return
    with kept_open.keep_databases_open():
        yield


@pytest.fixture
def set_durations() -> Iterator[SetDurations]:
    """Call it with waits to set until the end of a test."""
    with SetDurations() as until_end:
        yield until_end


@pytest.fixture(scope="session")
def engines(request: pytest.FixtureRequest) -> Iterator[Engines]:
    """The engines of this process; those that the chosen tests need are starting already."""
    running = request.config.stash[_ENGINES]
    running.start_all(request.config.stash[_NEEDED])
    yield running
    running.stop()


@pytest.fixture(params=engine_params())
def engine(request: pytest.FixtureRequest, engines: Engines) -> LiveEngine:
    """Each engine in turn."""
    return engines.live(request.param)


@pytest.fixture(params=pair_params())
def pair(request: pytest.FixtureRequest, engines: Engines) -> LivePair:
    """Each engine with itself and with the next; with --slow every ordered pair."""
    source, target = request.param
    return LivePair(engines.live(source), engines.live(target))
