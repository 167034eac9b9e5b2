"""Part topics: from a topic of Kafka to PostgreSQL as `auditor pipeline run` does it, beside the road from the log of MySQL.

The topic has the events of the very log that the direct road reads in the same run, as our encoder writes them: so both bring the same
rows of ten columns. A pipeline begins where the empty topic ends, and is stopped; the topic is written, and the pipeline started again.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

import pyarrow as pa

from auditor.config import MessageSettings
from auditor.pipeline.binlog.decode import Reading
from auditor.pipeline.binlog.log_connection import Request, Source, log_status
from auditor.pipeline.binlog.ranges import LogScan, Mark
from auditor.pipeline.binlog.selection import Selection
from auditor.pipeline.events import Place, TableSchema
from auditor.pipeline.messages.source_block import Names
from auditor.pipeline.messages.writing import Encoder, number_in_transactions
from auditor.store import open_store, pipelines
from benchmarks import road, stream
from benchmarks.road import Road
from benchmarks.servers import Servers
from tests.servers import mysql
from tests.servers.process import Unavailable

FORMS = {
    "plain JSON": MessageSettings(values="plain"),
    "Debezium's JSON": MessageSettings(),
    "Debezium's JSON with schemas": MessageSettings(schemas=True),
}
PARTITIONS = 2
TOPIC = f"road.{stream.TABLE_NAME}"

CONFIGURATION = """\
connections:
  pg: {{url: "{target}", write: {{url: "{target}"}}}}
brokers: {{kafka: {{servers: ["{broker}"]}}}}
audits: {{}}
pipelines:
  {pipeline}:
    source:
      broker: kafka
      messages: {{values: {values}}}
      topics: {{{topic}: {{table: {table}{columns}}}}}
    staging: {{path: "{folder}/staging"}}
    targets: {{pg: {{connection: pg, schema: {schema}, every: 0s}}}}
"""


def measure(servers: Servers, rows: int, words: Sequence[str] = ()) -> list[Road]:
    """Measure the direct road, and then each form of messages, or those whose name has one of these words."""
    forms = [name for name in FORMS if not words or any(word in name for word in words)]
    try:
        source, target, broker = servers["mysql"], servers["postgres"], servers["kafka"]
    except Unavailable as reason:
        return [Road("kafka", _title(name), why=str(reason)) for name in forms]
    print("topics: the road from the log", file=sys.stderr, flush=True)
    direct = Road("mysql", road.PG, source.version, load=os.getloadavg()[0])
    road.drop(target.url)
    with tempfile.TemporaryDirectory(prefix="road-", dir=servers.directory) as folder:
        start = road.run(direct, Path(folder), source.url, {"pg": target.url}, {}, rows, is_timed=False)
    direct.targets = f"{road.PG}, beside the topics"
    roads = [direct]
    for name in forms:
        print(f"topics: {name}", file=sys.stderr, flush=True)
        found = Road("kafka", _title(name), broker.version, direct.events, os.getloadavg()[0])
        road.drop(target.url)
        with tempfile.TemporaryDirectory(prefix="topics-", dir=servers.directory) as folder:
            _run(found, Path(folder), source.url, start, target.url, urlsplit(broker.url).netloc, FORMS[name])
        found.direct = direct.sustained
        print(
            f"topics: {found.sustained:,.0f} of {direct.sustained:,.0f} events/s: {found.sustained / direct.sustained:.2f}", file=sys.stderr
        )
        road.drop(target.url)
        roads.append(found)
    return roads


def _title(form: str) -> str:
    return f"{road.PG}, from {form}"


def _run(found: Road, folder: Path, source: str, start: Place, target: str, broker: str, form: MessageSettings) -> None:
    """Let a pipeline catch up with a written topic."""
    reading = Reading(Source(source, "mysql"), Selection([stream.TABLE_NAME], urlsplit(source).path.strip("/")), 0, 10.0)
    batches = list(_batches(reading, source, start))
    schema = next(TableSchema.from_json(batch["after"][0][0].as_py()) for batch in batches if batch["kind"][0].as_py() == "schema")
    listed = ", ".join(f'{one.name}: "{one.type}{"" if one.nullable else " not null"}"' for one in schema.columns)
    columns = "" if form.schemas else f", key: [{', '.join(schema.key)}], columns: {{{listed}}}"
    values = {"target": target, "broker": broker, "pipeline": road.PIPELINE, "topic": TOPIC, "table": f"road.{stream.TABLE_NAME}"}
    text = CONFIGURATION.format(**values, values=form.values, columns=columns, folder=folder, schema=road.SCHEMA)
    (folder / "auditor.yaml").write_text(text)
    _make_topic(broker)
    with closing(open_store(f"sqlite:///{folder}/auditor.db")) as store:
        with road.running(folder, road.PIPELINE, {}) as pipeline:
            road.wait(lambda: pipelines.get_pipeline(store, road.PIPELINE).source_offset is not None, pipeline)
        _produce(broker, Encoder(schema, form, Names("road", "bench")), batches)
        began = time.monotonic()
        with road.running(folder, road.PIPELINE, {}) as pipeline, road.watching(pipeline.pid, found):
            road.wait(lambda: road.merged(store, ("pg",)) >= found.events, pipeline, patience=road.PATIENCE + found.events / road.SLOWEST)
            found.seconds = time.monotonic() - began
            found.sustained = found.events / (time.time() - road.first_batch(folder / "log"))


def _batches(reading: Reading, url: str, start: Place) -> Iterator[pa.RecordBatch]:
    """Yield the events of a log from a place to its end, as the direct road reads them."""
    with closing(mysql.connect(url)) as connection:
        end = log_status(connection).end
    with closing(LogScan(Request(Source(url, "mysql"), start, 50_004), Mark(start), stream.RANGE_BYTES, 10.0)) as scan:
        for one in scan.advance(end):
            yield from reading.batches(one)


def _make_topic(broker: str) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": broker})
    if TOPIC in admin.list_topics(timeout=30).topics:
        admin.delete_topics([TOPIC])[TOPIC].result()
    deadline = time.monotonic() + road.PATIENCE
    while TOPIC in admin.list_topics(timeout=30).topics:
        if time.monotonic() > deadline:
            raise RuntimeError(f"the topic {TOPIC} is not deleted")
        time.sleep(0.1)
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result()


def _produce(broker: str, encoder: Encoder, batches: Sequence[pa.RecordBatch]) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": broker, "linger.ms": 50, "queue.buffering.max.messages": 200_000, "compression.type": "lz4"})
    for batch in batches:
        events = batch.filter(pa.compute.not_equal(batch["kind"], "schema"))
        messages = encoder.encode(events, time.time_ns(), number_in_transactions(events))
        for key, value in zip(messages["key"].to_pylist(), messages["value"].to_pylist(), strict=True):
            while True:
                try:
                    producer.produce(TOPIC, key=key, value=value)
                    break
                except BufferError:
                    producer.poll(0.1)
        producer.poll(0)
    if left := producer.flush(60):
        raise RuntimeError(f"{left} messages were not written")
