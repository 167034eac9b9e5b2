"""Audits of a source that is written while they run, and of a target that lags behind it and is damaged, by a simulated clock.

The oracle knows which rows are damaged and which only lag: nothing that only lags is confirmed, no match is given over rows that are
settled and differ, and what is left out in every run is named in the end.
"""

from __future__ import annotations

import datetime as dt
import itertools
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from auditor.config import Audit, ConnectionSettings
from auditor.history.handover import EarlierRuns
from auditor.history.left_out import LeftOut
from auditor.model import SIDES, Progress, Report, Side, Verdict
from auditor.planning import watermark
from auditor.run import audit_run

pytestmark = pytest.mark.duckdb
LAG = dt.timedelta(minutes=2)
"""The most that the target lags behind."""

SETTLES = dt.timedelta(minutes=3)
WAIT = dt.timedelta(minutes=4)
"""What a wait between two looks stands for: longer than the lag, and longer than rows take to settle."""

OVERDUE_AFTER = 3
KEYS = st.integers(0, 19)
OPERATIONS = st.tuples(st.sampled_from(["write", "write", "delete", "mangle", "lose", "add", "touch", "pass"]), KEYS)
Image = tuple[str, dt.datetime] | None


class World:
    """Both tables, in DuckDB and in memory, what is on its way from one to the other, and which rows of the target are damaged."""

    def __init__(self, folder: Path) -> None:
        self.files = {side: str(folder / f"{side}.duckdb") for side in SIDES}
        self.urls = {side: f"duckdb:///{file}?access_mode=read_write" for side, file in self.files.items()}
        self.connections = {side: duckdb.connect(file) for side, file in self.files.items()}
        self.clock = dt.datetime(2026, 1, 1)
        self.rows: dict[Side, dict[int, Image]] = {side: {} for side in SIDES}
        self.under_way: list[tuple[dt.datetime, int, Image]] = []
        self.damaged: set[int] = set()
        self.texts = itertools.count()
        self.lock = threading.Lock()
        for side in SIDES:
            self.connections[side].execute("CREATE TABLE t (id BIGINT, v VARCHAR, moved TIMESTAMP)")

    def put(self, side: Side, key: int, image: Image) -> None:
        self.rows[side][key] = image
        cursor = duckdb.connect(self.files[side])
        cursor.execute("BEGIN")
        cursor.execute("DELETE FROM t WHERE id = ?", [key])
        if image:
            cursor.execute("INSERT INTO t VALUES (?, ?, ?)", [key, *image])
        cursor.execute("COMMIT")

    def advance(self, by: dt.timedelta) -> None:
        """Let time pass, and changes arrive."""
        self.clock += by
        arrived = [one for one in self.under_way if one[0] <= self.clock]
        self.under_way = [one for one in self.under_way if one[0] > self.clock]
        for _, key, image in arrived:
            self.put("target", key, image)
            self.damaged.discard(key)

    def apply(self, operation: str, key: int) -> None:
        """Write or delete a row of the source, or damage one of the target; extra rows have keys that the source never has."""
        self.clock += dt.timedelta(seconds=1)
        there = self.rows["target"].get(key)
        if operation in ("write", "delete"):
            image = (f"text {next(self.texts)}", self.clock) if operation == "write" else None
            self.put("source", key, image)
            if self.rows["target"].get(key) == image:
                self.damaged.discard(key)  # deleted on the source, so the row that the target lost is no difference any more
            self.under_way.append((self.clock + LAG, key, image))
        elif operation == "add":
            self.damage(100 + key, ("extra", dt.datetime(2025, 1, 1)))
        elif there and operation in ("mangle", "touch"):  # a touched row is damaged, and looks as if it were just written
            self.damage(key, (f"damaged {next(self.texts)}", self.clock if operation == "touch" else there[1]))
        elif there and operation == "lose":
            self.damage(key, None)
        self.advance(dt.timedelta())

    def damage(self, key: int, image: Image) -> None:
        self.put("target", key, image)
        self.damaged.add(key)

    def settled_damage(self, before: str) -> set[int]:
        """Return the damaged keys whose row on the source, if there is one, was not written since ``before``."""
        images = {key: self.rows["source"].get(key) for key in self.damaged}
        return {key for key, image in images.items() if image is None or f"{image[1]:%Y-%m-%d %H:%M:%S.%f}" < before}


class MovingTables(RuleBasedStateMachine):
    """Rules change the tables and run audits, during which they change further."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.world = World(Path(self.folder.name))
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(watermark, "read_clock", lambda _: self.world.clock.replace(tzinfo=dt.UTC))
        self.left_out = LeftOut()
        self.rewritten: set[int] = set()
        """Keys that were written or deleted during the last run."""

    def teardown(self) -> None:
        self.patch.undo()
        for connection in self.world.connections.values():
            connection.close()
        self.folder.cleanup()

    @initialize(keys=st.sets(KEYS, min_size=8))
    def begin(self, keys: set[int]) -> None:
        for key in sorted(keys):
            self.world.apply("write", key)
        self.world.advance(dt.timedelta(hours=1))

    @rule(operation=OPERATIONS)
    def change(self, operation: tuple[str, int]) -> None:
        self.world.apply(*operation)

    @rule(minutes=st.integers(1, 10))
    def wait(self, minutes: int) -> None:
        self.world.advance(dt.timedelta(minutes=minutes))

    @rule(
        meanwhile=st.lists(st.lists(OPERATIONS, min_size=1, max_size=3), min_size=4, max_size=8),
        snapshot=st.sampled_from(["whole", "per_chunk"]),
        partition=st.sampled_from([{"size": 5}, {"buckets": 3}, {"column": "moved", "unit": "hour"}]),
        settle=st.booleans(),
        hot=st.none() | KEYS,
    )
    def audit(
        self, meanwhile: list[list[tuple[str, int]]], hot: int | None, snapshot: str, partition: dict[str, Any], settle: bool
    ) -> None:
        """Run an audit while the tables change; the hot key, if there is one, is written at every turn."""
        before = set(self.world.damaged)
        if hot is not None:
            meanwhile = [[*operations, ("write", hot)] for operations in meanwhile]
        report, ever, throughout = self._run(meanwhile, before, snapshot=snapshot, partition=partition, settle=settle)
        found = report.differences
        assert found is not None and report.plan, report.reasons
        confirmed = {int(one.key["id"] or -1) for one in found.named if one.state == "confirmed"}
        assert confirmed <= ever, f"{confirmed - ever} only lag"
        named = {int(one.key["id"] or -1) for one in found.named}
        spans = [(span.first, span.last, span.state) for span in found.ranges]
        assert all(
            sum(first <= key <= last for key in ever) >= rows
            for first, last, rows in ((one.first, one.last, one.rows) for one in found.ranges if one.state == "confirmed")
            if first is not None and last is not None
        ), "a range counts no more rows than are damaged"
        settled = throughout & self.world.settled_damage(report.plan.watermark or "9999")
        if report.verdict is Verdict.MATCH:
            assert not settled, f"a match, but {settled} differ and are settled"
        within = {key for key in settled for first, last, _ in spans if first is None or (last is not None and first <= key <= last)}
        assert settled <= named | within, f"{settled - named - within} are not named"
        assert len(named) == len(found.named), "each key is named once"

    def _run(
        self, meanwhile: Sequence[list[tuple[str, int]]], before: set[int], *, snapshot: str, partition: dict[str, Any], settle: bool
    ) -> tuple[Report, set[int], set[int]]:
        """Run an audit while the tables change; return its report, the keys damaged at any time of it, and those damaged all the time."""
        world, changes = self.world, iter(meanwhile)
        ever, throughout = set(before), set(before)
        self.rewritten = set()

        def on_progress(progress: Progress) -> None:
            is_wait = progress.doing.startswith("waits")
            if progress.side != "source" or not (is_wait or progress.doing.startswith(("summarising", "finding"))):
                return
            with world.lock:
                if is_wait:  # what is written after it is under way at the look
                    world.advance(WAIT)
                    throughout.intersection_update(world.damaged)
                for operation, key in next(changes, []):
                    world.apply(operation, key)
                    self.rewritten.add(key)
                    ever.update(world.damaged)
                    throughout.intersection_update(world.damaged)
                    throughout.discard(key if operation in ("mangle", "touch", "lose") else -1)  # another damage is another difference

        ends = {side: {"connection": side, "table": "t"} for side in SIDES}
        how: dict[str, Any] = {"settle": {"column": "moved", "lag": f"{SETTLES.seconds}s"}} if settle else {}
        audit = Audit.model_validate(
            {
                **ends, "key": ["id"], "partition": partition, "snapshot": snapshot, "salt": "", "overdue_after": OVERDUE_AFTER,
                "recheck": {"times": 2, "wait": "1ms", "backoff": 1}, "allow_empty": True, **how,
            }
        )  # fmt: skip
        connections: dict[str, ConnectionSettings] = {side: ConnectionSettings(url=url) for side, url in world.urls.items()}
        there = {key: image[1] for key, image in world.rows["source"].items() if image}
        outcome = audit_run.perform("moving", audit, connections, on_progress, earlier=EarlierRuns(left_out=self.left_out))
        self.left_out = outcome.left_out or LeftOut()
        self._check_left_out(outcome.report, there)
        return outcome.report, ever, throughout

    def _check_left_out(self, report: Report, there: Mapping[int, dt.datetime]) -> None:
        """Check that what this run left out is followed, and named once it was left out in enough runs.

        ``there`` are the rows of the source when it began, by when they were written.
        """
        overdue = {int(row.key["id"] or -1) for row in report.overdue}
        followed = {int(key[0] or -1): row.runs for key, row in self.left_out.rows.items()}
        assert overdue == {key for key, runs in followed.items() if runs >= OVERDUE_AFTER}
        assert bool(overdue) == (report.coverage["rows"] < 1) or not report.comparison or not report.comparison.total
        assert report.plan and report.differences is not None
        if report.plan.watermark:
            young = {key for key, written in there.items() if f"{written:%Y-%m-%d %H:%M:%S.%f}" >= report.plan.watermark}
            assert {key for key in young if self.world.rows["source"].get(key) and key not in self.rewritten} <= set(followed)
        unsettled = {int(one.key["id"] or -1) for one in report.differences.named if one.state == "unsettled"}
        assert unsettled <= set(followed)


MovingTables.TestCase.settings = settings(max_examples=max(8, settings().max_examples // 12), stateful_step_count=10)
TestMovingTables = MovingTables.TestCase
