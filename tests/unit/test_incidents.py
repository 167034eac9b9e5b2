"""Incidents: opened by a mismatch, closed by recovery, acknowledged and muted in between; and what changed between two runs."""

from __future__ import annotations

import datetime as dt
import re
import shlex
from pathlib import Path
from typing import Any

import duckdb
import pytest
import sqlalchemy as sa

from auditor import service
from auditor.cli import main
from auditor.config import Settings, validate_settings
from auditor.errors import ConfigError, NoIncident, UnknownAudit
from auditor.service import incidents
from auditor.service.audits import find_streaks, overview
from auditor.service.difference_changes import compare_runs, compare_with_previous
from auditor.store import Store, events, open_store
from auditor.store import incidents as stored
from tests import documents

pytestmark = pytest.mark.duckdb


class Tables:
    """An audit of two small tables, with a store."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.store = folder, open_store(f"sqlite:///{folder}/auditor.db")
        self.audit: dict[str, Any] = {}
        for side in ("source", "target"):
            self.execute(side, "CREATE TABLE t (id BIGINT PRIMARY KEY, v VARCHAR)")
            self.execute(side, "INSERT INTO t SELECT i, 'v' || i FROM range(3000) r(i)")

    def execute(self, side: str, sql: str) -> None:
        with duckdb.connect(str(self.folder / f"{side}.duckdb")) as connection:
            connection.execute(sql)

    def damage(self, *ids: int) -> None:
        self.execute("target", f"UPDATE t SET v = 'x' WHERE id IN {(*ids, -1)}")

    def mend(self, *ids: int) -> None:
        self.execute("target", f"UPDATE t SET v = 'v' || id WHERE id IN {(*ids, -1)}")

    @property
    def settings(self) -> Settings:
        ends = {side: {"connection": side, "table": "t"} for side in ("source", "target")}
        connections = {side: {"url": f"duckdb:///{self.folder}/{side}.duckdb"} for side in ends}
        return validate_settings({"connections": connections, "audits": {"t": {**ends, "partition": {"size": 1000}, **self.audit}}})

    def run(self, **overrides: Any) -> str:
        return service.run_audit(self.settings, "t", store=self.store, overrides=overrides).run

    def acknowledge(self, **more: Any) -> None:
        incidents.acknowledge(self.settings, self.store, "t", by="ann", why="a known backfill", **more)

    def state(self) -> str | None:
        opened = stored.get_open(self.store, "t")
        return opened.state if opened else None


@pytest.fixture
def tables(tmp_path: Path) -> Tables:
    return Tables(tmp_path)


def actions(store: Store) -> list[tuple[str, str]]:
    return [(event.actor, event.action) for event in reversed(events.list_events(store)) if event.subject == "t"]


def test_incident_opens_with_a_mismatch_and_closes_with_recovery(tables: Tables) -> None:
    tables.run()
    assert tables.state() is None
    tables.damage(7)
    first, second = tables.run(), tables.run()
    opened = stored.get_open(tables.store, "t")
    assert opened is not None
    assert (opened.state, opened.severity, opened.first_run, opened.last_run) == ("open", "mismatch", first, second)
    (shown,) = overview(tables.settings, tables.store)
    assert shown.incident == opened and shown.needs_attention
    tables.mend(7)
    tables.run(keys={"from": 0, "to": 5})
    assert tables.state() == "open", "a one-off run"
    last = tables.run()
    (closed,) = stored.list_incidents(tables.store, audit="t")
    assert (closed.state, closed.closing_run, closed.last_run) == ("closed", last, second)
    assert closed.closed is not None and closed.closed >= closed.opened
    tables.damage(8)
    tables.run()
    assert [one.state for one in stored.list_incidents(tables.store)] == ["open", "closed"]
    assert stored.list_incidents(tables.store, before=2, limit=1) == [closed]


def test_failed_run_neither_opens_nor_closes(tables: Tables) -> None:
    tables.damage(7)
    tables.run()
    tables.execute("target", "ALTER TABLE t RENAME TO gone")
    tables.run()
    assert tables.state() == "open"


def test_acknowledgement_says_who_and_why_until_when(tables: Tables) -> None:
    tables.damage(7)
    run = tables.run()
    until = dt.datetime.now(dt.UTC) + dt.timedelta(hours=1)
    tables.acknowledge(until=until)
    opened = stored.get_open(tables.store, "t")
    assert opened is not None and opened.acknowledgement is not None and opened.state == "acknowledged"
    assert opened.acknowledgement.model_dump(exclude={"at"}) == {
        "by": "ann",
        "why": "a known backfill",
        "muted": False,
        "until": until,
        "differences": "all",
        "run": run,
    }
    (shown,) = overview(tables.settings, tables.store)
    assert shown.needs_attention
    tables.acknowledge(muted=True)
    (shown,) = overview(tables.settings, tables.store)
    assert shown.incident is not None and shown.incident.state == "muted" and not shown.needs_attention
    incidents.withdraw(tables.settings, tables.store, "t", by="bob")
    assert tables.state() == "open"
    assert actions(tables.store) == [("ann", "incident acknowledged"), ("ann", "incident muted"), ("bob", "acknowledgement ended")]


def test_acknowledgement_ends_at_its_time(tables: Tables) -> None:
    tables.damage(7)
    tables.run()
    tables.acknowledge(muted=True, until=dt.datetime.now(dt.UTC) + dt.timedelta(hours=1))
    over = dt.datetime.now(dt.UTC) - dt.timedelta(seconds=1)
    tables.store.write(lambda connection: connection.execute(sa.update(stored.incidents).values(until=over)) and None)
    opened = stored.get_open(tables.store, "t")
    assert opened is not None and (opened.state, opened.acknowledgement) == ("open", None)


def test_acknowledgement_of_known_differences_ends_with_a_new_one(tables: Tables) -> None:
    tables.damage(7, 8)
    tables.run()
    tables.acknowledge(differences="known", muted=True)
    tables.mend(8)
    tables.run()
    assert tables.state() == "muted", "what is gone is not new"
    tables.damage(8)
    tables.run()
    assert tables.state() == "muted", "it was known"
    tables.damage(2500)
    run = tables.run()
    assert tables.state() == "open"
    assert actions(tables.store)[-1] == ("auditor", "acknowledgement ended")
    assert events.list_events(tables.store, limit=1)[0].detail["why"] == f"run {run[:12]} found 1 difference more than were known"


def test_all_differences_stay_acknowledged(tables: Tables) -> None:
    tables.damage(7)
    tables.run()
    tables.acknowledge()
    tables.damage(2500)
    tables.run()
    assert tables.state() == "acknowledged"


def test_what_is_not_known_ends_an_acknowledgement_of_known_differences(tables: Tables) -> None:
    tables.damage(7)
    tables.run()
    tables.acknowledge(differences="known")
    tables.audit = {"limits": {"max_differences": 0}}
    tables.run()
    assert tables.state() == "open"


def test_acknowledgement_is_refused_without_incident_reason_or_time(tables: Tables) -> None:
    tables.run()
    with pytest.raises(NoIncident, match="audit t has no open incident"):
        tables.acknowledge()
    with pytest.raises(NoIncident):
        incidents.withdraw(tables.settings, tables.store, "t", by="ann")
    with pytest.raises(UnknownAudit):
        incidents.acknowledge(tables.settings, tables.store, "u", by="ann", why="because")
    tables.damage(7)
    tables.run()
    with pytest.raises(ConfigError, match="say why"):
        incidents.acknowledge(tables.settings, tables.store, "t", by="ann", why=" ")
    with pytest.raises(ConfigError, match="in the past"):
        tables.acknowledge(until=dt.datetime(2020, 1, 1, tzinfo=dt.UTC))


def test_changes_between_runs_are_named_by_key(tables: Tables) -> None:
    tables.damage(7, 8)
    first = tables.run()
    tables.mend(7)
    tables.damage(9, 10)
    second = tables.run()
    changes = compare_runs(tables.store, first, second)
    assert (changes.new, changes.gone, changes.same, changes.certain, changes.reasons) == (2, 1, 1, True, ())
    keys = [[row.key for row in rows] for rows in (changes.new_rows, changes.gone_rows, changes.same_rows)]
    assert keys == [[{"id": "9"}, {"id": "10"}], [{"id": "7"}], [{"id": "8"}]]
    assert compare_with_previous(tables.store, second) == changes
    assert compare_with_previous(tables.store, first) is None
    assert len(compare_runs(tables.store, first, second, shown=1).new_rows) == 1
    tables.mend(8, 9, 10)
    over = compare_with_previous(tables.store, tables.run())
    assert over is not None and (over.new, over.gone, over.same, over.certain) == (0, 3, 0, True)


def test_what_changed_of_a_rolling_audit_is_what_its_incidents_tell(tables: Tables) -> None:
    """A run that read equal parts does not end what another one found, and says nothing new."""
    tables.audit = {"rolling": {"per_run": "50%"}}

    def standing() -> tuple[str | None, bool]:
        [shown] = overview(tables.settings, tables.store)
        return shown.change, shown.streak is not None and shown.streak.since <= dt.datetime.now(dt.UTC)

    for _ in range(2):
        tables.run()
    assert standing() == (None, False)
    tables.damage(7)
    found = 0
    while stored.get_open(tables.store, "t") is None:
        tables.run()
        found += 1
    assert found <= 2 and standing() == ("new", True)
    [shown] = overview(tables.settings, tables.store)
    yesterday = dt.datetime.now(dt.UTC) - dt.timedelta(days=1)
    assert find_streaks(tables.store, {"t": shown.standing}, yesterday) == {}, "an incident of today says nothing of yesterday"
    tables.run()
    assert standing() == ("still", True)
    tables.mend(7)
    said = []
    while tables.state() is not None:
        tables.run()
        said.append(standing()[0])
    assert said[-1] == "recovered" and set(said[:-1]) <= {"still"}
    tables.run()
    assert standing() == (None, True)


@pytest.mark.parametrize(
    ("audit", "overrides", "reason"),
    [
        ({}, {"keys": {"from": 0, "to": 1500}}, "read a part of the table"),
        ({"method": "counts"}, {}, "compared counts, which name no rows"),
        ({"method": "signature"}, {}, "names no rows"),
        ({"limits": {"max_differences": 1}}, {}, "lists 1 of the differences that it counted"),
        ({"rolling": {"per_run": "40%"}}, {}, "read a part of the table"),
    ],
)
def test_changes_say_why_they_are_not_certain(tables: Tables, audit: dict[str, Any], overrides: dict[str, Any], reason: str) -> None:
    tables.damage(7, 8)
    first = tables.run()
    tables.audit = audit
    second = tables.run(**overrides)
    changes = compare_runs(tables.store, first, second)
    assert not changes.certain
    assert changes.reasons == (f"run {second[:12]} {reason}",)


def test_masked_keys_are_compared_and_not_shown(tables: Tables) -> None:
    tables.audit = {"columns": {"override": {"id": {"mask": True}}}, "partition": {"strategy": "hash"}}
    tables.damage(7, 8)
    first = tables.run()
    tables.mend(7)
    changes = compare_runs(tables.store, first, tables.run())
    assert (changes.new, changes.gone, changes.same) == (0, 1, 1)
    assert [row.key for row in (*changes.gone_rows, *changes.same_rows)] == [{"id": "***"}] * 2


def test_commands_of_the_page_are_executed(
    tables: Tables, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Those of alerts.md, in their order, with a time that is to come."""
    monkeypatch.chdir(tmp_path)
    ends = "".join(f"    {side}: {{connection: {side}, table: t}}\n" for side in ("source", "target"))
    urls = "".join(f"  {side}: {{url: 'duckdb:///{tmp_path}/{side}.duckdb'}}\n" for side in ("source", "target"))
    Path("auditor.yaml").write_text(f"connections:\n{urls}audits:\n  orders:\n{ends}", encoding="utf-8")
    tables.damage(7)
    assert main(["run", "orders", "--quiet"]) == 1
    capsys.readouterr()
    printed = []
    tomorrow = f"{dt.datetime.now(dt.UTC) + dt.timedelta(days=1):%Y-%m-%d}"
    (block,) = documents.blocks(documents.ROOT / "docs" / "alerts.md", "console")
    for command, _ in documents.sessions(block):
        assert main(shlex.split(command.replace("2026-11-02", tomorrow))[1:]) == 0, command
        printed.append(capsys.readouterr().out.strip())
    assert "orders" in printed[0] and "open" in printed[0]
    assert re.fullmatch(rf"orders: incident 1 is acknowledged by .* until {tomorrow} 12:00 UTC: the backfill runs until noon", printed[1])
    assert re.fullmatch("orders: incident 1 is muted by .*, known differences alone: three test rows", printed[2])
    assert printed[3] == "orders: incident 1 is open"
    assert main(["acknowledge", "orders"]) == 2
    assert "say why: --why REASON" in capsys.readouterr().err
    assert main(["acknowledge", "orders", "--withdraw", "--mute"]) == 2
    assert main(["incidents", "ordres"]) == 2


def test_runs_of_different_audits_are_not_compared(tables: Tables) -> None:
    first = tables.run()
    settings = tables.settings
    other = settings.model_copy(update={"audits": {"u": settings.audits["t"]}})
    second = service.run_audit(other, "u", store=tables.store).run
    with pytest.raises(ConfigError, match="are of different audits"):
        compare_runs(tables.store, first, second)
