"""Audits that name columns of one target's table, each of its own source: they have one standing, and one message."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from auditor import service
from auditor.cli import main
from auditor.config import Settings, load
from auditor.history.table_standing import find_shared
from auditor.service import audits, notify
from auditor.service.channels import Message
from auditor.store import Store, open_store

CONFIGURATION = """
connections:
  crm: {{url: "duckdb:///{0}/crm.duckdb"}}
  billing: {{url: "duckdb:///{0}/billing.duckdb"}}
  dwh: {{url: "duckdb:///{0}/dwh.duckdb"}}
store: {{url: "sqlite:///{0}/auditor.db"}}
notify: {{channels: {{ops: {{url: "json://127.0.0.1"}}}}, repeat_after: 0s}}
audits:
  names:
    {{source: {{connection: crm, table: people}}, target: {{connection: dwh, table: customers}}, key: [id], columns: {{include: [name]}}}}
  balances:
    source: {{connection: billing, table: accounts}}
    target: {{connection: dwh, table: customers}}
    key: [id]
    columns: {{include: [balance]}}
  everything: {{source: {{connection: dwh, table: customers}}, target: {{connection: dwh, table: customers}}, key: [id]}}
"""


class Shared:
    """The databases of two systems and of a warehouse, and what was sent to the channel."""

    def __init__(self, folder: Path, sent: list[Message]) -> None:
        self.folder, self.sent = folder, sent
        (folder / "auditor.yaml").write_text(CONFIGURATION.format(folder))
        self.run("crm", "CREATE TABLE people (id INTEGER, name VARCHAR)", "INSERT INTO people VALUES (1, 'ada'), (2, 'bob')")
        self.run("billing", "CREATE TABLE accounts (id INTEGER, balance INTEGER)", "INSERT INTO accounts VALUES (1, 10), (2, 20)")
        table = "CREATE TABLE customers (id INTEGER, name VARCHAR, balance INTEGER)"
        self.run("dwh", table, "INSERT INTO customers VALUES (1, 'ada', 10), (2, 'bob', 20)")
        self.settings: Settings = load(folder / "auditor.yaml")
        self.store: Store = open_store(f"sqlite:///{folder}/auditor.db")

    def run(self, database: str, *statements: str) -> None:
        with duckdb.connect(f"{self.folder}/{database}.duckdb") as connection:
            for statement in statements:
                connection.execute(statement)

    def audit(self, name: str) -> None:
        report = service.run_audit(self.settings, name, store=self.store)
        assert notify.notify_run(self.settings.notify, self.store, report, audits=self.settings.audits) == []

    def stands(self) -> dict[str, Any]:
        found = audits.overview(self.settings, self.store, trends=False)
        return {one.name: (one.standing.status, one.table and one.table.status) for one in found}


@pytest.fixture
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shared]:
    sent: list[Message] = []
    monkeypatch.setattr(notify, "send", lambda _, __, message: sent.append(message))
    made = Shared(tmp_path, sent)
    yield made
    made.store.close()


def test_only_audits_that_name_columns_of_the_same_table_share_it(shared: Shared) -> None:
    both = ["names", "balances"]
    assert find_shared(shared.settings.audits) == dict.fromkeys(both, both)


def test_the_table_stands_as_the_worst_of_its_audits(shared: Shared) -> None:
    shared.audit("names")
    assert shared.stands() == {"names": ("match", "never"), "balances": ("never", "never"), "everything": ("never", None)}
    shared.audit("balances")
    assert shared.stands()["names"] == ("match", "match")
    shared.run("dwh", "UPDATE customers SET balance = 21 WHERE id = 2")
    shared.audit("balances")
    assert shared.stands() == {"names": ("match", "mismatch"), "balances": ("mismatch", "mismatch"), "everything": ("never", None)}
    [only] = audits.overview(shared.settings, shared.store, "names", trends=False)
    assert only.table and only.table.audits == {"names": "match", "balances": "mismatch"}
    shown = audits.get_audit(shared.settings, shared.store, "names")
    assert shown.table and (shown.table.status, shown.status.status) == ("mismatch", "match")
    assert audits.get_audit(shared.settings, shared.store, "everything").table is None


def test_messages_are_about_the_table_which_recovers_once_each_audit_matches(shared: Shared) -> None:
    shared.run("dwh", "UPDATE customers SET balance = 21, name = 'eve' WHERE id = 2")
    shared.audit("balances")
    shared.audit("names")
    assert [one.title for one in shared.sent] == [
        "dwh: customers: MISMATCH, 1 row differs by balances", "dwh: customers: MISMATCH, 1 row differs by names",
    ]  # fmt: skip
    assert "names never run, balances mismatch" in shared.sent[0].lines[0]
    assert "names mismatch, balances mismatch" in shared.sent[1].lines[0]
    shared.run("dwh", "UPDATE customers SET balance = 20 WHERE id = 2")
    shared.audit("balances")
    assert len(shared.sent) == 2, "the table has not recovered"
    shared.run("dwh", "UPDATE customers SET name = 'bob' WHERE id = 2")
    shared.audit("names")
    assert [one.title for one in shared.sent[2:]] == ["dwh: customers: MATCH again"]
    shared.audit("balances")
    assert len(shared.sent) == 3, "it is told once"


def test_an_audit_that_never_ran_holds_no_recovery_back(shared: Shared) -> None:
    shared.run("dwh", "UPDATE customers SET balance = 21 WHERE id = 2")
    shared.audit("balances")
    shared.run("dwh", "UPDATE customers SET balance = 20 WHERE id = 2")
    shared.audit("balances")
    assert shared.sent[-1].title == "dwh: customers: MATCH again by balances"


def test_the_list_names_the_table_once(shared: Shared, capsys: pytest.CaptureFixture[str]) -> None:
    shared.audit("names")
    shared.audit("balances")
    assert main(["ls", "--config", str(shared.folder / "auditor.yaml")]) == 0
    told = capsys.readouterr().out
    assert told.count("dwh: customers, of which 2 audits compare columns of their own: match") == 1
