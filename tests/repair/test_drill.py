"""Drills: a damaged row of a canary table is found, reported and repaired, and no table is touched that is not a drill's own."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import pytest

from auditor import config
from auditor.api_models.repair import Drill, DrillPlan
from auditor.cli import main
from auditor.config import Settings
from auditor.errors import AuditorError, ConfigError, NotifyError, StatementRefused
from auditor.repair.canary import TABLE, Canary, damaged_rows, rows_of
from auditor.service import drill as drills
from auditor.service import notify
from auditor.service.channels import Message
from auditor.store import open_store
from dialects import Session
from tests import tables
from tests.live import Engines, LiveEngine, engine_params
from tests.pipeline.live_road import LiveRoad, delivering
from tests.repair import small
from tests.repair.small import Small

STEPS = ["canary", "damaged", "found", "reported", "repaired", "dropped"]

Sent = list[tuple[str, Message]]


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> Sent:
    """What was sent to channels."""
    messages: Sent = []
    monkeypatch.setattr(notify, "send", lambda name, _, message: messages.append((name, message)))
    return messages


def beside(folder: Path, source: LiveEngine, target: LiveEngine, **write: Any) -> Small:
    """Return an audit of two small tables; the connection of its source may write, too, unless ``write`` says otherwise."""
    both = ("DROP TABLE IF EXISTS s", "CREATE TABLE s (id INTEGER PRIMARY KEY)", "INSERT INTO s VALUES (1)")
    other = ("DROP TABLE IF EXISTS t", "CREATE TABLE t (id INTEGER PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    made = small.make(folder, target, both, other, source=source)
    values = made.settings.model_dump(exclude_unset=True, by_alias=True)
    values["connections"]["a"] |= {"write": {"url": source.url}, **write}
    values["connections"]["b"]["write"].pop("max_share")  # one row of so few is more than is patched at once elsewhere
    values["notify"] = {"channels": {"ops": {"url": "json://127.0.0.1"}}}
    made.settings = Settings.model_validate(values)
    return made


def hold(audited: Small) -> Drill:
    return drills.drill(audited.settings, audited.store, "small", who="me")


def names(held: Drill) -> list[str]:
    return [step.name for step in held.steps]


def canary(engine: LiveEngine) -> Sequence[tuple[Any, ...]] | None:
    try:
        return sorted(tables.query(engine, f"SELECT * FROM {TABLE}"))
    except AuditorError:
        return None


@pytest.fixture
def source(tmp_path: Path) -> LiveEngine:
    return LiveEngine("duckdb", "duckdb", f"duckdb:///{tmp_path}/source.duckdb")


@pytest.fixture
def target(tmp_path: Path) -> LiveEngine:
    return LiveEngine("duckdb", "duckdb", f"duckdb:///{tmp_path}/target.duckdb")


@pytest.mark.quick_for("mysql")
@pytest.mark.parametrize("engine", engine_params("postgres", "mariadb", "mysql", "redshift"), indirect=True)
def test_a_drill_finds_reports_and_mends_its_damage_on_each_engine(engine: LiveEngine, sent: Sent, tmp_path: Path) -> None:
    audited = beside(tmp_path, engine, LiveEngine("duckdb", "duckdb", f"duckdb:///{tmp_path}/target.duckdb"))
    for one in (audited, beside(tmp_path, LiveEngine("duckdb", "duckdb", f"duckdb:///{tmp_path}/source.duckdb"), engine)):
        held = hold(one)
        assert held.passed, held
        assert names(held) == STEPS
        assert canary(one.source) is None and canary(one.target) is None
        assert one.rows() == [(1,)]
    assert [name for name, _ in sent] == ["ops", "ops"]
    assert sent[0][1].title == "DRILL of small: MISMATCH, 1 row differs"


def test_a_drill_is_no_run_of_the_audit(source: LiveEngine, target: LiveEngine, sent: Sent, tmp_path: Path) -> None:
    audited = beside(tmp_path, source, target)
    assert hold(audited).passed
    from auditor.service import audits

    [overview] = audits.overview(audited.settings, audited.store, trends=False)
    assert (overview.name, overview.standing.run) == ("small", None)


def test_a_drill_fails_where_nobody_would_hear_of_a_mismatch(source: LiveEngine, target: LiveEngine, sent: Sent, tmp_path: Path) -> None:
    audited = beside(tmp_path, source, target)
    values = audited.settings.model_dump(exclude_unset=True, by_alias=True)
    values["audits"]["elsewhere"] = values["audits"]["small"]
    channels = {"other": {"url": "json://127.0.0.1", "audits": ["elsewhere"]}, "days": {"url": "json://127.0.0.1", "on": ["digest"]}}
    audited.settings = Settings.model_validate({**values, "notify": {"channels": channels}})
    held = hold(audited)
    assert (held.passed, held.failed_at, names(held)) == (False, "reported", STEPS)
    assert sent == []


def test_a_drill_fails_where_a_channel_does(
    source: LiveEngine, target: LiveEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(name: str, *_: object) -> None:
        raise NotifyError(f"channel {name}: the service answered with status 500")

    monkeypatch.setattr(notify, "send", refuse)
    held = hold(beside(tmp_path, source, target))
    assert held.failed_at == "reported"
    assert "channel ops: the service answered with status 500" in held.steps[3].detail
    assert held.steps[4].passed and canary(target) is None


def test_a_drill_touches_no_table_of_somebody_else(source: LiveEngine, target: LiveEngine, sent: Sent, tmp_path: Path) -> None:
    audited = beside(tmp_path, source, target)
    tables.execute(target, f"CREATE TABLE {TABLE} (id INTEGER, note VARCHAR)", f"INSERT INTO {TABLE} VALUES (1, 'mine')")
    held = hold(audited)
    assert (held.failed_at, names(held)) == ("canary", ["canary", "dropped"])
    assert "is not a drill's" in held.steps[0].detail
    assert canary(target) == [(1, "mine")] and canary(source) is None
    assert sent == []


def test_a_table_that_cannot_be_read_is_not_dropped(
    source: LiveEngine, target: LiveEngine, sent: Sent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    audited = beside(tmp_path, source, target)
    tables.execute(target, f"CREATE TABLE {TABLE} (id INTEGER, note VARCHAR)", f"INSERT INTO {TABLE} VALUES (1, 'mine')")
    read = Canary._read

    def refuse(self: Canary, session: Session) -> Any:
        if self.ref.connection == "b":
            raise StatementRefused("permission denied")
        return read(self, session)

    monkeypatch.setattr(Canary, "_read", refuse)
    assert hold(audited).failed_at == "canary"
    assert canary(target) == [(1, "mine")] and canary(source) is None


@pytest.mark.parametrize("extra", ["", ", more INTEGER"])
def test_an_empty_table_or_another_shape_is_not_a_drills(
    source: LiveEngine, target: LiveEngine, sent: Sent, tmp_path: Path, extra: str
) -> None:
    audited = beside(tmp_path, source, target)
    tables.execute(source, f"CREATE TABLE {TABLE} (id INTEGER, note VARCHAR{extra})")
    if extra:
        tables.execute(source, f"INSERT INTO {TABLE} VALUES (1, '{rows_of('01234567')[0][1]}', 5)")
    assert hold(audited).failed_at == "canary"
    assert canary(source) is not None


def test_what_a_killed_drill_left_is_made_anew(source: LiveEngine, target: LiveEngine, sent: Sent, tmp_path: Path) -> None:
    audited = beside(tmp_path, source, target)
    rows = ", ".join(f"({number}, '{note}')" for number, note in damaged_rows("01234567"))
    tables.execute(target, f"CREATE TABLE {TABLE} (id INTEGER, note VARCHAR)", f"INSERT INTO {TABLE} VALUES {rows}")
    assert hold(audited).passed
    assert canary(target) is None


def test_a_source_that_may_only_read_says_what_to_run_once(source: LiveEngine, target: LiveEngine, sent: Sent, tmp_path: Path) -> None:
    audited = beside(tmp_path, source, target, write=None)
    held = hold(audited)
    assert names(held) == ["canary"]
    why, create, insert = held.steps[0].detail.split("\n")
    assert why.startswith(f"there is no {TABLE} of a, and the connection 'a' may only read")
    tables.execute(source, create, insert)
    held = hold(audited)
    assert held.passed
    rows = canary(source)
    assert rows and len(rows) == 16 and canary(target) is None
    tables.execute(source, f"DELETE FROM {TABLE} WHERE id = 3")
    assert "has other rows than a drill's" in hold(audited).steps[0].detail


def test_a_drill_needs_a_target_that_can_be_written_row_by_row(source: LiveEngine, target: LiveEngine, tmp_path: Path) -> None:
    audited = beside(tmp_path, source, target)
    values = audited.settings.model_dump(exclude_unset=True, by_alias=True)
    values["connections"]["b"].pop("write")
    with pytest.raises(ConfigError, match="may only read"):
        drills.drill(Settings.model_validate(values), audited.store, "small")
    lake = {"url": f"delta://{tmp_path}", "write": {"url": f"delta://{tmp_path}"}}
    with pytest.raises(ConfigError, match="tables of delta are made and changed by commits"):
        drills.drill(Settings.model_validate({**values, "connections": {**values["connections"], "b": lake}}), audited.store, "small")
    values["audits"]["small"]["source"] = {"connection": "a", "table": "files/s.parquet"}
    with pytest.raises(ConfigError, match="is files, of which no row is changed by itself"):
        drills.drill(Settings.model_validate(values), audited.store, "small")
    values["audits"]["small"]["source"] = [{"connection": "a", "table": "s"}, {"connection": "b", "table": "s"}]
    with pytest.raises(ConfigError, match="a drill needs a source of one table"):
        drills.drill(Settings.model_validate(values), audited.store, "small")


def test_the_command_prints_the_outcome_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], sent: Sent
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("shop", "dwh"):
        tables.execute(LiveEngine("duckdb", "duckdb", f"duckdb:///{tmp_path}/{name}.duckdb"), "CREATE TABLE orders (id INTEGER)")
    Path("auditor.yaml").write_text(
        """
connections:
  shop: {url: "duckdb:///shop.duckdb", write: {url: "duckdb:///shop.duckdb"}}
  dwh: {url: "duckdb:///dwh.duckdb", write: {url: "duckdb:///dwh.duckdb"}}
audits:
  orders: {source: {connection: shop, table: orders}, target: {connection: dwh, table: orders}, key: [id]}
"""
    )
    assert main(["drill", "orders"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "drill of orders:",
        "  make auditor_drill of shop with 16 rows; one that somebody else made is left alone, and the drill fails",
        "  make auditor_drill of dwh with 16 rows; one that somebody else made is left alone, and the drill fails",
        "  damage the row with the key 7 in auditor_drill of dwh, and audit both",
        "  report the damage to no channel, as none hears of a mismatch of this audit: the drill would fail",
        "  repair the row by a patch, and audit both again",
        "  drop auditor_drill of shop and auditor_drill of dwh",
        "to hold it: auditor drill orders --apply",
    ]
    for name in ("shop", "dwh"):
        with duckdb.connect(f"{name}.duckdb", read_only=True) as database:
            assert set(database.execute("SELECT table_name FROM information_schema.tables").fetchall()) == {("orders",)}
    assert main(["drill", "orders", "--json"]) == 0
    assert len(DrillPlan.model_validate(json.loads(capsys.readouterr().out)).steps) == 6
    assert main(["drill", "orders", "--apply"]) == 1
    told = capsys.readouterr().out.splitlines()
    assert told[0] == "drill of orders: FAILED: reported"
    assert "FAILED: no channel hears of a mismatch of orders; add one under notify: channels" in told[4]
    with Path("auditor.yaml").open("a") as file:
        file.write('notify: {channels: {ops: {url: "json://127.0.0.1"}}}\n')
    assert main(["drill", "orders", "--apply"]) == 0
    assert capsys.readouterr().out.startswith("drill of orders: passed; the damage was found in ")
    assert main(["drill", "orders", "--apply", "--format", "json"]) == 0
    assert Drill.model_validate(json.loads(capsys.readouterr().out)).passed
    assert open_store("sqlite:///auditor.db") is not None


class Following(LiveRoad):
    """A pipeline that follows statements on tables."""

    notes = True


@pytest.mark.alone
@pytest.mark.mysql
def test_a_pipeline_that_carries_every_table_brings_the_canary(
    engines: Engines, tmp_path: Path, sent: Sent, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = engines.live("mysql")
    tables.execute(source, f"DROP TABLE IF EXISTS {TABLE}")
    road = Following(tmp_path, source, "*")
    audit = "{source: {connection: source, table: s}, target: {connection: warehouse, table: shop.s}}"
    text = road.config_file.read_text().replace("audits: {}", f"audits: {{small: {audit}}}")
    road.config_file.write_text(f'{text}\nnotify: {{channels: {{ops: {{url: "json://127.0.0.1"}}}}}}\n')
    with delivering(road):
        for _ in range(2):  # the second one waits for rows of its own, not for those that the first one left in the target
            held = drills.drill(config.load(road.config_file), road.store, "small")
            assert held.passed, held
            assert "was carried there by the pipeline shop" in held.steps[0].detail
            assert held.steps[-1].detail == f"{TABLE} of source"
    road.merge()
    road.close()
