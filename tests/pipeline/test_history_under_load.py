"""22 faults of somebody's pipeline under load, run after run: each is found once it is too old to be in flight, and nothing else is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live import Engines, engine_params
from tests.pipeline.batch_sink import BatchSink
from tests.pipeline.history_load import LONGEST, TABLE, Direct, Series, Source, audit_under_load, make
from tests.pipeline.history_road import HistoryRoad

pytestmark = [
    pytest.mark.slow,
    pytest.mark.alone,
    pytest.mark.postgres,
    pytest.mark.parametrize("engine_name", engine_params("mysql", "mariadb")),
]

SHORT, LONG = Series(seconds=100, sets=10), Series(runs=5000, faults=3, at_most=8, capture_every=0.1, pause=0.05)
"""The audits of a run of the tests, and with ``--deep``, where both engines together see 10,000."""


@pytest.fixture
def road(engine_name: str, engines: Engines, tmp_path: Path) -> Iterator[HistoryRoad]:
    made = HistoryRoad(tmp_path, engines.live(engine_name), engines.live("postgres"), TABLE)
    make(made)
    yield made
    made.close()


def test_each_fault_is_found_and_nothing_else_is(
    road: HistoryRoad, capsys: pytest.CaptureFixture[str], request: pytest.FixtureRequest
) -> None:
    sink = BatchSink(road.settings.connections["warehouse"].url, f"sink.{TABLE}", LONGEST)
    with sink.running():
        told = audit_under_load(road, Source(road, Direct(sink)), sink, LONG if request.config.option.deep else SHORT)
    with capsys.disabled():
        print(f"\n{told}")
