"""Every type of column travels through Spark into both targets with the edges of its values, and an audit finds each target equal."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from auditor.model import Verdict
from auditor.service.certify.log_columns import KINDS, Sample
from tests.binlog import LiveLog
from tests.live import Engines
from tests.pipeline.running import Running
from tests.pipeline.test_types import SOURCES, every_sample, held, named
from tests.pipeline.whole_road import WholeRoad

pytestmark = [pytest.mark.spark, pytest.mark.postgres, pytest.mark.slow]

SCHEMA = "types_on_spark"

REFUSED = {
    "types_wide": ("duck", r"types_wide\.c0 is decimal\(65,30\), and duckdb holds 38 digits at most"),
    "types_nul": ("pg", r"types_nul\.c0 holds a text with the character U\+0000"),
}
"""Tables that one target refuses and the other holds."""

SAMPLES = {
    "types_wide": [Sample("decimal(65,30)", "", ["0.000000000000000000000000000001", f"-{'9' * 35}.{'9' * 30}", "NULL"])],
    "types_nul": [Sample("longtext character set utf8mb4", "", ["concat('a', char(0), 'b')", "'c'"])],
}


@pytest.fixture
def road(request: pytest.FixtureRequest, engines: Engines, tmp_path: Path) -> Iterator[WholeRoad]:
    engines.live("spark")
    made = WholeRoad(tmp_path, engines.live(request.param), engines.live("postgres"), SCHEMA, ["types_*"])
    yield made
    made.close()


@pytest.mark.parametrize("road", [pytest.param(source, marks=getattr(pytest.mark, source)) for source in SOURCES], indirect=True)
def test_each_type_arrives_through_spark_in_both_targets(road: WholeRoad) -> None:
    log = LiveLog(road.source.url)
    samples = {f"types_{kinds}": of_both(every_sample(road.source.name, kinds)) for kinds in KINDS} | SAMPLES
    log.run(*(f"DROP TABLE IF EXISTS {table}" for table in samples))
    with Running(road.run()) as running:
        running.until(road.has_begun)
        for table, columns in samples.items():
            log.run(*statements(table, columns))
        end = log.end()
        running.until(lambda: road.is_staged(end) and all(len(road.reports(table)) == 2 for table in samples))
        reports = {(table, target): report for table in samples for target, report in road.reports(table).items()}
    assert running.error is None
    for table, (target, sentence) in REFUSED.items():
        state, reason = reports.pop((table, target))
        assert state == "stopped" and re.search(sentence, reason), reason
    assert set(reports.values()) == {("merged", "")}, reports
    refused = {f"shop_{table}_{target}" for table, (target, _) in REFUSED.items()}
    found = {name: report for name, report in road.audits().items() if name not in refused}
    assert len(found) == 2 * len(samples) - len(refused)
    for name, report in found.items():
        columns = samples[name.removeprefix("shop_").rpartition("_")[0]]
        types = {f"c{number}": sample.type for number, sample in enumerate(columns)}
        assert report.verdict == Verdict.MATCH, (name, report.reasons, named(report, types))
        assert report.plan and {column.name for column in report.plan.columns} >= types.keys(), name


def of_both(samples: Sequence[Sample]) -> list[Sample]:
    """Return the samples with the values that both targets hold, of the types that both hold."""
    return [one for sample in samples if (one := held(held(sample, "postgres"), "duckdb")).values]


def statements(table: str, samples: Sequence[Sample]) -> Iterator[str]:
    """Yield what makes a table with a column for each sample, and inserts, updates, moves and deletes rows with its values."""
    depth = max(len(sample.values) for sample in samples)
    columns = ", ".join(f"c{number} {sample.type}" for number, sample in enumerate(samples))
    yield f"CREATE TABLE {table} (id int PRIMARY KEY, {columns})"
    for row in range(depth):
        values = ", ".join(sample.values[row % len(sample.values)] for sample in samples)
        yield f"INSERT INTO {table} VALUES ({row}, {values})"
        yield f"REPLACE INTO {table} VALUES ({100 + row // 2}, {values})"
    yield f"UPDATE {table} SET id = id + 1000 WHERE id IN (0, 100)"
    yield f"DELETE FROM {table} WHERE id = 101"
