"""Whatever goes wrong ends in one clear sentence on standard error and the right exit code, and shows no secret.

Where an engine has accounts, everything here runs as one whose password would be noticed in any output.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import duckdb
import pytest

from auditor.cli import main
from dialects import Kind
from tests.engines import LiveEngine, LivePair, engine_params
from tests.tables import execute, make, query
from tests.test_servers import CONNECT

INTEGER, TEXT = Kind("integer"), Kind("text")
ROWS = [(i, f"row {i}") for i in range(50)]
SECRET = "s3cr3t-p@ss/word#"
READER = "auditor_faults"

SERVERS = ("mysql", "mariadb", "postgres", "redshift")
"""Engines under test with hosts, ports, accounts and connections that break."""

ACCOUNTS = {
    "mysql": (
        f"DROP USER IF EXISTS {READER}",
        f"CREATE USER {READER} IDENTIFIED BY '{SECRET}'",
        f"GRANT ALL ON *.* TO {READER}",
    ),
    "postgres": (f"DROP ROLE IF EXISTS {READER}", f"CREATE ROLE {READER} SUPERUSER LOGIN PASSWORD '{SECRET}'"),
}
ACCOUNTS["redshift"] = ACCOUNTS["postgres"]
"""What makes the account, by dialect."""

NO_KIND = {"mysql": "POINT", "postgres": "POINT", "redshift": "TIMETZ", "spark": "ARRAY<INT>", "duckdb": "INTEGER[]"}
"""A type without canonical text, by dialect."""


class Faulty:
    """Runs audits of tables on live engines through the command line and keeps what they said."""

    def __init__(self, directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.directory = directory
        self.capsys = capsys
        self.out = self.error = ""

    def url(self, engine: LiveEngine, password: str = SECRET, place: str | None = None, database: str | None = None) -> str:
        """The engine's URL with the account of the secret, at another place or database if given."""
        if engine.dialect not in ACCOUNTS:
            return engine.url
        parts = urlsplit(engine.url)
        place = place or f"{parts.hostname}:{parts.port}"
        return parts._replace(netloc=f"{READER}:{quote(password, safe='')}@{place}", path=f"/{database or parts.path[1:]}").geturl()

    def run(self, source: str, target: str, *options: str, tables: Sequence[str] = ("faults", "faults"), **audit: Any) -> int:
        """The exit code of an audit of two tables; ``audit`` holds its further settings, ``statement_timeout`` the source's."""
        connections: dict[str, Any] = {"here": {"url": source}, "there": {"url": target}}
        if limit := audit.pop("statement_timeout", None):
            connections["here"]["limits"] = {"statement_timeout": limit}
        ends = {"source": {"connection": "here", "table": tables[0]}, "target": {"connection": "there", "table": tables[1]}}
        path = self.directory / "auditor.yaml"
        path.write_text(json.dumps({"connections": connections, "audits": {"faulty": {"method": "signature", **ends, **audit}}}))
        code = main(["run", "faulty", "--quiet", "--config", str(path), *options])
        self.out, self.error = self.capsys.readouterr()
        for text in (self.out, self.error):
            assert "Traceback" not in text
            assert SECRET not in text
            assert quote(SECRET, safe="") not in text
        return code

    def sentence(self) -> str:
        """What standard error said, which was one sentence about this audit."""
        head, _, rest = self.error.partition("auditor: faulty: ")
        assert not head
        assert rest.count("\n") == 1, rest
        return rest.strip()


@pytest.fixture
def faulty(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Faulty:
    return Faulty(tmp_path, capsys)


@pytest.fixture(scope="session")
def prepared() -> set[str]:
    return set()


@pytest.fixture
def ready(engine: LiveEngine, prepared: set[str]) -> LiveEngine:
    """The engine with the tables `faults` and `faults_empty` and the account of the secret."""
    if engine.name not in prepared:
        execute(engine, *ACCOUNTS.get(engine.dialect, ()))
        make(engine, "faults", [("id", INTEGER), ("v", TEXT)], ROWS, key=["id"])
        make(engine, "faults_empty", [("id", INTEGER), ("v", TEXT)], [], key=["id"])
        prepared.add(engine.name)
    return engine


def only(*names: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("engine", engine_params(*names), indirect=True)


# before anything is compared


@only(*SERVERS)
@pytest.mark.parametrize("place", ["127.0.0.1:9", "no-such-host.invalid:9"])
def test_an_unreachable_server(ready: LiveEngine, faulty: Faulty, place: str) -> None:
    assert faulty.run(faulty.url(ready, place=place), faulty.url(ready)) == 3
    assert faulty.sentence().startswith("source (here): ")
    assert place.split(":", maxsplit=1)[0] in faulty.sentence()
    assert "Connection refused" in faulty.sentence() or "Name or service not known" in faulty.sentence()


@only(*SERVERS)
def test_a_wrong_password(ready: LiveEngine, faulty: Faulty) -> None:
    wrong = "Wr0ng-p@ss/word#"
    assert faulty.run(faulty.url(ready), faulty.url(ready, password=wrong)) == 3
    assert faulty.sentence().startswith("target (there): ")
    assert READER in faulty.sentence()
    assert wrong not in faulty.error + faulty.out
    assert quote(wrong, safe="") not in faulty.error + faulty.out


@only(*SERVERS)
def test_a_missing_database(ready: LiveEngine, faulty: Faulty) -> None:
    assert faulty.run(faulty.url(ready, database="no_such_database"), faulty.url(ready)) == 2
    assert "no_such_database" in faulty.sentence()


@only("duckdb")
def test_a_missing_database_file(ready: LiveEngine, faulty: Faulty, tmp_path: Path) -> None:
    assert faulty.run(f"duckdb:///{tmp_path}/absent.duckdb", ready.url) == 2
    assert "absent.duckdb" in faulty.sentence()


@only("mysql", "mariadb", "postgres", "redshift")
def test_an_option_that_is_no_number(ready: LiveEngine, faulty: Faulty) -> None:
    url = faulty.url(ready)
    assert faulty.run(f"{url}{'&' if '?' in url else '?'}connect_timeout=soon", url) == 2
    assert "connect_timeout is not a whole number: 'soon'" in faulty.sentence()


def test_a_url_that_is_none(faulty: Faulty, tmp_path: Path) -> None:
    duckdb.connect(str(tmp_path / "x.duckdb")).close()
    for url in (f"mysql://{READER}:{SECRET}@host/db", "oracle://host/db", "nonsense", "mysql://u:s3cr3t@h:port/db"):
        assert faulty.run(url, f"duckdb:///{tmp_path}/x.duckdb") == 2
        assert "s3cr3t" not in faulty.out + faulty.error
        assert faulty.sentence().startswith("source (here): ")


def test_a_missing_table(ready: LiveEngine, faulty: Faulty) -> None:
    url = faulty.url(ready)
    assert faulty.run(url, url, tables=("faults", "no_such_table")) == 2
    assert faulty.sentence().startswith("target")
    assert "there is no table no_such_table" in faulty.sentence()


@only("spark", "duckdb")
def test_missing_files(ready: LiveEngine, faulty: Faulty, tmp_path: Path) -> None:
    assert faulty.run(ready.url, ready.url, tables=(str(tmp_path / "absent.parquet"), "faults"), key=["id"]) == 2
    assert "absent.parquet" in faulty.sentence()


@pytest.mark.parametrize(
    "audit",
    [{"key": ["no_such"]}, {"columns": {"exclude": ["no_such"]}}, {"columns": {"override": {"no_such": {"trim": True}}}}],
    ids=["key", "exclude", "override"],
)
def test_a_missing_column(ready: LiveEngine, faulty: Faulty, audit: dict[str, Any]) -> None:
    url = faulty.url(ready)
    assert faulty.run(url, url, **{"key": ["id"], **audit}) == 2
    assert "'no_such'" in faulty.error


def test_a_column_on_one_side_only(ready: LiveEngine, faulty: Faulty) -> None:
    make(ready, "faults_fewer", [("id", INTEGER)], [(1,)])
    url = faulty.url(ready)
    assert faulty.run(url, url, tables=("faults", "faults_fewer"), key=["id"]) == 2
    assert "column 'v' is not in the target" in faulty.error
    assert "exclude it" in faulty.error


def test_no_key(ready: LiveEngine, faulty: Faulty) -> None:
    make(ready, "faults_keyless", [("id", INTEGER), ("v", TEXT)], ROWS)
    url = faulty.url(ready)
    assert faulty.run(url, url, tables=("faults_keyless", "faults")) == 2
    assert "has no primary key: write key: [column, ...] in the audit" in faulty.sentence()


@only("mysql", "mariadb", "postgres", "redshift", "duckdb")
def test_a_key_on_the_source_only_is_enough(ready: LiveEngine, faulty: Faulty) -> None:
    make(ready, "faults_keyless", [("id", INTEGER), ("v", TEXT)], ROWS)
    url = faulty.url(ready)
    assert faulty.run(url, url, tables=("faults", "faults_keyless")) == 0
    assert faulty.error == ""


def test_a_type_without_canonical_text(ready: LiveEngine, faulty: Faulty) -> None:
    execute(ready, "DROP TABLE IF EXISTS faults_odd", f"CREATE TABLE faults_odd (id INTEGER, odd {NO_KIND[ready.dialect]})")
    url = faulty.url(ready)
    assert faulty.run(url, url, tables=("faults_odd", "faults_odd"), key=["id"]) == 2
    assert "column 'odd': " in faulty.error
    assert "has no canonical text; exclude it, or write columns: override: {odd: {expr: ..., kind: ...}}" in faulty.error
    assert faulty.run(url, url, tables=("faults_odd", "faults_odd"), key=["id"], columns={"exclude": ["odd"]}, allow_empty=True) == 0


@pytest.mark.parametrize(
    ("where", "words"),
    [
        ("id >", "where could not be understood as "),
        ("id = 1 LIMIT 5", "where must be one expression, without other clauses"),
        ("id = 1; DELETE FROM faults", "where must be one expression, without other clauses"),
        ("no_such = 1", "there is no column 'no_such' (columns here: id, v)"),
        ("id IN (SELECT 1)", "where may hold neither a subquery nor a parameter"),
        ("id = ?", "where may hold neither a subquery nor a parameter"),
        ({"sql": "id > 1", "dialect": "oracle"}, "there is no dialect 'oracle'"),
    ],
)
def test_a_malformed_filter(ready: LiveEngine, faulty: Faulty, where: Any, words: str) -> None:
    url = faulty.url(ready)
    assert faulty.run(url, url, key=["id"], where=where) == 2
    assert words in faulty.error
    assert "<class" not in faulty.error


def test_a_filter_that_the_engine_refuses(ready: LiveEngine, faulty: Faulty) -> None:
    url = faulty.url(ready)
    assert faulty.run(url, url, key=["id"], where="no_such_function(id) = 1") in (2, 3)
    assert faulty.sentence().startswith(("source (here): ", "target (there): "))
    assert "no_such_function" in faulty.sentence().lower()


@only("mysql")
def test_a_server_without_md5(ready: LiveEngine, faulty: Faulty) -> None:
    url = faulty.url(ready)
    for audit in ({"hash": "md5"}, {"encoding": "published"}):
        assert faulty.run(url, url, method="minhash", **audit) == 2
        assert "has no MD5(): have its administrator run INSTALL COMPONENT" in faulty.sentence()


# tables without rows


@pytest.mark.parametrize("method", ["counts", "signature", "minhash"])
def test_two_empty_tables(ready: LiveEngine, faulty: Faulty, method: str) -> None:
    url = faulty.url(ready)
    both = ("faults_empty", "faults_empty")
    assert faulty.run(url, url, "--format", "json", tables=both, key=["id"], method=method) == 3
    assert json.loads(faulty.out)["verdict"] == "unknown"
    assert "both tables are empty, so nothing was compared; write allow_empty: true" in faulty.sentence()
    assert faulty.run(url, url, tables=both, key=["id"], method=method, allow_empty=True) == 0


@pytest.mark.parametrize("tables", [("faults", "faults_empty"), ("faults_empty", "faults")])
def test_one_empty_table(ready: LiveEngine, faulty: Faulty, tables: tuple[str, str]) -> None:
    url = faulty.url(ready)
    assert faulty.run(url, url, "--format", "json", tables=tables, key=["id"], allow_empty=True) == 1
    assert json.loads(faulty.out)["partitions"]["unequal"] == 1


# while statements run


def slow(engine: LiveEngine) -> None:
    """A view of a million long rows, whose hashing takes seconds on any engine and stops when told to."""
    execute(engine, "DROP VIEW IF EXISTS faults_slow")
    make(engine, "faults_thousand", [("id", INTEGER), ("v", TEXT)], [(i, f"row {i}") for i in range(1000)])
    view = "SELECT a.id * 1000 + b.id AS id, REPEAT(a.v, 1000) AS v FROM faults_thousand a CROSS JOIN faults_thousand b"
    execute(engine, f"CREATE VIEW faults_slow AS {view}")


def test_a_statement_timeout(ready: LiveEngine, faulty: Faulty) -> None:
    """What is said of a chunk that cannot be cut, because it is one partition."""
    slow(ready)
    url, partition = faulty.url(ready), {"strategy": "range", "size": 10_000_000}
    tables = ("faults_slow", "faults")
    assert faulty.run(url, url, "--format", "json", tables=tables, key=["id"], statement_timeout="1s", partition=partition) == 3
    assert faulty.sentence().startswith("source (here): ")
    assert any(
        word in faulty.sentence() for word in ("timeout", "max_statement_time", "maximum statement execution time", "longer than 1 s")
    )
    found = json.loads(faulty.out)
    assert (found["state"], found["verdict"], found["score"], found["coverage"]["rows"]) == ("failed", "unknown", None, 0)


FIND = {
    "mysql": f"SELECT ID FROM information_schema.PROCESSLIST WHERE USER = '{READER}' AND INFO LIKE '%hashed_rows%'",
    "postgres": f"SELECT pid FROM pg_stat_activity WHERE usename = '{READER}' AND state = 'active' AND query LIKE 'FETCH%'",
}
FIND["redshift"] = FIND["postgres"]
KILL = {"mysql": "KILL {}", "postgres": "SELECT pg_terminate_backend({})"}
KILL["redshift"] = KILL["postgres"]


def kill_when_it_runs(engine: LiveEngine, killed: list[int]) -> None:
    """End the connection whose statement is hashing rows."""
    deadline = time.monotonic() + 60
    with closing(CONNECT[engine.name](engine.url)) as connection:
        connection.autocommit = True
        cursor = connection.cursor()
        while not killed and time.monotonic() < deadline:
            cursor.execute(FIND[engine.dialect])
            for (identity,) in cursor.fetchall():
                cursor.execute(KILL[engine.dialect].format(identity))
                killed.append(identity)
            time.sleep(0.05)


@only(*SERVERS)
def test_a_connection_that_is_killed(ready: LiveEngine, faulty: Faulty, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is said once it is not tried again."""
    monkeypatch.setattr("auditor.link.WAITS", ())
    slow(ready)
    url = faulty.url(ready)
    killed: list[int] = []
    killer = threading.Thread(target=kill_when_it_runs, args=(ready, killed))
    killer.start()
    code = faulty.run(url, url, "--format", "json", tables=("faults_slow", "faults"), key=["id"])
    killer.join()
    assert killed
    assert code == 3
    assert faulty.sentence().startswith("source (here): ")
    found = json.loads(faulty.out)
    assert (found["state"], found["verdict"]) == ("failed", "unknown")


@pytest.mark.parametrize("tables", [("faults_broken", "faults"), ("faults", "faults_broken")], ids=["source", "target"])
def test_a_side_that_fails_in_the_middle(ready: LiveEngine, faulty: Faulty, tables: tuple[str, str]) -> None:
    view = "SELECT f.id, (SELECT g.v FROM faults g WHERE g.id <> f.id) AS v FROM faults f"
    execute(ready, "DROP VIEW IF EXISTS faults_broken", f"CREATE VIEW faults_broken AS {view}")
    url = faulty.url(ready)
    assert faulty.run(url, url, "--format", "json", tables=tables, key=["id"]) == 3
    assert faulty.sentence().startswith("source (here): " if tables[0] == "faults_broken" else "target (there): ")
    assert json.loads(faulty.out)["verdict"] == "unknown"


@pytest.mark.parametrize("pair", [pytest.param(("mysql", "postgres"), marks=[pytest.mark.mysql, pytest.mark.postgres])], indirect=True)
def test_both_sides_are_named_as_they_fail(pair: LivePair, faulty: Faulty) -> None:
    for engine in (pair.source, pair.target):
        make(engine, "faults_pair", [("id", INTEGER), ("v", TEXT)], ROWS, key=["id"])
    assert faulty.run(pair.source.url, pair.target.url, tables=("faults_pair", "faults_nowhere")) == 2
    assert "target: there is no table faults_nowhere" in faulty.sentence()


# rows that an engine cannot build the text of

PACKET = 65536


@only("mysql", "mariadb")
@pytest.mark.parametrize(
    ("here", "there"),
    [
        pytest.param(*[("x" * 40_000, "y" * 40_000)] * 2, id="longer than a packet"),
        pytest.param(
            ("|" * 40_000, "a"),
            (None, "a"),
            id="longer once escaped, against NULL",
        ),
    ],
)
def test_a_row_too_long_to_hash_is_never_equal(ready: LiveEngine, faulty: Faulty, here: Any, there: Any) -> None:
    """CONCAT and REPLACE yield NULL, and a warning, for what exceeds max_allowed_packet."""
    columns = [("id", INTEGER), ("v", TEXT), ("w", TEXT)]
    make(ready, "faults_long", columns, [(1, *here)], key=["id"])
    make(ready, "faults_other", columns, [(1, *there)], key=["id"])
    usual = query(ready, "SELECT @@GLOBAL.max_allowed_packet")[0][0]
    execute(ready, f"SET GLOBAL max_allowed_packet = {PACKET}")
    try:
        code = faulty.run(faulty.url(ready), faulty.url(ready), "--format", "json", tables=("faults_long", "faults_other"))
    finally:
        execute(ready, f"SET GLOBAL max_allowed_packet = {usual}")
    assert code == 3
    found = json.loads(faulty.out)
    assert (found["verdict"], found["partitions"]["skipped"], found["coverage"]["rows"]) == ("unknown", 1, 0)
    assert "could not be hashed" in faulty.sentence()
