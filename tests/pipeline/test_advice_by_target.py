"""What `segments copy` and `pipeline failover` advise is done, and then every kind of target holds the source's rows."""

from __future__ import annotations

import shlex
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from auditor import config
from auditor.cli import main
from auditor.errors import FailoverRefused
from auditor.model import Verdict
from auditor.pipeline.refresh.carrier import Carrier
from auditor.pipeline.segments.registering import registrations_of
from auditor.pipeline.segments.writer import open_writer
from auditor.service import failovers, segment_audits
from auditor.store import pipelines
from tests.binlog import LiveLog
from tests.live import Engines, LiveEngine
from tests.pipeline.conftest import AND_LAKES, opened_url
from tests.pipeline.live_road import LiveRoad
from tests.pipeline.road import PIPELINE
from tests.servers.process import open_directory
from tests.servers.replicas import replicate, start

pytestmark = [pytest.mark.mariadb, pytest.mark.alone]
TABLE = "advised"


class WrongRoad(LiveRoad):
    """A pipeline that decodes one event wrongly."""

    def read(self, reader: Any, part: Any) -> list[pa.RecordBatch]:
        """Return the events, one of them with another value."""
        return [
            pa.RecordBatch.from_pylist([_wrong(row) for row in batch.to_pylist()], schema=batch.schema)
            for batch in super().read(reader, part)
        ]


def _wrong(row: dict[str, Any]) -> dict[str, Any]:
    return {**row, "after": ["33", "WRONG"]} if row["kind"] == "insert" and row["after"][0] == "33" else row


@dataclass(frozen=True)
class Pair:
    """A source and its replica."""

    source: LiveLog
    replica: LiveLog

    def replicate_on(self) -> None:
        """Let the replica have all that the source has."""
        self.replica.run("START SLAVE")
        deadline, at = time.monotonic() + 60, self.source.run("SELECT @@gtid_binlog_pos")[0][0]
        while self.replica.run(f"SELECT MASTER_GTID_WAIT('{at}', 1)") != [(0,)]:
            assert time.monotonic() < deadline, "the replica does not arrive"


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    folder = open_directory()
    servers = [start("mariadb", number, folder) for number in (1, 2)]
    found = Pair(*(LiveLog(one.url) for one in servers))
    found.replica.run("SET GLOBAL slave_exec_mode = 'IDEMPOTENT'")  # tests write there as well
    replicate(found.source, found.replica)
    yield found
    for server in servers:
        server.stop()
    folder.rmdir()


@pytest.fixture
def into(request: pytest.FixtureRequest, tmp_path: Path, engines: Engines, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The URL of a target."""
    with opened_url(engines.live(request.param), tmp_path, engines, monkeypatch) as url:
        yield url


def open_road(kind: type[LiveRoad], folder: Path, pair: Pair, into: str) -> LiveRoad:
    """A pipeline of a table from the source into a target, an audit of it, a segment audit, and a connection to the replica."""
    pair.source.run(f"DROP TABLE IF EXISTS {TABLE}", f"CREATE TABLE {TABLE} (id int PRIMARY KEY, item varchar(40))", "FLUSH BINARY LOGS")
    pair.replicate_on()
    audit = f"{{sides: {{source: {{connection: source, table: {TABLE}}}, target: {{connection: warehouse, table: advice.{TABLE}}}}}}}"
    road = kind(folder, LiveEngine("mariadb", "mysql", pair.source.url), TABLE, into=into, schema="advice", audits=audit)
    road.drop()
    replica = f'  replica: {{url: "{pair.replica.url}", write: {{url: "{pair.replica.url}"}}}}\n'
    text = road.config_file.read_text().replace("  warehouse:", f"{replica}  warehouse:").replace("rows: 100", "rows: 10")
    road.config_file.write_text(f"{text}segments:\n  log: {{pipelines: [{PIPELINE}]}}\n")
    reload(road)
    return road


def reload(road: LiveRoad) -> None:
    """Read the configuration anew, as the next command does."""
    road.settings = config.load(road.config_file)
    road.pipeline = road.settings.pipeline(PIPELINE)


def follow(road: LiveRoad, command: str) -> None:
    """Do what a command says, and what the pipeline then does."""
    assert main([*shlex.split(command)[1:], "--config", str(road.config_file)]) in (0, 1), command
    if " refresh " in command:
        Carrier(road.settings, road.store, PIPELINE, threading.Event()).carry_out()
        road.merge()


def fill(log: LiveLog, keys: range) -> None:
    log.run(*(f"INSERT INTO {TABLE} VALUES ({key}, 'item {key}')" for key in keys))


def rows_of(log: LiveLog) -> list[tuple[Any, ...]]:
    return log.run(f"SELECT * FROM {TABLE} ORDER BY id")


@pytest.mark.quick_for("refresh-delta", "patch-duckdb")
@pytest.mark.parametrize("into", AND_LAKES, indirect=True)
@pytest.mark.parametrize("way", ["refresh", "patch"])
@pytest.mark.few
def test_a_target_of_wrong_segments_is_mended_as_their_copy_says(
    pair: Pair, into: str, way: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with closing(open_road(WrongRoad, tmp_path, pair, into)) as road:
        fill(pair.source, range(1, 60))
        road.merge()
        writer = open_writer(road.store, PIPELINE, road.pipeline, registrations_of(road.settings, PIPELINE))
        while writer.step():
            pass
        assert segment_audits.run(road.settings, road.store, "log").verdict is Verdict.MISMATCH
        assert (33, "WRONG") in road.rows(TABLE)
        assert main(["segments", "copy", "log", "--from", "anew", "--apply", "--config", str(road.config_file)]) == 0
        *copied, advice = capsys.readouterr().out.splitlines()
        assert len(copied) >= 1 and segment_audits.run(road.settings, road.store, "log").verdict is Verdict.MATCH
        refreshed = f"auditor pipeline refresh {PIPELINE} --table {TABLE} --apply"
        assert advice == (
            f"target wh holds {road.database}.{TABLE} as it was staged: auditor run sides, then auditor patch sides --apply; or {refreshed}"
        )
        for command in ("auditor run sides", "auditor patch sides --apply") if way == "patch" else (refreshed,):
            follow(road, command)
        assert road.rows(TABLE) == rows_of(pair.source)
        assert main(["run", "sides", "--config", str(road.config_file)]) == 0
        road.drop()


@pytest.mark.quick_for("duckdb")
@pytest.mark.parametrize("into", AND_LAKES, indirect=True)
def test_a_target_goes_on_from_a_replica_and_a_gap_is_mended_as_it_says(pair: Pair, into: str, tmp_path: Path) -> None:
    """The pipeline has read rows that the replica never got: they leave the target with the refresh that the refusal names."""
    with closing(open_road(LiveRoad, tmp_path, pair, into)) as road:
        fill(pair.source, range(1, 20))
        pair.replicate_on()
        road.merge()
        pair.replica.run("STOP SLAVE")
        pair.source.run(f"INSERT INTO {TABLE} VALUES (20, 'never replicated')", f"UPDATE {TABLE} SET item = 'x' WHERE id = 3")
        road.merge()
        assert len(road.rows(TABLE)) == 20

        def fail_over(accept_gap: bool) -> failovers.FailedOver:
            return failovers.fail_over(
                road.settings, road.config_file, road.store, PIPELINE, "replica", accept_gap=accept_gap, dry_run=False, by="ada"
            )

        with pytest.raises(
            FailoverRefused, match=r"fail over with --accept-gap --apply, start the pipeline, and then run: auditor pipeline refresh"
        ):
            fail_over(False)
        done = fail_over(True)
        reload(road)
        assert road.pipeline.source_name == "replica"
        fill(pair.replica, range(30, 35))
        road.merge()
        assert road.rows(TABLE) != rows_of(pair.replica), "what the replica lacks is still there"
        for command in done.mend.split("; "):
            follow(road, command)
        assert road.rows(TABLE) == rows_of(pair.replica) and len(rows_of(pair.replica)) == 24
        pair.replica.run(f"DELETE FROM {TABLE} WHERE id < 10", f"UPDATE {TABLE} SET item = 'later' WHERE id = 31")
        road.merge()
        assert road.rows(TABLE) == rows_of(pair.replica)
        assert pipelines.get_pipeline(road.store, PIPELINE).source_offset["epoch"] == 1
        road.drop()
