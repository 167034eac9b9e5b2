"""Rows that are damaged at each hop of a live pipeline: trace names the hop and the event, or says why it cannot be told."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable

from auditor.api import create_app
from auditor.api_models.trace import Trace, TracedRow
from auditor.cli import main
from auditor.config import load
from auditor.errors import ConfigError, RunOutdated, TraceRefused, UnknownRun
from auditor.model import Verdict
from auditor.service import running
from auditor.service.certify.log_columns import KINDS
from auditor.service.trace import Asked, trace
from auditor.store import parts, tokens
from dialects.delta import commits
from tests.api.conftest import make_client
from tests.binlog import LiveLog
from tests.live import LiveEngine, engine_params
from tests.pipeline.live_road import LiveRoad
from tests.pipeline.test_types import every_sample, held

pytestmark = [
    pytest.mark.alone,
    pytest.mark.engines_in_turn,
    pytest.mark.parametrize("engine", engine_params("mysql", "mariadb"), indirect=True),
]

TABLE = "traced"


class LossyRoad(LiveRoad):
    """A pipeline whose staging can lose events, or change them."""

    lost: int | None = None
    """The key whose events are lost."""

    def read(self, reader: Any, part: Any) -> list[pa.RecordBatch]:
        found = super().read(reader, part)
        if self.lost is None:
            return found
        kept = []
        for batch in found:
            keys = [(row or [None])[0] for row in batch["after"].to_pylist()]
            is_lost = pa.array([key == str(self.lost) for key in keys])
            kept.append(batch.filter(pc.invert(is_lost)))
        return kept


@pytest.fixture
def engine(request: pytest.FixtureRequest, engines: object) -> LiveEngine:
    found: LiveEngine = engines.live(request.param)  # type: ignore[attr-defined]
    return found


@pytest.fixture
def road(engine: LiveEngine, tmp_path: Path) -> Iterator[LossyRoad]:
    made = LossyRoad(tmp_path, engine, TABLE)
    set_up(made, engine)
    yield made
    made.close()


def configure(road: LossyRoad, audit: str) -> None:
    road.config_file.write_text(road.config_file.read_text().replace("audits: {}", f"audits: {{{audit}}}"))
    road.settings = load(road.config_file)


def set_up(road: LossyRoad, engine: LiveEngine) -> None:
    sides = f"source: {{connection: source, table: {TABLE}}}, target: {{connection: warehouse, table: shop.{TABLE}}}"
    configure(road, f"orders: {{{sides}}}")
    LiveLog(engine.url).run(
        f"DROP TABLE IF EXISTS {TABLE}",
        f"CREATE TABLE {TABLE} (id int PRIMARY KEY, item varchar(40), price decimal(8,2))",
        f"INSERT INTO {TABLE} VALUES {', '.join(f'({n}, {chr(39)}item {n}{chr(39)}, {n}.50)' for n in range(1, 41))}",
    )
    road.merge()


def traced(road: LossyRoad, *keys: str) -> dict[str | None, TracedRow]:
    """Trace keys, or what a run finds, and return the rows by key."""
    if not keys:
        assert running.run_audit(road.settings, "orders", store=road.store).verdict == Verdict.MISMATCH
    found: Trace = trace(road.settings, road.store, "orders", Asked(keys))
    assert not found.further and found.pipeline == road.name and found.target == "wh"
    return {row.key["id"]: row for row in found.rows}


@pytest.mark.slow_on("mariadb")
@pytest.mark.few
def test_the_hop_of_each_row_is_named(road: LossyRoad, engine: LiveEngine) -> None:
    log = LiveLog(engine.url)
    log.run(f"UPDATE {TABLE} SET price = price + 1 WHERE id IN (1, 2, 3)", f"DELETE FROM {TABLE} WHERE id = 4")
    road.merge()
    # the target: an update and an insert that were not applied, rows changed, lost and made by others
    road.execute(
        f"UPDATE shop.{TABLE} SET price = 1.50 WHERE id = 1",
        f"UPDATE shop.{TABLE} SET item = 'edited' WHERE id = 2",
        f"DELETE FROM shop.{TABLE} WHERE id IN (3, 5)",
        f"INSERT INTO shop.{TABLE} VALUES (4, 'item 4', 4.50)",
    )
    # the log: what it does not hold
    log.run("SET sql_log_bin = 0", f"UPDATE {TABLE} SET item = 'unlogged' WHERE id = 6", f"DELETE FROM {TABLE} WHERE id = 7")
    # the staging: an event that is lost in it
    road.lost = 8
    LiveLog(engine.url).run(f"UPDATE {TABLE} SET item = 'lost' WHERE id = 8")
    road.merge()
    road.lost = None
    rows = traced(road)
    hops = {key: (row.outcome, row.hop) for key, row in rows.items()}
    merge, staging, unlogged = ("lost", "merge"), ("lost", "staging"), ("lost", "log")
    assert hops == {"1": merge, "2": merge, "3": merge, "4": merge, "5": merge, "6": unlogged, "7": unlogged, "8": staging}
    said = {key: row.sentence for key, row in rows.items()}
    update, insert = rows["1"].events[-1], rows["5"].events[-1]
    assert (update.kind, update.merged, update.source, update.target) == ("update", True, True, False)
    assert said["1"].startswith(f"the target's row is as before the update at {update.position} (")
    assert f"which is in the staged file {update.file}: it was not applied, or undone in the target by others" in said["1"]
    assert update.sha256 == parts.list_parts(road.store, road.name, f"{road.database}.{TABLE}", 0)[1].checksum
    assert "nor as any event before it that is kept: it was merged wrongly, or changed in the target by others" in said["2"]
    assert said["5"].startswith(f"the target's row is as before the insert at {insert.position} (")
    assert said["3"].startswith("the target's row is as before the insert at ")
    assert said["4"].startswith("the target's row is as before the delete at ")
    assert said["6"].startswith("the source's row is not as the last event of it in the log left it, the insert at ")
    assert said["8"].startswith("the update at ") and said["8"].endswith("is in the source's log, and in none of the staged files")
    assert [event.kind for event in rows["4"].events] == ["insert", "delete"]


def test_the_command_the_api_and_the_page_say_the_same(
    road: LossyRoad, engine: LiveEngine, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AUDITOR_CONFIG", str(road.config_file))
    road.execute(f"UPDATE shop.{TABLE} SET item = 'edited' WHERE id = 2")
    report = running.run_audit(road.settings, "orders", store=road.store)
    assert report.notes[-1] == f"at which hop rows were lost: auditor trace {report.run[:12]}"
    assert main(["trace", "orders", "--quiet"]) == 1
    text = capsys.readouterr().out
    assert text.startswith(f"orders: 1 row of run {report.run[:12]}: 1 lost between the staged files and the target\n\nid 2: lost between")
    assert re.search(r"insert   binlog\.\d+:", text) and "; still so in the source\n" in text
    assert main(["trace", "orders", "--key", "3", "--json", "--quiet"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"][0]["outcome"] == "equal"
    secret = tokens.create_token(road.store, name="runner", scope="run")
    with make_client(create_app(road.settings, road.store), headers={"Authorization": f"Bearer {secret}"}) as client:
        answer = client.get(f"/api/v1/runs/{report.run}/trace")
        assert answer.status_code == 200, answer.text
        [row] = answer.json()["rows"]
        assert (row["key"], row["outcome"], row["hop"]) == ({"id": "2"}, "lost", "merge")
        [other] = client.get(f"/api/v1/runs/{report.run}/trace", params={"key": "3"}).json()["rows"]
        assert other["outcome"] == "equal"
        assert client.get(f"/api/v1/runs/{report.run}/trace", params={"key": "[1, 2]"}).status_code == 422
        assert f'action="/runs/{report.run}/trace"' in client.get(f"/runs/{report.run}").raise_for_status().text
        page = html.unescape(client.get(f"/runs/{report.run}/trace").raise_for_status().text)
        assert "1 row: 1 lost between the staged files and the target." in page and row["sentence"][1:] in page


@pytest.mark.delta
def test_rows_of_a_delta_table_are_traced_by_what_its_commits_say(
    engine: LiveEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lake").mkdir()
    road = LossyRoad(tmp_path, engine, TABLE, into=f"delta://{tmp_path}/lake")
    try:
        set_up(road, engine)
        assert {row.outcome for row in traced(road, "1", "2").values()} == {"equal"}
        log = LiveLog(engine.url)
        log.run(f"UPDATE {TABLE} SET price = price + 1 WHERE id IN (1, 2)")
        road.merge()
        table = DeltaTable(tmp_path / "lake" / "shop" / TABLE)
        table.update(predicate="id = 1", new_values={"price": 1.5})
        table.delete("id = 3")
        log.run(f"UPDATE {TABLE} SET price = 0 WHERE id = 4")
        road.stage()
        rows = traced(road)
        hops = {key: (row.outcome, row.hop) for key, row in rows.items()}
        assert hops == {"1": ("lost", "merge"), "3": ("lost", "merge"), "4": ("in_flight", None)}, rows
        assert rows["1"].sentence.startswith("the target's row is as before the update at ")
        assert "it was not applied, or undone in the target by others; " in rows["1"].sentence
        others = r"and something else than its merges wrote version \d+ \(UPDATE, [^)]*\), \d+ \(DELETE, [^)]*\)$"
        assert re.search(r"; version \d+ of its table \(MERGE, [^)]*\) is the first that holds it, " + others, rows["1"].sentence), rows
        with monkeypatch.context() as patched:
            right = commits.merge_changes
            without = pc.field("id") != 5
            patched.setattr(commits, "merge_changes", lambda table, changes, commit: right(table, changes.filter(without), commit))
            log.run(f"UPDATE {TABLE} SET price = 7 WHERE id IN (5, 6)")
            road.merge()
        [row] = traced(road, "5").values()
        assert row.hop == "merge" and ": the merges did not apply it; " in row.sentence, row
        assert row.sentence.endswith("is the first that holds it, and only its merges wrote the table since")
        assert "the target says that it holds everything up to " in rows["4"].sentence
    finally:
        road.close()


def test_what_is_on_its_way_or_equal_is_not_lost(road: LossyRoad, engine: LiveEngine) -> None:
    log = LiveLog(engine.url)
    log.run(f"UPDATE {TABLE} SET price = 0 WHERE id = 1")
    [row] = traced(road, "1").values()
    assert (row.outcome, row.hop) == ("in_flight", None) and "is not staged yet" in row.sentence
    road.stage()
    [row] = traced(road, "1").values()
    assert row.outcome == "in_flight" and "is staged, and not merged yet: the target says that it holds" in row.sentence
    road.merge()
    rows = traced(road, "1", "99", "077")
    assert rows["1"].outcome == "equal" and rows["1"].sentence == "both sides have it alike by now"
    for key in ("99", "077"):
        assert rows[key].outcome == "unknown" and "neither side has a row with this key, and no event of it is kept" in rows[key].sentence
    log.run(f"DELETE FROM {TABLE} WHERE id = 1")
    road.merge()
    assert [(row.outcome, row.sentence) for row in traced(road, "1").values()] == [("equal", "neither side has a row with this key by now")]


def test_another_key_and_an_emptied_table(road: LossyRoad, engine: LiveEngine) -> None:
    LiveLog(engine.url).run(f"UPDATE {TABLE} SET id = 101 WHERE id = 1")
    road.merge()
    road.execute(f"UPDATE shop.{TABLE} SET id = 1 WHERE id = 101")
    rows = traced(road)
    assert rows["1"].sentence.startswith("the target's row is as before the move at ") and rows["1"].hop == rows["101"].hop == "merge"
    road.notes = True
    LiveLog(engine.url).run(f"TRUNCATE TABLE {TABLE}")
    road.merge()
    road.execute(f"INSERT INTO shop.{TABLE} VALUES (2, 'item 2', 2.50)")
    [row] = traced(road, "2").values()
    assert row.hop == "merge" and row.sentence.startswith("the target's row is as before the statement that emptied the table at ")


def test_what_is_not_kept_cannot_be_told(road: LossyRoad, engine: LiveEngine) -> None:
    LiveLog(engine.url).run(f"UPDATE {TABLE} SET price = 0 WHERE id = 2")
    road.merge()
    staged = parts.list_parts(road.store, road.name, f"{road.database}.{TABLE}", 0)
    road.execute(f"DELETE FROM shop.{TABLE} WHERE id IN (1, 2)")
    (road.root / staged[-1].path).write_bytes(b"damaged")
    rows = traced(road, "1", "2")
    assert {row.outcome for row in rows.values()} == {"unknown"}
    assert all("not all events that the pipeline shop has staged can be read" in row.sentence for row in rows.values())
    parts.delete_passed(road.store, road.name, 0.0, targets=["wh"], segmented=False)
    rows = traced(road, "1", "2")
    assert {row.outcome for row in rows.values()} == {"unknown"}
    assert all("no staged event of it is kept" in row.sentence for row in rows.values()), rows


def test_statements_on_the_table_are_no_lost_changes(road: LossyRoad, engine: LiveEngine) -> None:
    road.notes = True
    LiveLog(engine.url).run(
        f"ALTER TABLE {TABLE} MODIFY price decimal(12,4), ADD COLUMN note varchar(10) NOT NULL DEFAULT 'none'",
        f"UPDATE {TABLE} SET note = 'new' WHERE id = 2",
    )
    road.merge()
    found = traced(road, "1", "2")
    assert [(row.outcome, row.events[-1].source, row.events[-1].target) for row in found.values()] == [("equal", True, True)] * 2
    columns = "(id int PRIMARY KEY, item varchar(40), price decimal(8,2))"
    LiveLog(engine.url).run(f"DROP TABLE {TABLE}", f"CREATE TABLE {TABLE} {columns}", f"INSERT INTO {TABLE} VALUES (1, 'anew', 1)")
    road.stage()
    found = traced(road, "2")
    assert found["2"].events[-1].kind == "clear" and found["2"].outcome == "in_flight", found


@pytest.mark.parametrize("kinds", [pytest.param(kinds, marks=[pytest.mark.slow] if kinds != "texts" else []) for kinds in KINDS])
def test_events_of_every_type_are_told_to_be_as_both_sides_are(kinds: str, engine: LiveEngine, tmp_path: Path) -> None:
    table, log = f"traced_{kinds}", LiveLog(engine.url)
    road = LossyRoad(tmp_path, engine, table)
    sides = f"source: {{connection: source, table: {table}}}, target: {{connection: warehouse, table: shop.{table}}}"
    configure(road, f"types: {{{sides}}}")
    samples = [one for sample in every_sample(engine.name, kinds) if (one := held(sample, "duckdb")).values]
    rows = [", ".join(one.values[row % len(one.values)] for one in samples) for row in range(max(len(one.values) for one in samples))]
    try:
        log.run(
            f"DROP TABLE IF EXISTS {table}",
            f"CREATE TABLE {table} (id int PRIMARY KEY, {', '.join(f'c{number} {one.type}' for number, one in enumerate(samples))})",
            *(f"INSERT INTO {table} VALUES ({row}, {values})" for row, values in enumerate(rows)),
        )
        road.merge()
        found = trace(road.settings, road.store, "types", Asked([str(row) for row in range(len(rows))]))
        assert not found.not_compared
        for row, values in zip(found.rows, rows, strict=True):
            assert (row.outcome, row.events[-1].source, row.events[-1].target) == ("equal", True, True), values
    finally:
        road.close()


def test_rows_that_cannot_be_traced_are_refused(road: LossyRoad) -> None:
    with pytest.raises(UnknownRun, match=r"has not run yet; run it: auditor run .*, or name keys: --key"):
        trace(road.settings, road.store, "orders", Asked())
    with pytest.raises(ConfigError, match="has 2 values, and the key has 1: id"):
        trace(road.settings, road.store, "orders", Asked(['["1", 2]']))
    path = road.config_file
    road.execute(f"UPDATE shop.{TABLE} SET item = 'edited' WHERE id = 2")
    assert running.run_audit(road.settings, "orders", store=road.store).verdict == Verdict.MISMATCH
    given = path.read_text()
    path.write_text(given.replace(f"table: shop.{TABLE}}}", f"table: shop.{TABLE}}}, key: [item]"))
    with pytest.raises(RunOutdated, match="rows are compared by another key since run"):
        trace(load(path), road.store, "orders", Asked())
    path.write_text(given)
    path.write_text(path.read_text().replace("columns: {}", f"columns: {{{TABLE}: {{where: price < 10}}}}"))
    with pytest.raises(TraceRefused, match="carries only rows of traced where price < 10, and the audit compares others, too"):
        trace(load(path), road.store, "orders", Asked(["1"]))
