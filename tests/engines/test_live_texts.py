"""What the stream computes of its events is what the auditor's SQL yields on the server: texts, partitions, positions and hashes."""

from __future__ import annotations

from contextlib import closing

import pyarrow as pa
import pytest

import dialects
from auditor.model import ColumnPlan
from auditor.pipeline.live.images import canonical_texts
from auditor.run.live.plans import KINDS as LIVE_KINDS
from auditor.service.certify.log_columns import KINDS, Sample, samples_of
from auditor.sql.row_text import text
from dialects import Kind
from tests.binlog import LiveLog
from tests.live import LiveEngine, engine_params

pytestmark = pytest.mark.alone  # the log that they read is the whole server's

on_both = pytest.mark.parametrize("engine", engine_params("mysql", "mariadb"), indirect=True)

COARSER = {
    "decimal": [Kind("decimal", 65, 0), Kind("decimal", 65, 1), Kind("decimal", 65, 30), Kind("decimal"), Kind("integer")],
    "integer": [Kind("decimal", 30, 2), Kind("decimal"), Kind("rounded", scale=2), Kind("float64"), Kind("boolean")],
    "boolean": [Kind("integer")],
    "float64": [Kind("rounded", scale=2)],
    "float32": [Kind("rounded", scale=1), Kind("float64")],
    "year": [Kind("integer")],
    "bit": [Kind("boolean")],
    "text": [Kind("char")],
    "binary": [Kind("uuid")],
    "date": [Kind("timestamp", scale=3)],
    "timestamp": [Kind("date"), *(Kind("timestamp", scale=scale) for scale in (0, 2, 6)), Kind("timestamp", scale=1, rounding="half up")],
    "timestamptz": [Kind("date"), Kind("timestamptz", scale=0), Kind("timestamptz", scale=3, rounding="half from 2000")],
    "time": [*(Kind("time", scale=scale) for scale in (0, 2, 6)), Kind("time", scale=1, rounding="half up")],
}
"""As which kinds a column is compared besides its own, by the name of its own."""


def compared(native: Kind) -> list[Kind]:
    found = [native, *COARSER.get(native.name, ())]
    room = 65 - (native.digits or 0) + (native.scale or 0)  # digits behind the point that the server can compute with
    return [
        kind for kind in found if kind.name in LIVE_KINDS.get(native.name, ()) and (native.name != "decimal" or (kind.scale or 0) <= room)
    ]


def column(number: int, kind: Kind, native: Kind, dialect: dialects.Dialect, sample: Sample) -> ColumnPlan:
    name = f"c{number}"
    about = {"types": {"source": sample.type, "target": ""}, "why": "", "native": {"source": native, "target": native}}
    return ColumnPlan(name=name, kind=kind, expression={"source": dialect.names.quote(name), "target": name}, **about)  # type: ignore[arg-type]


@on_both
@pytest.mark.parametrize("kinds", KINDS)
def test_texts_of_events_are_those_of_the_server(engine: LiveEngine, kinds: str) -> None:
    log, table = LiveLog(engine.url), f"live_{kinds}"
    samples = [one for one in samples_of(engine.name, kinds) if one.type not in ("geometry", "polygon")]
    depth = max(len(sample.values) for sample in samples)
    rows = [", ".join(sample.values[row % len(sample.values)] for sample in samples) for row in range(depth)]
    columns = ", ".join(f"c{number} {sample.type}" for number, sample in enumerate(samples))
    start = log.end()
    log.run(
        f"DROP TABLE IF EXISTS {table}",
        f"CREATE TABLE {table} (id int PRIMARY KEY, {columns})",
        *(f"INSERT IGNORE INTO {table} VALUES ({row}, {values})" for row, values in enumerate(rows)),
    )
    images = [event["after"] for event in log.events(start, [table])]
    with closing(dialects.connect(engine.url)) as session:
        [described] = session.dialect.catalogue.describe(session, dialects.Place((table,)))
        natives = {one.name: one.kind for one in described.columns}
        plans = [
            (number, column(number, kind, native, session.dialect, sample))
            for number, sample in enumerate(samples)
            if (native := natives[f"c{number}"])
            for kind in compared(native)
        ]
        wrong = []
        for number, plan in plans:
            server = [row[0] for row in session.query(f"SELECT {text(plan, 'source', session.dialect)} FROM {table} ORDER BY id")]
            found = canonical_texts(pa.array([image[number + 1] for image in images], pa.string()), plan).to_pylist()
            wrong += [f"{plan.types['source']} as {plan.kind}: {f!r} not {s!r}"[:300] for f, s in zip(found, server, strict=True) if f != s]
    assert len(plans) >= len(samples) - 2
    assert not wrong, "\n".join(sorted(set(wrong)))
