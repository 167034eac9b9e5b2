"""Whatever is killed, and whenever, each target ends up with what the source holds, and every event is applied once.

It takes long, and runs with ``--chaos`` alone: ``make chaos``, or ``make chaos CHAOS='--chaos-events 50000 --chaos-kills 26'``.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.chaos import EXPECTED_ENDS, VICTIMS, Chaos, choose_kills
from tests.chaos.targets import open_targets
from tests.chaos.writer import Writer
from tests.live import Engines
from tests.servers.killable import killable

pytestmark = pytest.mark.chaos


@pytest.fixture
def chaos(request: pytest.FixtureRequest, tmp_path: Path, engines: Engines, monkeypatch: pytest.MonkeyPatch) -> Iterator[Chaos]:
    names = request.config.getoption("--chaos-targets").split(",")
    with killable(request.param, "--sync-binlog=1") as source, open_targets(names, tmp_path, engines, monkeypatch) as targets:
        seed = request.config.getoption("--chaos-seed")
        made = Chaos(tmp_path, Writer(source.url, seed), source, targets, seed)
        try:
            yield made
        finally:
            made.close()


@pytest.mark.parametrize("chaos", ["mysql", "mariadb"], indirect=True)
def test_every_event_arrives_once_whatever_is_killed(chaos: Chaos, request: pytest.FixtureRequest) -> None:
    events, count = request.config.getoption("--chaos-events"), request.config.getoption("--chaos-kills")
    began = time.monotonic()
    chaos.begin()
    kills = choose_kills(count, chaos.targets, chaos.random)
    for number, what in enumerate(kills, 1):
        (chaos.kill_one if what in VICTIMS else chaos.kill_at)(what, events // len(kills))
        chaos.go_on()
        print(f"{time.monotonic() - began:6.0f} s: kill {number} of {len(kills)}: {what}; {chaos.writer.events:,} events", flush=True)
    if (missing := events - chaos.writer.events) > 0:
        chaos.writer.write(missing)
    chaos.writer.beat()
    chaos.wait_for_end("the end")
    assert chaos.application.terminate() == 0, chaos.application.tail()
    found = chaos.check_ledger()
    chaos.check_tables()
    assert found >= events and chaos.kills == Counter(kills) and set(chaos.application.ends) <= EXPECTED_ENDS, chaos.application.ends
    total, ends = sum(chaos.kills.values()), dict(chaos.application.ends)
    print(f"{time.monotonic() - began:6.0f} s: {found:,} events, {total} kills, ends of the driver by code {ends}")
