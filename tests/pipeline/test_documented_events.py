"""The commands of docs/stream-and-table.md are executed, in order, on staged parts; what they print is what the page shows."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from auditor.cli import main
from auditor.pipeline.events import Place
from auditor.pipeline.rebuild import scratch
from auditor.store import parts
from tests import documents
from tests.live import engine_params
from tests.pipeline.road import PIPELINE, Road
from tests.pipeline_events import announce, batch, insert, note, table, update

PAGE = documents.ROOT / "docs" / "stream-and-table.md"
ORDERS = table(id="bigint", item="varchar(40) null")
FILE = "binlog.000012"


def at(offset: int) -> int:
    return Place(FILE, offset).position(0).pack()


@pytest.mark.parametrize("engine", engine_params("duckdb"), indirect=True)
def test_commands_print_what_the_page_shows(
    road: Road, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = note("change", "orders", 1, {"ops": [{"op": "create", "sure": True}], "advances": True})
    content = json.loads(str(made[0]["after"][0]))  # type: ignore[index]
    moved = [{**made[0], "position": at(1200), "after": [json.dumps(content | {"last": at(1200)})]}]
    road.stage_task(batch(moved))
    events = [(2210, insert(ORDERS, 1, ["1", "pen"], ["2", "ink"])), (3300, update(ORDERS, 1, (["1", "pen"], ["1", "pens"])))]
    rows = [{**one, "position": at(offset)} for offset, some in events for one in some]
    road.stage(batch(announce(ORDERS, 1), rows))
    parts.record_batch(road.store, PIPELINE, [], {}, {"epoch": 0, "file": FILE, "position": 5000, "server": "server"})
    monkeypatch.chdir(tmp_path)
    ran = set()
    for block in documents.blocks(PAGE):
        for command, shown in documents.sessions(block):
            words = shlex.split(command)
            assert words[0] == "auditor"
            assert main([*words[1:], "--config", str(road.config_file)]) == 0
            printed = capsys.readouterr().out.splitlines()
            ran.add(words[2])
            if words[2] == "rebuild":
                assert printed == shown
            for line, expected in zip(printed, shown, strict=True) if words[2] == "events" else ():
                pieces = [re.escape(piece) for piece in expected.split("...")]
                assert re.fullmatch(".*".join(pieces), line), (line, expected)
    assert ran == {"rebuild", "events"} and (tmp_path / "orders.parquet").exists()


def test_the_page_says_how_much_memory_is_taken() -> None:
    """So that the number is changed with the code."""
    assert scratch.MOST_MEMORY.replace("MiB", " MiB") in PAGE.read_text(encoding="utf-8")
