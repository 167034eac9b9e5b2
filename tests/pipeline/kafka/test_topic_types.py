"""Every type of MySQL and MariaDB in a topic of each form: audits find it equal to the source, and name single messages that are not."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Message

from auditor.model import Report, Verdict
from auditor.pipeline.folders import folder_at
from auditor.pipeline.stage_task import TableRules, read_entries, stage_task
from auditor.pipeline.staging import Staging
from auditor.service.certify.log_columns import KINDS, Sample
from tests.binlog import LiveLog
from tests.live import Engines
from tests.pipeline.kafka.compared import audit_topic, copy_topic, faults, found, published_by
from tests.pipeline.kafka.topic_road import PIPELINE, Made, TopicRoad
from tests.pipeline.road import Road
from tests.pipeline.test_types import every_sample, held, named, stage

VALUES = ("debezium", "flat", "plain")
KEPT = {"cleanup": "delete"}
QUICK = {("mysql", "debezium", "json"), ("mariadb", "plain", "json"), ("mysql", "flat", "avro")}

FORMS = [
    pytest.param(
        source, values, form,
        id=f"{source}-{values}-{form}",
        marks=[getattr(pytest.mark, source), *([] if (source, values, form) in QUICK else [pytest.mark.slow])],
    )
    for source in ("mysql", "mariadb") for values in VALUES for form in ("json", "avro")
]  # fmt: skip

pytestmark = [pytest.mark.kafka, pytest.mark.alone]


@pytest.mark.quick_for("mysql-debezium-json", "mysql-flat-avro")
@pytest.mark.parametrize(("source", "values", "form"), FORMS)
def test_every_type_is_equal_in_the_topic(source: str, values: str, form: str, registered: Made, engines: Engines) -> None:
    log = LiveLog(engines.live(source).url)
    messages = {"values": values, "format": form}
    road = registered.road(partitions=2, messages=messages, **KEPT)
    for kinds in KINDS:
        table, samples = f"topic_{kinds}", [one for one in every_sample(source, kinds) if held(one, "duckdb").values]
        samples = [held(one, "duckdb") for one in samples]
        write(log, road, table, samples)
        topic, of_source = f"{road.prefix}.{log.database}.{table}", {"url": log.url, "table": table}
        report = audit_topic(registered, topic, of_source, {"messages": messages, "published_by": published_by(road)})
        types = {f"c{number}": sample.type for number, sample in enumerate(samples)}
        assert report.verdict is Verdict.MATCH, (kinds, report.reasons, named(report, types))
        assert report.plan and {column.name for column in report.plan.columns} >= types.keys()
        assert faults(report) == {} and report.topics["target"].rows > 2


def write(log: LiveLog, road: TopicRoad, table: str, samples: Sequence[Sample]) -> None:
    """Write rows of a table into the source, and publish what its log has of them."""
    depth = max(len(sample.values) for sample in samples)
    rows = [", ".join(sample.values[row % len(sample.values)] for sample in samples) for row in range(depth)]
    start = log.end()
    log.run(
        f"DROP TABLE IF EXISTS {table}",
        f"CREATE TABLE {table} (id int PRIMARY KEY, {', '.join(f'c{number} {sample.type}' for number, sample in enumerate(samples))})",
        *(f"INSERT INTO {table} VALUES ({row}, {values})" for row, values in enumerate(rows)),
        f"INSERT INTO {table} (id) VALUES (1000), (1001)",
        f"UPDATE {table} SET id = 2000 WHERE id = 1000",
        f"DELETE FROM {table} WHERE id = 1001",
    )
    rules = TableRules(road.settings.pipeline(PIPELINE), b"salt")
    batches = (batch for one in log.scan(start) for batch in log.reading([table]).batches(one))
    entries = [row for some in stage_task(str(road.root), rules, batches) for row in some.to_pylist()]
    staged, notes = read_entries(entries)
    offset = {"file": log.end().file, "position": log.end().offset}
    Staging(road.store, PIPELINE, folder_at(str(road.root)), rules).record_batch(staged, offset, notes)
    for _ in range(3):
        road.publish()
    assert road.report(f"{log.database}.{table}") == ("merged", "")


ROWS = [Sample("varchar(20)", "", ["'pen'", "'ink'", "NULL", "'pan'", "'über'"]), Sample("decimal(10,2)", "", ["1.50", "-0.25", "NULL"])]

DAMAGED = [
    pytest.param(values, engine, id=f"{values}-{engine}", marks=[getattr(pytest.mark, engine), *([] if is_quick else [pytest.mark.slow])])
    for values in VALUES
    for engine in ("mysql", "mariadb", "postgres", "duckdb")
    for is_quick in [(values, engine) in {("debezium", "mysql"), ("flat", "postgres"), ("plain", "duckdb"), ("plain", "mariadb")}]
]


@pytest.fixture
def warehouse(tmp_path: Path, empty_store: Path, engines: Engines, request: pytest.FixtureRequest) -> Iterator[Road]:
    """A road into a warehouse beside the topics."""
    (tmp_path / "warehouse").mkdir()
    made = Road(tmp_path / "warehouse", engines.live(request.getfixturevalue("engine")).url, empty_store, f"w{tmp_path.name[-20:]}")
    yield made
    made.close()


@pytest.mark.quick_for("debezium-mysql", "plain-duckdb")
@pytest.mark.mysql
@pytest.mark.parametrize(("values", "engine"), DAMAGED)
def test_single_damaged_messages_are_named_and_nothing_else(
    values: str, engine: str, made: Made, engines: Engines, request: pytest.FixtureRequest
) -> None:
    """Against the source that they are of, and against a warehouse that was loaded with the same events."""
    is_source = engine in ("mysql", "mariadb")
    log = LiveLog(engines.live(engine if is_source else "mysql").url)
    road, start = made.road(messages={"values": values}, **KEPT), log.end()
    write(log, road, "damaged", ROWS)
    other = {"url": log.url, "table": "damaged"}
    if not is_source:
        warehouse: Road = request.getfixturevalue("warehouse")
        stage(warehouse, log, start, "damaged")
        warehouse.loader().merge_all()
        other = {"url": engines.live(engine).url, "table": f"{warehouse.schema}.damaged"}

    def report_of(edit: Any) -> tuple[Report, dict[str, list[str | None]], dict[str, int]]:
        topic = copy_topic(road, edit, f"{log.database}.damaged", cleanup_policy="delete")
        columns = {"id": "int", "c0": "varchar(20)", "c1": "decimal(10,2)"}
        said = {"messages": {"values": values}, "key": ["id"], "columns": columns}
        report = audit_topic(made, topic, other, said, "target" if is_source else "source")
        return report, found(report), faults(report, "target" if is_source else "source")

    lost = "missing" if is_source else "extra"
    report, rows, wrong = report_of(lambda messages: messages)
    assert (report.verdict, rows, wrong) == (Verdict.MATCH, {}, {}), report.reasons
    report, rows, wrong = report_of(lambda messages: [(one, renamed(one)) if number == 3 else one for number, one in enumerate(messages)])
    assert (report.verdict, rows, wrong) == (Verdict.MISMATCH, {"changed": ["3"]}, {})
    report, rows, wrong = report_of(lambda messages: messages[:3] + messages[4:])
    assert (report.verdict, rows, wrong) == (Verdict.MISMATCH, {lost: ["3"]}, {"missing": 1})
    report, rows, wrong = report_of(lambda messages: messages[:4] + messages[3:])
    assert (report.verdict, rows, wrong) == (Verdict.MISMATCH, {}, {"doubled": 1})


def renamed(message: Message) -> bytes:
    """A message with another value of its first column."""
    body = json.loads(message.value() or b"")
    row = body.get("after", body)
    row["c0"] = "another"
    return json.dumps(body).encode()
