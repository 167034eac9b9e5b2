"""Connecting while modules load: what is loaded before the first login, who gets a session, and which are closed."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import duckdb
import pytest

import dialects
from auditor import config
from auditor.connections import prefetch
from auditor.errors import AuditorError, Unreachable
from auditor.service import planning
from tests.durations import SetDurations

AUDIT = """
connections:
  here: {{url: 'duckdb:///{folder}/here.duckdb'{limits}}}
  there: {{url: 'duckdb:///{folder}/there.duckdb'}}
audits:
  t: {{source: {{connection: here, table: t}}, target: {{connection: there, table: t}}, key: [id]}}
"""

LOADED_LATE = ("numpy", "sqlalchemy", "sqlglot", "rich", "opentelemetry", "auditor.run", "auditor.store", "auditor.report")

RUN = """
import json, sys
import dialects
connect, seen = dialects.connect, []
def watched(*arguments):
    seen.append([name for name in {late!r} if name in sys.modules])
    return connect(*arguments)
dialects.connect = watched
from auditor.cli import main
code = main(["run", "t", "--no-store", "--config", {file!r}])
print(json.dumps({{"code": code, "seen": seen, "store": "sqlalchemy" in sys.modules}}))
"""


@pytest.fixture
def configured(tmp_path: Path) -> Path:
    for name in ("here", "there"):
        with duckdb.connect(str(tmp_path / f"{name}.duckdb")) as connection:
            connection.execute("CREATE TABLE t (id BIGINT PRIMARY KEY, v VARCHAR)")
            connection.execute("INSERT INTO t VALUES (1, 'one')")
    return _write(tmp_path)


def _write(folder: Path, limits: str = "") -> Path:
    file = folder / "auditor.yaml"
    file.write_text(AUDIT.format(folder=folder, limits=limits))
    return file


def test_first_login_is_sent_before_what_the_answers_need_is_loaded(configured: Path) -> None:
    script = RUN.format(late=LOADED_LATE, file=str(configured))
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    told = json.loads(ended.stdout.splitlines()[-1])
    assert told["code"] == 0, ended.stdout
    assert len(told["seen"]) == 2, "each side connects once"
    assert told["seen"][0] == [], "these modules delay the first login"
    assert not told["store"], "a run that is not stored has no use for the store's library"


class _Session:
    def __init__(self) -> None:
        self.closed = threading.Event()

    def close(self) -> None:
        self.closed.set()


def test_each_session_is_taken_once_and_the_rest_is_closed(configured: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[tuple[str, _Session]] = []

    def connect(url: str, *_: Any) -> Any:
        opened.append((url, _Session()))
        return opened[-1][1]

    monkeypatch.setattr(dialects, "connect", connect)
    settings = config.load(configured)
    here = settings.connections["here"]
    asked = (here.url, here.limits.statement_timeout, here.limits.lock_timeout)
    with prefetch.connecting(settings, "t"):
        first, second = prefetch.connect(*asked), prefetch.connect(*asked)
        assert first is not second, "a session opened early is taken once; then a new session is opened"
    by_url = dict(opened[:2])
    left = by_url[settings.connections["there"].url]
    assert left.closed.wait(60) and not by_url[here.url].closed.is_set()
    assert len(opened) == 3


def test_file_that_is_still_being_opened_is_closed_before_the_process_goes_on(configured: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that ended meanwhile would print DuckDB's notice of what it left open."""
    sessions: list[_Session] = []
    released = threading.Event()

    def connect(*_: Any) -> Any:
        released.wait(60)
        sessions.append(_Session())
        return sessions[-1]

    monkeypatch.setattr(dialects, "connect", connect)
    with prefetch.connecting(config.load(configured), "t"):
        threading.Timer(0.05, released.set).start()
    assert len(sessions) == 2 and all(session.closed.is_set() for session in sessions)


def test_error_of_a_login_is_raised_where_the_session_is_asked_for(configured: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> Any:
        raise Unreachable("nobody listens")

    settings = config.load(configured)
    here = settings.connections["here"]
    monkeypatch.setattr(dialects, "connect", refuse)
    with prefetch.connecting(settings, "t"), pytest.raises(Unreachable, match="nobody listens"):
        prefetch.connect(here.url, here.limits.statement_timeout, here.limits.lock_timeout)


@pytest.mark.parametrize("limits", [", limits: {statements: 2}", ", limits: {pause_when: {threads_running: 20}}"])
def test_connection_with_a_throttle_waits_for_it(configured: Path, limits: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(dialects, "connect", lambda url, *_: asked.append(url) or _Session())  # type: ignore[func-returns-value]
    settings = config.load(_write(configured.parent, limits))
    with prefetch.connecting(settings, "t"), prefetch.connecting(settings, "unknown"):
        there = settings.connections["there"]
        prefetch.connect(there.url, there.limits.statement_timeout, there.limits.lock_timeout)
    assert asked == [there.url]


SEVERAL = """
connections:
  here: {{url: 'duckdb:///{folder}/here.duckdb'}}
  there: {{url: 'duckdb:///{folder}/there.duckdb'}}
audits:
  first: {{source: {{connection: here, table: t}}, target: {{connection: there, table: t}}, key: [id]}}
  second: {{source: {{connection: here, table: {second}}}, target: {{connection: there, table: t}}, key: [id]}}
  third: {{source: {{connection: here, table: t}}, target: {{connection: there, table: t}}, key: [id]}}
"""


def _connections(folder: Path, second: str, monkeypatch: pytest.MonkeyPatch) -> tuple[list[AuditorError | None], list[dialects.Session]]:
    """Check three audits, and return their errors and the sessions that were opened."""
    (folder / "auditor.yaml").write_text(SEVERAL.format(folder=folder, second=second))
    opened: list[dialects.Session] = []
    connect = dialects.connect

    def watched(*arguments: Any) -> dialects.Session:
        opened.append(connect(*arguments))
        return opened[-1]

    monkeypatch.setattr(dialects, "connect", watched)
    results = list(planning.check(config.load(folder / "auditor.yaml")))
    return [result.error for result in results], opened


def _is_closed(session: dialects.Session) -> bool:
    try:
        session.query("SELECT 1")
    except AuditorError:
        return True
    return False


def test_audits_that_are_checked_together_share_their_sessions(configured: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    errors, opened = _connections(configured.parent, "t", monkeypatch)
    assert errors == [None, None, None]
    assert len(opened) == 2, "one a database, not one an audit"
    assert all(map(_is_closed, opened))


def test_an_audit_that_cannot_be_planned_leaves_no_session_to_the_next(configured: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    errors, opened = _connections(configured.parent, "missing", monkeypatch)
    assert errors[0] is None and errors[1] is not None and errors[2] is None
    assert len(opened) == 4, "what an error went through is not used again"
    assert all(map(_is_closed, opened))


def test_a_session_that_was_idle_for_long_is_not_used_again(
    configured: Path, monkeypatch: pytest.MonkeyPatch, set_durations: SetDurations
) -> None:
    """The server, or what stands before it, may have ended it."""
    set_durations(kept_session=-1.0)
    errors, opened = _connections(configured.parent, "t", monkeypatch)
    assert errors == [None, None, None] and len(opened) == 6
    assert all(map(_is_closed, opened))
