"""Patches that the pipeline delivers, and those handed to a team's own path."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from deltalake import DeltaTable

from auditor import config
from auditor.cli import main
from auditor.errors import PatchRefused, QueueFull, RefreshRefused
from auditor.model import Verdict
from auditor.repair.keys import Selection
from auditor.service import patch_through, running
from auditor.store import refreshes
from tests.binlog import LiveLog
from tests.live import Engines, LiveEngine, engine_params
from tests.pipeline.conftest import opened_url
from tests.pipeline.live_road import LiveRoad, delivering
from tests.pipeline.road import PIPELINE

pytestmark = [pytest.mark.alone, pytest.mark.parametrize("engine", engine_params("mysql"), indirect=True)]
TABLE = "refreshed_sent"


@pytest.fixture
def engine(request: pytest.FixtureRequest, engines: object) -> LiveEngine:
    found: LiveEngine = engines.live(request.param)  # type: ignore[attr-defined]
    return found


@pytest.fixture
def road(engine: LiveEngine, tmp_path: Path) -> Iterator[LiveRoad]:
    """A pipeline whose target holds a table, and an audit of it."""
    made = begin(engine, tmp_path)
    yield made
    made.close()


def begin(engine: LiveEngine, folder: Path, into: str = "", schema: str = "shop") -> LiveRoad:
    made = LiveRoad(folder, engine, TABLE, into=into, schema=schema)
    audit = f"{{source: {{connection: source, table: {TABLE}}}, target: {{connection: warehouse, table: {schema}.{TABLE}}}}}"
    made.config_file.write_text(made.config_file.read_text().replace("audits: {}", f"audits: {{sent: {audit}}}"))
    made.settings = config.load(made.config_file)
    values = ", ".join(f"({n}, 'item {n}')" for n in range(1, 3001))
    LiveLog(engine.url).run(
        f"DROP TABLE IF EXISTS {TABLE}",
        f"CREATE TABLE {TABLE} (id int PRIMARY KEY, item varchar(40))",
        f"INSERT INTO {TABLE} VALUES {values}",
    )
    made.merge()
    return made


def damage(road: LiveRoad) -> None:
    """Change, lose and add rows in the target, and lose a whole range of keys."""
    road.execute(
        f"UPDATE shop.{TABLE} SET item = 'damaged' WHERE id IN (7, 11)",
        f"DELETE FROM shop.{TABLE} WHERE id = 13 OR id > 1000",
        f"INSERT INTO shop.{TABLE} VALUES (-5, 'ghost')",
    )
    assert running.run_audit(road.settings, "sent", store=road.store).verdict == Verdict.MISMATCH


def test_differences_are_sent_through_the_pipeline(road: LiveRoad, engine: LiveEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    damage(road)
    monkeypatch.setattr(patch_through, "status", lambda *_, **__: SimpleNamespace(running=True))
    with delivering(road):
        sent = patch_through.send_refresh(road.settings, road.store, "sent", Selection(delete_extra=True))
    assert sent.lacking == "" and sent.after and sent.after.verdict == Verdict.MATCH, sent
    assert "of 1 range of keys and " in sent.how and 2000 <= sent.rows <= 2500
    again = patch_through.send_refresh(road.settings, road.store, "sent", Selection(delete_extra=True))
    assert again.rows == 0


@pytest.mark.slow
@pytest.mark.parametrize("target", ["postgres", "redshift", "mariadb", "delta"])
def test_they_are_sent_into_every_kind_of_target(
    engine: LiveEngine, engines: Engines, target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patch_through, "status", lambda *_, **__: SimpleNamespace(running=True))
    with opened_url(engines.live(target), tmp_path, engines, monkeypatch) as url:
        road = begin(engine, tmp_path, url, "sent_into")
        if target == "delta":
            lake = DeltaTable(tmp_path / "lake" / "sent_into" / TABLE)
            lake.update({"item": "'damaged'"}, predicate="id IN (7, 11)")
            lake.delete("id = 13 OR id > 1000")
        else:
            name = f"sent_into.{TABLE}"
            road.execute(f"UPDATE {name} SET item = 'damaged' WHERE id IN (7, 11)", f"DELETE FROM {name} WHERE id = 13 OR id > 1000")
        assert running.run_audit(road.settings, "sent", store=road.store).verdict == Verdict.MISMATCH
        with delivering(road):
            sent = patch_through.send_refresh(road.settings, road.store, "sent", Selection(delete_extra=True))
        assert sent.lacking == "" and sent.after and sent.after.verdict == Verdict.MATCH, sent
        if target != "delta":  # whose folder is the test's own
            road.drop()
        road.close()


def test_rows_that_are_counted_and_not_named_are_left_and_said(
    road: LiveRoad, engine: LiveEngine, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    damage(road)
    about = ["patch", "sent", "--through", "refresh", "--apply", "--keys", "20..30", "--quiet", "--config", str(road.config_file)]
    assert main(about) == 0, "no row of these keys differs"
    assert "nothing to send: no row differs, or none was selected" in capsys.readouterr().out
    counted = "2 more rows differ than could be listed"
    monkeypatch.setattr(patch_through, "unnamed", lambda _: counted)
    assert main(about) == 1
    assert f"{counted}; copy the table again: auditor bootstrap sent --apply" in capsys.readouterr().out


def test_a_pipeline_that_does_not_run_is_not_waited_for(road: LiveRoad, engine: LiveEngine, capsys: pytest.CaptureFixture[str]) -> None:
    damage(road)
    command = ["patch", "sent", "--through", "refresh", "--quiet", "--config", str(road.config_file)]
    assert main(command) == 0
    assert re.fullmatch(
        rf"would send \d+ keys.* of {TABLE} through the pipeline {PIPELINE} into \w+, and audit them again;"
        " nothing was sent: add --apply to send them\n",
        capsys.readouterr().out,
    )
    assert not refreshes.list_refreshes(road.store, PIPELINE)
    assert main([*command, "--apply"]) == 1
    assert "the rows are in the source's log, and the pipeline does not run" in capsys.readouterr().out
    road.merge()
    found = running.run_audit(road.settings, "sent", store=road.store).differences
    assert found is not None and (found.missing, found.extra, found.changed) == (0, 1, 0)


def test_changes_are_handed_over_as_lines(road: LiveRoad, engine: LiveEngine, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    road.execute(f"UPDATE shop.{TABLE} SET item = 'damaged' WHERE id = 7", f"INSERT INTO shop.{TABLE} VALUES (-5, 'ghost')")
    assert running.run_audit(road.settings, "sent", store=road.store).verdict == Verdict.MISMATCH
    about = ["patch", "sent", "--quiet", "--config", str(road.config_file), "--delete-extra"]
    path = tmp_path / "changes.jsonl"
    assert main([*about, "--through", "file", "--output", str(path)]) == 0
    assert sorted((json.loads(line) for line in path.read_text().splitlines()), key=lambda one: one["op"]) == [
        {"op": "delete", "table": f"shop.{TABLE}", "key": {"id": "-5"}},
        {"op": "upsert", "table": f"shop.{TABLE}", "key": {"id": "7"}, "row": {"id": "7", "item": "item 7"}},
    ]
    assert path.stat().st_mode & 0o777 == 0o600
    script = tmp_path / "deliver.py"
    script.write_text(
        f"""\
import json, sys, duckdb
with duckdb.connect("{tmp_path}/warehouse.duckdb") as connection:
    for line in sys.stdin:
        one = json.loads(line)
        connection.execute("DELETE FROM shop.{TABLE} WHERE id = ?", [one["key"]["id"]])
        if one["op"] == "upsert":
            connection.execute("INSERT INTO shop.{TABLE} VALUES (?, ?)", [one["row"]["id"], one["row"]["item"]])
"""
    )
    capsys.readouterr()
    hand = [*about, "--through", "command", "--command", f"{sys.executable} {script}"]
    assert main(hand) == 0
    assert sorted(capsys.readouterr().out.splitlines()) == sorted(path.read_text().splitlines()), "printed, and handed to nobody"
    assert main([*hand, "--apply"]) == 0
    told = capsys.readouterr().out
    assert "2 changes were handed to the command" in told and "MATCH" in told
    assert main([*about, "--through", "command"]) == 2


def test_rows_that_nobody_could_audit_again_are_no_success(
    road: LiveRoad, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    road.execute(f"UPDATE shop.{TABLE} SET item = 'damaged' WHERE id = 7")
    assert running.run_audit(road.settings, "sent", store=road.store).verdict == Verdict.MISMATCH

    def refused(*_: object, **__: object) -> None:
        raise QueueFull("the queue of runs is full")

    monkeypatch.setattr(running, "run_audit", refused)
    script = tmp_path / "deliver.py"
    script.write_text(
        f"import duckdb\nwith duckdb.connect('{tmp_path}/warehouse.duckdb') as connection:\n"
        f"    connection.execute(\"UPDATE shop.{TABLE} SET item = 'item 7' WHERE id = 7\")\n"
    )
    command = ["patch", "sent", "--quiet", "--config", str(road.config_file), "--through", "command"]
    assert main([*command, "--apply", "--command", f"{sys.executable} {script}"]) == 3
    assert "could not be audited again: the queue of runs is full; run: auditor run sent" in capsys.readouterr().out


def test_what_the_pipeline_cannot_send_is_refused(road: LiveRoad, engine: LiveEngine) -> None:
    road.execute(f"UPDATE shop.{TABLE} SET item = 'damaged' WHERE id = 7")
    before = road.query(f"SELECT * FROM shop.{TABLE} ORDER BY 1")

    def refused(kind: type[Exception], selection: Selection) -> str:
        assert running.run_audit(road.settings, "sent", store=road.store).verdict == Verdict.MISMATCH
        with pytest.raises(kind) as found:
            patch_through.send_refresh(road.settings, road.store, "sent", selection)
        assert road.query(f"SELECT * FROM shop.{TABLE} ORDER BY 1") == before
        return str(found.value)

    assert "whole rows are sent again; leave out --columns" in refused(PatchRefused, Selection(columns=("item",)))
    with LiveLog(engine.url).globally(read_only="ON"):
        assert refused(RefreshRefused, Selection()).startswith("the source is read_only, so that nothing may be written into its log")
    audit = road.settings.audits["sent"]
    road.settings.audits["sent"] = audit.model_copy(update={"key": ("item",)})
    says = f"the audit compares {TABLE} by other columns than its primary key; refresh the table instead: auditor pipeline refresh"
    assert refused(RefreshRefused, Selection()).startswith(says)
    road.settings.audits["sent"] = audit.model_copy(update={"method": "signature"})
    assert "named no rows; run sent with the method exact" in refused(PatchRefused, Selection())
