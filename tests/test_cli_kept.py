"""The command line on a store: what is due and waits, who did what, tokens, and what is dropped."""

from __future__ import annotations

import datetime as dt
import getpass
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
from jsonschema import Draft202012Validator

from auditor import config, sharing
from auditor.cli import main
from auditor.config import Settings
from auditor.model import State
from auditor.service import queueing
from auditor.store import Store, events, open_store, queue, runs, tokens
from auditor.store._schema import events as noted

SCHEMA = Draft202012Validator(json.loads((Path(__file__).parent.parent / "docs" / "report.schema.json").read_text(encoding="utf-8")))
DAY = dt.timedelta(days=1)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with two tables, a configuration of two audits of them, and a store."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("AUDITOR_CONFIG", raising=False)
    with duckdb.connect(str(tmp_path / "tables.duckdb")) as connection:
        connection.execute("CREATE TABLE a AS SELECT i AS id, 'v' || i AS v FROM range(100) t(i)")
        connection.execute("CREATE TABLE b AS SELECT * FROM a")
    write(tmp_path, "first", "second")
    return tmp_path


def write(folder: Path, *audits: str) -> None:
    """Configure audits of these names."""
    audit = {side: {"connection": "here", "table": table} for side, table in (("source", "a"), ("target", "b"))}
    value = {
        "connections": {"here": {"url": f"duckdb:///{folder}/tables.duckdb"}},
        "store": {"url": f"sqlite:///{folder}/store.db"},
        "audits": {name: {**audit, "key": ["id"]} for name in audits},
    }
    (folder / "auditor.yaml").write_text(json.dumps(value), encoding="utf-8")


@pytest.fixture
def settings(here: Path) -> Settings:
    return config.load(here / "auditor.yaml")


@pytest.fixture
def store(here: Path) -> Iterator[Store]:
    opened = open_store(f"sqlite:///{here}/store.db")
    yield opened
    opened.close()


def told(capsys: pytest.CaptureFixture[str]) -> Any:
    found = json.loads(capsys.readouterr().out)
    SCHEMA.validate(found)
    return found


def test_what_waits_and_whose_audit_is_gone_is_told(
    here: Path, settings: Settings, store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    gone = queueing.request_run(settings, store, "first").run
    write(here, "second")
    assert main(["run", "--due", "--quiet", "--format", "json"]) == 2
    found = told(capsys)
    assert (found["run"], found["audit"], found["state"], found["verdict"]) == (gone, "first", "failed", "unknown")
    queueing.request_run(settings, store, "first")
    queueing.request_run(settings, store, "second")
    assert main(["run", "--due", "--quiet", "--format", "json"]) == 2
    assert [(one["audit"], one["verdict"]) for one in told(capsys)] == [("first", "unknown"), ("second", "match")]
    assert main(["run", "--due", "--quiet"]) == 0


def test_what_waits_and_is_interrupted_waits_again(
    settings: Settings, store: Store, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    first, second = (queueing.request_run(settings, store, name).run for name in ("first", "second"))
    with monkeypatch.context() as patched:
        patched.setattr("auditor.survey.planned", interrupted)
        assert main(["run", "--due", "--quiet", "--format", "json"]) == 3
    found = told(capsys)
    assert (found["run"], found["state"], found["resumable"]) == (first, "cancelled", False)
    assert "waits again" in found["reasons"][0]
    assert [runs.find(store, run).state for run in (first, second)] == [State.PENDING] * 2
    assert main(["run", "--due", "--quiet"]) == 0
    assert queue.waiting(store) == 0


def test_statements_are_counted_over_the_store_no_longer_than_the_command(
    settings: Settings, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared: list[Store | None] = []
    monkeypatch.setattr(sharing, "share", shared.append)

    def fails(*_: object) -> None:
        raise RuntimeError

    monkeypatch.setattr(queueing, "work_off", fails)
    with pytest.raises(RuntimeError):
        main(["run", "--due", "--quiet"])
    assert len(shared) == 2 and shared[0] and shared[1] is None


def test_who_did_what_is_noted(settings: Settings, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def log(count: int) -> list[tuple[str, str, dict[str, Any]]]:
        found = events.listed(store, limit=count)
        assert {one.who for one in found} == {getpass.getuser()}
        return [(one.what, one.subject, one.detail) for one in reversed(found)]

    assert main(["run", "first", "--quiet", "--reason", "by hand", "--force"]) == 0
    [ran] = runs.listed(store)
    requested = {"audit": "first", "overrides": {"force": True}, "reason": "by hand"}
    assert log(9) == [("run requested", ran.run, requested)]

    waits = queueing.request_run(settings, store, "second", requested_by=getpass.getuser()).run
    assert main(["cancel", waits[:8]]) == 0
    assert main(["cancel", waits]) == 0  # it has ended, and stays as it is
    assert log(2) == [
        ("run requested", waits, {"audit": "second", "overrides": {}, "reason": ""}),
        ("run cancelled", waits, {"audit": "second"}),
    ]

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("auditor.naming.name_differences", interrupted)
        assert main(["run", "first", "--quiet"]) == 3
    left = runs.listed(store, limit=1)[0]
    assert left.resumable
    assert main(["resume", left.run, "--quiet"]) == 0
    assert log(1) == [("run resumed", left.run, {"audit": "first"})]

    main(["pause", "first"])
    main(["unpause", "first"])
    main(["token", "create", "--name", "ops", "--scope", "read"])
    main(["token", "revoke", "ops"])
    assert [what for what, _, _ in log(4)] == ["audit paused", "audit unpaused", "token made", "token revoked"]
    main(["run", "--due", "--quiet"])
    main(["run", "first", "--quiet", "--no-store"])
    assert log(1)[0][0] == "token revoked"


def test_sessions_are_not_listed_among_the_tokens(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    tokens.create(store, name="ops", scope="run")
    tokens.create(store, name=f"{tokens.SESSION}12 34", scope="run")
    assert main(["token", "list"]) == 0
    assert "ops" in (out := capsys.readouterr().out) and "session" not in out
    assert main(["token", "create", "--name", "session of mine", "--scope", "read"]) == 2
    assert "choose another" in capsys.readouterr().err


def test_prune_tells_what_it_dropped(here: Path, store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    main(["run", "first", "--quiet"])
    store.write(lambda connection: connection.execute(noted.update().values(at=dt.datetime.now(dt.UTC) - 181 * DAY)) and None)
    capsys.readouterr()
    assert main(["prune"]) == 0
    assert capsys.readouterr().out == "0 runs, 1 events and 0 ended tokens were dropped\n"
    assert events.listed(store) == [] and len(runs.listed(store)) == 1
