"""Fixtures and options of the whole suite: the engines, `--slow` and `--deep`.

A test that takes the fixture `engine` runs on every engine, one that takes `pair` on every ordered pair of them; to
narrow that down, parametrise it: `@pytest.mark.parametrize("engine", engine_params("mysql"), indirect=True)`.
`pytest -m mysql` runs what needs MySQL. Where an engine cannot be started its tests are skipped by name, and the
last lines of the run say so; with CI=true the run then fails.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from hypothesis import settings

from auditor import expressions
from tests.engines import ENGINES, Engines, LiveEngine, LivePair, engine_params, pair_params

_ENGINES = pytest.StashKey[Engines]()
_NEEDED = pytest.StashKey[list[str]]()

BY_THE_CLOCK = frozenset(
    {
        "tests.browser.test_looks",
        "tests.browser.test_use",
        "tests.store.test_queueing",
        "tests.store.test_slots",
        "tests.test_serve_ends",
        "tests.test_serve_proxied",
        "tests.test_sharing",
    }
)
"""Modules that watch other processes against the clock."""
SERVERS = frozenset({"mysql", "mariadb", "postgres", "redshift", "spark"})

expressions.CHECK = True
settings.register_profile("quick", deadline=None)
settings.register_profile("deep", deadline=None, max_examples=5_000)


def pytest_addoption(parser: pytest.Parser) -> None:
    """The switches that make a run longer, and the one that writes the golden files anew."""
    group = parser.getgroup("auditor")
    group.addoption("--slow", action="store_true", help="also run the tests that are marked slow")
    group.addoption("--update-golden", action="store_true", help="write the golden SQL anew instead of comparing it")
    group.addoption("--deep", action="store_true", help="let hypothesis look for counterexamples much longer")


def pytest_configure(config: pytest.Config) -> None:
    """Declare the markers, so that a misspelt one is an error."""
    config.addinivalue_line("markers", "slow: takes long; runs only with --slow")
    for engine in ENGINES:
        config.addinivalue_line("markers", f"{engine.name}: runs on the engine {engine.name}: {engine.why_here}")
    settings.load_profile("deep" if config.getoption("--deep") else "quick")
    config.stash[_ENGINES] = Engines()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Without --slow the slow tests are deselected: nobody asked for them, so they are not skipped either.

    A test that needs a server, or watches other processes, is run once more when it fails, and then told as RERUN at the end: where a
    dozen servers share two cores, one of them stands still for some seconds now and then. What fails twice has failed.
    """
    for item in items:
        watching = isinstance(item, pytest.Function) and item.module.__name__ in BY_THE_CLOCK
        if watching or any(item.get_closest_marker(name) for name in SERVERS):
            item.add_marker(pytest.mark.flaky(reruns=1, reruns_delay=2))
    if config.getoption("--slow"):
        return
    slow = [item for item in items if item.get_closest_marker("slow")]
    config.hook.pytest_deselected(items=slow)
    items[:] = [item for item in items if item not in slow]


def pytest_collection_finish(session: pytest.Session) -> None:
    """Note which engines the chosen tests need, so that these can start side by side."""
    names = [engine.name for engine in ENGINES]
    session.config.stash[_NEEDED] = [name for name in names if any(item.get_closest_marker(name) for item in session.items)]


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A build server must not report success for an engine that it could not start."""
    failed = session.config.stash[_ENGINES].failures()
    if failed and os.environ.get("CI", "").lower() == "true" and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """One line per engine, the absent ones by name."""
    engines = config.stash[_ENGINES]
    if not engines.asked():
        return
    terminalreporter.section("engines")
    for line in engines.report():
        terminalreporter.write_line(line)
    if engines.failures() and os.environ.get("CI", "").lower() == "true":
        terminalreporter.write_line("CI is set, and not every engine could be started: the run counts as failed", red=True)


@pytest.fixture(scope="session")
def engines(request: pytest.FixtureRequest) -> Iterator[Engines]:
    """The servers of this run; those that the chosen tests need are starting already."""
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
    """Each ordered pair of engines in turn, an engine with itself included."""
    source, target = request.param
    return LivePair(engines.live(source), engines.live(target))
