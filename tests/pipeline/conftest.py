"""Fixtures: a road into each target that can be loaded."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from auditor.store import open_store
from tests.live import LiveEngine, engine_params
from tests.pipeline.road import Road

_numbers = itertools.count()

TARGETS = engine_params("postgres", "duckdb")
AND_DELTA = engine_params("postgres", "duckdb", "delta")


@pytest.fixture(params=TARGETS)
def engine(request: pytest.FixtureRequest, engines: object) -> LiveEngine:
    """Each engine that a pipeline can load."""
    found: LiveEngine = engines.live(request.param)  # type: ignore[attr-defined]
    return found


@pytest.fixture(scope="session")
def empty_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of a store in which nothing is stored yet."""
    path = tmp_path_factory.mktemp("store") / "auditor.db"
    open_store(f"sqlite:///{path}").close()
    return path


@pytest.fixture
def road(engine: LiveEngine, tmp_path: Path, empty_store: Path) -> Iterator[Road]:
    """A road into a schema of its own, or on DuckDB into a file of its own."""
    (tmp_path / "lake").mkdir()
    own = {"duckdb": f"duckdb:///{tmp_path}/warehouse.duckdb", "delta": f"delta://{tmp_path}/lake"}
    url = own.get(engine.name, engine.url)
    made = Road(tmp_path, url, empty_store, f"shop_{next(_numbers)}")
    yield made
    made.close()
