"""A pipeline of one table whose stream keeps the source's summaries by several layouts, and random statements on that table."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np

import dialects
from auditor.history.stored_plan import dump_plan, load_plan
from auditor.model import Chunk, LiveEpoch, Partitioning, Plan
from auditor.pipeline.folders import LocalFolder
from auditor.pipeline.live.published_epochs import publish
from auditor.pipeline.live.stream_sums import StreamSums
from auditor.pipeline.merge.loader import Loader
from auditor.pipeline.refresh.carrier import Carrier
from auditor.points import followed
from auditor.run.live import plans as live_plans
from auditor.service import planning
from auditor.sql import render
from auditor.sql.merge import Positions
from auditor.store import live_epochs, parts, refreshes
from auditor.store.live_epochs import EpochSubject
from auditor.store.refreshes import RefreshScope
from auditor.summary import arrays, codec
from auditor.summary.arrays import Summaries
from tests.binlog import LiveLog
from tests.live import LiveEngine
from tests.pipeline.live_road import LiveRoad
from tests.pipeline.road import PIPELINE

LAYOUTS = (Partitioning(strategy="range", size=16), Partitioning(strategy="range", size=64), Partitioning(strategy="hash", buckets=7))

COLUMNS = {
    "id": "bigint PRIMARY KEY",
    "item": "varchar(40) CHARACTER SET utf8mb4",
    "latin": "varchar(20) CHARACTER SET latin1",
    "price": "decimal(12,3)",
    "ratio": "double",
    "small": "float",
    "at": "datetime(6)",
    "day": "date",
    "code": "binary(4)",
    "size": "enum('s','m','l')",
}

VALUES: dict[str, Sequence[str]] = {
    "item": ["'plain'", "'a|b'", "'|2'", "'|1'", "''", "NULL", "'ä€😀'", "'end  '"],
    "latin": ["'ß'", "'€'", "''", "NULL"],
    "price": ["0", "-0.001", "999999999.999", "12.5", "NULL"],
    "ratio": ["0", "-0e0", "1.5", "0.1", "1e300", "5e-324", "-7.25e-9", "NULL"],
    "small": ["0.1", "16777217", "3.4e38", "NULL"],
    "at": ["'2024-02-29 23:59:59.999999'", "'1969-07-20 20:17:40.1'", "'2024-01-01 00:00:00'", "NULL"],
    "day": ["'2024-02-29'", "'1000-01-01'", "NULL"],
    "code": ["x'00'", "x'01020300'", "x'ffffffff'", "NULL"],
    "size": ["'s'", "'l'", "NULL"],
}


class Killed(BaseException):
    """The loader's process was killed: nothing of it goes on, and the target's session is gone."""


class SummingRoad(LiveRoad):
    """A pipeline of one table, and an audit of it under several layouts."""

    notes = True

    def __init__(self, folder: Path, source: LiveEngine, table: str, into: str = "", schema: str = "shop", where: str = "") -> None:
        sides = f"source: {{connection: source, table: {table}}}, target: {{connection: warehouse, table: {schema}.{table}}}"
        more = f', where: "{where}"' if where else ""
        super().__init__(folder, source, table, into=into, schema=schema, audits=f"{{live: {{{sides}, summaries: live{more}}}}}")
        self.table, self.schema, self.where, self.log = table, schema, where, LiveLog(source.url)

    def create(self, rows: int) -> None:
        """Make the table anew, with so many rows, and bring them to the target."""
        columns = ", ".join(f"{name} {type_}" for name, type_ in COLUMNS.items())
        self.log.run(
            f"DROP TABLE IF EXISTS {self.table}",
            f"CREATE TABLE {self.table} ({columns})",
            f"INSERT INTO {self.table} (id, item, price) VALUES " + ", ".join(f"({key}, 'row {key}', {key})" for key in range(rows)),
        )
        self.merge()

    def begin(self, layouts: Sequence[Partitioning] = LAYOUTS, ledger: bool = False) -> list[LiveEpoch]:
        """Begin an epoch for each layout by a scan at the end of the log, while nobody writes."""
        drafted = planning.make_plan(self.settings, "live", self.settings.audits["live"])
        assert live_plans.why_not_live(drafted) == ""
        found = []
        for number, layout in enumerate(layouts):
            plan = replace(drafted, partitioning=layout, salt=f"salt{number}")
            subject = EpochSubject(f"live {number}", PIPELINE, "wh", f"{self.database}.{self.table}")
            stated = {"fingerprint": live_plans.fingerprint(plan), "layout": live_plans.layout(plan), "plan": json.loads(dump_plan(plan))}
            found.append(live_epochs.begin_epoch(self.store, subject, **stated, where=self.where, ledger=ledger))
        publish(self.store, PIPELINE, LocalFolder(self.root))
        self.merge()
        place = self.log.end()
        position = place.position(0).pack()
        at = self.log.run("SELECT NOW(6)")[0][0].astimezone()
        for epoch in found:
            assert live_epochs.place_epoch(self.store, epoch.id, position=position, log_place=str(place), at=at)
            assert live_epochs.keep_epoch(self.store, epoch.id, codec.pack_summaries(self.scan(epoch)))
        return live_epochs.list_epochs(self.store, lasting=True)

    def plan(self, epoch: LiveEpoch) -> Plan:
        """The plan of an epoch."""
        plan = load_plan(json.dumps(dict(epoch.plan)).encode())
        assert plan is not None
        return plan

    def scan(self, epoch: LiveEpoch) -> Summaries:
        """What a scan of the source gives now."""
        plan = self.plan(epoch)
        with closing(dialects.connect(self.settings.connections["source"].url)) as session:
            statement = render.summary(plan, "source", session.dialect, Chunk())
            return arrays.read(session.summarise(statement), render.result_columns(plan))

    def live(self, epoch: LiveEpoch) -> Summaries:
        """What the stream's sums give at the place that the target states."""
        with closing(dialects.connect(self.settings.connections["warehouse"].url)) as session:
            sums = self.sums(epoch)
            return sums.read(session, epoch, sums.open(session, epoch))

    def sums(self, epoch: LiveEpoch) -> StreamSums:
        """What a run asks for the sums of an epoch."""
        subject = EpochSubject(epoch.audit, epoch.pipeline, epoch.target, epoch.table)
        return StreamSums(self.settings, self.store, subject, self.loader.where.place(epoch.table), self.where)

    def merge_with_kills(self, drawn: random.Random) -> int:
        """Merge until the target lacks nothing, with loaders that end at random steps as if they were killed; return how many did."""
        staged, kills = parts.list_tables(self.store, PIPELINE)[f"{self.database}.{self.table}"].staged_through, 0
        while kills < 2 or not self._holds(staged):
            left = [drawn.randrange(1, 7)] if kills < 2 else []

            def die(_: str, left: list[int] = left) -> None:
                if left:
                    left[0] -= 1
                    if not left[0]:
                        raise Killed

            self.loader.close()
            self.loader = Loader(self.loader.where, "wh", self.settings.connections["warehouse"])
            try:
                with followed("merge", die):
                    self.loader.merge_all()
                if kills < 2 and self._holds(staged):
                    return kills
            except Killed:
                kills += 1
        return kills

    def refresh(self) -> int:
        """Write all rows of the table into the log anew, as a refresh in the stream does, and return how many."""
        asked = refreshes.request_refresh(self.store, PIPELINE, f"{self.database}.{self.table}", RefreshScope(), "ops")
        Carrier(self.settings, self.store, PIPELINE, threading.Event()).carry_out()
        done = refreshes.get_refresh(self.store, asked.refresh)
        assert done.state == "done", done.reason
        return int(done.progress["rows"])

    def _holds(self, position: int) -> bool:
        with closing(dialects.connect(self.settings.connections["warehouse"].url)) as session:
            rows = session.query(Positions(session.dialect, self.schema, PIPELINE).list())
        return any(int(held) >= position for _, held, _ in rows)

    def check(self) -> int:
        """Compare every lasting epoch's sums with a scan while nobody writes; return how many partitions were equal."""
        total = 0
        for epoch in live_epochs.list_epochs(self.store, lasting=True):
            scanned, kept = self.scan(epoch), self.live(epoch)
            for name in ("partition", "rows", "hashed", "words", "syndromes"):
                np.testing.assert_array_equal(getattr(kept, name), getattr(scanned, name), f"{name} under {epoch.layout}")
            total += len(kept)
        return total

    def reasons(self) -> set[str]:
        """Why epochs ended."""
        return {one.reason for one in live_epochs.list_epochs(self.store) if one.state == "ended"}


def statements(table: str, keys: int, seed: int, count: int) -> Iterator[Sequence[str]]:
    """Yield transactions of random statements: every kind of event, keys that change, replaced rows, and transactions rolled back."""
    drawn = random.Random(seed)
    for _ in range(count):
        end = "ROLLBACK" if drawn.random() < 0.1 else "COMMIT"
        yield ["BEGIN", *(_statement(drawn, table, keys) for _ in range(drawn.randint(1, 4))), end]


def _statement(drawn: random.Random, table: str, keys: int) -> str:
    key, other = drawn.randrange(-keys, keys * 2), drawn.randrange(-keys, keys * 2)
    names = drawn.sample(sorted(VALUES), 3)
    pairs = [(name, drawn.choice(VALUES[name])) for name in names]
    columns, values = ", ".join(names), ", ".join(value for _, value in pairs)
    assigned = ", ".join(f"{name} = {value}" for name, value in pairs)
    return drawn.choice([
        f"INSERT IGNORE INTO {table} (id, {columns}) VALUES ({key}, {values}), ({other}, {values})",
        f"REPLACE INTO {table} (id, {columns}) VALUES ({key}, {values})",
        f"INSERT INTO {table} (id, {columns}) VALUES ({key}, {values}) ON DUPLICATE KEY UPDATE {assigned}",
        f"UPDATE {table} SET {assigned} WHERE id BETWEEN {key} AND {key + 9}",
        f"UPDATE IGNORE {table} SET id = {other}, {assigned} WHERE id = {key}",
        f"UPDATE IGNORE {table} SET id = id + 1000000 WHERE id BETWEEN {key} AND {key + 2}",
        f"DELETE FROM {table} WHERE id BETWEEN {key} AND {key + 1}",
    ])  # fmt: skip
