"""A failover to a replica that lacks transactions ends live summaries with a sentence; one that lacks none lets them go on."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from auditor import config
from auditor.errors import FailoverRefused
from auditor.service import failovers
from auditor.store import live_epochs
from tests.binlog import LiveLog
from tests.live import LiveEngine
from tests.pipeline.live_summing import LAYOUTS, SummingRoad, statements
from tests.pipeline.road import PIPELINE
from tests.servers.process import open_directory
from tests.servers.replicas import is_mysql, kill, replicate, start

pytestmark = [pytest.mark.slow]
TABLE, KEYS = "summed", 100


@pytest.fixture(params=[pytest.param("mariadb", marks=pytest.mark.mariadb), pytest.param("mysql", marks=pytest.mark.mysql)])
def servers(request: pytest.FixtureRequest) -> Iterator[tuple[LiveLog, LiveLog]]:
    """A source and its replica."""
    folder = open_directory()
    first, second = start(request.param, 1, folder), start(request.param, 2, folder)
    source, replica = LiveLog(first.url), LiveLog(second.url)
    replicate(source, replica)
    yield source, replica
    for server in (first, second):
        server.stop()
    folder.rmdir()


def write(log: LiveLog, seed: int) -> None:
    log.run(*(one for transaction in statements(TABLE, KEYS, seed, 20) for one in transaction))


def caught_up(replica: LiveLog, source: LiveLog) -> None:
    deadline, rows = time.monotonic() + 60, f"SELECT * FROM {TABLE} ORDER BY id"
    while not replica.run(f"SHOW TABLES LIKE '{TABLE}'") or replica.run(rows) != source.run(rows):
        assert time.monotonic() < deadline, "the replica does not arrive"
        time.sleep(0.05)


def fail_over(road: SummingRoad, to: str, accept_gap: bool = False) -> failovers.FailedOver:
    """Let the road's pipeline go on from another connection."""
    found = failovers.fail_over(road.settings, road.config_file, road.store, PIPELINE, to, accept_gap=accept_gap, dry_run=False, by="me")
    road.settings = config.load(road.config_file)
    road.pipeline = road.settings.pipeline(PIPELINE)
    return found


def test_a_gap_ends_the_sums_and_none_does_not(servers: tuple[LiveLog, LiveLog], tmp_path: Path) -> None:
    source, replica = servers
    with closing(SummingRoad(tmp_path, LiveEngine("source", "mysql", source.url), TABLE)) as road:
        connections = f'connections:\n  other: {{url: "{replica.url}", write: {{url: "{replica.url}"}}}}\n'
        road.config_file.write_text(road.config_file.read_text().replace("connections:\n", connections, 1))
        road.settings = config.load(road.config_file)
        road.create(KEYS)
        [epoch] = road.begin(LAYOUTS[:1])
        write(source, 1)
        road.merge()
        assert road.check() > 4

        caught_up(replica, source)
        replica.run("STOP REPLICA" if is_mysql(source) else "STOP SLAVE")
        write(source, 2)
        road.merge()
        assert road.check() > 4, "the source has what the replica lacks, and so have the sums"
        kill(source)
        with pytest.raises(FailoverRefused, match=r"transaction \S+, which was read last"):
            fail_over(road, "other")
        kept = live_epochs.get_epoch(road.store, epoch.id)
        assert kept and kept.state == "kept", "what is refused ends nothing"
        found = fail_over(road, "other", accept_gap=True)
        ended = live_epochs.get_epoch(road.store, epoch.id)
        assert ended and ended.state == "ended" and len(found.gaps) == 1
        assert ended.reason == f"the pipeline failed over with a gap: {found.gaps[0]}" and "is missing in the log" in ended.reason

        road.log = replica
        write(replica, 3)
        road.merge()
        assert road.check() == 0, "no sums go on across the gap"


def test_a_failover_without_a_gap_lets_the_sums_go_on(servers: tuple[LiveLog, LiveLog], tmp_path: Path) -> None:
    source, replica = servers
    with closing(SummingRoad(tmp_path, LiveEngine("source", "mysql", source.url), TABLE)) as road:
        connections = f'connections:\n  other: {{url: "{replica.url}", write: {{url: "{replica.url}"}}}}\n'
        road.config_file.write_text(road.config_file.read_text().replace("connections:\n", connections, 1))
        road.settings = config.load(road.config_file)
        road.create(KEYS)
        road.begin(LAYOUTS[:1])
        write(source, 1)
        road.merge()
        write(source, 2)  # left to be read from the replica
        caught_up(replica, source)
        kill(source)
        assert fail_over(road, "other").gaps == ()
        road.log = replica
        write(replica, 3)
        road.merge()
        road.settings.connections["source"] = road.settings.connections["other"]  # the scan with which the sums are compared
        assert road.check() > 4 and road.reasons() == set()
