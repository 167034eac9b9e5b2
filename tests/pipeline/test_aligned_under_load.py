"""Fifty aligned audits while others write 300 times a second, with key changes: all match, and an event that was lost is named at once."""

from __future__ import annotations

import itertools
import statistics
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from auditor.model import Report, Verdict
from tests.live import Engines
from tests.pipeline.aligned_road import AlignedRoad

pytestmark = [pytest.mark.slow, pytest.mark.alone]

TABLE, KEYS, RATE, AUDITS = "aligned_load", 5000, 350, 50
LOST = 1_000_000
"""From this key on events are lost on their way; the writers' keys lie below."""
PAIRS = [
    pytest.param((source, target), marks=[getattr(pytest.mark, name) for name in (source, target)], id=f"{source}-{target}")
    for source, target in itertools.product(("mysql", "mariadb"), ("postgres", "duckdb"))
]


class LossyRoad(AlignedRoad):
    """A pipeline that loses the updates of some rows."""

    def read(self, reader: Any, part: Any) -> list[pa.RecordBatch]:
        """Return the events of a range of the log, without those that are lost."""
        return [
            batch.filter(pa.array([not is_lost(event) for event in batch.to_pylist()], pa.bool_())) for batch in super().read(reader, part)
        ]


def is_lost(event: dict[str, Any]) -> bool:
    return event["kind"] == "update" and int(event["after"][0]) >= LOST


@pytest.fixture
def road(request: pytest.FixtureRequest, engines: Engines, tmp_path: Path) -> Iterator[LossyRoad]:
    source, target = (engines.live(name) for name in request.param)
    made = LossyRoad(tmp_path, source, TABLE, "" if target.name == "duckdb" else target.url, "aligned_load")
    made.fill(KEYS)
    made.log.run(f"INSERT INTO {TABLE} VALUES {', '.join(f'({LOST + number}, {chr(39)}kept{chr(39)}, 1)' for number in range(AUDITS))}")
    made.merge()
    yield made
    made.close()


@pytest.mark.parametrize("road", PAIRS, indirect=True)
def test_fifty_audits_match_and_each_lost_event_is_named_at_once(road: LossyRoad, capsys: pytest.CaptureFixture[str]) -> None:
    began = time.monotonic()
    with road.delivering(), road.written_to(KEYS, RATE, writers=3):
        road.audit()  # the writers and the loader have begun by its end
        equal = [road.audit() for _ in range(AUDITS)]
        damaged: list[tuple[Report, list[str]]] = []
        for number in range(AUDITS):
            road.log.run(f"UPDATE {TABLE} SET item = 'lost' WHERE id = {LOST + number}")
            damaged.append((road.audit(), [str(LOST + one) for one in range(number + 1)]))
    seconds = time.monotonic() - began
    with capsys.disabled():
        print(f"\n{describe([*equal, *(report for report, _ in damaged)], road.count_writes() / seconds)}")
    assert Counter((report.verdict, report.not_aligned) for report in equal) == {(Verdict.MATCH, ""): AUDITS}
    for report, keys in damaged:
        assert (report.verdict, report.not_aligned) == (Verdict.MISMATCH, ""), report.reasons
        assert report.differences is not None and report.differences.exact and not report.differences.unsettled
        assert sorted((one.kind, one.key["id"]) for one in report.differences.named) == [("changed", key) for key in keys]


def describe(reports: Sequence[Report], rate: float) -> str:
    """Describe what the runs cost: how long the target stood still, and how long they took."""
    held = sorted(report.aligned.held_seconds for report in reports if report.aligned)
    ways = Counter(report.aligned.way for report in reports if report.aligned)
    return (
        f"{len(held)} of {len(reports)} runs were aligned at {rate:.0f} writes a second; the target stood still for"
        f" {statistics.median(held):.2f} s (median), {held[int(len(held) * 0.9)]:.2f} s (90 %), {held[-1]:.2f} s at most; a run took"
        f" {statistics.median(report.seconds for report in reports):.2f} s (median); ways: {dict(ways)}"
    )
