"""The command line with a store: due and waiting runs, the event log, tokens, and pruning."""

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

from auditor import config
from auditor.cli import main
from auditor.config import Settings
from auditor.connections import throttle
from auditor.errors import UNEXPECTED, PlanError
from auditor.model import State
from auditor.service import workers
from auditor.store import Store, events, open_store, queue, runs, tokens
from auditor.store.events import events as events_table

SCHEMA = Draft202012Validator(json.loads((Path(__file__).parents[2] / "docs" / "report.schema.json").read_text(encoding="utf-8")))
DAY = dt.timedelta(days=1)


@pytest.fixture
def workdir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with two tables, a configuration of two audits of them, and a store."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("AUDITOR_CONFIG", raising=False)
    with duckdb.connect(str(tmp_path / "tables.duckdb")) as connection:
        connection.execute("CREATE TABLE a AS SELECT i AS id, 'v' || i AS v FROM range(100) t(i)")
        connection.execute("CREATE TABLE b AS SELECT * FROM a")
    write(tmp_path, "first", "second")
    return tmp_path


def write(folder: Path, *audits: str) -> None:
    """Write a configuration with audits of these names."""
    audit = {side: {"connection": "here", "table": table} for side, table in (("source", "a"), ("target", "b"))}
    value = {
        "connections": {"here": {"url": f"duckdb:///{folder}/tables.duckdb"}},
        "store": {"url": f"sqlite:///{folder}/store.db"},
        "audits": {name: {**audit, "key": ["id"]} for name in audits},
    }
    (folder / "auditor.yaml").write_text(json.dumps(value), encoding="utf-8")


@pytest.fixture
def settings(workdir: Path) -> Settings:
    return config.load(workdir / "auditor.yaml")


@pytest.fixture
def store(workdir: Path) -> Iterator[Store]:
    opened = open_store(f"sqlite:///{workdir}/store.db")
    yield opened
    opened.close()


def printed_json(capsys: pytest.CaptureFixture[str]) -> Any:
    """Return the JSON printed to stdout, validated against the schema."""
    found = json.loads(capsys.readouterr().out)
    SCHEMA.validate(found)
    return found


def test_waiting_run_of_a_removed_audit_fails(workdir: Path, settings: Settings, store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    removed = workers.request_run(settings, store, "first").run
    write(workdir, "second")
    assert main(["run", "--due", "--quiet", "--format", "json"]) == 2
    found = printed_json(capsys)
    assert (found["run"], found["audit"], found["state"], found["verdict"]) == (removed, "first", "failed", "unknown")
    workers.request_run(settings, store, "first")
    workers.request_run(settings, store, "second")
    assert main(["run", "--due", "--quiet", "--format", "json"]) == 2
    assert [(one["audit"], one["verdict"]) for one in printed_json(capsys)] == [("first", "unknown"), ("second", "match")]
    assert main(["run", "--due", "--quiet"]) == 0


def test_interrupted_waiting_run_returns_to_the_queue(
    settings: Settings, store: Store, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    first, second = (workers.request_run(settings, store, name).run for name in ("first", "second"))
    with monkeypatch.context() as patched:
        patched.setattr("auditor.planning.build.draft_plan", interrupted)
        assert main(["run", "--due", "--quiet", "--format", "json"]) == 3
    found = printed_json(capsys)
    assert (found["run"], found["state"], found["resumable"]) == (first, "cancelled", False)
    assert "returned to the queue" in found["reasons"][0]
    assert [runs.get_run(store, run).state for run in (first, second)] == [State.PENDING] * 2
    assert main(["run", "--due", "--quiet"]) == 0
    assert queue.count_waiting(store) == 0


def test_statement_slots_are_shared_through_the_store_only_during_the_command(
    settings: Settings, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared: list[Store | None] = []
    monkeypatch.setattr(throttle, "share_through", shared.append)

    def fail(*_: object) -> None:
        raise RuntimeError

    monkeypatch.setattr(workers, "run_pending", fail)
    assert main(["--debug", "run", "--due", "--quiet"]) == UNEXPECTED
    assert len(shared) == 2 and shared[0] and shared[1] is None


def test_commands_are_recorded_as_events_with_their_user(settings: Settings, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def log(count: int) -> list[tuple[str, str, dict[str, Any]]]:
        found = events.list_events(store, limit=count)
        assert {one.actor for one in found} == {getpass.getuser()}
        return [(one.action, one.subject, one.detail) for one in reversed(found)]

    assert main(["run", "first", "--quiet", "--reason", "by hand", "--force"]) == 0
    [ran] = runs.list_runs(store)
    requested = {"audit": "first", "overrides": {"force": True}, "reason": "by hand"}
    assert log(9) == [("run requested", ran.run, requested)]

    waiting = workers.request_run(settings, store, "second", requested_by=getpass.getuser()).run
    assert main(["cancel", waiting[:8]]) == 0
    assert main(["cancel", waiting]) == 0  # already cancelled: a second cancel changes nothing
    assert log(2) == [
        ("run requested", waiting, {"audit": "second", "overrides": {}, "reason": ""}),
        ("run cancelled", waiting, {"audit": "second"}),
    ]

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("auditor.run.audit_run.locate_differences", interrupted)
        assert main(["run", "first", "--quiet"]) == 3
    left = runs.list_runs(store, limit=1)[0]
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


def test_token_list_omits_browser_sessions(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    tokens.create_token(store, name="ops", scope="run")
    tokens.create_token(store, name=f"{tokens.SESSION_PREFIX}12 34", scope="run")
    assert main(["token", "list"]) == 0
    assert "ops" in (out := capsys.readouterr().out) and "session" not in out
    assert main(["token", "create", "--name", "session of mine", "--scope", "read"]) == 2
    assert "choose another" in capsys.readouterr().err


def test_prune_reports_what_it_deleted(workdir: Path, store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    main(["run", "first", "--quiet"])
    store.write(lambda connection: connection.execute(events_table.update().values(at=dt.datetime.now(dt.UTC) - 181 * DAY)) and None)
    capsys.readouterr()
    assert main(["prune"]) == 0
    assert capsys.readouterr().out == "0 runs, 1 events and 0 ended tokens were deleted\n"
    assert events.list_events(store) == [] and len(runs.list_runs(store)) == 1


def test_unknown_audit_has_no_history(workdir: Path, store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["history", "nosuch"]) == main(["runs", "--audit", "fist"]) == 2
    assert "there is no audit 'fist'; did you mean 'first'?" in capsys.readouterr().err
    assert main(["history", "first"]) == 0 and "no runs are stored yet" in capsys.readouterr().out
    assert main(["run", "first", "--quiet"]) == 0
    write(workdir, "second")
    capsys.readouterr()
    assert main(["history", "first"]) == 0 and "match" in capsys.readouterr().out, "the runs of an audit that was removed stay listed"
    assert main(["history", "first", "--state", "failed"]) == 0


def test_output_of_a_run_says_how_to_see_the_rest(workdir: Path, store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "first", "--quiet"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "  Details: auditor show first --verbose"
    assert main(["show", "first", "--verbose"]) == 0 and "published score" in capsys.readouterr().out
    main(["run", "first", "--quiet", "--method", "counts"])  # which the audit's name does not stand for
    (one_off, _) = runs.list_runs(store)
    assert capsys.readouterr().out.splitlines()[-1] == f"  Details: auditor show {one_off.run[:12]} --verbose"
    assert main(["run", "first", "--quiet", "--no-store"]) == 0 and "auditor show" not in capsys.readouterr().out
    assert main(["run", "first", "--quiet", "--format", "json"]) == 0 and json.loads(capsys.readouterr().out)["run"]


def test_keys_of_a_table_without_integer_keys_are_refused_before_a_run_is_stored(
    workdir: Path, store: Store, settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (workdir / "auditor.yaml").read_text(encoding="utf-8").replace('["id"]', '["v"]')
    (workdir / "auditor.yaml").write_text(text, encoding="utf-8")
    assert main(["run", "first", "--quiet", "--keys", "1..5"]) == 2
    assert "a range of keys needs a key of one integer column" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="2"):
        main(["run", "first", "--quiet", "--keys", "5..1"])
    with pytest.raises(PlanError, match="a range of keys"):
        workers.request_run(config.load(workdir / "auditor.yaml"), store, "first", overrides={"keys": {"from": 1}})
    assert runs.list_runs(store) == []
    assert main(["run", "first", "--quiet", "--keys", "1..5", "--no-store"]) == 2
    assert workers.request_run(settings, store, "first", overrides={"keys": {"from": 1}}).how == "new"
