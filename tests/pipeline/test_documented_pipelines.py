"""The commands of the pages on pipelines that need no Spark are executed: on a live source, and on a store with a stopped table."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from auditor import config
from auditor.cli import main
from auditor.store import parts
from tests import documents
from tests.binlog import LiveLog
from tests.live import Engines, LiveEngine, engine_params
from tests.pipeline.live_road import LiveRoad, delivering
from tests.pipeline.road import PIPELINE, Road
from tests.pipeline_events import announce, batch, insert, note, table

TABLE = "documented_orders"
PAGES = [documents.ROOT / "docs" / f"{name}.md" for name in ("pipelines", "refreshes", "pipeline-stops")]


def shown(action: str) -> list[tuple[list[str], list[str]]]:
    """Return the words of each command of the pages with this action, behind the program's name, and what is shown below it."""
    blocks = [block for page in PAGES for block in documents.blocks(page)]
    found = [(shlex.split(command, comments=True), lines) for block in blocks for command, lines in documents.sessions(block)]
    return [(words[1:], lines) for words, lines in found if words[1:3] == ["pipeline", action]]


@pytest.fixture
def engine(request: pytest.FixtureRequest, engines: Engines) -> LiveEngine:
    return engines.live(str(request.param))


@pytest.fixture
def live(engine: LiveEngine, tmp_path: Path) -> Iterator[LiveRoad]:
    """A pipeline whose table has rows from before it began."""
    LiveLog(engine.url).run(
        f"DROP TABLE IF EXISTS {TABLE}",
        f"CREATE TABLE {TABLE} (id int PRIMARY KEY, item varchar(40))",
        f"INSERT INTO {TABLE} VALUES (1, 'a'), (2, 'b')",
    )
    made = LiveRoad(tmp_path, engine, TABLE)
    yield made
    made.close()


@pytest.mark.alone
@pytest.mark.spark  # whose process of the other tests answers
@pytest.mark.parametrize("engine", engine_params("mysql"), indirect=True)
def test_commands_that_ask_the_source(live: LiveRoad, engines: Engines, capsys: pytest.CaptureFixture[str]) -> None:
    engines.live("spark")
    printed = {}
    for action in ("check", "init", "refresh"):
        [(words, _)] = shown(action)
        with delivering(live):
            code = main([*(TABLE if word == "orders" else word for word in words), "--config", str(live.config_file)])
        told = capsys.readouterr()
        assert code == 0, (words, told)
        printed[action] = told.out
    assert "error: " not in printed["check"] and f"shop_{TABLE}: added" in printed["init"]
    assert f"shop_{TABLE}" in config.load(live.config_file).audits
    form = rf"{live.database}\.{TABLE}: done: 2 rows in 1 chunk, \S+ s; rows were locked for \S+ s at most; in the log up to \S+:\d+\n"
    assert re.fullmatch(form, printed["refresh"])
    live.merge()
    assert live.query(f"SELECT * FROM shop.{TABLE} ORDER BY 1") == [(1, "a"), (2, "b")]


def test_commands_that_let_a_stopped_table_go_on(tmp_path: Path, empty_store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    road = Road(tmp_path, f"duckdb:///{tmp_path}/warehouse.duckdb", empty_store)
    orders = table(id="bigint", item="varchar(40) null")
    reason = (
        "a row of shop.orders does not have all columns; SET GLOBAL binlog_row_image = 'FULL' and for all sessions, then refresh the tables"
    )
    poison = note("poison", "orders", 20, {"stage": "decoding", "reason": reason}, last=22, events=2)
    road.stage_task(batch(announce(orders, 1), insert(orders, 10, ["1", "a"]), poison))
    parts.record_batch(road.store, PIPELINE, [], {}, {"file": "binlog.000000", "position": 22})
    road.loader().merge_all()
    (status, _), *_, (_, shown_lines) = shown("status")
    [(skip, skipped_lines)] = shown("skip")
    place = skip[skip.index("--position") + 1]

    def printed(words: list[str]) -> list[str]:
        assert main([*(word.replace(place, "binlog.000000:20:0") for word in words), "--config", str(road.config_file)]) == 0
        return [line.replace("binlog.000000:20:0", place) for line in capsys.readouterr().out.splitlines()]

    try:
        first, second = shown_lines
        told = printed(status)
        assert second in told and any(line.startswith(first.removesuffix("...")) for line in told), told
        assert printed(skip) == skipped_lines
        assert any(line.endswith(skip[-1]) for line in printed(status)), "the reason is in the status"
    finally:
        road.close()
