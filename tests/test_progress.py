"""How far a run is, as it is told while it goes on: each side's rows and statements."""

from __future__ import annotations

import json
import threading
from collections import defaultdict
from pathlib import Path
from typing import Any

import duckdb
import pytest

from auditor import kept, scan, service
from auditor.api.runs import body_of
from auditor.config import Settings, checked
from auditor.keeping import Statements
from auditor.model import SIDES, Progress, Side
from auditor.report import history, rendered
from auditor.store import open_store, runs

ROWS = 5000


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    for side in SIDES:
        with duckdb.connect(f"{tmp_path}/{side}.duckdb") as connection:
            connection.execute(f"CREATE TABLE t AS SELECT i::BIGINT AS id, i % 7 AS v FROM range({ROWS}) r(i)")
            if side == "target":
                connection.execute("DELETE FROM t WHERE id = 4711")
    ends = {side: {"connection": side, "table": "t"} for side in SIDES}
    urls = {side: {"url": f"duckdb:///{tmp_path}/{side}.duckdb"} for side in SIDES}
    return checked({"connections": urls, "audits": {"t": {**ends, "key": ["id"]}}})


def test_a_watcher_hears_of_the_statements_of_each_side(settings: Settings) -> None:
    told: dict[Side, list[Progress]] = defaultdict(list)
    report = service.run_audit(settings, "t", lambda now: told[now.side].append(now))
    for side in SIDES:
        counts = [one.statements for one in told[side]]
        assert counts == sorted(counts)
        assert (counts[0], told[side][0].doing) == (0, "connecting")
        assert 0 < counts[-1] <= report.cost[side].statements
        done = next(one for one in told[side] if one.doing == "done")
        assert (done.done, done.total, done.running) == (ROWS - (side == "target"), ROWS - (side == "target"), 0)


def test_what_is_under_way_is_counted_while_it_is(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Statements] = []
    seen: dict[Side, list[tuple[int, int]]] = defaultdict(list)
    alive, summary = kept.Kept.alive, scan._summary

    def hearing(self: kept.Kept, stop: Any, statements: Statements) -> Any:
        asked.append(statements)
        return alive(self, stop, statements)

    def reading(plan: Any, side: Side, chunk: Any, session: Any) -> Any:
        before = asked[0](side)
        found = summary(plan, side, chunk, session)
        seen[side] += [before, asked[0](side)]
        return found

    monkeypatch.setattr(kept.Kept, "alive", hearing)
    monkeypatch.setattr(scan, "_summary", reading)
    store = open_store(_store(settings))
    report = service.run_audit(settings, "t", store=store)
    for side in SIDES:
        (before, running), (after, still) = seen[side]
        assert (running, still, after) == (1, 1, before + 1)
        assert asked[0](side) == (report.cost[side].statements, 0), "when the run has ended nothing is under way"
    store.close()


def _store(settings: Settings) -> str:
    directory = Path(settings.connections["source"].url.removeprefix("duckdb:///")).parent
    return f"sqlite:///{directory}/runs.db"


def test_signs_of_life_tell_of_statements(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store(_store(settings))
    runs.begin(store, run="a" * 32, audit="t", definition={}, method="exact")
    keeper = kept.Kept(store, "a" * 32)
    keeper.told(Progress("t", "source", "summarising", 100, 400, 1, 0))
    counted = {"source": (12, 3), "target": (0, 0)}
    monkeypatch.setattr(kept, "BEAT", 0.01)
    beats: list[Any] = []

    def beat(*given: Any) -> bool:
        beats.append(given)
        return True

    monkeypatch.setattr(runs, "beat", beat)
    ended = threading.Event()
    with keeper.alive(ended.set, lambda side: counted[side]):
        assert ended.wait(30)
    step = {"doing": "summarising", "done": 100, "total": 400, "statements": 12, "running": 3}
    assert beats[0][2] == {"source": step}, "as they are by now, not as they were when the side last told"
    monkeypatch.undo()
    runs.beat(store, "a" * 32, beats[0][2])
    found = runs.find(store, "a" * 32)
    answered = json.loads(body_of(found))["progress"]["source"]
    assert answered == step, "by the API, and by its events, which tell the same"
    shown = rendered.printed(history.line(found))
    assert "source: summarising, 100 of about 400 rows; 12 statements done, 3 under way" in shown
    store.close()
