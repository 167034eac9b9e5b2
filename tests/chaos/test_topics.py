"""Whatever is killed, and whenever, topics have each change of the source once, in the order of its key.

It runs with ``--chaos`` alone: ``make chaos``, or ``pytest --chaos tests/chaos/test_topics.py --chaos-events 20000 --chaos-kills 8``.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.topics import VICTIMS, ManyTables, TopicChaos
from tests.servers import kafka
from tests.servers.killable import killable
from tests.servers.process import Unavailable

pytestmark = [pytest.mark.chaos, pytest.mark.kafka]

TABLES = 20
ROWS_OF_TRANSACTION = 250
"""About how many rows a transaction changes."""


@pytest.fixture
def chaos(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[TopicChaos]:
    try:
        broker = kafka.start_private(tmp_path)
    except Unavailable as error:
        pytest.skip(str(error))
    seed = request.config.getoption("--chaos-seed")
    try:
        with killable("mysql", "--sync-binlog=1") as source:
            made = TopicChaos(tmp_path, ManyTables(source.url, seed, TABLES), source, broker, seed)
            try:
                yield made
            finally:
                made.close()
    finally:
        broker.stop()


def test_every_change_is_in_the_topics_once_whatever_is_killed(chaos: TopicChaos, request: pytest.FixtureRequest) -> None:
    events, count = request.config.getoption("--chaos-events"), request.config.getoption("--chaos-kills")
    began = time.monotonic()
    chaos.writer.spread(events // ROWS_OF_TRANSACTION)
    chaos.begin()
    kills = chaos.choose_kills(count)
    for number, what in enumerate(kills, 1):
        (chaos.kill_one if what in VICTIMS else chaos.kill_at)(what, events // len(kills))
        chaos.go_on()
        print(f"{time.monotonic() - began:6.0f} s: kill {number} of {len(kills)}: {what}; {chaos.writer.events:,} events", flush=True)
    if (missing := events - chaos.writer.events) > 0:
        chaos.writer.write(missing)
    chaos.writer.touch()
    print(f"{time.monotonic() - began:6.0f} s: {chaos.writer.events:,} events are written", flush=True)
    chaos.wait_for_end()
    print(f"{time.monotonic() - began:6.0f} s: and published", flush=True)
    assert chaos.application.terminate() == 0, chaos.application.tail()
    messages = chaos.check()
    assert messages >= events and chaos.kills == Counter(kills)
    print(f"{time.monotonic() - began:6.0f} s: {chaos.writer.events:,} events, {messages:,} messages, {chaos.kills.total()} kills")
