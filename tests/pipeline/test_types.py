"""Every type of column reaches each target with the edges of its values, and an audit finds the target equal."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

import dialects
from auditor.config import Audit
from auditor.model import Report, Verdict
from auditor.pipeline.events import Place
from auditor.pipeline.folders import LocalFolder
from auditor.pipeline.stage_task import TableRules, read_entry, stage_task
from auditor.pipeline.staging import Staging
from auditor.run import audit_run
from auditor.service.certify.log_columns import KINDS, Sample, samples_of
from auditor.store import pipelines
from tests.binlog import LiveLog
from tests.live import Engines, LiveEngine
from tests.pipeline.road import PIPELINE, Road

pytestmark = pytest.mark.alone  # the log that they read is the whole server's

SOURCES = ("mysql", "mariadb")

NO_MOMENT = re.compile(r"'(0000|\d+-00-|\d+-\d+-00|-|838)")
"""Dates that are none elsewhere, and times that are none of a day: no target holds them."""

REWRITTEN = {
    "mysql": re.compile(r"CAST\(CAST\(12|JSON_ARRAY\(0"),
    "redshift": re.compile(r"'1\.0|'-?1e|CAST\(CAST\(12|JSON_ARRAY\(0"),
}
"""Documents with numbers that a target writes otherwise: MySQL makes floats of decimals; the stand-in's JSONB writes all digits."""

OWN = {
    "mysql": [],
    "mariadb": [
        Sample("uuid", "", ["'123e4567-e89b-12d3-a456-426655440000'", "'00000000-0000-0000-0000-000000000000'", "NULL"]),
        Sample("inet6", "", ["'2001:db8::ff00:42:8300'", "'::'", "'::ffff:1.2.3.4'", "NULL"]),
        Sample("inet6", "", ["'1:2:3:4:5:6:7:0'", "'0:2:3:4:5:6:7:8'", "'1:2:3:0:5:6:7:8'"]),
        Sample("inet4", "", ["'1.2.3.0'", "'0.0.0.0'", "NULL"]),
    ],
}  # fmt: skip


QUICK = {
    ("mysql", "postgres", "moments"), ("mysql", "postgres", "own"), ("mariadb", "duckdb", "moments"), ("mariadb", "duckdb", "own"),
    ("mysql", "redshift", "own"), ("mysql", "mariadb", "moments"), ("mariadb", "mysql", "numbers"),
    ("mysql", "delta", "texts"),
}  # fmt: skip


def quick(source: str, target: str, kinds: str) -> bool:
    """Whether a normal run takes this road: each source, target and kind once."""
    return (source, target, kinds) in QUICK


ROADS = [
    pytest.param(
        source, target, kinds,
        id=f"{source}-{target}-{kinds}",
        marks=[getattr(pytest.mark, source), getattr(pytest.mark, target), *([] if quick(source, target, kinds) else [pytest.mark.slow])],
    )
    for source in SOURCES for target in ("postgres", "duckdb", "redshift", "mysql", "mariadb", "delta", "iceberg") for kinds in KINDS
]  # fmt: skip


@pytest.mark.parametrize(("source", "engine", "kinds"), ROADS, indirect=["engine"])
def test_each_type_arrives_as_it_is(source: str, engine: LiveEngine, kinds: str, road: Road, engines: Engines) -> None:
    log, table = LiveLog(engines.live(source).url), f"arriving_{kinds}"
    samples = [one for sample in every_sample(source, kinds) if (one := held(sample, engine.name)).values]
    depth = max(len(sample.values) for sample in samples)
    rows = [", ".join(sample.values[row % len(sample.values)] for sample in samples) for row in range(depth)]
    columns = ", ".join(f"c{number} {sample.type}" for number, sample in enumerate(samples))
    start = log.end()
    log.run(
        f"DROP TABLE IF EXISTS {table}",
        f"CREATE TABLE {table} (id int PRIMARY KEY, {columns})",
        *(f"INSERT INTO {table} VALUES ({row}, {values})" for row, values in enumerate(rows)),
        f"INSERT INTO {table} (id) VALUES (1000), (1001)",
        f"UPDATE {table} SET id = 2000 WHERE id = 1000",
        f"DELETE FROM {table} WHERE id = 1001",
    )
    stage(road, log, start, table)
    road.loader().merge_all()
    name = f"{log.database}.{table}"
    report = pipelines.list_merges(road.store, PIPELINE)["wh"][name]
    assert (report.state, report.reason) == ("merged", "")
    assert road.query(f"SELECT COUNT(*) FROM {road.dialect.names.table(road.schema, table)}") == [(depth + 1,)]
    audited(road, log, table, samples)
    # A later session looks at the table that was made, and finds that it fits.
    start = log.end()
    log.run(f"DELETE FROM {table} WHERE id = 2000")
    stage(road, log, start, table)
    assert road.loader().merge_all() == 1
    audited(road, log, table, samples)


def every_sample(source: str, kinds: str) -> Sequence[Sample]:
    return [*samples_of(source, kinds), *(OWN[source] if kinds == "own" else ())]


def held(sample: Sample, target: str) -> Sample:
    """Return the sample with the values that a target holds; without any for a type that it does not."""
    dialect = dialects.get("mysql" if target == "mariadb" else target)
    digits = re.match(r"decimal\((\d+)", sample.type)
    if sample.type in ("geometry", "polygon") or (digits and int(digits[1]) > dialect.types.MAX_DECIMAL_DIGITS):
        return replace(sample, values=[])
    if target == "delta" and re.match(r"time(?!stamp)|bit", sample.type):
        return replace(sample, values=[])
    if target == "iceberg" and sample.type.startswith("bit"):
        return replace(sample, values=[])
    if target == "redshift" and sample.type.startswith("bit("):
        return replace(sample, values=[])
    values = [value for value in sample.values if dialect.types.ZERO_DATES or not NO_MOMENT.match(value)]
    if "NUL in text" in dialect.types.UNSUPPORTED_VALUES:
        values = [value for value in values if "char(0)" not in value]
    if target == "redshift" and "text" in sample.type:
        values = [value for value in values if "100000" not in value]  # a VARCHAR ends at 65,535 bytes
    if target == "redshift" and sample.type == "json":
        values = [value for value in values if "REPEAT" not in value]  # longer than it builds as a text, so that audits say unknown
    if sample.type == "json" and target in REWRITTEN:
        values = [value for value in values if not REWRITTEN[target].match(value)]
    return replace(sample, values=values)


def stage(road: Road, log: LiveLog, start: Place, table: str) -> None:
    """Stage what was logged since a place, by the function that tasks run."""
    rules = TableRules(road.settings.pipeline(PIPELINE), b"salt")
    batches = (batch for one in log.scan(start) for batch in log.reading([table]).batches(one))
    rows = [row for entries in stage_task(str(road.root), rules, batches) for row in entries.to_pylist()]
    Staging(road.store, PIPELINE, LocalFolder(road.root), rules).record_batch([read_entry(row) for row in rows], None)


def audited(road: Road, log: LiveLog, table: str, samples: Sequence[Sample]) -> None:
    warehouse = road.settings.connections["warehouse"]
    connections = {"warehouse": warehouse, "source": warehouse.model_copy(update={"url": log.url})}
    ends = {"source": {"connection": "source", "table": table}, "target": {"connection": "warehouse", "table": f"{road.schema}.{table}"}}
    report = audit_run.run("types", Audit.model_validate(ends), connections)
    types = {f"c{number}": sample.type for number, sample in enumerate(samples)}
    assert report.verdict == Verdict.MATCH, (report.reasons, named(report, types))
    assert report.plan and {column.name for column in report.plan.columns} >= types.keys()


def named(report: Report, types: Mapping[str, str]) -> list[object]:
    """Return what differs, for the message of a failed test."""
    found = report.differences.named if report.differences is not None else ()
    return [(one.kind, one.key, [(types.get(column.name), column.source, column.target) for column in one.columns]) for one in found]
