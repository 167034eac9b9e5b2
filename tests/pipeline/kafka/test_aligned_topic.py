"""A table that is written to and its topic are compared at one position of the log, so that nothing is in flight between them."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from auditor import config
from auditor.model import Report, Verdict
from auditor.pipeline.publisher import Publisher
from auditor.run.alignment import BY_SERVER
from auditor.service import running
from auditor.store import leases
from tests.binlog import LiveLog
from tests.live import Engines
from tests.pipeline.kafka.compared import faults, found
from tests.pipeline.live_road import LiveRoad
from tests.pipeline.road import PIPELINE

TABLE, AUDIT = "aligned_topic", "aligned"

pytestmark = [pytest.mark.kafka, pytest.mark.alone]


class PublishedRoad(LiveRoad):
    """A pipeline of one table of a live server into a topic, and an audit of both."""

    def __init__(self, folder: Path, engines: Engines, source: str, broker: str) -> None:
        super().__init__(folder, engines.live(source), TABLE)
        prefix = f"{folder.name}"
        names = f"positions: {prefix}.positions, schema_changes: {prefix}.changes"
        target = f"{{broker: kafka, topic: '{prefix}.{{table}}', partitions: 3, cleanup: delete, every: 0s, {names}}}"
        said = f"{{broker: kafka, topic: {prefix}.{TABLE}, published_by: {{pipeline: {self.name}, target: events, {names}}}}}"
        audit = f"{{source: {{connection: source, table: {TABLE}}}, target: {said}, align: pipeline}}"
        text = self.config_file.read_text().replace(
            "audits: {}", f"audits: {{{AUDIT}: {audit}}}\nbrokers: {{kafka: {{servers: '{broker}'}}}}"
        )
        kept, _, _ = text.partition("    targets:")
        self.config_file.write_text(f"{kept}    targets: {{events: {target}}}\n")
        self.settings = config.load(self.config_file)
        self.pipeline = self.settings.pipeline(self.name)
        self.publisher = Publisher(self.settings, self.store, self.name, "events")
        self.publisher.clock = itertools.count(0.0, 100.0).__next__

    def publish(self) -> None:
        self.stage()
        self.publisher.publish_all()

    @contextmanager
    def publishing(self) -> Iterator[None]:
        """Stage and publish in a thread for the block, and write rows."""
        stopped, failures = threading.Event(), list[BaseException]()

        def publish() -> None:
            try:
                while not stopped.wait(0.05):
                    self.publish()
            except BaseException as error:
                failures.append(error)

        thread = threading.Thread(target=publish)
        with leases.keep(self.store, "target", f"{PIPELINE}/events", 600):
            thread.start()
            try:
                yield
            finally:
                stopped.set()
                thread.join()
        assert not failures

    def audit(self) -> Report:
        return running.run_audit(self.settings, AUDIT, store=self.store)

    def close(self) -> None:
        self.publisher.close()
        super().close()


@pytest.mark.slow
@pytest.mark.parametrize("source", [pytest.param("mariadb", marks=pytest.mark.mariadb), pytest.param("mysql", marks=pytest.mark.mysql)])
def test_a_table_that_is_written_to_equals_its_topic_at_one_position(source: str, broker: str, engines: Engines, tmp_path: Path) -> None:
    log = LiveLog(engines.live(source).url)
    log.run(f"DROP TABLE IF EXISTS {TABLE}", f"CREATE TABLE {TABLE} (id int PRIMARY KEY, item varchar(60))")
    road = PublishedRoad(tmp_path, engines, source, broker)
    try:
        log.run(f"INSERT INTO {TABLE} VALUES {', '.join(f'({number}, 0)' for number in range(200))}")
        road.publish()
        written, stopped = itertools.count(1), threading.Event()

        def write() -> None:
            while not stopped.wait(0.01):
                number = next(written)
                log.run(f"REPLACE INTO {TABLE} VALUES ({number % 200}, {number})", f"DELETE FROM {TABLE} WHERE id = {(number * 7) % 200}")

        writer = threading.Thread(target=write)
        with road.publishing():
            writer.start()
            reports = [road.audit() for _ in range(2)]
            stopped.set()
            writer.join()
        for report in reports:
            assert (report.not_aligned, report.verdict, faults(report)) == ("", Verdict.MATCH, {}), report.reasons
            assert report.aligned and (source != "mariadb" or report.aligned.way == BY_SERVER) and not report.resumable
            topic, rows = report.topics["target"], report.comparison.rows if report.comparison else {}
            assert topic.rows > 50 and rows == {"source": topic.rows, "target": topic.rows}
        assert next(written) > 20 and reports[0].aligned != reports[1].aligned
        log.run(f"REPLACE INTO {TABLE} VALUES (60, 'in the log')")
        road.publish()
        log.run("SET sql_log_bin = 0", f"UPDATE {TABLE} SET item = 'not in the log' WHERE id = 60")
        with road.publishing():
            report = road.audit()
        assert (report.not_aligned, report.verdict, found(report)) == ("", Verdict.MISMATCH, {"changed": ["60"]})
    finally:
        road.close()
