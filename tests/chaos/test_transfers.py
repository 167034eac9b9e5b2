"""No reader of a target ever sees a transaction of the source in half, whatever is killed meanwhile, and over however many tables.

At the same time a table is stopped and let go, tables are altered, audits hold targets, and a target is added. It runs with ``--chaos``
alone: ``make chaos``, or ``pytest --chaos tests/chaos/test_transfers.py --chaos-events 20000 --chaos-tables 20``.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path

import pytest

import dialects
from tests.chaos.chaos import EXPECTED_ENDS, VICTIMS, Chaos, choose_kills
from tests.chaos.disturbances import HELD, Holds, LateTarget, Poison, alterations, follow_alterations
from tests.chaos.targets import SCHEMA, open_targets
from tests.chaos.transfers import Reader, Transfers, balances
from tests.live import Engines
from tests.servers.killable import killable

pytestmark = pytest.mark.chaos

EVERY = 0.05
"""Seconds between two questions of a reader."""

EVERY_FILE = 1.0
"""The same where an open file keeps the pipeline off it."""

LEAST_ANSWERS = 20
"""Answers that each reader has at least."""


@pytest.fixture
def chaos(request: pytest.FixtureRequest, tmp_path: Path, engines: Engines, monkeypatch: pytest.MonkeyPatch) -> Iterator[Chaos]:
    names = request.config.getoption("--chaos-targets").split(",")
    seed, tables = request.config.getoption("--chaos-seed"), request.config.getoption("--chaos-tables")
    with killable(request.param, "--sync-binlog=1") as source, open_targets(names, tmp_path, engines, monkeypatch) as targets:
        made = Chaos(tmp_path, Transfers(source.url, seed, tables), source, targets, seed, keep="7d", held=HELD)
        try:
            yield made
        finally:
            made.close()


class Readers:
    """A reader of each target, which is stopped at the end of the block."""

    def __init__(self, chaos: Chaos, running: ExitStack) -> None:
        self.of_target: dict[str, Reader] = {}
        self._chaos, self._running = chaos, running

    def start(self, target: str) -> None:
        """Ask a target for the sum of all its accounts from now on, in one statement each time."""
        every = EVERY_FILE if self._chaos.targets[target].dialect.OPENS_FILES else EVERY
        self.of_target[target] = Reader(partial(self._ask, target), every)
        self.of_target[target].start()
        self._running.callback(self.of_target[target].stop)

    def _ask(self, target: str) -> object:
        writer = self._chaos.writer
        assert isinstance(writer, Transfers)
        with closing(dialects.connect(self._chaos.targets[target].url)) as session:
            return session.query(writer.sum_of(session.dialect, SCHEMA))[0][0]


@pytest.mark.parametrize("chaos", ["mysql", "mariadb"], indirect=True)
def test_no_transfer_is_seen_in_half(chaos: Chaos, request: pytest.FixtureRequest) -> None:
    events, count = request.config.getoption("--chaos-events"), request.config.getoption("--chaos-kills")
    writer, began = chaos.writer, time.monotonic()
    assert isinstance(writer, Transfers)
    altered = alterations(writer.accounts) if follow_alterations(chaos) else []
    chaos.begin()
    writer.fund()
    chaos.wait_for_end("the accounts")
    writer.alter(altered, events)
    kills = choose_kills(count, chaos.targets, chaos.random)
    with ExitStack() as running:
        readers = Readers(chaos, running)
        poison, holds, late = Poison(chaos), Holds(chaos), LateTarget(chaos, readers.start)
        schedule = [
            (count // 4, poison.stop_table),
            (count // 2, late.add),
            (count * 3 // 4, late.wait_until_filled),
            (count * 3 // 4, poison.let_table_go),
        ]
        for name in chaos.targets:
            readers.start(name)
        holds.start()
        running.callback(holds.stop)
        for number, what in enumerate(kills):
            for disturb in (disturb for when, disturb in schedule if when == number):
                disturb()
                print(f"{time.monotonic() - began:6.0f} s: {disturb.__qualname__}", flush=True)
            (chaos.kill_one if what in VICTIMS else chaos.kill_at)(what, events // len(kills))
            chaos.go_on()
            print(f"{time.monotonic() - began:6.0f} s: kill {number + 1} of {len(kills)}: {what}; {writer.events:,} events", flush=True)
        if (missing := events - writer.events) > 0:
            writer.write(missing)
        holds.finish()
        writer.beat()
        chaos.wait_for_end("the end")
    assert chaos.application.terminate() == 0, chaos.application.tail()
    for name, reader in readers.of_target.items():
        print(f"{name}: {dict(reader.answers)}, {reader.unanswered:,} times no answer")
        assert set(reader.answers) == {writer.total}, (name, reader.answers)
        assert reader.answers[writer.total] > LEAST_ANSWERS, name
    assert readers.of_target.keys() == chaos.targets.keys()
    assert writer.altered == len(altered)
    chaos.check_ledger()
    chaos.check_tables()
    for name, target in chaos.targets.items():
        table = target.dialect.names.table
        held = balances(writer, chaos.query(name, f"SELECT source, target, amount FROM {table(SCHEMA, 'ledger')}"))
        sums = {one: int(chaos.query(name, f"SELECT SUM(amount) FROM {table(SCHEMA, one)}")[0][0]) for one in writer.accounts}
        assert sums == held, name
    assert set(chaos.application.ends) <= EXPECTED_ENDS, chaos.application.ends
    print(f"{time.monotonic() - began:6.0f} s: {writer.events:,} events, {len(kills)} kills, {writer.altered} statements on tables")
