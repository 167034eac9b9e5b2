"""``tables:`` in an audit: one audit for each table that both sides have."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
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


@pytest.fixture
def sent(workdir: Path) -> Iterator[list[str]]:
    """Bodies of messages that the one channel received, which gets the digest."""
    bodies: list[str] = []

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            bodies.append(self.rfile.read(int(self.headers["Content-Length"])).decode())
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    with HTTPServer(("127.0.0.1", 0), Receiver) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        value = json.loads((workdir / "auditor.yaml").read_text())
        value["notify"] = {"channels": {"ops": {"url": f"json://127.0.0.1:{server.server_port}", "on": ["digest"]}}}
        (workdir / "auditor.yaml").write_text(json.dumps(value, indent=1))
        yield bodies
        server.shutdown()


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
        "auditor: shop: dropped is only in the source, so it has no audit",
        "auditor: shop: added is only in the target, so it has no audit",
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


NAMES = {"shop.orders", "shop.customers", "shop.log", "alone"}
"""The audits of the configuration, once they ran."""

SAID: dict[str, tuple[str, ...]] = {
    "ls --json": (*NAMES,),
    "ls shop --json": ("shop.orders", "shop.customers", "shop.log"),
    "ls shop.c* --json": ("shop.customers",),
    "check": (*(f"{name}: can run" for name in NAMES), "all 4 audits can run"),
    "check shop.orders": ("shop.orders: can run",),
    "plan shop.orders": ("shop.orders", "method exact"),
    "sql shop.orders": ("auditor: audit shop.orders, source",),
    "schema shop.orders": ("The target of shop.orders",),
    "report": ("MISMATCH  shop.customers", *NAMES),
    "report --format json": (*NAMES,),
    "report --format junit": ('tests="4" failures="1" errors="0"', *NAMES),
    "report --run shop.orders": ("MATCH  shop.orders",),
    "show shop.orders": ("shop.orders: MATCH",),
    "differences shop.customers": ("missing",),
    "runs --audit shop.orders": ("shop.orders",),
    "history shop.orders": ("shop.orders",),
    "costs": (*NAMES,),
    "run shop -q": ("3 audits: 2 match, 1 mismatch in",),
    "run --all -q": ("4 audits: 3 match, 1 mismatch in",),
    "patch shop.customers -q": ("INSERT INTO",),
    "wait shop --verified-through 2020-01-01 --timeout 0 -q": ("shop.orders: VERIFIED", "shop.customers: MISMATCH"),
    "notify digest": ("shop.orders", "shop.customers"),
    "dump shop.orders": ("audit shop.orders has no via:",),
    "compare --source none.csv --target none.csv --audit shop.orders": ("none.csv",),
    "pause shop.orders": (),
    "unpause shop.orders": (),
    "crontab": ("shop.orders: 30 6 * * *",),
}
"""What each command that names audits prints, on standard output or on standard error."""


@pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")  # a plugin of apprise's imports it
def test_every_command_knows_the_audits_of_a_group(workdir: Path, capsys: pytest.CaptureFixture[str], sent: list[str]) -> None:
    main(["run", "--all", "-q"])
    capsys.readouterr()
    for command, expected in SAID.items():
        main(command.split())
        out, error = capsys.readouterr()
        printed = "\n".join([out, error, *sent])
        assert [words for words in expected if words not in printed] == [], (command, printed)
        assert "there is no audit" not in printed and "there are no audits" not in printed, (command, printed)


def test_audits_defined_over_http_run_from_the_command_line(workdir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = config.load(workdir / "auditor.yaml")
    assert settings.store
    store = open_store(settings.store.url)
    ends = {side: {"connection": side, "table": "log"} for side in TABLES}
    audits.define(settings, store, "defined", {**ends, "method": "signature"}, by="test")
    store.close()
    assert ran(capsys, "defined")[0] == {"defined": "match"}
    assert "defined" in ran(capsys, "--all")[0]
    for command in ("check defined", "sql defined", "plan defined"):
        assert main(command.split()) == 0, command
    assert "defined" in capsys.readouterr().out


def test_a_group_that_never_ran_says_how_to_list_its_audits(workdir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ls"]) == 0
    assert "no table of shop has been audited yet; run them: auditor run shop" in capsys.readouterr().err


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
