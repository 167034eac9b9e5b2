"""`auditor forget`: where the key of a row still is in the store, and that nothing of it is left afterwards."""

from __future__ import annotations

import datetime as dt
import json
import re
import shutil
import sqlite3
from pathlib import Path

import pytest

from auditor import cli, service
from auditor.bootstrap import use_cases
from auditor.config import load
from auditor.errors import ConfigError
from auditor.history import left_out, records
from auditor.history.left_out import LeftOut, LeftOutRow
from auditor.model import Verdict
from auditor.report import render
from auditor.service import forgetting, workers
from auditor.store import audit_state, bootstraps, events, open_store, pruning, repairs, runs
from tests.unit import test_masks
from tests.unit.test_masks import CARDS, NUMBERS, SCRUBBED, databases, found_in, settings

__all__ = ["databases"]

AUDITS = {**SCRUBBED, "slice": {"partition": {"size": 1_000_000}}}
PLACE = 12
"""A row that is changed in the target: its key, and the source's card."""

KEY, CARD = str(NUMBERS[PLACE]), CARDS[PLACE]


@pytest.mark.parametrize("mask", [(), tuple(test_masks.MASKS)], ids=["plain", "masked"])
def test_nothing_of_the_row_is_left_in_the_store(
    databases: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], mask: tuple[str, ...]
) -> None:
    monkeypatch.setattr(test_masks, "SECRETS", [KEY, CARD])
    file = tmp_path / "auditor.db"
    store = open_store(f"sqlite:///{file}")
    configured = settings(databases, {name: {} for name in ("orders", "other")}, mask)
    for name in ("orders", "orders", "other"):
        assert service.run_audit(configured, name, store=store).verdict is Verdict.MISMATCH
    newest = runs.list_runs(store, audit="orders")[0]
    if not mask:
        repairs.record_repair(store, run="gone", audit="orders", kind="patch", note="", who="me", rows=2, keys=[{"id": KEY}, {"id": "7"}])
        rows = left_out.pack(LeftOut({(KEY,): LeftOutRow(3, newest.started)}))
        audit_state.save_left_out(store, "orders", "settings", rows)
        assert found_in(file, store) == [KEY, CARD]

    found = forgetting.forget(configured, store, "orders", KEY, apply=False, by="me")
    counts = {place.place: (place.found, place.removed) for place in found.places if place.searched}
    more = 0 if mask else 1
    nothing = dict.fromkeys(("journal", "events", "bootstraps"), (0, 0))
    assert counts == {"runs": (2, 0), "repairs": (more, 0), "left out rows": (more, 0), **nothing}
    assert forgetting.forget(configured, store, "orders", str(NUMBERS[1500]), apply=False, by="me").places[1].found == 0

    config = tmp_path / "auditor.yaml"
    config.write_text(configured.model_dump_json(include={"connections", "audits"}, by_alias=True, exclude_defaults=True))
    assert cli.main(["forget", "orders", "--key", KEY, "--config", str(config)]) == 0
    assert "runs: 2 found: stored runs that name it" in (printed := capsys.readouterr().out)
    assert "nothing was removed; write --apply" in printed
    for name in ("orders", "other"):
        assert cli.main(["forget", name, "--key", KEY, "--apply", "--json", "--config", str(config)]) == 0
        shown = json.loads(capsys.readouterr().out)
        assert (shown["applied"], shown["key"]) == (True, {"id": KEY})
    assert found_in(file, store) == []
    after = forgetting.forget(configured, store, "orders", KEY, apply=False, by="me")
    assert {place.place for place in after.places if place.searched} == {"runs", "repairs", "left out rows", *nothing}
    assert not any(place.found for place in after.places)
    for run in runs.list_runs(store):
        report = records.load_report(store, run.run)
        assert report
        assert (run.verdict, report.verdict) == (Verdict.MISMATCH, Verdict.MISMATCH)
        assert report.differences
        assert (report.differences.missing, report.differences.changed, len(report.differences.named)) == (10, 15, 25)
        assert render.run(report, records.load_partition_map(store, run.run), "html")
    if not mask:
        assert [one.keys for one in repairs.list_repairs(store, "gone")] == [[{"id": "***"}, {"id": "7"}]]
    assert "key forgotten" in {event.action for event in events.list_events(store)}


def test_what_is_not_searched_is_named_with_its_end(databases: Path, tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path}/auditor.db")
    configured = settings(databases, {"orders": {}}, ())
    with pytest.raises(ConfigError, match="no run of orders is stored"):
        forgetting.forget(configured, store, "orders", KEY, apply=True, by="me")
    service.run_audit(configured, "orders", store=store, overrides={"keys": {"from": int(KEY), "to": int(KEY)}})
    found = {place.place: place for place in forgetting.forget(configured, store, "orders", KEY, apply=True, by="me").places}
    assert (found["runs"].found, found["runs"].removed) == (1, 1)
    assert (found["requests"].found, found["requests"].removed) == (1, 0)
    assert "until the runs are deleted (keep: runs, days)" in found["requests"].what
    assert (found["events"].found, found["events"].removed) == (1, 1)
    assert not found["messages"].searched
    assert (found["journal"].searched, found["journal"].found) == (True, 0)
    assert "running" not in found
    workers.request_run(configured, store, "orders", overrides={}, reason="", requested_by="me")
    waiting = {place.place: place for place in forgetting.forget(configured, store, "orders", KEY, apply=True, by="me").places}
    assert not waiting["running"].searched
    assert "1 run of the audit that did not end yet; do it again afterwards" in waiting["running"].what
    with pytest.raises(ConfigError, match="has 2 values, and the key has 1: id"):
        forgetting.forget(configured, store, "orders", '["1", 2]', apply=False, by="me")


def test_journal_of_patches_and_evidence_lose_the_row(
    databases: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(test_masks, "SECRETS", [KEY, CARD])
    monkeypatch.chdir(tmp_path)
    for name in ("source.duckdb", "target.duckdb"):
        shutil.copy(databases / name, tmp_path / name)
    Path("auditor.yaml").write_text(
        f"""
connections:
  source: {{url: "duckdb:///{tmp_path}/source.duckdb"}}
  target: {{url: "duckdb:///{tmp_path}/target.duckdb", write: {{url: "duckdb:///{tmp_path}/target.duckdb"}}}}
audits:
  orders: {{source: {{connection: source, table: orders}}, target: {{connection: target, table: orders}}}}
store: {{url: "sqlite:///{tmp_path}/auditor.db"}}
evidence: {{key: evidence.pem}}
"""
    )
    assert cli.main(["evidence", "--new-key"]) == 0
    assert cli.main(["run", "orders", "-q"]) == 1
    assert cli.main(["patch", "orders", "--apply", "-q"]) == 0
    file = tmp_path / "auditor.db"
    store = open_store(f"sqlite:///{file}")
    assert found_in(file, store) == [KEY, CARD]
    capsys.readouterr()
    assert cli.main(["forget", "orders", "--key", KEY, "--apply", "--json"]) == 0
    places = {place["place"]: place for place in json.loads(capsys.readouterr().out)["places"]}
    assert (places["journal"]["found"], places["journal"]["removed"], places["journal"]["searched"]) == (1, 1, False)
    assert places["runs"]["removed"] == 1
    assert found_in(file, store) == []
    assert cli.main(["evidence", "orders", "--chain", "-o", "chain.json", "-q"]) == 0
    assert cli.main(["verify", "chain.json"]) == 0
    assert KEY not in Path("chain.json").read_text()

    assert cli.main(["bootstrap", "orders", "--keys", f"{KEY}..{KEY}", "--apply", "-q"]) == 0
    asked = {"audit": "orders", "overrides": {"keys": {"from": 1, "to": int(KEY)}}, "reason": f"row {KEY} was wrong"}
    events.record_event(store, actor="ada", action="run requested", subject="a run that was deleted", detail=asked)
    (copied,) = bootstraps.list_bootstraps(store, audit="orders")
    assert use_cases.show(store, copied).keys == f"{int(KEY):,}..{int(KEY):,}"
    assert len(use_cases.list_copied(store, copied)) == 1
    assert kept(file) == {"auditor_bootstraps", "auditor_events"}
    capsys.readouterr()
    assert cli.main(["forget", "orders", "--key", KEY]) == 0
    assert {"events: 2 found", "bootstraps: 1 found", "journal: 0 found", "messages: not searched"} <= printed(capsys)
    assert cli.main(["forget", "orders", "--key", KEY, "--apply"]) == 0
    assert {"events: 2 found, 2 removed", "bootstraps: 1 found, 1 removed", "journal: 0 found, 0 removed", "messages: not searched"} <= (
        printed(capsys)
    )
    assert kept(file) == set()
    copied = bootstraps.get_bootstrap(store, copied.bootstrap)
    assert (use_cases.show(store, copied).keys, use_cases.show(store, copied).progress.ranges) == ("***", 1)
    assert use_cases.list_copied(store, copied) == []
    assert all(stored["sha256"] == "" for stored in bootstraps.list_ranges(store, copied.bootstrap).values())

    later = dt.datetime.now(dt.UTC) + dt.timedelta(days=400)
    pruning.prune(store, runs=None, days=180, now=later)
    assert len(bootstraps.list_bootstraps(store, audit="orders")) == 1  # the last one of its audit, whose replaced rows are still there
    assert cli.main(["bootstrap", "orders", "--apply", "-q"]) == 0
    pruning.prune(store, runs=None, days=180, now=later)
    assert len(bootstraps.list_bootstraps(store, audit="orders")) == 2
    assert cli.main(["bootstrap", "orders", "--drop-old", "--apply"]) == 0
    pruning.prune(store, runs=None, days=180, now=later)
    assert [one.bootstrap for one in bootstraps.list_bootstraps(store, audit="orders")] != [copied.bootstrap]
    assert len(bootstraps.list_bootstraps(store, audit="orders")) == 1


def kept(file: Path) -> set[str]:
    """Return which of these tables hold the key as a whole number or text."""
    with sqlite3.connect(file) as database:
        tables = ("auditor_bootstraps", "auditor_bootstrap_ranges", "auditor_events")
        stored = {table: json.dumps(database.execute(f"SELECT * FROM {table}").fetchall()) for table in tables}
    return {table for table, text in stored.items() if re.search(rf"(?<!\w)({KEY}|{int(KEY) + 1})(?!\w)", text)}


def printed(capsys: pytest.CaptureFixture[str]) -> set[str]:
    """Return what the command said of each place, without what that is."""
    return {": ".join(line.split(": ")[:2]) for line in capsys.readouterr().out.splitlines()}


PIPELINES = """
connections:
  shop: {url: "mysql://reader@db/shop"}
  dwh: {url: "postgresql://reader@dwh/dwh", write: {url: "postgresql://writer@dwh/dwh"}}
audits:
  orders: {source: {connection: shop, table: orders}, target: {connection: dwh, table: shop.orders}}
keep: {parts: 3d, versions: 12h}
pipelines:
  shop:
    source: {connection: shop, tables: [orders]}
    staging: {path: /srv/staging}
    segment: {path: /srv/archive}
    history: {}
    targets: {dwh: {connection: dwh, schema: shop}}
"""


def test_what_nobody_can_search_is_named_with_how_long_it_stays(tmp_path: Path) -> None:
    path = tmp_path / "auditor.yaml"
    path.write_text(PIPELINES)
    configured = load(path)
    outside = {place.place: place.what for place in forgetting.list_outside(configured, configured.audit("orders"))}
    assert list(outside) == ["history of shop", "refreshes of shop", "notes of shop", "messages"]
    assert "a version goes after 12 h" in outside["history of shop"]
