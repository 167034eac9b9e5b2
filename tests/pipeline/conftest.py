"""Fixtures: a road into each target that can be loaded."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import boto3
import pytest

from auditor.store import open_store
from tests import icebergs
from tests.live import Engines, LiveEngine, engine_params
from tests.pipeline.road import Road
from tests.servers import s3
from tests.servers.redshift import StandIn

_numbers = itertools.count()

ENGINES = ("postgres", "duckdb", "redshift", "mysql", "mariadb")
EVERY = engine_params(*ENGINES)
"""Each engine that a pipeline loads in transactions."""

QUICK = ("postgres", "duckdb")
SLOW = [pytest.param(*param.values, id=param.id, marks=[*param.marks, pytest.mark.slow]) for param in EVERY if param.id not in QUICK]
TARGETS = [*engine_params(*QUICK), *SLOW]
"""The same, of which a normal run takes two."""


def quick_on_target(name: str) -> pytest.MarkDecorator:
    """Run a test on each of them, in a normal run on this one alone: for what a pipeline does before a target is asked anything."""
    return pytest.mark.parametrize("engine", engine_params(*ENGINES, slow=[one for one in ENGINES if one != name]), indirect=True)


COMMITTED = [*engine_params("delta"), pytest.param("parquet", id="parquet", marks=[pytest.mark.parquet, pytest.mark.slow])]
"""Those that are loaded by commits, of which a normal run takes one."""

AND_LAKES = [*TARGETS, *COMMITTED]
"""All of them."""

INTO = engine_params("duckdb", "postgres", "mariadb", "redshift", "delta", slow=["postgres", "mariadb", "redshift", "delta"])
"""One engine of each way in which tables are loaded, of which a normal run takes one."""

CHANGED = engine_params(*QUICK)
"""Engines that take intervals of keys, and whose tables a pipeline changes."""

BUCKET, ROLE = "staged-rows", "arn:aws:iam::123456789012:role/copy"


@pytest.fixture(params=TARGETS)
def engine(request: pytest.FixtureRequest, engines: object) -> LiveEngine:
    """Each engine that a pipeline can load; a normal run takes those of QUICK, unless a test names EVERY."""
    found: LiveEngine = engines.live(request.param)  # type: ignore[attr-defined]
    return found


@pytest.fixture(scope="session")
def empty_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of a store in which nothing is stored yet."""
    path = tmp_path_factory.mktemp("store") / "auditor.db"
    open_store(f"sqlite:///{path}").close()
    return path


@pytest.fixture
def loaded_url(engine: LiveEngine, tmp_path: Path, engines: Engines, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The URL with which an engine is loaded."""
    with opened_url(engine, tmp_path, engines, monkeypatch) as url:
        yield url


@pytest.fixture(params=INTO)
def into(request: pytest.FixtureRequest, tmp_path: Path, engines: Engines, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The URL of a target of each kind, for what reads a live server's log; a normal run takes DuckDB."""
    with opened_url(engines.live(request.param), tmp_path, engines, monkeypatch) as url:
        yield url


@contextmanager
def opened_url(engine: LiveEngine, tmp_path: Path, engines: Engines, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Yield the URL with which an engine is loaded: of DuckDB a file of the test's own, of Delta a folder, of Redshift with a bucket."""
    (tmp_path / "lake").mkdir()
    own = {"duckdb": f"duckdb:///{tmp_path}/warehouse.duckdb", "delta": f"delta://{tmp_path}/lake", "parquet": f"parquet://{tmp_path}/lake"}
    if engine.name == "iceberg":
        own["iceberg"] = icebergs.url_of(tmp_path / "lake")
    server = engines.server(engine.name) if engine.name == "redshift" else None
    if server is None:
        yield own.get(engine.name, engine.url)
        return
    if not isinstance(server, StandIn):
        pytest.skip(f"redshift: {server.how}, which needs a bucket of its own")
    endpoint = engines.companion("s3", s3.start).url
    for name, value in {"ENDPOINT_URL": endpoint, "ACCESS_KEY_ID": "tests", "SECRET_ACCESS_KEY": "tests"}.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    boto3.client("s3", region_name="us-east-1").create_bucket(Bucket=BUCKET)
    with server.unloading_to(endpoint):
        to, role = quote(f"s3://{BUCKET}/auditor", safe=""), quote(ROLE, safe="")
        yield f"{engine.url}&unload_to={to}&unload_role={role}&region=us-east-1"


@pytest.fixture
def road(loaded_url: str, tmp_path: Path, empty_store: Path) -> Iterator[Road]:
    """A road into a schema of its own."""
    made = Road(tmp_path, loaded_url, empty_store, f"shop_{next(_numbers)}")
    yield made
    made.close()
