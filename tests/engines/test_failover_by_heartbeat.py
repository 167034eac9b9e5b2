"""Without global ids a pipeline goes on from a replica by the last heartbeat, and is refused where the replica lacks what was read."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from auditor import config
from auditor.errors import FailoverRefused
from auditor.pipeline import heartbeat
from auditor.pipeline.binlog.selection import Selection
from auditor.pipeline.failover import find_failover
from auditor.pipeline.source import EVENT_TYPE, MySQLBinlog
from auditor.service import failovers
from auditor.store import Store, open_store, parts, pipelines
from tests.binlog import LiveLog
from tests.servers.process import open_directory
from tests.servers.replicas import PIPELINE, TABLE, Reader, is_mysql, kill, replicate, rows_of, start, status_of, write


@pytest.fixture(params=[pytest.param(engine, marks=[getattr(pytest.mark, engine), pytest.mark.slow]) for engine in ("mariadb", "mysql")])
def servers(request: pytest.FixtureRequest) -> Iterator[tuple[LiveLog, LiveLog]]:
    """A source and a replica of it by file and position; MySQL's write no global ids."""
    folder = open_directory()
    first, second = (start(request.param, number, folder, ids=["--gtid-mode=OFF"]) for number in (1, 2))
    source, replica = LiveLog(first.url), LiveLog(second.url)
    source.run(TABLE)
    replicate(source, replica, by_ids=False)
    yield source, replica
    for server in (first, second):
        server.stop()
    folder.rmdir()


@contextmanager
def load(source: LiveLog, settings: config.Settings) -> Iterator[None]:
    """Write heartbeats and rows, until the block or the server ends."""
    stop, chance = threading.Event(), random.Random(5)

    def rows() -> None:
        while not stop.is_set():
            try:
                write(source, chance, 5)
            except Exception:  # the server was killed, in whatever state the connection was
                return

    beats = partial(heartbeat.run, settings, "old", 0.5, stop)
    threads = [threading.Thread(target=rows, daemon=True), threading.Thread(target=beats, daemon=True)]
    for thread in threads:
        thread.start()
    yield
    stop.set()
    for thread in threads:
        thread.join(60)


def applied(replica: LiveLog) -> None:
    """Wait until the replica has applied all that it received."""
    names = ("Read_Source_Log_Pos", "Exec_Source_Log_Pos") if is_mysql(replica) else ("Read_Master_Log_Pos", "Exec_Master_Log_Pos")
    deadline = time.monotonic() + 120
    while True:
        status = status_of(replica)
        if status[names[0]] == status[names[1]]:
            return
        assert time.monotonic() < deadline, "the replica does not apply what it received"
        time.sleep(0.05)


def wait_for_beat(source: LiveLog, replica: LiveLog) -> None:
    """Wait until the source has a heartbeat that the replica lacks."""
    deadline, last = time.monotonic() + 120, "SELECT serial FROM auditor_heartbeat"
    while source.run(last) == replica.run(last):
        assert time.monotonic() < deadline, "no heartbeat is written"
        time.sleep(0.1)


def until_heartbeat(reader: Reader, transactions: int = 0) -> dict[str, Any]:
    """Read small batches until the last heartbeat is followed by so many transactions at least, and return the offset."""
    deadline = time.monotonic() + 120
    while True:
        reader.read(max_bytes=1_000)
        offset: dict[str, Any] = pipelines.get_pipeline(reader.store, PIPELINE).source_offset
        if offset.get("heartbeat", {}).get("transactions", -1) >= transactions:
            return offset
        assert time.monotonic() < deadline, "no heartbeat is read"


def test_a_pipeline_goes_on_behind_a_heartbeat(servers: tuple[LiveLog, LiveLog], tmp_path: Path) -> None:
    source, replica = servers
    write.ids = 0  # type: ignore[attr-defined]
    path = tmp_path / "auditor.yaml"
    path.write_text(
        f"""\
connections:
  old: {{url: "{source.url}", write: {{url: "{source.url}"}}}}
  new: {{url: "{replica.url}"}}
  duck: {{url: "duckdb:///{tmp_path}/d.duckdb", write: {{url: "duckdb:///{tmp_path}/d.duckdb"}}}}
audits: {{}}
pipelines:
  shop:
    source: {{connection: old, tables: [orders]}}
    staging: {{path: "{tmp_path}/staging"}}
    targets: {{duck: {{connection: duck, schema: main}}}}
"""
    )
    settings = config.load(path)
    with closing(open_store(f"sqlite:///{tmp_path}/store.db")) as store:
        reader = Reader(path, store)
        options = {"config": str(path), "connection": "old", "tables": "orders", "start": str(source.end())}
        begin: Any = MySQLBinlog(options).streamReader(EVENT_TYPE)
        parts.record_batch(store, PIPELINE, [], {}, begin.initialOffset())
        with load(source, settings):
            until_heartbeat(reader)
            replica.run("STOP REPLICA IO_THREAD" if is_mysql(source) else "STOP SLAVE IO_THREAD")
            applied(replica)
            wait_for_beat(source, replica)
            reader.read()
            without_ids(store)
            with pytest.raises(
                FailoverRefused, match=r"heartbeat \d+ of audit .+ is missing in the log: .+ run: auditor pipeline refresh shop --apply$"
            ):
                fail_over(settings, path, store)
            replica.run("START REPLICA" if is_mysql(source) else "START SLAVE")
            offset = until_heartbeat(reader, transactions=1)
            wait_for(replica, offset, settings)
            kill(source)
        applied(replica)
        offset = without_ids(store)
        check_gaps(offset, replica)
        assert reader.rows != rows_of(replica), "something is left to be read from the replica"
        found = fail_over(settings, path, store)
        assert found.gaps == () and found.behind.startswith(f"heartbeat {offset['heartbeat']['serial']} of audit (")
        write(replica, random.Random(6), 20)
        reader.read()
        assert reader.rows == rows_of(replica)
        assert set(reader.inserted.values()) == {1}, "each insert was read once"
        assert reader.positions == sorted(reader.positions), "positions keep growing"
        after = pipelines.get_pipeline(store, PIPELINE).source_offset
        assert after["epoch"] == 1 and after["left"] == {"0": [offset["server"], offset["file"], offset["position"]]}


def check_gaps(offset: dict[str, Any], replica: LiveLog) -> None:
    """Check the messages for offsets that the replica's log does not contain."""
    trail = offset["heartbeat"]
    selection = Selection(["orders"], "audit")
    other = find_failover(offset | {"heartbeat": trail | {"digest": trail["digest"] ^ 1}}, replica.source, selection)
    assert len(other.gaps) == 1 and other.gaps[0].endswith("the log has others, or has them in another order; all tables may differ")
    assert other.behind.startswith("heartbeat") and other.tables == ()
    longer = find_failover(offset | {"heartbeat": trail | {"transactions": 1_000_000}}, replica.source, selection)
    assert "of 1,000,000 transactions that were read after heartbeat" in longer.gaps[0]
    found = find_failover(offset, replica.source, selection)
    replica.run("CREATE TABLE elsewhere (id int PRIMARY KEY)", "INSERT INTO elsewhere VALUES (1)")
    assert not find_failover(offset, replica.source, Selection(["*"], "audit")).gaps, "its own rows stand behind the place"
    if not is_mysql(replica):  # which has global ids although it replicates by file and position: both ways lead to one place
        assert found.gaps == ()


def wait_for(replica: LiveLog, offset: dict[str, Any], settings: config.Settings) -> None:
    """Wait until the replica has what was read up to an offset."""
    deadline = time.monotonic() + 120
    selection = Selection(["orders"], "audit")
    while find_failover(offset | {"gtid": ""}, replica.source, selection).gaps:
        assert time.monotonic() < deadline, "the replica does not arrive"
        time.sleep(0.2)


def without_ids(store: Store) -> dict[str, Any]:
    """Forget the global id that MariaDB always writes, and return the offset."""
    offset: dict[str, Any] = pipelines.get_pipeline(store, PIPELINE).source_offset | {"gtid": ""}
    parts.record_batch(store, PIPELINE, [], {}, offset)
    return offset


def fail_over(settings: config.Settings, path: Path, store: Store) -> failovers.FailedOver:
    return failovers.fail_over(settings, path, store, PIPELINE, "new", accept_gap=False, dry_run=False, by="me")
