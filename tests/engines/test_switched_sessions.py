"""Something between passes statements of one session on to another: no verdict comes of it, but a sentence.

The source is read through a proxy before two sessions in which a table of one name holds different rows.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import count
from typing import Any

import pytest

import dialects
from auditor.config import Audit, ConnectionSettings
from auditor.errors import SessionSwitched
from auditor.history.handover import allows_resume
from auditor.model import Report, State
from auditor.planning import chunks
from auditor.run import audit_run
from dialects import Kind
from dialects.session import DriverSession
from tests import tables
from tests.live import LiveEngine, engine_params
from tests.servers.switching import Choose, Switching, keep, switching

pytestmark = pytest.mark.engines_in_turn

COLUMNS = [("id", Kind("integer")), ("name", Kind("text"))]
ROWS = [(n, f"row {n}") for n in range(400)]
OTHERS = [(n, "another" if n % 97 == 5 else name) for n, name in ROWS]
BEGINS = {"mysql": b"START TRANSACTION", "mariadb": b"START TRANSACTION", "postgres": b"BEGIN ISOLATION"}
"""How a snapshot begins, by engine."""

servers = pytest.mark.parametrize("engine", engine_params("mysql", "mariadb", "postgres"), indirect=True)
drivers = pytest.mark.parametrize("engine", engine_params("mysql", "mariadb", "postgres", "redshift"), indirect=True)


@dataclass
class Between:
    """A proxy before two sessions, of which the second sees the rows of ``else`` in place of those of ``rows``."""

    engine: LiveEngine
    proxy: Switching

    def audit(self, target: str, connections: int = 1) -> Report:
        """Compare the source's rows, read through the proxy, with a table that is read without it: ``rows``, or ``else``."""
        urls = {"source": self.proxy.url, "target": self.engine.url}
        settings = {side: ConnectionSettings.model_validate({"url": url, "connections": connections}) for side, url in urls.items()}
        ends = {
            "source": {"connection": "source", "table": "switched_rows"},
            "target": {"connection": "target", "table": f"switched_{target}"},
        }
        return audit_run.run("switched", Audit.model_validate({**ends, "key": ["id"], "partition": {"rows": 50}}), settings)


@contextmanager
def between(engine: LiveEngine) -> Iterator[Between]:
    """Make the tables, and a proxy before their server."""
    tables.make(engine, "switched_rows", COLUMNS, ROWS, key=["id"])
    tables.make(engine, "switched_else", COLUMNS, OTHERS, key=["id"])
    with switching(engine.url, "switched_rows", "switched_else") as proxy:
        yield Between(engine, proxy)


def from_snapshot_on(begins: bytes) -> Choose:
    """Pass on everything to the other session from the statement on that begins the first snapshot."""
    seen = []

    def choose(statement: bytes) -> int:
        seen.extend([1] if begins in statement else [])
        return int(bool(seen))

    return choose


def within_snapshot(begins: bytes) -> Choose:
    """Pass on what reads rows within snapshots, and only that."""
    seen = []

    def choose(statement: bytes) -> int:
        seen.extend([1] if begins in statement else [])
        return int(bool(seen) and b"switched_rows" in statement and b"information_schema" not in statement)

    return choose


def assert_unknown(report: Report, sentence: str = "") -> None:
    assert (report.state, str(report.verdict), report.exit_code) == (State.FAILED, "unknown", 3), report.reasons
    [reason] = report.reasons
    assert "connect to the server itself, or let what is between keep this user's sessions" in reason and sentence in reason
    assert reason.startswith("source: ") and not report.resumable


@servers
@pytest.mark.parametrize(("target", "false"), [("rows", "mismatch"), ("else", "match")])
def test_a_snapshot_of_another_session_gives_no_verdict(
    engine: LiveEngine, target: str, false: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with between(engine) as there:
        honest = "match" if false == "mismatch" else "mismatch"
        assert there.audit(target).verdict == honest and there.proxy.switched == 0
        there.proxy.choose = lambda: from_snapshot_on(BEGINS[engine.name])
        assert_unknown(there.audit(target), "what answers now is another session, or one without its settings: its number is ")
        assert there.proxy.switched
        with monkeypatch.context() as without:
            without.setattr(DriverSession, "hold", lambda *_, **__: None)
            believed = there.audit(target)
            assert believed.verdict == false, believed.reasons


@servers
def test_a_single_statement_of_a_snapshot_that_another_session_answers_gives_no_verdict(
    engine: LiveEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    with between(engine) as there:
        there.proxy.choose = lambda: within_snapshot(BEGINS[engine.name])
        report = there.audit("rows")
        assert report.verdict == "unknown" and there.proxy.switched
        if engine.name == "postgres":
            return  # whose cursors are refused outside a transaction
        assert_unknown(report, "a statement of a snapshot was answered from outside the snapshot's transaction")
        with monkeypatch.context() as without:
            without.setattr(DriverSession, "check_snapshot_answered", lambda *_: None)
            believed = there.audit("rows")
            assert believed.verdict == "mismatch", believed.reasons


@servers
def test_further_connections_are_held_too(engine: LiveEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    """What shares the main connection's snapshot is switched to another session from its beginning on."""
    monkeypatch.setattr(chunks, "CHUNK_ROWS", 100)
    with between(engine) as there:
        assert there.audit("rows", connections=3).verdict == "match"
        opened = count()

        def choose() -> Choose:
            return keep if next(opened) == 0 else from_snapshot_on(BEGINS[engine.name])

        there.proxy.choose = choose
        report = there.audit("rows", connections=3)
        assert there.proxy.switched
        assert_unknown(report, "what answers now is another session")


@drivers
def test_a_snapshot_that_ended_unseen_is_noticed_at_the_next_statement(engine: LiveEngine) -> None:
    with closing(dialects.connect(engine.url)) as session:
        assert isinstance(session, DriverSession)
        session.begin()
        assert session.query("SELECT 1") == [(1,)]
        session.connection.cursor().execute("COMMIT")
        with pytest.raises(SessionSwitched, match=r"answered from outside the snapshot's transaction\. Something between"):
            session.query("SELECT 1")


LOST: dict[str, tuple[str, str]] = {
    "mysql": ("SET SESSION sql_mode = ''", "sql_mode is "),
    "mariadb": ("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED", "tx_isolation is READ-COMMITTED"),
    "postgres": ("RESET ALL", "its mark is gone"),
    "redshift": ("SET datestyle TO 'ISO, MDY'", "datestyle is ISO, MDY"),
}
"""How a session loses a setting, by engine, and what is said of it."""


@drivers
def test_a_lost_setting_is_noticed_where_the_snapshot_ends(engine: LiveEngine) -> None:
    statement, said = LOST[engine.name]
    with closing(dialects.connect(engine.url)) as session:
        session.begin()
        session.execute(statement)
        with pytest.raises(SessionSwitched, match=said) as lost:
            session.end()
        assert lost.value.exit_code == 3 and not lost.value.retryable and not allows_resume(lost.value)


@drivers
def test_another_process_is_noticed_where_the_snapshot_ends(engine: LiveEngine) -> None:
    with closing(dialects.connect(engine.url)) as session:
        session.begin()
        session.process_id += 1
        with pytest.raises(SessionSwitched, match=r"its (number|process) is \d+, not \d+"):
            session.end()


@drivers
def test_a_session_that_lost_its_settings_before_a_snapshot_is_noticed_where_that_begins(engine: LiveEngine) -> None:
    statement, said = LOST[engine.name]
    with closing(dialects.connect(engine.url)) as session:
        session.begin()
        session.end()
        session.execute(statement.replace("TRANSACTION ISOLATION LEVEL READ COMMITTED", "time_zone = '+05:00'"))
        with pytest.raises(SessionSwitched, match=said if engine.name != "mariadb" else "time_zone is"):
            session.begin()


@drivers
def test_holding_a_snapshot_costs_two_statements(engine: LiveEngine) -> None:
    with closing(dialects.connect(engine.url)) as session:
        before = session.statements
        session.begin()
        session.end()
        assert session.statements - before == len(session.dialect.BEGIN_SNAPSHOT) + len(session.dialect.END_SNAPSHOT) + 2


def audits_of_random_switches(engine: LiveEngine, runs: int, seed: int) -> dict[str, int]:
    """Run audits through a proxy that begins to switch at a random statement, for a random number of them; return how many ended how."""
    chosen, ended = random.Random(seed), dict.fromkeys(("match", "mismatch", "unknown"), 0)
    with between(engine) as there:
        for _ in range(runs):
            there.proxy.switched = 0
            # Not before what the driver and the session say first: all would be of the other session, which is one, too.
            start, length, share = chosen.randrange(2, 45), chosen.choice((1, 2, 5, 1000)), chosen.choice((0.3, 1.0))

            def choose(start: int = start, length: int = length, share: float = share) -> Choose:
                numbers = count()

                def at(_: bytes) -> int:
                    return int(start <= next(numbers) < start + length and chosen.random() < share)

                return at

            there.proxy.choose = choose
            target = chosen.choice(("rows", "else"))
            report = there.audit(target)
            ended[str(report.verdict)] += 1
            honest = "match" if target == "rows" else "mismatch"
            assert report.verdict in ("unknown", honest), (start, length, share, target, report.verdict, report.reasons)
            if report.verdict == "mismatch":
                assert report.differences and len(report.differences.named) == len(set(OTHERS) - set(ROWS)), report.differences
    return ended


@pytest.mark.quick_for("mysql", "postgres")
@servers
@pytest.mark.few
def test_no_verdict_comes_of_two_sessions(engine: LiveEngine) -> None:
    ended = audits_of_random_switches(engine, 12, seed=1)
    assert ended["unknown"] and sum(ended.values()) == 12


@servers
@pytest.mark.deep
def test_no_verdict_comes_of_two_sessions_in_a_thousand_audits(engine: LiveEngine, request: pytest.FixtureRequest) -> None:
    runs = 334
    ended: dict[str, Any] = audits_of_random_switches(engine, runs, seed=request.config.getoption("--deep-seed"))
    print(f"{engine.name}: {ended}")
    assert ended["unknown"] > runs / 10 and ended["match"] and ended["mismatch"], ended
