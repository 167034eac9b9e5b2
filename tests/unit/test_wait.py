"""``auditor wait``: the next step of a data pipeline begins when audits have verified what it reads, and not on a mismatch."""

from __future__ import annotations

import datetime as dt
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import pytest

from auditor import config, service
from auditor.api_models.audit import Verification
from auditor.cli import main
from auditor.config import Settings
from auditor.durations import durations
from auditor.errors import UnknownAudit
from auditor.service import audits
from auditor.service.verification import verification
from auditor.store import Store, open_store

LONG_AGO = dt.datetime(2000, 1, 1, tzinfo=dt.UTC)


def tables(folder: Path, *statements: str) -> None:
    """Execute statements in the file of both tables."""
    with duckdb.connect(str(folder / "tables.duckdb")) as connection:
        for statement in statements:
            connection.execute(statement)


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """The configuration of audits ``orders`` and ``lines``, and of one that allows a differing row, in the current folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("AUDITOR_CONFIG", raising=False)
    tables(tmp_path, "CREATE TABLE a AS SELECT i AS id, 'v' || i AS v FROM range(100) t(i)", "CREATE TABLE b AS SELECT * FROM a")
    audit = {**{side: {"connection": "here", "table": table} for side, table in (("source", "a"), ("target", "b"))}, "key": ["id"]}
    value: dict[str, Any] = {
        "connections": {"here": {"url": f"duckdb:///{tmp_path}/tables.duckdb"}},
        "store": {"url": f"sqlite:///{tmp_path}/store.db"},
        "audits": {"orders": audit, "lines": audit, "tolerant": {**audit, "threshold": {"rows": 1}}},
    }
    (tmp_path / "auditor.yaml").write_text(json.dumps(value), encoding="utf-8")
    return config.load(tmp_path / "auditor.yaml")


@pytest.fixture
def store(settings: Settings, tmp_path: Path) -> Iterator[Store]:
    opened = open_store(f"sqlite:///{tmp_path}/store.db")
    yield opened
    opened.close()


def ask(settings: Settings, store: Store, through: dt.datetime, audit: str = "orders") -> Verification:
    """Return how far an audit is."""
    return verification(settings, store, audit, through)


def now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)


def test_a_match_verifies_up_to_its_moment_and_no_further(settings: Settings, store: Store) -> None:
    waiting = ask(settings, store, LONG_AGO)
    assert (waiting.outcome, waiting.run) == ("waiting", None)
    assert waiting.sentence == "nothing has been verified yet; no run will come by itself, because the audit has no schedule"
    before = now()
    report = service.run_audit(settings, "orders", store=store)
    assert ask(settings, store, before).outcome == "verified"
    assert ask(settings, store, before.replace(tzinfo=None)).outcome == "verified", "a time without a zone is UTC"
    assert report.verified_through is not None
    assert ask(settings, store, report.verified_through).outcome == "verified"
    assert ask(settings, store, report.verified_through + dt.timedelta(microseconds=1)).outcome == "waiting"
    assert ask(settings, store, before, "lines").outcome == "waiting", "another audit has verified nothing"


def test_a_mismatch_fails_only_what_it_saw(settings: Settings, store: Store, tmp_path: Path) -> None:
    before = now()
    tables(tmp_path, "DELETE FROM b WHERE id = 7")
    run = service.run_audit(settings, "orders", store=store)
    found = ask(settings, store, before)
    assert (found.outcome, found.run) == ("mismatch", run.run) and run.run[:12] in found.sentence
    later = ask(settings, store, now())
    assert later.outcome == "waiting", "a run that began before the moment says nothing of it"
    assert "the last verdict is mismatch" in later.sentence
    tables(tmp_path, "INSERT INTO b SELECT * FROM a WHERE id = 7")
    service.run_audit(settings, "orders", store=store)
    assert ask(settings, store, before).outcome == "verified", "the later match verifies it"


def test_what_was_equal_once_is_not_verified_while_it_is_known_to_differ(settings: Settings, store: Store, tmp_path: Path) -> None:
    """The next step would read the target as it is now."""
    before = now()
    service.run_audit(settings, "orders", store=store)
    assert ask(settings, store, before).outcome == "verified"
    tables(tmp_path, "DELETE FROM b WHERE id = 7")
    service.run_audit(settings, "orders", store=store)
    found = ask(settings, store, before)
    assert found.verified_through is not None and found.verified_through >= before
    assert found.outcome == "mismatch"


def test_a_match_within_the_threshold_verifies_and_says_so(settings: Settings, store: Store, tmp_path: Path) -> None:
    before = now()
    tables(tmp_path, "DELETE FROM b WHERE id = 7")
    service.run_audit(settings, "tolerant", store=store)
    found = ask(settings, store, before, "tolerant")
    assert found.outcome == "verified" and found.verified_through is None
    assert found.sentence.endswith("within the threshold that it allows")


def test_what_is_awaited_is_said(settings: Settings, store: Store) -> None:
    scheduled = settings.audits["orders"].model_copy(update={"schedule": config.Schedule(cron="0 3 * * *")})
    changed = settings.model_copy(update={"audits": {**settings.audits, "orders": scheduled}})
    waiting = ask(changed, store, now())
    assert "the next run is due at" in waiting.sentence and waiting.next_due is not None
    audits.pause(changed, store, "orders", by="test")
    paused = ask(changed, store, now())
    assert paused.sentence.endswith("because the audit is paused") and paused.next_due is None
    with pytest.raises(UnknownAudit):
        ask(settings, store, now(), "nothing")


def test_other_settings_verify_nothing(settings: Settings, store: Store) -> None:
    before = now()
    service.run_audit(settings, "orders", store=store)
    narrower = settings.audits["orders"].model_copy(update={"where": "id < 50"})
    changed = settings.model_copy(update={"audits": {**settings.audits, "orders": narrower}})
    assert ask(changed, store, before).outcome == "waiting"


def test_the_command_waits_until_all_have_verified(
    settings: Settings, store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = now()
    service.run_audit(settings, "orders", store=store)
    command = ["wait", "orders", "lines", "--verified-through", before.isoformat(), "--timeout"]
    assert main([*command, "0"]) == 3
    printed = capsys.readouterr()
    assert "orders: VERIFIED: everything up to" in printed.out and "lines: NOT VERIFIED: nothing has been verified yet" in printed.out
    assert not printed.err, "what is not awaited is said once"

    def run_later() -> None:
        with closing(open_store(f"sqlite:///{tmp_path}/store.db")) as own:
            service.run_audit(settings, "lines", store=own)

    later = threading.Timer(0.3, run_later)
    later.start()
    with durations.overridden(verification_poll=0.05):
        assert main([*command, "60s", "--format", "json"]) == 0
    later.join()
    printed = capsys.readouterr()
    assert [one["outcome"] for one in json.loads(printed.out)] == ["verified", "verified"]
    assert printed.err.startswith("auditor: lines: waiting: nothing has been verified yet")
    assert main([*command, "60s", "--quiet"]) == 0 and not capsys.readouterr().err


def test_the_command_ends_on_a_mismatch(settings: Settings, store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = now()
    tables(tmp_path, "UPDATE b SET v = 'other' WHERE id = 7")
    service.run_audit(settings, "orders", store=store)
    assert main(["wait", "*", "--verified-through", before.isoformat(), "--quiet"]) == 1, "although others have not verified it"
    assert "orders: MISMATCH: run" in capsys.readouterr().out


def test_a_service_that_does_not_answer_is_no_verdict(settings: Settings, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        assert main(["wait", "orders", "--verified-through", LONG_AGO.isoformat(), "--timeout", "0", "--server", url]) == 3
    printed = capsys.readouterr()
    assert not printed.out and printed.err


@pytest.mark.parametrize(("given", "said"), [("yesterday", "is not a time"), ("2026-01-01T00:00:00Z --timeout soon", "is not a duration")])
def test_arguments_that_cannot_be_read(given: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["wait", "orders", "--verified-through", *given.split()])
    assert said in capsys.readouterr().err
