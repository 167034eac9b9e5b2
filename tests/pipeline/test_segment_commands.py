"""The session of docs/segments.md is executed, and prints what the page shows."""

from __future__ import annotations

import json
import re
import shlex
from contextlib import closing
from pathlib import Path

import pytest

from auditor import config
from auditor.cli import main
from auditor.pipeline.segments.registering import registrations_of
from auditor.pipeline.segments.writer import folder_of, open_writer
from auditor.store import open_store, parts, pipelines, segments
from tests.pipeline.two_writers import ORDERS, stage_all, transactions
from tests.unit.test_docs import blocks, commands

CONFIGURATION = """
connections:
  shop: {url: "mysql://reader@db1/shop"}
  warehouse: {url: "duckdb:///w.duckdb", write: {url: "duckdb:///w.duckdb"}}
audits: {}
"""


@pytest.fixture
def two_writers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What the page's configuration leads to: a second writer that staged another value, and a file that somebody edited."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("AUDITOR_CONFIG", raising=False)
    [shown] = [block for block in blocks("segments.md", "yaml") if "zones:" in block]
    Path("auditor.yaml").write_text(CONFIGURATION + shown, encoding="utf-8")
    settings = config.load(Path("auditor.yaml"))
    assert settings.store
    found = transactions(40)
    with closing(open_store(settings.store.url)) as store:
        stage_all(settings, store, "shop", found)
        damaged = [*found[:13], [found[13][0], {**found[13][1], "after": ["29", "ITEM 14"]}], *found[14:]]
        stage_all(settings, store, "shop_west", damaged)
        pipelines.report_merges(store, "shop_west", "warehouse", {"shop.orders": pipelines.MergeNews(400, "merged")})
        listed = segments.list_segments(store, "shop_west", "shop.orders")[5]
    path = Path(folder_of(settings.pipeline("shop_west")).url) / listed.path
    path.write_text(path.read_text().replace("item 11", "item 21"))
    return tmp_path


def plain(text: str) -> str:
    """Return a line without what differs between two sessions: ids, durations, and the widths of columns."""
    text = re.sub(r"\b[0-9a-f]{12}\b", "RUN", text)
    text = re.sub(r"\.[0-9a-f]{8}\.csv", ".COPY.csv", text)
    text = re.sub(r"\d+\.\d+ s", "0.0 s", text)
    return " ".join(text.split())


@pytest.mark.usefixtures("two_writers")
def test_the_documented_session_prints_what_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    [session] = [block for block in blocks("segments.md", "console") if "auditor run zones" in block]
    for command, shown in commands(session):
        main(shlex.split(command)[1:])
        printed = [plain(line) for line in "".join(capsys.readouterr()[:1]).splitlines()]
        assert [plain(line) for line in shown] == [line for line in printed if line and "Details: auditor show" not in line], command


def test_answers_for_programs(two_writers: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["segments", "status", "zones", "--json"]) == 1
    status = json.loads(capsys.readouterr().out)
    assert (status["verdict"], status["tables"][0]["findings"][0]["kind"]) == ("mismatch", "altered")
    assert main(["segments", "verify", "zones", "--json"]) == 1
    [table] = json.loads(capsys.readouterr().out)
    assert table["problems"][0]["side"] == "shop_west" and "column item" in table["problems"][0]["first_difference"]
    assert main(["ls", "--json"]) == 0 and json.loads(capsys.readouterr().out)[0]["audit"] == "zones"
    assert main(["segments", "copy", "zones", "--from", "us"]) == 2
    assert "'us' is no side of zones; its sides are shop and shop_west" in capsys.readouterr().err
    assert main(["run", "zones", "--format", "markdown"]) == 1
    for form in ("text", "json", "markdown", "html"):
        capsys.readouterr()
        assert main(["report", "--run", "zones", "--format", form]) == 0 and "content mismatch" in capsys.readouterr().out
    assert main(["show", "zones"]) == 0 and main(["report"]) == 0 and main(["resume", "zones"]) != 0
    assert main(["run", "zones", "--no-store"]) == 2 and main(["run", "--all"]) == 1
    capsys.readouterr()
    assert main(["segments", "copy", "zones", "--from", "shop"]) == 0
    planned = capsys.readouterr().out.splitlines()
    assert [" would be copied from shop into shop_west: " in line for line in planned] == [True, True, False]
    assert planned[-1] == "nothing was copied; add --apply to copy them"
    assert main(["segments", "copy", "zones", "--from", "shop", "--apply", "--json"]) == 0
    copied = json.loads(capsys.readouterr().out)
    found = [(one["table"], one["first"], one["last"], len(one["copied"]), one["refused"], one["targets"]) for one in copied]
    assert found == [("shop.orders", 110, 120, 1, "", ["warehouse"]), ("shop.orders", 130, 140, 1, "", ["warehouse"])]
    assert main(["segments", "reset", "zones"]) == 0


def test_a_writer_of_the_service_registers_what_it_cuts(two_writers: Path) -> None:
    """As `auditor pipeline run` does, in the process beside the driver."""
    settings = config.load(two_writers / "auditor.yaml")
    assert settings.store
    with closing(open_store(settings.store.url)) as store:
        assert parts.get_schema(store, "shop", ORDERS.id)
        writer = open_writer(store, "shop", settings.pipeline("shop"), registrations_of(settings, "shop"))
        assert not writer.step()
