"""Rows that are damaged at each hop of two pipelines with a topic between them: trace names the hop."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from auditor.config import load
from auditor.model import Verdict
from auditor.pipeline import stage_task, step_sender
from auditor.pipeline.batch_driver import BatchDriver
from auditor.pipeline.event_count import EventCount
from auditor.pipeline.folders import folder_at
from auditor.pipeline.incarnation import packed
from auditor.pipeline.kafka.topic_sources import source_and_begin
from auditor.pipeline.merge.loader import Loader
from auditor.pipeline.merge.positions import Where
from auditor.pipeline.part_writer import write_parts
from auditor.pipeline.publisher import Publisher
from auditor.pipeline.stage_task import TableRules
from auditor.pipeline.staged_parts import read_part
from auditor.pipeline.staging import Staging
from auditor.service import running
from auditor.service.trace import Asked, trace
from auditor.store import parts, pipelines
from tests.binlog import LiveLog
from tests.durations import SetDurations
from tests.live import Engines
from tests.pipeline.read_topics.topics import Topics
from tests.pipeline.road import PIPELINE, run_here
from tests.pipeline.test_trace import LossyRoad

pytestmark = [pytest.mark.kafka, pytest.mark.mysql, pytest.mark.alone]

TABLE, LAKE = "traced_far", "lake"


class ChainedRoad(LossyRoad):
    """A pipeline from a log into a topic, and another one from that into DuckDB."""

    def configure(self, topics: Topics, folder: Path) -> None:
        """Add the topics, the second pipeline and the audit."""
        events = f"{{broker: kafka, topic: '{topics.prefix}.{{database}}.{{table}}', positions: {topics.prefix}.positions"
        events += f", schema_changes: {topics.prefix}.changes, every: 0s, partitions: 2}}"
        own = f"positions: {topics.prefix}.positions, schema_changes: {topics.prefix}.changes"
        text = self.config_file.read_text()
        sides = f"source: {{connection: source, table: {TABLE}}}, target: {{connection: warehouse, table: far.{TABLE}}}"
        text = text.replace("audits: {}", f"audits: {{orders: {{{sides}}}}}\nbrokers: {{kafka: {{servers: '{topics.server}'}}}}")
        text = text.replace("every: 0s}}\n", f"every: 0s}}, events: {events}}}\n")
        text += f"""\
  {LAKE}:
    source:
      broker: kafka
      topics: ["{topics.prefix}.{self.database}.*"]
      published_by: {{pipeline: {PIPELINE}, target: events, {own}}}
    staging: {{path: "{folder}/lake"}}
    targets: {{wh: {{connection: warehouse, schema: far, every: 0s}}}}
"""
        self.config_file.write_text(text)
        self.settings = load(self.config_file)
        self.publisher = Publisher(self.settings, self.store, PIPELINE, "events")
        self.lake = folder_at(f"{folder}/lake")
        self.lake.make()
        chosen = self.settings.pipelines[LAKE].table_targets["wh"]
        where = Where(self.store, LAKE, str(self.config_file), "warehouse", chosen.schema_, str(self.lake), run_here, "wh", chosen)
        self.far = Loader(where, "wh", self.settings.connections["warehouse"])

    def publish(self) -> None:
        """Stage what the log has, and publish it."""
        self.stage()
        self.publisher.publish_all()

    def read_topics(self) -> None:
        """Stage what the topics have."""
        offset = pipelines.get_pipeline(self.store, LAKE).source_offset
        if offset is None:
            offset = source_and_begin(self.settings, LAKE)[1]().to_json()
            parts.record_batch(self.store, LAKE, [], {}, offset, topics_through=packed(offset))
        options = {"config": str(self.config_file), "pipeline": LAKE, "start": json.dumps(offset)}
        staging = Staging(self.store, LAKE, self.lake, TableRules(self.settings.pipelines[LAKE], b"salt"))
        driver = BatchDriver(source_and_begin(self.settings, LAKE)[0], options, staging, run_here, 0.01)
        while driver._stage_next() is not None:
            pass
        driver._close()

    def deliver(self) -> None:
        """Bring everything that the log has into the far target."""
        self.publish()
        self.read_topics()
        self.far.merge_all()

    def close(self) -> None:
        self.publisher.close()
        self.far.close()
        super().close()


@pytest.fixture
def road(engines: Engines, topics: Topics, tmp_path: Path) -> Iterator[ChainedRoad]:
    made = ChainedRoad(tmp_path, engines.live("mysql"), TABLE)
    made.configure(topics, tmp_path)
    yield made
    made.close()


def rows_without(batch: pa.RecordBatch, key: str) -> pa.RecordBatch:
    """Return a batch without the events of a row."""
    return batch.filter(pa.array([(row or [None])[0] != key for row in batch["after"].to_pylist()]))


@pytest.mark.slow
def test_the_hop_of_each_row_is_named(
    road: ChainedRoad, engines: Engines, monkeypatch: pytest.MonkeyPatch, set_durations: SetDurations
) -> None:
    log = LiveLog(engines.live("mysql").url)
    log.run(
        f"DROP TABLE IF EXISTS {TABLE}",
        f"CREATE TABLE {TABLE} (id int PRIMARY KEY, item varchar(40), price decimal(8,2))",
        f"INSERT INTO {TABLE} VALUES {', '.join(f'({n}, {chr(39)}item {n}{chr(39)}, {n}.50)' for n in range(1, 21))}",
    )
    road.deliver()
    found = trace(road.settings, road.store, "orders", Asked(["1", "2"]))
    assert found.published_by == PIPELINE and found.pipeline == LAKE
    assert [(row.outcome, row.events[-1].source, row.events[-1].target) for row in found.rows] == [("equal", True, True)] * 2

    # on its way into the topic, and out of it
    log.run(f"UPDATE {TABLE} SET item = 'not published' WHERE id = 1", f"UPDATE {TABLE} SET item = 'published' WHERE id = 3")
    with monkeypatch.context() as patched:
        patched.setattr(step_sender, "read_part", lambda *of: (rows_without(batch, "1") for batch in read_part(*of)))
        road.publish()
    with monkeypatch.context() as patched:
        lossy = lambda root, batches: write_parts(root, (rows_without(batch, "3") for batch in batches))  # noqa: E731
        patched.setattr(stage_task, "write_parts", lossy)
        patched.setattr(EventCount, "check", lambda *_: None)
        road.read_topics()
    road.far.merge_all()
    # behind it
    road.execute(f"UPDATE far.{TABLE} SET item = 'edited' WHERE id = 4")
    log.run("SET sql_log_bin = 0", f"DELETE FROM {TABLE} WHERE id = 5")
    LiveLog(engines.live("mysql").url).run(f"UPDATE {TABLE} SET price = 0 WHERE id = 6")
    road.stage()
    found = trace(road.settings, road.store, "orders", Asked(["1", "3", "4", "5", "6", "7"]))
    hops = {row.key["id"]: (row.outcome, row.hop) for row in found.rows}
    lost = {"1": ("lost", "publishing"), "3": ("lost", "reading"), "4": ("lost", "merge"), "5": ("lost", "log")}
    assert hops == {**lost, "6": ("in_flight", None), "7": ("equal", None)}, [row.sentence for row in found.rows]
    said = {row.key["id"]: row.sentence for row in found.rows}
    assert "is in the file " in said["1"] and "and not in the topic, in which lake has read everything up to" in said["1"]
    assert "is in the topic, and not in the files that lake staged up to" in said["3"]
    assert "is staged by shop, and lake has read the topics up to" in said["6"]
    # the hops as a whole: no process of the pipeline answers that could hold the topic
    set_durations(hold_answer=0.2, hold_reach=0.2)
    running.run_audit(road.settings, "orders", store=road.store)
    before, reading, into, behind = trace(road.settings, road.store, "orders", Asked(limit=1, hops=True)).hops
    assert [hop.hops for hop in (before, reading)] == [["staging"], ["reading"]]
    assert "no segment audit compares the files of lake with the topic" in reading.sentence and reading.verdict is Verdict.UNKNOWN
    assert into.hops == ["log", "staging", "publishing"] and into.verdict is behind.verdict is Verdict.MISMATCH
    assert re.match(r"3 of \d+ rows differ: ", into.sentence) and "they were not read at one position (" in into.sentence  # 1, 5, and 6
    assert behind.hops == ["reading", "merge"] and re.match(r"2 of \d+ rows differ: ", behind.sentence)  # 3 and 4
