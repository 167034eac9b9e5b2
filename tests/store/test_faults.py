"""What a store says when it cannot be kept: which error, with what to do, and never the password."""

from __future__ import annotations

import os
import pwd
import resource
import shutil
import socket
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote, urlsplit

import pytest
import sqlalchemy as sa

from auditor.errors import BadUrl, StoreError, StoreFull, StoreReadOnly, StoreUnavailable
from auditor.model import State
from auditor.store import Store, _url, open_store, runs
from tests.engines import Engines, LiveEngine, engine_params
from tests.servers._process import free_port
from tests.store import databases
from tests.store.samples import DONE, begun, ended, new_audit

SERVERS = engine_params("mysql", "mariadb", "postgres")


NO_STORES = [
    "sqlite://", "sqlite:///", "sqlite:///:memory:", "duckdb:///x", "mysql://root@localhost", "mysql://u:s3cret@h:port/d",
    "postgresql://u:s3cret@h/#", "x",
]  # fmt: skip


@pytest.mark.parametrize("url", NO_STORES)
def test_urls_that_are_no_stores(url: str) -> None:
    with pytest.raises(BadUrl) as refusal:
        open_store(url)
    assert "s3cret" not in str(refusal.value)


def test_urls_become_the_drivers() -> None:
    address = _url.parsed("mariadb://us%40er:p%2Fw%23%40@db:3307/kept?ssl_ca=/ca.pem")
    assert (address.url.drivername, address.url.username, address.url.password) == ("mysql+pymysql", "us@er", "p/w#@")
    assert (address.url.host, address.url.port, address.url.database) == ("db", 3307, "kept")
    assert address.options["ssl_ca"] == "/ca.pem" and address.name == "mariadb://us@er:***@db:3307/kept"
    assert _url.parsed("postgresql://u@h/d?sslmode=require").options["sslmode"] == "require"
    assert _url.parsed("sqlite:////a b/100%41.db").url.database == "/a b/100%41.db"


def test_there_is_no_directory(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match=f"no directory {tmp_path}/none; make it"):
        open_store(f"sqlite:///{tmp_path}/none/store.db")


def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    path.write_text("a letter to my aunt\n" * 100)
    with pytest.raises(StoreError, match="is no SQLite database"):
        open_store(f"sqlite:///{path}")
    assert path.read_text().startswith("a letter")
    with pytest.raises(StoreReadOnly, match="that it is a file"):
        open_store(f"sqlite:///{tmp_path}")


def test_a_damaged_file(tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path}/store.db")
    ended(store, "a", report=os.urandom(500_000))
    store.close()
    path = tmp_path / "store.db"
    whole = path.read_bytes()
    path.write_bytes(whole[:4096] + os.urandom(len(whole) - 8192) + whole[-4096:])
    with pytest.raises(StoreError, match="damaged"):
        again = open_store(f"sqlite:///{path}")
        runs.listed(again)


def test_rights_of_file_and_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    with _open_folder() as folder:
        url = f"sqlite:///{folder}/store.db"
        store = open_store(url)
        run = ended(store, "a")
        store.close()
        with _without_rights():
            with pytest.raises(StoreReadOnly, match="check the rights"):
                open_store(f"sqlite:///{folder}/another.db")
            with pytest.raises(StoreReadOnly, match="check the rights"):
                open_store(url)
        keeper = open_store(url)  # its files for sharing are there while another process has it open
        runs.find(keeper, run)
        with _without_rights():
            reader = open_store(url)
            assert runs.find(reader, run).state == State.DONE
            with pytest.raises(StoreReadOnly, match="may not be written"):
                begun(reader, "a")
            reader.close()
        assert [found.run for found in runs.listed(keeper)] == [run]
        keeper.close()


def test_a_full_disk_leaves_nothing_half_written(file_store: Store) -> None:
    run = begun(file_store, "a")
    with file_store.engine.connect() as connection:
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar()
        connection.exec_driver_sql(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(StoreFull, match="make room, or run: auditor prune"):
        runs.finish(file_store, run, DONE_LARGE)
    _is_untouched(file_store, run)


def test_a_limit_of_the_files_size(file_store: Store) -> None:
    run = begun(file_store, "a")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (500_000, hard))
    try:
        with pytest.raises((StoreFull, StoreUnavailable), match="disk"):
            runs.finish(file_store, run, DONE_LARGE)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    _is_untouched(file_store, run)


DONE_LARGE = runs.Outcome(state=State.DONE, verdict=DONE.verdict, exit_code=1, seconds=1, report=os.urandom(3_000_000))


def _is_untouched(store: Store, run: str) -> None:
    assert runs.find(store, run).state == State.RUNNING and runs.report(store, run) is None
    with store.engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA max_page_count = 1000000000")
    runs.finish(store, run, DONE_LARGE)
    assert runs.report(store, run) == DONE_LARGE.report


def test_a_file_that_another_process_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_url, "WAIT", 0.2)
    store = open_store(f"sqlite:///{tmp_path}/store.db")
    run = ended(store, "a")
    other = sqlite3.connect(tmp_path / "store.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreUnavailable, match="another process holds it locked") as refusal:
        begun(store, "a")
    assert refusal.value.retryable
    assert runs.find(store, run).state == State.DONE  # readers do not wait
    other.execute("ROLLBACK")
    other.close()
    begun(store, "a")
    store.close()


@pytest.mark.parametrize("scheme", ["mysql", "mariadb", "postgresql"])
def test_no_server_answers(scheme: str) -> None:
    with pytest.raises(StoreUnavailable, match="could not be reached; check store: url") as refusal:
        open_store(f"{scheme}://u:s3cret@127.0.0.1:{free_port()}/d")
    assert "s3cret" not in str(refusal.value)


@pytest.mark.parametrize("scheme", ["mysql", "postgresql"])
def test_what_answers_says_nothing(scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_url, "SILENCE", 2)
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
def test_a_wrong_password_and_an_unknown_user(server: LiveEngine, database: str) -> None:
    for user in (urlsplit(database).username, "nobody_here"):
        with pytest.raises(StoreError, match="refused the user name or the password") as refusal:
            open_store(_as(database, f"{user}", "s3cret/#@"))
        assert "s3cret" not in str(refusal.value) and quote("s3cret/#@", safe="") not in str(refusal.value)


@pytest.mark.parametrize("server", SERVERS, indirect=True)
def test_a_database_that_is_not_there(server: LiveEngine) -> None:
    with pytest.raises(StoreError, match="no such database; create it"):
        open_store(urlsplit(server.url)._replace(path="/not_there").geturl())


@pytest.mark.parametrize("server", SERVERS, indirect=True)
def test_a_user_who_may_only_read(server: LiveEngine, database: str) -> None:
    store = open_store(database)
    run = ended(store, "a")
    store.close()
    user, name = f"reader_{urlsplit(database).path[-12:]}", urlsplit(database).path.lstrip("/")
    if server.dialect == "mysql":
        databases.run(server.url, f"CREATE USER {user} IDENTIFIED BY ''", f"GRANT SELECT ON {name}.* TO {user}")
        remove: Callable[[], None] = lambda: databases.run(server.url, f"DROP USER {user}")  # noqa: E731
    else:
        databases.run(database, f"CREATE ROLE {user} LOGIN PASSWORD 'it'", f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {user}")
        remove = lambda: databases.run(database, f"DROP OWNED BY {user}", f"DROP ROLE {user}")  # noqa: E731
    reader = open_store(_as(database, user, "" if server.dialect == "mysql" else "it"))
    try:
        assert runs.find(reader, run).state == State.DONE
        with pytest.raises(StoreReadOnly, match="may not be written"):
            begun(reader, "a")
    finally:
        reader.close()
        remove()


TOLD = [
    ("postgres", "DO $$ BEGIN RAISE 'x' USING ERRCODE = '53100'; END $$", StoreFull),
    ("postgres", "DO $$ BEGIN RAISE 'x' USING ERRCODE = '25006'; END $$", StoreReadOnly),
    ("postgres", "DO $$ BEGIN RAISE 'x' USING ERRCODE = '57P01'; END $$", StoreUnavailable),
    ("postgres", "SELECT pg_terminate_backend(pg_backend_pid())", StoreUnavailable),
    *((name, "SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = 1021", StoreFull) for name in ("mysql", "mariadb")),
    *((name, "SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = 1290", StoreReadOnly) for name in ("mysql", "mariadb")),
    *((name, "SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = 1205", StoreUnavailable) for name in ("mysql", "mariadb")),
    *((name, "KILL CONNECTION_ID()", StoreUnavailable) for name in ("mysql", "mariadb")),
]


@pytest.mark.parametrize(
    ("server", "statement", "error"),
    [pytest.param(name, sql, error, id=f"{name}-{n}", marks=getattr(pytest.mark, name)) for n, (name, sql, error) in enumerate(TOLD)],
    indirect=["server"],
)
def test_what_servers_say(server: LiveEngine, database: str, statement: str, error: type[StoreError]) -> None:
    store = open_store(database)
    with pytest.raises(error):
        store.write(lambda connection: connection.execute(sa.text(statement)) and None)
    ended(store, new_audit())  # the next call has a connection that works
    store.close()


def _as(url: str, user: str, password: str) -> str:
    parts = urlsplit(url)
    return parts._replace(netloc=f"{user}:{quote(password, safe='')}@{parts.hostname}:{parts.port}").geturl()


@contextmanager
def _open_folder() -> Iterator[Path]:
    """A directory that everybody may read; pytest's are closed to others."""
    folder = Path(tempfile.mkdtemp(prefix="auditor-store-"))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


@contextmanager
def _without_rights() -> Iterator[None]:
    """As a user who may not write what this one made; where this is no superuser, there is no need to become another."""
    if os.geteuid() != 0:
        pytest.skip("only a superuser can become somebody else")
    os.seteuid(pwd.getpwnam("nobody").pw_uid)
    try:
        yield
    finally:
        os.seteuid(0)
