"""No reader of a target ever sees a transaction of the source in half, whatever is killed meanwhile, and over however many tables.

It runs with ``--chaos`` alone: ``make chaos``, or ``pytest --chaos tests/chaos/test_transfers.py --chaos-events 20000 --chaos-tables 20``.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import pytest

import dialects
from tests.chaos.chaos import EXPECTED_ENDS, VICTIMS, Chaos, choose_kills
from tests.chaos.targets import SCHEMA, open_targets
from tests.chaos.transfers import Reader, Transfers, balances
from tests.live import Engines
from tests.servers.killable import killable

pytestmark = pytest.mark.chaos

EVERY = 0.05
"""Seconds between two questions of a reader."""

EVERY_FILE = 1.0
"""The same where an open file keeps the pipeline off it."""


@pytest.fixture
def chaos(request: pytest.FixtureRequest, tmp_path: Path, engines: Engines, monkeypatch: pytest.MonkeyPatch) -> Iterator[Chaos]:
    names = request.config.getoption("--chaos-targets").split(",")
    seed, tables = request.config.getoption("--chaos-seed"), request.config.getoption("--chaos-tables")
    with killable(request.param, "--sync-binlog=1") as source, open_targets(names, tmp_path, engines, monkeypatch) as targets:
        made = Chaos(tmp_path, Transfers(source.url, seed, tables), source, targets, seed)
        try:
            yield made
        finally:
            made.close()


def ask(chaos: Chaos, target: str) -> object:
    """Return the sum of all accounts in a target, asked for in one statement."""
    writer, url = chaos.writer, chaos.targets[target].url
    assert isinstance(writer, Transfers)
    with closing(dialects.connect(url)) as session:
        return session.query(writer.sum_of(session.dialect, SCHEMA))[0][0]


@pytest.mark.parametrize("chaos", ["mysql", "mariadb"], indirect=True)
def test_no_transfer_is_seen_in_half(chaos: Chaos, request: pytest.FixtureRequest) -> None:
    events, count = request.config.getoption("--chaos-events"), request.config.getoption("--chaos-kills")
    writer, began = chaos.writer, time.monotonic()
    assert isinstance(writer, Transfers)
    chaos.begin()
    writer.fund()
    chaos.wait_for_end("the accounts")
    readers = {name: Reader(partial(ask, chaos, name), EVERY_FILE if name == "duck" else EVERY) for name in chaos.targets}
    kills = choose_kills(count, chaos.targets, chaos.random)
    with ExitStack() as running:
        for reader in readers.values():
            reader.start()
            running.callback(reader.stop)
        for number, what in enumerate(kills, 1):
            (chaos.kill_one if what in VICTIMS else chaos.kill_at)(what, events // len(kills))
            chaos.go_on()
            print(f"{time.monotonic() - began:6.0f} s: kill {number} of {len(kills)}: {what}; {writer.events:,} events", flush=True)
        if (missing := events - writer.events) > 0:
            writer.write(missing)
        writer.beat()
        chaos.wait_for_end("the end")
    assert chaos.application.terminate() == 0, chaos.application.tail()
    for name, reader in readers.items():
        print(f"{name}: {dict(reader.answers)}, {reader.unanswered:,} times no answer")
        assert set(reader.answers) == {writer.total}, (name, reader.answers)
        assert reader.answers[writer.total] > 100, name
    chaos.check_ledger()
    chaos.check_tables()
    for name, target in chaos.targets.items():
        table = dialects.by_scheme(urlsplit(target.url).scheme).names.table
        held = balances(writer, chaos.query(name, f"SELECT source, target, amount FROM {table(SCHEMA, 'ledger')}"))
        sums = {one: int(chaos.query(name, f"SELECT SUM(amount) FROM {table(SCHEMA, one)}")[0][0]) for one in writer.accounts}
        assert sums == held, name
    assert set(chaos.application.ends) <= EXPECTED_ENDS, chaos.application.ends
