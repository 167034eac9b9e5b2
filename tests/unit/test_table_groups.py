"""``tables:`` in an audit: one audit for each table that both sides have."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import duckdb
import pytest

from auditor import config
from auditor.cli import main
from auditor.errors import ConfigError
from auditor.service import audits
from auditor.store import open_store

TABLES = {"source": ("orders", "customers", "dropped", "log"), "target": ("orders", "customers", "log", "added")}


@pytest.fixture
def workdir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two databases, of whose tables three have the same name, and a configuration of a group and an audit beside it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("AUDITOR_CONFIG", raising=False)
    for side, names in TABLES.items():
        with duckdb.connect(f"{side}.duckdb") as database:
            for name in names:
                database.execute(f"CREATE TABLE {name} (id BIGINT PRIMARY KEY, v VARCHAR)")
                database.execute(f"INSERT INTO {name} SELECT i, 'v' || i FROM range(20) r(i)")
    with duckdb.connect("target.duckdb") as database:
        database.execute("DELETE FROM customers WHERE id = 5")
    write(tmp_path)
    return tmp_path


def write(folder: Path, **group: Any) -> None:
    ends = {side: {"connection": side} for side in TABLES}
    alone = {side: {"connection": side, "table": "log"} for side in TABLES}
    value = {
        "connections": {side: {"url": f"duckdb:///{folder}/{side}.duckdb"} for side in TABLES},
        "audits": {"shop": {**ends, "tables": "*", "schedule": "30 6 * * *", **group}, "alone": alone},
    }
    (folder / "auditor.yaml").write_text(json.dumps(value, indent=1), encoding="utf-8")


def ran(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[dict[str, str], str]:
    main(["run", *arguments, "-q", "--json"])
    out, error = capsys.readouterr()
    found = json.loads(out)
    return {one["audit"]: one["verdict"] for one in (found if isinstance(found, list) else [found])}, error


def test_each_table_of_both_sides_is_an_audit(workdir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found, error = ran(capsys, "shop")
    assert found == {"shop.orders": "match", "shop.customers": "mismatch", "shop.log": "match"}
    assert error.splitlines() == [
        "auditor: shop: dropped: only in the source; it has no audit",
        "auditor: shop: added: only in the target; it has no audit",
    ]
    assert ran(capsys, "shop.o*")[0] == ran(capsys, "shop.orders")[0] == {"shop.orders": "match"}
    assert ran(capsys, "alone") == ({"alone": "match"}, "")
    assert main(["run", "shop.absent", "-q"]) == 2
    assert "there is no audit 'shop.absent'" in capsys.readouterr().err
    assert main(["check", "shop.orders"]) == 0


def test_what_ran_is_known_without_the_databases(workdir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ran(capsys, "shop.c*")
    for side in TABLES:
        (workdir / f"{side}.duckdb").unlink()
    assert main(["ls", "--json"]) == 0
    found = {one["audit"]: (one["status"], one["next_due"] is not None) for one in json.loads(capsys.readouterr().out)}
    assert found == {"shop.customers": ("mismatch", True), "alone": ("never", False)}
    assert main(["show", "shop.customers"]) == 0
    capsys.readouterr()
    assert main(["run", "--due", "-q"]) == 0
    assert "tables that were audited before are still due" in capsys.readouterr().err


def test_settings_of_the_group_hold_for_each_of_its_audits(workdir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(workdir, tables=["main.c*", "orders"], threshold={"rows": 1})
    assert ran(capsys, "shop")[0] == {"shop.orders": "match", "shop.customers": "match"}
    settings = config.load(workdir / "auditor.yaml")
    assert settings.store
    store = open_store(settings.store.url)
    try:
        assert {"shop.orders", "shop.customers"} <= set(audits.with_defined_audits(settings, store).audits)
    finally:
        store.close()


def test_a_group_without_tables_says_so(workdir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(workdir, tables="nothing_*")
    assert main(["run", "shop"]) == 2
    assert "audits.shop: no table that matches nothing_* is on both sides" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"source": {"connection": "source", "table": "t"}}, "audits.shop: tables and source: table cannot be combined"),
        ({"source": {"connection": "sauce"}}, "there is no connection 'sauce'; did you mean 'source'?"),
        ({"tables": []}, "audits.shop.tables"),
        ({"methd": "exact"}, "audits.shop.methd: unknown setting 'methd'; did you mean 'method'?"),
        ({"source": {}}, "audits.shop.source.connection: this setting is required"),
        ({"via": {"connection": "source", "table": "dump.parquet"}}, "via and tables cannot be combined"),
    ],
)
def test_wrong_settings_are_named_with_their_line(workdir: Path, wrong: dict[str, Any], message: str) -> None:
    write(workdir, **wrong)
    with pytest.raises(ConfigError) as raised:
        config.load(workdir / "auditor.yaml")
    assert message in str(raised.value)
    assert "auditor.yaml:" in str(raised.value)
