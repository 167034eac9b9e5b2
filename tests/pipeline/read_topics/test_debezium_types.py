"""What the real Debezium writes of every type of MySQL is loaded from its topics; audits find targets and topics equal to the source."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from auditor.config import Audit, validate_settings
from auditor.model import Report, Verdict
from auditor.run import audit_run
from auditor.service.certify.log_columns import KINDS, Sample, samples_of
from auditor.service.running import run_audit
from tests.binlog import LiveLog
from tests.live import Engines
from tests.pipeline.messages.debezium import LOG_OPTIONS, NEEDS, Debezium
from tests.pipeline.read_topics.conftest import MakeRoad
from tests.pipeline.read_topics.topics import TopicRoad, Topics
from tests.pipeline.test_types import held, named
from tests.servers import mysql
from tests.servers.process import Server, Unavailable

pytestmark = [pytest.mark.slow, pytest.mark.kafka, pytest.mark.mysql, *NEEDS]

OPTIONS = {True: {"column.propagate.source.type": ".*"}, False: {"bigint.unsigned.handling.mode": "precise"}}
"""Options of the connector, by whether it says the types in the source: without them, large numbers are to be of a type that holds them."""

PRINTED_ANEW = re.compile(r"'1e300'|AS TIME\(6\)\) AS JSON|JSON_ARRAY\((x'00ff'|0\.00001)")
"""Documents that Debezium writes as other ones: all digits of a double, a negative TIME, bytes without their type, 0 for -0.0. See
docs/kafka-messages.md."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    try:
        found = mysql.start_private(tmp_path_factory.mktemp("log"), LOG_OPTIONS)
    except Unavailable as error:
        pytest.skip(str(error))
    yield found
    found.stop()


def written(kinds: str, target: str) -> list[Sample]:
    """Return the types of a kind that a target holds, with the values that it holds and Debezium writes."""
    samples = [held(sample, target) for sample in samples_of("mysql", kinds)]
    samples = [replace(one, values=[value for value in one.values if not PRINTED_ANEW.search(value)]) for one in samples]
    return [one for one in samples if one.values]


@pytest.mark.parametrize("has_source_types", [True, False], ids=["source-types", "closest-types"])
@pytest.mark.parametrize("target", [pytest.param("postgres", marks=pytest.mark.postgres), "duckdb"])
def test_audits_find_what_debezium_wrote_equal(
    target: str, has_source_types: bool, server: Server, topics: Topics, make_road: MakeRoad, engines: Engines, tmp_path: Path
) -> None:
    log = LiveLog(server.url)
    tables = {f"t_{kinds}": written(kinds, target) for kinds in KINDS}
    log.run(*(f"DROP TABLE IF EXISTS {name}" for name in (*tables, "done")), "CREATE TABLE done (id int PRIMARY KEY)")
    for name, samples in tables.items():
        log.run(f"CREATE TABLE {name} (id int PRIMARY KEY, {', '.join(f'c{n} {one.type}' for n, one in enumerate(samples))})")
    debezium = Debezium(tmp_path, server.url, OPTIONS[has_source_types])
    try:
        for name, samples in tables.items():
            depth = max(len(sample.values) for sample in samples)
            rows = [", ".join(sample.values[row % len(sample.values)] for sample in samples) for row in range(depth)]
            log.run(*(f"INSERT INTO {name} VALUES ({row}, {values})" for row, values in enumerate(rows)))
            log.run(
                f"INSERT INTO {name} (id) VALUES (1000), (1001)",
                f"UPDATE {name} SET id = 2000 WHERE id = 1000",
                f"UPDATE {name} SET c0 = NULL WHERE id = 2000",
                f"DELETE FROM {name} WHERE id = 1001",
            )
        log.run("INSERT INTO done VALUES (1)")
        sent = debezium.until("shop.audit.done")
    finally:
        debezium.stop()
    made = {name: topics.make(f"audit.{name}") for name in tables}
    for name, topic in made.items():
        of_table = [one.texts for one in sent if one.topic == f"shop.audit.{name}"]
        assert len(of_table) > 8
        topics.send(topic, *((key and key.encode(), value and value.encode()) for key, value in of_table))
    if target == "duckdb":
        assert {name: topic_audited(topics, made[name], log, name, samples) for name, samples in tables.items()} == {
            name: [] for name in tables
        }
    road = make_road(f"topics: [{', '.join(made.values())}]", url=engines.live("postgres").url if target == "postgres" else "")
    road.load()
    assert not road.notes()
    assert {name: audited(road, log, name, samples) for name, samples in tables.items()} == {name: [] for name in tables}


def audited(road: TopicRoad, log: LiveLog, table: str, samples: list[Sample]) -> list[object]:
    """Audit a table of the source and the target; return what differs, and why there is no verdict."""
    warehouse = road.settings.connections["warehouse"]
    connections = {"warehouse": warehouse, "source": warehouse.model_copy(update={"url": log.url})}
    ends = {"source": {"connection": "source", "table": table}, "target": {"connection": "warehouse", "table": f"{road.schema}.{table}"}}
    return not_equal(audit_run.run("types", Audit.model_validate(ends), connections), samples)


def topic_audited(topics: Topics, topic: str, log: LiveLog, table: str, samples: list[Sample]) -> list[object]:
    """Audit a table of the source and its topic; return what differs, and why there is no verdict."""
    ends = {"source": {"connection": "source", "table": table}, "target": {"broker": "kafka", "topic": topic}}
    connections, brokers = {"source": {"url": log.url}}, {"kafka": {"servers": topics.server}}
    report = run_audit(validate_settings({"connections": connections, "brokers": brokers, "audits": {"types": ends}}), "types")
    assert not any("order was not checked" in note for note in report.notes), "its block source says the place of each change"
    return not_equal(report, samples)


def not_equal(report: Report, samples: list[Sample]) -> list[object]:
    """Return what differs, why there is no verdict, and which columns were not compared."""
    types = {f"c{number}": sample.type for number, sample in enumerate(samples)}
    if report.verdict == Verdict.MATCH:
        assert report.plan
        return [*sorted(types.keys() - {column.name for column in report.plan.columns})]
    return [report.verdict, report.reasons, named(report, types)]
