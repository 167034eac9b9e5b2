"""``tables:`` in an audit: one audit for each table that both sides have."""

from __future__ import annotations

import argparse
import json
import logging
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import duckdb
import pytest

from auditor import config
from auditor.cli import main, parser
from auditor.errors import ConfigError
from auditor.pipeline.segments.sides import is_masked
from auditor.service import audits, table_pairs
from auditor.service import patches as service_patches
from auditor.store import Store, open_store, patches, runs

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


def opened(folder: Path) -> tuple[config.Settings, Store]:
    """Return the settings of the folder, and its store, opened."""
    settings = config.load(folder / "auditor.yaml")
    assert settings.store
    return settings, open_store(settings.store.url)


def write(folder: Path, **group: Any) -> None:
    ends = {side: {"connection": side} for side in TABLES}
    alone = {side: {"connection": side, "table": "log"} for side in TABLES}
    value = {
        "connections": {side: {"url": (url := f"duckdb:///{folder}/{side}.duckdb"), "write": {"url": url}} for side in TABLES},
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
    "partitions shop.customers": ("accounted",),
    "incidents shop.customers": ("shop.customers", "open"),
    "acknowledge shop.customers --why known": ("shop.customers: incident 1 is acknowledged",),
    "bisect shop.orders": ("shop.orders: it cannot be told, because the audit keeps no ledger",),
    "trace shop.customers": ("no pipeline of this configuration carries customers of source into customers",),
    "forget shop.customers --key 5": ("found: stored runs that name it",),
    "bootstrap shop.customers -q": ("bootstrap of shop.customers: the whole table",),
    "drill shop.orders": ("drill of shop.orders:", "damage the row with the key 7"),
    "evidence RUN": ("of shop.orders has no evidence",),
    "resume RUN": ("is done; start a new run: auditor run shop.orders",),
    "cancel RUN": ("done",),
    "patch shop.customers --apply -q": ("1 inserted",),
}
"""What each command that names audits prints, on standard output or on standard error; RUN is a run of shop.orders."""

ELSEWHERE = {
    **dict.fromkeys(
        ("segments status", "segments verify", "segments copy", "segments reset"), "names audits of segments, which no group has"
    ),
    "token create": "takes patterns of names, of audits that there may be later",
}
"""Commands that name audits in another sense, and in which."""


def naming_audits(commands: argparse.ArgumentParser, before: str = "") -> Iterator[str]:
    """Yield every command that takes the name of an audit, or a run, for which an audit may stand."""
    for action in commands._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, command in action.choices.items():
                yield from naming_audits(command, f"{before} {name}".strip())
        elif str(action.metavar).removesuffix(",..") in ("AUDIT", "RUN"):
            yield before


def test_what_is_said_of_groups_is_known_of_every_command_that_names_an_audit() -> None:
    named = set(naming_audits(parser()))
    assert {"run", "bisect", "segments status"} <= named  # else nothing was found
    assert named - {command for command in named if any(said.startswith(f"{command} ") for said in (*SAID, *ELSEWHERE))} == {*ELSEWHERE}


@pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")  # a plugin of apprise's imports it
def test_every_command_knows_the_audits_of_a_group(workdir: Path, capsys: pytest.CaptureFixture[str], sent: list[str]) -> None:
    main(["run", "--all", "-q"])
    capsys.readouterr()
    run = run_of(workdir, "shop.orders")
    for command, expected in SAID.items():
        main(command.replace("RUN", run).split())
        out, error = capsys.readouterr()
        printed = "\n".join([out, error, *sent])
        assert [words for words in expected if words not in printed] == [], (command, printed)
        assert [words for words in UNKNOWN if words in printed] == [], (command, printed)


UNKNOWN = ("there is no audit", "there are no audits", "there is no run", "has not run yet")
"""What is said where an audit is not known."""


def run_of(folder: Path, audit: str) -> str:
    _, store = opened(folder)
    try:
        return runs.list_runs(store, audit=audit, limit=1)[0].run
    finally:
        store.close()


def test_every_command_knows_audits_that_were_defined_over_http(workdir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    define(workdir)
    assert ran(capsys, "defined")[0] == {"defined": "mismatch"}
    run = run_of(workdir, "defined")
    of_one = [command for command in SAID if ("shop." in command and "*" not in command) or "RUN" in command]
    of_one.remove("patch shop.customers --apply -q")  # its channels are another test's
    assert len(of_one) > 20
    for command in of_one:
        main(command.replace("RUN", run).replace("shop.orders", "defined").replace("shop.customers", "defined").split())
        out, error = capsys.readouterr()
        assert [words for words in UNKNOWN if words in out + error] == [], (command, out, error)


@pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")  # a plugin of apprise's imports it
def test_a_patch_is_told_to_the_channel_of_the_owner(workdir: Path, capsys: pytest.CaptureFixture[str], sent: list[str]) -> None:
    value = json.loads((workdir / "auditor.yaml").read_text())
    value["audits"]["shop"]["owner"] = "sales"
    channel = value["notify"]["channels"]["ops"]
    value["notify"]["channels"] = {
        "sales": {**channel, "on": ["patch"], "owners": ["sales"]},
        "others": {**channel, "on": ["patch"], "owners": ["logistics"]},
    }
    (workdir / "auditor.yaml").write_text(json.dumps(value))
    ran(capsys, "shop.customers")
    assert main(["patch", "shop.customers", "--apply", "-q"]) == 0, capsys.readouterr().err
    assert [json.loads(body)["title"].partition(":")[0] for body in sent] == ["shop.customers"]
    sent.clear()
    settings, store = opened(workdir)
    try:
        run = runs.list_runs(store, audit="shop.customers", limit=5)[-1].run
        applied = patches.list_patches(store, run)[0]
        undo = service_patches.request_undo(store, applied.patch, rows=1, who="ada", idempotency="1")
        assert service_patches.run_next(settings, store, threading.Event())  # as a worker of the service does
        assert patches.get_patch(store, undo.patch).state == "done"
    finally:
        store.close()
    assert [json.loads(body)["title"].split()[:2] for body in sent] == [["shop.customers:", "UNDO"]]


def test_audits_defined_over_http_run_from_the_command_line(workdir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    define(workdir, "log", method="signature")
    assert ran(capsys, "defined")[0] == {"defined": "match"}
    assert "defined" in ran(capsys, "--all")[0]
    for command in ("check defined", "sql defined", "plan defined"):
        assert main(command.split()) == 0, command
    assert "defined" in capsys.readouterr().out


def define(folder: Path, table: str = "customers", **more: Any) -> None:
    settings, store = opened(folder)
    try:
        ends = {side: {"connection": side, "table": table} for side in TABLES}
        audits.define(settings, store, "defined", {**ends, **more}, by="test")
    finally:
        store.close()


@pytest.mark.parametrize("command", ["ls", "report", "report --format html", "report --format markdown"])
def test_a_group_that_never_ran_says_how_to_list_its_audits(workdir: Path, capsys: pytest.CaptureFixture[str], command: str) -> None:
    value = json.loads((workdir / "auditor.yaml").read_text())
    del value["audits"]["alone"]
    (workdir / "auditor.yaml").write_text(json.dumps(value))
    assert main(command.split()) == 0
    out, error = capsys.readouterr()
    assert error == "auditor: no table of shop has been audited yet; run them: auditor run shop\n"
    assert command == "ls" or "o table of shop has been audited yet" in out
    assert "no audits" not in out + error
    for named in ("history shop", "runs --audit shop", "plan shop.orders"):
        main(named.split())
    assert "'shop' is a group of tables, each of which is an audit of its own; name one of them, as shop.TABLE" in capsys.readouterr().err


def test_settings_of_the_group_hold_for_each_of_its_audits(workdir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(workdir, tables=["main.c*", "orders"], threshold={"rows": 1})
    assert ran(capsys, "shop")[0] == {"shop.orders": "match", "shop.customers": "match"}
    settings, store = opened(workdir)
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


def test_tables_at_the_top_are_said_to_belong_into_an_audit(workdir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    value = json.loads((workdir / "auditor.yaml").read_text())
    (workdir / "auditor.yaml").write_text(json.dumps({**value, "tables": "*"}))
    assert main(["ls"]) == 2
    assert "unknown setting 'tables'; it belongs in an audit, as in audits: {shop: {tables: '*'}}" in capsys.readouterr().err


@pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")  # a plugin of apprise's imports it
def test_a_channel_that_fails_is_said_once(workdir: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    value = json.loads((workdir / "auditor.yaml").read_text())
    value["notify"] = {"channels": {"ops": {"url": "json://127.0.0.1:9/", "on": ["mismatch", "patch"]}}}
    (workdir / "auditor.yaml").write_text(json.dumps(value))
    monkeypatch.setattr(logging.getLogger(), "handlers", [])  # as in a process of its own, where warnings go to standard error
    why = "the service could not be reached or did not answer in time"
    for command in ("run shop.customers -q", "patch shop.customers --apply -q", "notify test"):
        main(command.split())
        said = [line for line in capsys.readouterr().err.splitlines() if "so it has no audit" not in line]
        assert said == [f"auditor: channel ops: {why}"], command


def test_tables_that_the_auditor_made_are_not_reported(workdir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ran(capsys, "shop.customers")
    assert main(["patch", "shop.customers", "--apply", "-q"]) == 0
    assert main(["bootstrap", "shop.customers", "--apply", "-q"]) == 0
    with duckdb.connect("target.duckdb") as database:
        tables = {name for (name,) in database.execute("SELECT table_name FROM information_schema.tables").fetchall()}
        assert "auditor_patch_marks" in tables and any(name.startswith("customers_old_2") for name in tables)
        for name in (
            *table_pairs.OWN_NAMES,
            "auditor_stage_0a1",
            "auditor_new_0123456789abcdef",
            "auditor_of_the_firm",
            "old_20260101_000000",
        ):
            database.execute(f"CREATE TABLE IF NOT EXISTS {name} (id BIGINT PRIMARY KEY)")
    capsys.readouterr()
    main(["check", "shop.orders"])
    assert [line.split()[2] for line in capsys.readouterr().err.splitlines()] == [
        "dropped",
        "added",
        "auditor_of_the_firm",
        "old_20260101_000000",
    ]


@pytest.mark.parametrize("reading", ["${SHOP_URL}", "mysql://reader:${SHOP_PASSWORD}@db:${SHOP_PORT}/shop"])
def test_a_crontab_is_printed_where_variables_are_not_set(
    workdir: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, reading: str
) -> None:
    value = json.loads((workdir / "auditor.yaml").read_text())
    value["connections"]["source"] = {"url": reading}
    value["audits"]["alone"]["schedule"] = "5 4 * * *"
    (workdir / "auditor.yaml").write_text(json.dumps(value))
    names = re.findall(r"\$\{(\w+)\}", reading)
    for name in names:
        monkeypatch.delenv(name, raising=False)
    assert main(["crontab"]) == 0
    out, error = capsys.readouterr()
    assert "alone: 5 4 * * *" in out and "run --due --quiet --config" in out
    assert [f"# {name}=" in out for name in names] == [True] * len(names)
    assert f"auditor: these variables are not set here, and what runs the lines needs them: {', '.join(names)}" in error
    assert "auditor: audits of shop are run, and not listed, as the store is not read" in error


def test_a_column_that_a_group_masks_is_masked_between_segments() -> None:
    ends = {"source": {"connection": "shop"}, "target": {"connection": "dwh"}}
    settings = config.validate_settings(
        {
            "connections": {
                "shop": {"url": "mysql://reader@db/shop"},
                "dwh": {"url": "postgresql://reader@dwh/dwh", "write": {"url": "postgresql://writer@dwh/dwh"}},
            },
            "audits": {"shop": {**ends, "tables": ["cust*"], "columns": {"override": {"email": {"mask": True}}}}},
            "pipelines": {
                "shop": {
                    "source": {"connection": "shop", "tables": ["*"]},
                    "staging": {"path": "/srv/staging"},
                    "targets": {"dwh": {"connection": "dwh", "schema": "shop"}},
                }
            },
        }
    )
    pipeline = settings.pipeline("shop")
    assert is_masked(settings, pipeline, "shop.customers", "EMAIL")
    assert not is_masked(settings, pipeline, "shop.customers", "name")
    assert not is_masked(settings, pipeline, "shop.orders", "email")
