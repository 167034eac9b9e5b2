"""Fixtures for tests of the store on every supported database: SQLite always, the servers if they are available."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest

from auditor import config
from auditor.config import Settings
from auditor.store import Store, open_store
from tests.live import Engines, engine_params
from tests.programs.workers import Serving
from tests.store import databases, service

Make = Callable[[], str]


ON_BOTH = ("test_queue", "test_slots", "test_leases", "test_processes", "test_migrations", "test_faults", "test_segment_register")
"""Modules of what processes do at once, and of how a database is made and fails, which each server does in its own way."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let a quick run take each other test on SQLite and one of the servers, in turn: their statements are SQLAlchemy's."""
    for item in items:
        if isinstance(item, pytest.Function) and hasattr(item, "callspec") and item.path.stem not in ON_BOTH:
            turn, kind = crc32(item.originalname.encode()) % len(SERVERS), item.callspec.params.get("make_url")
            if kind in SERVERS and kind != SERVERS[turn]:
                item.add_marker(pytest.mark.slow)


SERVERS = ("mysql", "postgres")
MARIADB = pytest.param("mariadb", marks=[pytest.mark.mariadb, pytest.mark.slow])
"""Slow, because the store treats it like MySQL."""


@pytest.fixture(scope="module", params=["sqlite", *engine_params("mysql", "postgres"), MARIADB])
def make_url(request: pytest.FixtureRequest, engines: Engines, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Make]:
    """Returns a function that creates an empty database for a store and returns its URL; they are dropped after the module's tests."""
    if request.param == "sqlite":
        folder = tmp_path_factory.mktemp("stores")
        counter = iter(range(1_000))
        yield lambda: f"sqlite:///{folder}/store-{next(counter)}.db"
        return
    made: list[str] = []
    server = engines.live(request.param).url

    def make() -> str:
        made.append(databases.create(server))
        return made[-1]

    yield make
    for url in made:
        databases.drop(server, url)


@pytest.fixture(scope="module")
def url(make_url: Make) -> str:
    """The URL of the module's store."""
    return make_url()


@pytest.fixture(scope="module")
def store(url: str) -> Iterator[Store]:
    """The module's open store. Its tests share it, so each uses its own audits."""
    opened = open_store(url)
    yield opened
    opened.close()


@pytest.fixture
def file_store(tmp_path: Path) -> Iterator[Store]:
    """A new SQLite store for one test."""
    opened = open_store(f"sqlite:///{tmp_path}/store.db")
    yield opened
    opened.close()


@pytest.fixture
def configured(make_url: Make, tmp_path: Path) -> Iterator[tuple[Path, Settings, Store]]:
    """A configuration file with many audits of two small DuckDB files, its settings and its store."""
    path = service.write_settings(tmp_path, make_url())
    settings = config.load(path)
    assert settings.store
    store = open_store(settings.store.url)
    yield path, settings, store
    store.close()


@pytest.fixture
def serve(configured: tuple[Path, Settings, Store]) -> Iterator[service.Serve]:
    """Returns a function that starts serving processes; they are killed after the test."""
    started: list[Serving] = []

    def start(**options: Any) -> Serving:
        started.append(Serving(configured[0], **options))
        return started[-1]

    yield start
    for process in started:
        process.kill()
