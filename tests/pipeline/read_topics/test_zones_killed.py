"""Two zones of topics whose processes are killed, and whose common store is killed, stopped and restored, make the same files."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from auditor.model import Verdict
from tests.pipeline.read_topics.test_segments_of_topics import COLUMNS, send
from tests.pipeline.read_topics.topics import Topics, plain
from tests.pipeline.read_topics.zones import EAST, WEST, Zones, configure
from tests.servers.killable import Killable, killable

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

ROOT = Path(__file__).parents[3]
KILLS = 12
"""Kills of each zone's process."""

LOST = {WEST: "1005,2022,2023", EAST: "-"}
"""Rows that a zone loses; both have others in common."""


@contextmanager
def zone_process(config_file: Path, name: str) -> Iterator[subprocess.Popen[bytes]]:
    """The process of a zone, killed at the end of the block unless it has ended."""
    command = [
        sys.executable,
        "-m",
        "tests.pipeline.read_topics.zones",
        str(config_file),
        name,
        str(config_file.parent / "until"),
        LOST[name],
    ]
    log = (config_file.parent / f"{name}.log").open("ab")
    with log as said, subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=said) as process:
        try:
            yield process
        finally:
            process.kill()


def await_both(*processes: subprocess.Popen[bytes]) -> None:
    """Wait until both have begun to read."""
    for process in processes:
        assert process.stdout and process.stdout.readline() == b"begins\n"


def finish(config_file: Path) -> None:
    """Let both zones come to the end of the topic."""
    (config_file.parent / "until").touch()
    for name in (EAST, WEST):
        with zone_process(config_file, name) as process:
            assert process.wait(120) == 0, (config_file.parent / f"{name}.log").read_text()
    (config_file.parent / "until").unlink()


def check(config_file: Path, rows: int) -> None:
    """Check that what west lost is all that differs, and named."""
    zones = Zones(config_file)
    try:
        report = zones.run()
        assert report.verdict is Verdict.MISMATCH
        found = [reason for reason in report.reasons if reason.startswith("shop.orders partition")]
        expected = {int(one): (int(one) % 4, int(one) // 4, f"t{int(one) % 7}") for one in LOST[WEST].split(",")}
        values = Counter(value for reason in found for value in reason.partition("; by tenant_id: ")[2].split("; "))
        assert values == Counter(f"'{tenant}': west lacks 1 event" for _, _, tenant in expected.values()), report.reasons
        for partition, offset, _ in expected.values():
            assert any(
                reason.startswith(f"shop.orders partition {partition}, offset ")
                and int(reason.split(" offset ")[1].split()[0]) <= offset <= int(reason.split(" offset ")[2].split(":")[0])
                for reason in found
            ), (partition, offset, found)
        east, west = zones.east.files(), zones.west.files()
        assert east.keys() == west.keys()
        assert sum(east[path] != west[path] for path in east) == len(found)
        listed = sum(one.rows for number in range(4) for one in zones.east.listed(f"shop.orders partition {number}"))
        assert rows - 4 * 60 < listed < rows
        assert not any(one.problems for one in zones.verify())
        print(f"{len(east)} segments with {listed} events; {found}")
    finally:
        zones.close()


@pytest.fixture
def server() -> Iterator[Killable]:
    with killable("postgres") as made:
        yield made


def test_zones_killed_at_random(topics: Topics, tmp_path: Path, server: Killable) -> None:
    """The processes of both, and the server of their store."""
    chance = random.Random(11)
    topic = topics.make("shop.orders", partitions=4, retention_ms="-1")
    source = plain(topics, "shop.orders", **COLUMNS) + "\nmax_messages: 90"
    config_file = configure(tmp_path, topics, source, segment="rows: 40, offsets: 10, age: 30m", store=server.url, by="tenant_id")
    Zones(config_file).close()
    sent, died = 0, Counter[str]()
    for kill in range(KILLS):
        with zone_process(config_file, EAST) as east, zone_process(config_file, WEST) as west:
            await_both(east, west)
            for _ in range(3):
                send(topics, topic, sent, 100)
                sent += 100
                time.sleep(chance.uniform(0, 0.5))
            if kill % 3 == 2:
                server.kill()
                time.sleep(20 if kill == 5 else chance.uniform(0.1, 1))  # longer than its clients try again by themselves
                server.start()
            time.sleep(chance.uniform(0, 1.5))
            died["zones"] += (east.poll() is None) + (west.poll() is None)
    assert died["zones"] == 2 * KILLS, "none ended by itself"
    finish(config_file)
    check(config_file, sent)
    for name in (EAST, WEST):
        assert "store" in (tmp_path / f"{name}.log").read_text(), "it was without its store, and said so"


def test_the_store_is_restored_to_an_earlier_time(topics: Topics, tmp_path: Path, server: Killable) -> None:
    """While both zones run: they notice it, continue from what it says, and cut again what it has forgotten, into the same files."""
    topic = topics.make("shop.orders", partitions=4, retention_ms="-1")
    source = plain(topics, "shop.orders", **COLUMNS) + "\nmax_messages: 90"
    config_file = configure(tmp_path, topics, source, segment="rows: 40, offsets: 10, age: 30m", store=server.url, by="tenant_id")
    Zones(config_file).close()
    send(topics, topic, 0, 1500)
    finish(config_file)
    server.kill()
    saved = tmp_path / "saved"
    subprocess.run(["cp", "-a", str(server.home / "data"), str(saved)], check=True)
    server.start()
    with zone_process(config_file, EAST) as east, zone_process(config_file, WEST) as west:
        await_both(east, west)
        send(topics, topic, 1500, 1200)
        time.sleep(8)
        server.kill()
        shutil.rmtree(server.home / "data")
        subprocess.run(["cp", "-a", str(saved), str(server.home / "data")], check=True)
        server.start()
        send(topics, topic, 2700, 600)
        time.sleep(8)
        assert east.poll() is None and west.poll() is None
    finish(config_file)
    check(config_file, 3300)
    for name in (EAST, WEST):
        assert "the store says that it staged up to messages." in (tmp_path / f"{name}.log").read_text()
