"""A source of shards on live servers: on MySQL and on MariaDB, or in two databases of one, against PostgreSQL."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from auditor import service
from auditor.config import ConnectionSettings, Settings, validate_audit, validate_settings
from auditor.errors import AuditorError
from auditor.history import records
from auditor.model import Report, Verdict
from auditor.run import audit_run
from auditor.store import open_store
from dialects import Kind
from tests import tables
from tests.live import Engines, LiveEngine

pytestmark = [pytest.mark.mysql, pytest.mark.mariadb, pytest.mark.postgres]

Row = tuple[Any, ...]
COLUMNS = [
    ("id", Kind("integer")),
    ("name", Kind("text")),
    ("price", Kind("decimal", 12, 2)),
    ("seen", Kind("timestamp", scale=6)),
]
DAMAGED = {"17": "missing", "34": "changed", "100": "missing", "9001": "extra"}


def row(number: int, name: str = "") -> Row:
    seen = dt.datetime(2024, 1, 1) + dt.timedelta(microseconds=number * 1_000_003)
    return number, name or f"Größe {number} 😀|", Decimal(number).scaleb(-2), None if number % 7 == 0 else seen


def fill(engines: Engines, name: str, *, damaged: bool) -> dict[str, LiveEngine]:
    """Fill both shards and the target with a table of this name; key 100 is doubled, and 128 to 255 missing, if it is damaged."""
    where = {"eu": engines.live("mysql"), "us": engines.live("mariadb"), "dw": engines.live("postgres")}
    odd, even = [row(n) for n in range(1, 801, 2)], [row(n) for n in range(2, 801, 2)]
    tables.make(where["eu"], name, COLUMNS, [*odd, row(100)] if damaged else odd, ["id"])
    tables.make(where["us"], name, COLUMNS, even, ["id"])
    lost = {17, *range(128, 256)} if damaged else set()
    target = [row(n, "other" if damaged and n == 34 else "") for n in range(1, 801) if n not in lost]
    tables.make(where["dw"], name, COLUMNS, [*target, row(9001)] if damaged else target, ["id"])
    return where


def audit_settings(name: str, **more: Any) -> dict[str, Any]:
    source = [{"connection": "eu", "table": name}, {"connection": "us", "table": name}]
    return {"source": source, "target": {"connection": "dw", "table": name}, "partition": {"size": 64}, **more}


def run(where: dict[str, LiveEngine], name: str, **more: Any) -> Report:
    connections = {name: ConnectionSettings(url=engine.url) for name, engine in where.items()}
    return audit_run.run("orders", validate_audit(audit_settings(name, **more)), connections)


def test_shards_on_mysql_and_mariadb_match_postgres_and_their_damage_is_named_with_its_shard(engines: Engines) -> None:
    where = fill(engines, "shards_of_two", damaged=False)
    report = run(where, "shards_of_two")
    assert (report.verdict, report.reasons) == (Verdict.MATCH, ("no difference",))
    assert [(one.verdict, one.rows) for one in report.shards] == [(Verdict.MATCH, 400), (Verdict.MATCH, 400)]
    assert "MySQL" in report.shards[0].server and "MariaDB" in report.shards[1].server

    report = run(fill(engines, "shards_of_two", damaged=True), "shards_of_two")
    found = report.differences
    assert found is not None and found.exact and report.verdict is Verdict.MISMATCH
    assert {one.key["id"]: one.kind for one in found.named} | {"9001": "extra"} == DAMAGED
    shards = {one.key["id"]: one.shards for one in found.named}
    eu, us = "eu: shards_of_two", "us: shards_of_two"
    assert (shards["17"], shards["34"], shards["100"]) == ((eu,), (us,), (eu, us))
    assert [span.shards for span in found.ranges if span.kind == "missing"] == [{eu: 64, us: 64}]
    assert [(one.missing, one.changed, one.doubled) for one in report.shards] == [(65, 0, 1), (64, 1, 1)]


@pytest.mark.slow
@pytest.mark.parametrize("method", ["counts", "signature", "minhash"])
def test_other_methods_add_up_the_shards_of_two_servers(engines: Engines, method: str) -> None:
    assert run(fill(engines, "shards_by_method", damaged=False), "shards_by_method", method=method).verdict is Verdict.MATCH
    assert run(fill(engines, "shards_by_method", damaged=True), "shards_by_method", method=method).verdict is Verdict.MISMATCH


def settings_of(where: dict[str, LiveEngine], name: str, folder: Path) -> Settings:
    connections = {name: {"url": engine.url} for name, engine in where.items()}
    values = {"connections": connections, "audits": {"orders": audit_settings(name)}, "store": {"url": f"sqlite:///{folder}/store.db"}}
    return validate_settings(values)


def test_a_stored_run_keeps_what_was_found_of_each_shard_and_a_patch_of_it_is_refused(engines: Engines, tmp_path: Path) -> None:
    where = fill(engines, "shards_stored", damaged=True)
    settings = settings_of(where, "shards_stored", tmp_path)
    store = open_store(f"sqlite:///{tmp_path}/store.db")
    try:
        report = service.run_audit(settings, "orders", store=store)
        loaded = records.load_report(store, report.run)
        assert loaded is not None and loaded.shards == report.shards and loaded.differences is not None
        assert [one.shards for one in loaded.differences] == [one.shards for one in report.differences or ()]
        with pytest.raises(AuditorError, match="a patch needs a source of one table, and this audit's has 2 shards"):
            _propose(settings, store, report)
    finally:
        store.close()


def _propose(settings: Settings, store: Any, report: Report) -> None:
    from auditor.connections.reader import ignore_progress
    from auditor.repair.keys import Selection
    from auditor.repair.proposal import propose

    with propose(store, report, settings.audits["orders"], settings.connections, Selection(), (), ignore_progress):
        pass
