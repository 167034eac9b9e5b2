"""Faults of the store's database: which error is raised, with what suggestion, and never with the password."""

from __future__ import annotations

import os
import pwd
import resource
import shutil
import socket
import sqlite3
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote, urlsplit

import pytest
import sqlalchemy as sa

from auditor.errors import BadUrl, StoreError, StoreFull, StoreReadOnly, StoreUnavailable
from auditor.model import State
from auditor.store import Store, open_store, run_lifecycle, runs
from auditor.store.database import parse_store_url
from tests.durations import SetDurations
from tests.live import Engines, LiveEngine, engine_params
from tests.servers.process import free_port
from tests.servers.proxy import proxied
from tests.store import databases
from tests.store.samples import DONE, add_finished_run, new_audit_name, start_run

SERVERS = engine_params("mysql", "mariadb", "postgres")


INVALID_URLS = [
    "sqlite://", "sqlite:///", "sqlite:///:memory:", "duckdb:///x", "mysql://root@localhost", "mysql://u:s3cret@h:port/d",
    "postgresql://u:s3cret@h/#", "x",
]  # fmt: skip


@pytest.mark.parametrize("url", INVALID_URLS)
def test_invalid_urls_are_rejected_without_the_password(url: str) -> None:
    with pytest.raises(BadUrl) as refusal:
        open_store(url)
    assert "s3cret" not in str(refusal.value)


def test_urls_are_converted_for_the_drivers() -> None:
    address = parse_store_url("mariadb://us%40er:p%2Fw%23%40@db:3307/kept?unix_socket=/run/db.sock")
    assert (address.url.drivername, address.url.username, address.url.password) == ("mysql+pymysql", "us@er", "p/w#@")
    assert (address.url.host, address.url.port, address.url.database) == ("db", 3307, "kept")
    assert address.options["unix_socket"] == "/run/db.sock" and address.name == "mariadb://us@er:***@db:3307/kept"
    assert parse_store_url("postgresql://u@h/d?sslmode=require").options["sslmode"] == "require"
    assert parse_store_url("sqlite:////a b/100%41.db").url.database == "/a b/100%41.db"


def test_missing_directory(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match=f"directory {tmp_path}/none does not exist; create it"):
        open_store(f"sqlite:///{tmp_path}/none/store.db")


def test_file_that_is_not_a_database(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    path.write_text("a letter to my aunt\n" * 100)
    with pytest.raises(StoreError, match="is not a SQLite database"):
        open_store(f"sqlite:///{path}")
    assert path.read_text().startswith("a letter")
    with pytest.raises(StoreReadOnly, match="that it is not a directory"):
        open_store(f"sqlite:///{tmp_path}")


def test_corrupt_file(tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path}/store.db")
    add_finished_run(store, "a", report=os.urandom(500_000))
    store.close()
    path = tmp_path / "store.db"
    whole = path.read_bytes()
    path.write_bytes(whole[:4096] + os.urandom(len(whole) - 8192) + whole[-4096:])
    with pytest.raises(StoreError, match="corrupt"):
        again = open_store(f"sqlite:///{path}")
        runs.list_runs(again)


def test_missing_permissions_on_file_and_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    with _readable_folder() as folder:
        url = f"sqlite:///{folder}/store.db"
        store = open_store(url)
        run = add_finished_run(store, "a")
        store.close()
        Path(folder, "store.db").chmod(0o644)  # by default only the owner may read it
        with _as_other_user():
            with pytest.raises(StoreReadOnly, match="check the permissions"):
                open_store(f"sqlite:///{folder}/another.db")
            with pytest.raises(StoreReadOnly, match="check the permissions"):
                open_store(url)
        keeper = open_store(url)  # creates the WAL files, which exist while a process has the store open
        runs.get_run(keeper, run)
        with _as_other_user():
            reader = open_store(url)
            assert runs.get_run(reader, run).state == State.DONE
            with pytest.raises(StoreReadOnly, match="is read-only"):
                start_run(reader, "a")
            reader.close()
        assert [found.run for found in runs.list_runs(keeper)] == [run]
        keeper.close()


def test_full_disk_rolls_back(file_store: Store) -> None:
    run = start_run(file_store, "a")
    with file_store.engine.connect() as connection:
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar()
        connection.exec_driver_sql(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(StoreFull, match="free some space, or run: auditor prune"):
        run_lifecycle.finish_run(file_store, run, DONE_LARGE)
    _assert_unchanged(file_store, run)


def test_file_size_limit_rolls_back(file_store: Store) -> None:
    run = start_run(file_store, "a")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (500_000, hard))
    try:
        with pytest.raises((StoreFull, StoreUnavailable), match="disk"):
            run_lifecycle.finish_run(file_store, run, DONE_LARGE)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    _assert_unchanged(file_store, run)


DONE_LARGE = run_lifecycle.Outcome(state=State.DONE, verdict=DONE.verdict, exit_code=1, seconds=1, report=os.urandom(3_000_000))


def _assert_unchanged(store: Store, run: str) -> None:
    assert runs.get_run(store, run).state == State.RUNNING and runs.get_report(store, run) is None
    with store.engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA max_page_count = 1000000000")
    run_lifecycle.finish_run(store, run, DONE_LARGE)
    assert runs.get_report(store, run) == DONE_LARGE.report


def test_file_locked_by_another_process(tmp_path: Path, set_durations: SetDurations) -> None:
    set_durations(store_lock=0.2)
    store = open_store(f"sqlite:///{tmp_path}/store.db")
    run = add_finished_run(store, "a")
    other = sqlite3.connect(tmp_path / "store.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreUnavailable, match="locked by another process") as refusal:
        start_run(store, "a")
    assert refusal.value.retryable
    assert runs.get_run(store, run).state == State.DONE  # readers are not blocked
    other.execute("ROLLBACK")
    other.close()
    start_run(store, "a")
    store.close()


@pytest.mark.parametrize("scheme", ["mysql", "mariadb", "postgresql"])
def test_unreachable_server(scheme: str) -> None:
    with pytest.raises(StoreUnavailable, match="cannot connect to the server; check store: url") as refusal:
        open_store(f"{scheme}://u:s3cret@127.0.0.1:{free_port()}/d")
    assert "s3cret" not in str(refusal.value)


@pytest.mark.quick_for("postgresql")
@pytest.mark.parametrize("scheme", ["mysql", "postgresql"])
def test_server_that_accepts_but_does_not_answer(scheme: str, set_durations: SetDurations) -> None:
    set_durations(store_answer=2)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(10)
        port = listener.getsockname()[1]
        listener.listen()
        with pytest.raises(StoreUnavailable) as refusal:
            open_store(f"{scheme}://u:s3cret@127.0.0.1:{port}/d?connect_timeout=2")
    assert "s3cret" not in str(refusal.value)


@pytest.fixture
def server(request: pytest.FixtureRequest, engines: Engines) -> LiveEngine:
    return engines.live(request.param)


@pytest.fixture
def database(server: LiveEngine) -> Iterator[str]:
    url = databases.create(server.url)
    yield url
    databases.drop(server.url, url)


@pytest.mark.parametrize("server", SERVERS, indirect=True)
def test_wrong_password_and_unknown_user(server: LiveEngine, database: str) -> None:
    for user in (urlsplit(database).username, "nobody_here"):
        with pytest.raises(StoreError, match="rejected the user name or password") as refusal:
            open_store(_with_user(database, f"{user}", "s3cret/#@"))
        assert "s3cret" not in str(refusal.value) and quote("s3cret/#@", safe="") not in str(refusal.value)


@pytest.mark.quick_for("COMMIT-postgres", "UPDATE-mysql")
@pytest.mark.clock
@pytest.mark.slow_on("mariadb")  # whose driver is MySQL's
@pytest.mark.parametrize("server", SERVERS, indirect=True)
@pytest.mark.parametrize("silencing", [b"UPDATE", b"COMMIT"])
def test_heartbeat_ends_though_the_server_falls_silent(
    server: LiveEngine, database: str, silencing: bytes, set_durations: SetDurations
) -> None:
    """It answers the login and is up, and then says nothing: to a statement, to the commit, and to those that come later."""
    set_durations(store_answer=1)
    with proxied(database) as proxy:
        store = open_store(f"{proxy.url}{'&' if '?' in proxy.url else '?'}connect_timeout=1")
        run = start_run(store, "a")
        run_lifecycle.record_heartbeat(store, run, {})
        proxy.silencing_text = silencing
        outcome: Future[object] = Future()
        threading.Thread(
            target=lambda: outcome.set_result(_error_of(lambda: run_lifecycle.record_heartbeat(store, run, {}))), daemon=True
        ).start()
        assert isinstance(error := outcome.result(60), StoreUnavailable), repr(error)
        proxy.silencing_text = b""
        run_lifecycle.record_heartbeat(store, run, {})  # by a connection of its own
        store.close()


def _error_of(work: Callable[[], object]) -> object:
    try:
        return work()
    except BaseException as error:
        return error


@pytest.mark.parametrize("server", SERVERS, indirect=True)
def test_missing_database(server: LiveEngine) -> None:
    with pytest.raises(StoreError, match="the database does not exist; create an empty one"):
        open_store(urlsplit(server.url)._replace(path="/not_there").geturl())


@pytest.mark.parametrize("server", SERVERS, indirect=True)
def test_read_only_user(server: LiveEngine, database: str) -> None:
    store = open_store(database)
    run = add_finished_run(store, "a")
    store.close()
    user, name = f"reader_{urlsplit(database).path[-12:]}", urlsplit(database).path.lstrip("/")
    if server.dialect == "mysql":
        databases.run(server.url, f"CREATE USER {user} IDENTIFIED BY ''", f"GRANT SELECT ON {name}.* TO {user}")
        remove: Callable[[], None] = lambda: databases.run(server.url, f"DROP USER {user}")  # noqa: E731
    else:
        databases.run(database, f"CREATE ROLE {user} LOGIN PASSWORD 'it'", f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {user}")
        remove = lambda: databases.run(database, f"DROP OWNED BY {user}", f"DROP ROLE {user}")  # noqa: E731
    reader = open_store(_with_user(database, user, "" if server.dialect == "mysql" else "it"))
    try:
        assert runs.get_run(reader, run).state == State.DONE
        with pytest.raises(StoreReadOnly, match="is read-only"):
            start_run(reader, "a")
    finally:
        reader.close()
        remove()


SERVER_ERRORS = [
    ("postgres", "DO $$ BEGIN RAISE 'x' USING ERRCODE = '53100'; END $$", StoreFull),
    ("postgres", "DO $$ BEGIN RAISE 'x' USING ERRCODE = '25006'; END $$", StoreReadOnly),
    ("postgres", "DO $$ BEGIN RAISE 'x' USING ERRCODE = '57P01'; END $$", StoreUnavailable),
    ("postgres", "SELECT pg_terminate_backend(pg_backend_pid())", StoreUnavailable),
    *((name, "SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = 1021", StoreFull) for name in ("mysql", "mariadb")),
    *((name, "SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = 1290", StoreReadOnly) for name in ("mysql", "mariadb")),
    *((name, "SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = 1205", StoreUnavailable) for name in ("mysql", "mariadb")),
    *((name, "KILL CONNECTION_ID()", StoreUnavailable) for name in ("mysql", "mariadb")),
]


@pytest.mark.few
@pytest.mark.parametrize(
    ("server", "statement", "error"),
    [
        pytest.param(name, sql, error, id=f"{name}-{n}", marks=getattr(pytest.mark, name))
        for n, (name, sql, error) in enumerate(SERVER_ERRORS)
    ],
    indirect=["server"],
)
def test_server_errors_are_translated(server: LiveEngine, database: str, statement: str, error: type[StoreError]) -> None:
    store = open_store(database)
    with pytest.raises(error):
        store.write(lambda connection: connection.execute(sa.text(statement)) and None)
    add_finished_run(store, new_audit_name())  # the next call gets a working connection
    store.close()


def _with_user(url: str, user: str, password: str) -> str:
    parts = urlsplit(url)
    return parts._replace(netloc=f"{user}:{quote(password, safe='')}@{parts.hostname}:{parts.port}").geturl()


@contextmanager
def _readable_folder() -> Iterator[Path]:
    """A directory that other users may read, unlike those of pytest."""
    folder = Path(tempfile.mkdtemp(prefix="auditor-store-"))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


@contextmanager
def _as_other_user() -> Iterator[None]:
    """Run the block as another user, who may not write this user's files. Skips the test unless run by a superuser."""
    if os.geteuid() != 0:
        pytest.skip("only a superuser can become another user")
    os.seteuid(pwd.getpwnam("nobody").pw_uid)
    try:
        yield
    finally:
        os.seteuid(0)
