"""Several connections read the chunks of one table in parallel, inside one snapshot."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, nullcontext
from typing import Any

import pytest

import dialects
from auditor.config import Audit, ConnectionSettings
from auditor.errors import LockTimeout
from auditor.model import Report, State
from auditor.planning import chunks
from auditor.run import audit_run
from dialects import Kind, Session
from tests import tables
from tests.durations import SetDurations
from tests.live import LiveEngine, LivePair, engine_params, pair_params
from tests.servers import mysql
from tests.servers.proxy import Proxy, proxied

pytestmark = pytest.mark.engines_in_turn

ROWS = 3000


def run_audit(pair: LivePair, connections: int, **more: Any) -> Report:
    settings = {
        side: ConnectionSettings(url=engine.url, connections=connections)
        for side, engine in (("source", pair.source), ("target", pair.target))
    }
    source, target = ({"connection": side, "table": f"wide_{side}"} for side in ("source", "target"))
    return audit_run.run(
        "wide", Audit.model_validate({"source": source, "target": target, "key": ("id",), "partition": {"rows": 100}, **more}), settings
    )


@pytest.mark.parametrize("pair", pair_params("postgres", "mariadb"), indirect=True)
def test_number_of_connections_does_not_change_the_result(pair: LivePair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "CHUNK_ROWS", 500)
    rows = [(number, f"row {number}") for number in range(ROWS)]
    columns = [("id", Kind("integer")), ("label", Kind("text"))]
    tables.make(pair.source, "wide_source", columns, rows, key=["id"])
    tables.make(pair.target, "wide_target", columns, [row for row in rows if row[0] not in (7, 2500)], key=["id"])
    single, triple, scanned = (run_audit(pair, 1), run_audit(pair, 3), run_audit(pair, 3, prescan=True))
    for report in (single, triple, scanned):
        assert report.differences is not None, report.reasons
        assert [found.key for found in report.differences.named] == [{"id": "7"}, {"id": "2500"}]
        assert not any("one connection read all chunks" in note for note in report.notes), "the connections stay open after a pre-scan"
    assert single.plan and triple.plan and single.plan.sides["source"].chunk_keys
    assert triple.cost["source"].statements > single.cost["source"].statements, "the statements of the extra connections must be counted"


@contextmanager
def open_sessions(*urls: str) -> Iterator[list[Session]]:
    with ExitStack() as stack:
        yield [stack.enter_context(closing(dialects.connect(url))) for url in urls]


@pytest.mark.parametrize("engine", engine_params("mysql", "mariadb", "postgres"), indirect=True)
def test_sessions_that_share_a_snapshot_see_the_same_rows(engine: LiveEngine) -> None:
    """None of the sessions sees a row that is inserted after the snapshot began."""
    tables.make(engine, "settled", [("id", Kind("integer"))], [(1,), (2,)])
    with open_sessions(*[engine.url] * 4) as (session, *others, helper):
        session.begin()
        assert session.share_snapshot(others, session.dialect.names.quote("settled"), helper)
        tables.execute(engine, f"INSERT INTO {session.dialect.names.quote('settled')} VALUES (3)")
        counts = [one.query(f"SELECT COUNT(*) FROM {one.dialect.names.quote('settled')}")[0][0] for one in (session, *others)]
    assert counts == [2, 2, 2]


# the lock under which MySQL's sessions open equal snapshots

LOCKING = pytest.mark.parametrize("engine", engine_params("mysql", "mariadb"), indirect=True)
LOCKING_ALIKE = pytest.mark.parametrize(
    "engine", [*engine_params("mysql"), pytest.param("mariadb", marks=[pytest.mark.mariadb, pytest.mark.slow])], indirect=True
)


def make_locked(engine: LiveEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "CHUNK_ROWS", 500)
    tables.make(engine, "locked", [("id", Kind("integer")), ("v", Kind("text"))], [(i, f"row {i}") for i in range(ROWS)], key=["id"])
    if not tables.query(engine, "SELECT 1 FROM information_schema.tables WHERE table_name = 'locked_copy'"):
        execute = f"CREATE TABLE locked_copy (PRIMARY KEY (id)) AS SELECT id, v FROM locked WHERE id <> {ROWS - 1}"
        tables.execute(engine, execute)


def run_locked(url: str, target: str, **audit: Any) -> Report:
    settings = {"source": ConnectionSettings(url=url, connections=3), "target": ConnectionSettings(url=target)}
    ends = {"source": {"connection": "source", "table": "locked"}, "target": {"connection": "target", "table": "locked_copy"}}
    return audit_run.run("locked", Audit.model_validate({**ends, "partition": {"rows": 100}, **audit}), settings)


def statements(proxy: Proxy) -> list[tuple[int, str]]:
    """Return what each connection sent, without the four bytes of length and number and the one of the command."""
    return [(number, data[5:].decode("latin-1")) for number, data in proxy.log]


@LOCKING
def test_nobody_logs_in_while_the_table_is_locked(engine: LiveEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    """However long a login takes, writers wait only until the snapshots are begun, and once in a run."""
    make_locked(engine, monkeypatch)
    with proxied(engine.url) as proxy:
        proxy.login_delay = 0.3
        report = run_locked(proxy.url, engine.url, ladder=["signature", "exact"])
        sent = statements(proxy)
    assert report.differences is not None and [one.key for one in report.differences.named] == [{"id": str(ROWS - 1)}], report.reasons
    [lock] = [index for index, (_, text) in enumerate(sent) if text.startswith("LOCK TABLES")]
    [unlock] = [index for index, (_, text) in enumerate(sent) if text.startswith("UNLOCK TABLES")]
    holder = sent[lock][0]
    begun = [(number, text) for number, text in sent[lock + 1 : unlock] if number != holder]
    assert len(begun) == len({number for number, _ in begun}) == 3
    assert {text.partition(" WITH")[0] for _, text in begun} == {"START TRANSACTION"}
    [place] = [text for number, text in sent[lock + 1 : unlock] if number == holder]
    assert place in ("SHOW BINARY LOG STATUS", "SHOW MASTER STATUS"), "where the snapshots stand"
    limits = [text for number, text in sent[:lock] if number == holder][-1]
    assert limits == "SET SESSION lock_wait_timeout = 1, wait_timeout = 1"
    assert report.notes == (
        "source: one connection read all chunks, for no other could join its snapshot: a run locks a table only once to share a snapshot",
    ), "the ladder's second method reads in a later snapshot"


@LOCKING_ALIKE
def test_busy_table_is_read_by_one_connection(engine: LiveEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lock is not waited for longer than a second, and not tried again; a transaction that writes is not disturbed."""
    make_locked(engine, monkeypatch)
    with closing(mysql.connect(engine.url)) as writer, proxied(engine.url) as proxy:
        writer.autocommit(False)
        writer.cursor().execute("UPDATE locked SET v = v WHERE id = 5")
        report = run_locked(proxy.url, engine.url)
        writer.cursor().execute("UPDATE locked SET v = v WHERE id = 6")
        sent = statements(proxy)
    assert report.state is State.DONE and report.differences is not None and report.differences.missing == 1, report.reasons
    assert sum(text.startswith("LOCK TABLES") for _, text in sent) == 1
    [note] = report.notes
    assert note.startswith("source: one connection read all chunks, for no other could join its snapshot: `")
    assert "`locked` could not be locked for a moment, as others use it: Lock wait timeout exceeded" in note


@LOCKING_ALIKE
def test_reader_of_a_long_statement_does_not_keep_the_lock_away(engine: LiveEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    make_locked(engine, monkeypatch)
    with closing(mysql.connect(engine.url)) as other:
        other.autocommit(False)
        other.cursor().execute("SELECT COUNT(*) FROM locked")  # holds its metadata lock until it commits
        report = run_locked(engine.url, engine.url)
    assert report.differences is not None and report.differences.missing == 1 and report.notes == (), report.reasons


@LOCKING_ALIKE
def test_lock_ends_within_a_second_though_a_snapshot_does_not_begin(
    engine: LiveEngine, monkeypatch: pytest.MonkeyPatch, set_durations: SetDurations
) -> None:
    make_locked(engine, monkeypatch)
    set_durations(silence_grace=0.0)
    with proxied(engine.url) as proxy, ExitStack() as stack:
        session, helper = stack.enter_context(open_sessions(engine.url, engine.url))
        stuck = stack.enter_context(closing(dialects.connect(proxy.url, statement_timeout=2.5)))
        writer = stack.enter_context(closing(mysql.connect(engine.url)))
        session.begin()
        proxy.silencing_text = b"START TRANSACTION"
        written: list[float] = []

        def write() -> None:
            assert proxy.heard.wait(30), "the lock was never held"
            writer.cursor().execute("UPDATE locked SET v = v WHERE id = 7")
            written.append(time.monotonic())

        thread = threading.Thread(target=write)
        thread.start()
        with pytest.raises(LockTimeout, match="was locked, and within 1 s not all snapshots were begun"):
            session.share_snapshot([stuck], "locked", helper)
        ended = time.monotonic()
        thread.join()
        assert written[0] < ended, "the writer waited until the stuck session's own time limit"
        assert session.query("SELECT COUNT(*) FROM locked") == [(ROWS,)]


@LOCKING
def test_server_takes_the_lock_back_from_a_process_that_hangs(engine: LiveEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    make_locked(engine, monkeypatch)
    with open_sessions(engine.url, engine.url) as (session, helper), closing(mysql.connect(engine.url)) as writer:
        hang, go_on = threading.Event(), threading.Event()
        monkeypatch.setattr(helper, "wait_at_most", lambda _: nullcontext())
        monkeypatch.setattr("dialects.mysql.session.ThreadPoolExecutor", lambda *_, **__: HangingPool(hang, go_on))
        session.begin()

        def write() -> None:
            hang.wait(30)
            writer.cursor().execute("UPDATE locked SET v = v WHERE id = 8")
            go_on.set()

        thread = threading.Thread(target=write)
        thread.start()
        with pytest.raises(LockTimeout):
            session.share_snapshot([], "locked", helper)
        thread.join()
        assert go_on.is_set()


class HangingPool:
    """Hangs under the lock until the writer has got through, which only the server can let it."""

    def __init__(self, hang: threading.Event, go_on: threading.Event) -> None:
        self.hang, self.go_on = hang, go_on

    def __enter__(self) -> HangingPool:
        return self

    def __exit__(self, *_: object) -> None: ...

    def map(self, *_: object) -> list[None]:
        self.hang.set()
        assert self.go_on.wait(30), "the table stayed locked"
        return []
