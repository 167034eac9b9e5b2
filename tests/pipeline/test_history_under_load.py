"""22 faults of somebody's pipeline under load, run after run: each is found once it is too old to be in flight, and nothing else is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live import Engines, engine_params
from tests.pipeline.batch_sink import BatchSink
from tests.pipeline.history_load import AT_MOST, LONGEST, SETS, TABLE, Direct, Source, audit_under_load, make
from tests.pipeline.history_road import HistoryRoad

pytestmark = [
    pytest.mark.slow,
    pytest.mark.alone,
    pytest.mark.postgres,
    pytest.mark.parametrize("engine_name", engine_params("mysql", "mariadb")),
]

SECONDS, LONG = 100.0, 4500.0
"""For which runs follow each other, and with ``--deep``."""


@pytest.fixture
def road(engine_name: str, engines: Engines, tmp_path: Path) -> Iterator[HistoryRoad]:
    made = HistoryRoad(tmp_path, engines.live(engine_name), engines.live("postgres"), TABLE, at_most=f"{AT_MOST:g}s")
    make(made)
    yield made
    made.close()


def test_each_fault_is_found_and_nothing_else_is(
    road: HistoryRoad, capsys: pytest.CaptureFixture[str], request: pytest.FixtureRequest
) -> None:
    sink = BatchSink(road.settings.connections["warehouse"].url, f"sink.{TABLE}", LONGEST)
    how_long = (LONG, 1) if request.config.option.deep else (SECONDS, SETS)
    with sink.running():
        told = audit_under_load(road, Source(road, Direct(sink)), sink, *how_long)
    with capsys.disabled():
        print(f"\n{told}")
