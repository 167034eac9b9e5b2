"""The store on every database that can hold it: SQLite always, the servers where they run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from auditor.store import Store, open_store
from tests.engines import Engines, engine_params
from tests.store import databases

Make = Callable[[], str]


MARIADB = pytest.param("mariadb", marks=[pytest.mark.mariadb, pytest.mark.slow])
"""It is written to as MySQL is."""


@pytest.fixture(scope="module", params=["sqlite", *engine_params("mysql", "postgres"), MARIADB])
def make_url(request: pytest.FixtureRequest, engines: Engines, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Make]:
    """Makes a new, empty place for a store; all of a module's go when its tests are over."""
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
    """The module's store."""
    return make_url()


@pytest.fixture(scope="module")
def store(url: str) -> Iterator[Store]:
    """The module's store, open. Tests share it, and use audits of their own."""
    opened = open_store(url)
    yield opened
    opened.close()


@pytest.fixture
def file_store(tmp_path: Path) -> Iterator[Store]:
    """A new store in SQLite."""
    opened = open_store(f"sqlite:///{tmp_path}/store.db")
    yield opened
    opened.close()
