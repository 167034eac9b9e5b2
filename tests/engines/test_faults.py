"""Every failure prints one clear sentence on standard error, has the right exit code, and shows no secret.

On engines with accounts, these tests connect with a password that would be recognised in any output.
"""

from __future__ import annotations

import json
import re
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
from auditor.model import SIDES
from dialects import Kind
from tests.durations import SetDurations
from tests.engines.test_servers import CONNECT
from tests.live import LiveEngine, LivePair, engine_params, quick_on
from tests.tables import execute, make, query

pytestmark = pytest.mark.engines_in_turn

INTEGER, TEXT = Kind("integer"), Kind("text")
ROWS = [(i, f"row {i}") for i in range(50)]
SECRET = "s3cr3t-p@ss/word#"
READER = "auditor_faults"

SERVERS = ("mysql", "mariadb", "postgres", "redshift")
"""Engines with hosts, ports, accounts and connections that can fail."""

ACCOUNTS = {
    "mysql": (f"DROP USER IF EXISTS {READER}", f"CREATE USER {READER} IDENTIFIED BY '{SECRET}'", f"GRANT ALL ON *.* TO {READER}"),
    "postgres": (f"DROP ROLE IF EXISTS {READER}", f"CREATE ROLE {READER} SUPERUSER LOGIN PASSWORD '{SECRET}'"),
}
ACCOUNTS["redshift"] = ACCOUNTS["postgres"]
"""Statements that create the account, by dialect."""

NO_KIND = {"mysql": "POINT", "postgres": "POINT", "redshift": "TIMETZ", "spark": "MAP<INT, INT>", "duckdb": "MAP(INTEGER, INTEGER)"}
"""A type without a canonical text, by dialect."""


class Faulty:
    """Runs audits on live engines through the command line and stores their output."""

    def __init__(self, directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.directory = directory
        self.capsys = capsys
        self.out = self.error = ""

    def url(self, engine: LiveEngine, password: str = SECRET, place: str | None = None, database: str | None = None) -> str:
        """Return the engine's URL with the account of the secret, optionally with another ``host:port`` or database."""
        if engine.dialect not in ACCOUNTS:
            return engine.url
        parts = urlsplit(engine.url)
        place = place or f"{parts.hostname}:{parts.port}"
        return parts._replace(netloc=f"{READER}:{quote(password, safe='')}@{place}", path=f"/{database or parts.path[1:]}").geturl()

    def run(self, source: str, target: str, *options: str, tables: Sequence[str] = ("faults", "faults"), **audit: Any) -> int:
        """Audit two tables and return the exit code; ``audit`` has further settings, and ``statement_timeout`` applies to the source."""
        connections: dict[str, Any] = {"here": {"url": source}, "there": {"url": target}}
        if limit := audit.pop("statement_timeout", None):
            connections["here"]["limits"] = {"statement_timeout": limit}
        ends = {"source": {"connection": "here", "table": tables[0]}, "target": {"connection": "there", "table": tables[1]}}
        path = self.directory / "auditor.yaml"
        path.write_text(json.dumps({"connections": connections, "audits": {"faulty": {"method": "signature", **ends, **audit}}}))
        code = main(["run", "faulty", "--quiet", "--json", "--config", str(path), *options])
        self.out, self.error = self.capsys.readouterr()
        for text in (self.out, self.error):
            assert "Traceback" not in text
            assert SECRET not in text
            assert quote(SECRET, safe="") not in text
        return code

    def sentence(self) -> str:
        """Assert that standard error has exactly one sentence about this audit, and return it."""
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
    """Return the engine with the tables `faults` and `faults_empty` and the account of the secret."""
    if engine.name not in prepared:
        execute(engine, *ACCOUNTS.get(engine.dialect, ()))
        make(engine, "faults", [("id", INTEGER), ("v", TEXT)], ROWS, key=["id"])
        make(engine, "faults_empty", [("id", INTEGER), ("v", TEXT)], [], key=["id"])
        prepared.add(engine.name)
    return engine


planned = pytest.mark.parametrize("engine", quick_on("mysql", "postgres", "duckdb"), indirect=True)
"""For what the auditor finds in two descriptions of tables, which `test_missing_table_is_named` asks of every engine."""


def only(*names: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("engine", engine_params(*names), indirect=True)


# before anything is compared


@only(*SERVERS)
@pytest.mark.parametrize("place", ["127.0.0.1:9", "no-such-host.invalid:9"])
@pytest.mark.few
def test_unreachable_server_is_named(ready: LiveEngine, faulty: Faulty, place: str, set_durations: SetDurations) -> None:
    set_durations(connection_retry_waits=(0.01,))
    assert faulty.run(faulty.url(ready, place=place), faulty.url(ready)) == 3
    assert faulty.sentence().startswith("source (here): ")
    assert place.split(":", maxsplit=1)[0] in faulty.sentence()
    assert "Connection refused" in faulty.sentence() or "Name or service not known" in faulty.sentence()


@only(*SERVERS)
def test_wrong_password_is_reported_without_showing_it(ready: LiveEngine, faulty: Faulty) -> None:
    wrong = "Wr0ng-p@ss/word#"
    assert faulty.run(faulty.url(ready), faulty.url(ready, password=wrong)) == 3
    assert faulty.sentence().startswith("target (there): ")
    assert READER in faulty.sentence()
    assert wrong not in faulty.error + faulty.out
    assert quote(wrong, safe="") not in faulty.error + faulty.out


@only(*SERVERS)
def test_missing_database_is_named(ready: LiveEngine, faulty: Faulty) -> None:
    assert faulty.run(faulty.url(ready, database="no_such_database"), faulty.url(ready)) == 2
    assert "no_such_database" in faulty.sentence()


@only("duckdb")
def test_missing_database_file_is_named(ready: LiveEngine, faulty: Faulty, tmp_path: Path) -> None:
    assert faulty.run(f"duckdb:///{tmp_path}/absent.duckdb", ready.url) == 2
    assert "absent.duckdb" in faulty.sentence()


@only("mysql", "mariadb", "postgres", "redshift")
def test_non_numeric_url_option_is_rejected(ready: LiveEngine, faulty: Faulty) -> None:
    url = faulty.url(ready)
    assert faulty.run(f"{url}{'&' if '?' in url else '?'}connect_timeout=soon", url) == 2
    assert "option connect_timeout must be a whole number, not 'soon'" in faulty.sentence()


def test_invalid_url_is_rejected_without_showing_its_password(faulty: Faulty, tmp_path: Path) -> None:
    duckdb.connect(str(tmp_path / "x.duckdb")).close()
    for url in (f"mysql://{READER}:{SECRET}@host/db", "oracle://host/db", "nonsense", "mysql://u:s3cr3t@h:port/db"):
        assert faulty.run(url, f"duckdb:///{tmp_path}/x.duckdb") == 2
        assert "s3cr3t" not in faulty.out + faulty.error
        assert faulty.sentence().startswith("source (here): ")


@pytest.mark.slow_on("spark")
@pytest.mark.few
def test_missing_table_is_named(ready: LiveEngine, faulty: Faulty) -> None:
    url = faulty.url(ready)
    assert faulty.run(url, url, tables=("faults", "no_such_table")) == 2
    assert faulty.sentence().startswith("target")
    assert "there is no table no_such_table" in faulty.sentence()


@only("spark", "duckdb")
def test_missing_file_is_named(ready: LiveEngine, faulty: Faulty, tmp_path: Path) -> None:
    assert faulty.run(ready.url, ready.url, tables=(str(tmp_path / "absent.parquet"), "faults"), key=["id"]) == 2
    assert "absent.parquet" in faulty.sentence()


@planned
@pytest.mark.parametrize(
    "audit",
    [{"key": ["no_such"]}, {"columns": {"exclude": ["no_such"]}}, {"columns": {"override": {"no_such": {"trim": True}}}}],
    ids=["key", "exclude", "override"],
)
def test_missing_column_is_named(ready: LiveEngine, faulty: Faulty, audit: dict[str, Any]) -> None:
    url = faulty.url(ready)
    assert faulty.run(url, url, **{"key": ["id"], **audit}) == 2
    assert "'no_such'" in faulty.error


@planned
def test_column_on_one_side_only_is_named(ready: LiveEngine, faulty: Faulty) -> None:
    make(ready, "faults_fewer", [("id", INTEGER)], [(1,)])
    url = faulty.url(ready)
    assert faulty.run(url, url, tables=("faults", "faults_fewer"), key=["id"]) == 2
    assert "column 'v' is not in the target" in faulty.error
    assert "exclude it" in faulty.error


@planned
def test_table_without_a_key_is_rejected(ready: LiveEngine, faulty: Faulty) -> None:
    make(ready, "faults_keyless", [("id", INTEGER), ("v", TEXT)], ROWS)
    url = faulty.url(ready)
    assert faulty.run(url, url, tables=("faults_keyless", "faults")) == 2
    assert "has no primary key: write key: [column, ...] in the audit" in faulty.sentence()


@only("mysql", "mariadb", "postgres", "redshift", "duckdb")
def test_primary_key_on_the_source_alone_is_sufficient(ready: LiveEngine, faulty: Faulty) -> None:
    make(ready, "faults_keyless", [("id", INTEGER), ("v", TEXT)], ROWS)
    url = faulty.url(ready)
    assert faulty.run(url, url, tables=("faults", "faults_keyless")) == 0
    assert faulty.error == ""


def test_type_without_canonical_text_is_left_out_unless_the_audit_names_it(ready: LiveEngine, faulty: Faulty) -> None:
    execute(ready, "DROP TABLE IF EXISTS faults_odd", f"CREATE TABLE faults_odd (id INTEGER, odd {NO_KIND[ready.dialect]})")
    url = faulty.url(ready)
    both: dict[str, Any] = {"tables": ("faults_odd", "faults_odd"), "key": ["id"], "allow_empty": True}
    assert faulty.run(url, url, "--format", "json", **both) == 0
    assert [one["column"] for one in json.loads(faulty.out)["plan"]["not_compared"] if one["how"] == "left out"] == ["odd"]
    assert faulty.run(url, url, **both, columns={"include": ["id", "odd"]}) == 2
    assert "column 'odd': " in faulty.error
    assert "has no canonical text; exclude it, or compare it by columns: {override: {odd: {expr:" in faulty.error


@planned
@pytest.mark.parametrize(
    ("where", "words"),
    [
        ("id >", "where: a column or a value is missing at the end"),
        ("id = 1 LIMIT 5", "where: LIMIT (character 8) is not part of the portable language"),
        ("id = 1; DELETE FROM faults", "where: ';' (character 7) is not part of the portable language"),
        ("no_such = 1", "there is no column 'no_such' in the source; use one of id, v"),
        (("id >", "id > 1"), "where of the source is not valid "),
        (("id > 1", "id = 1 LIMIT 5"), "where of the target must be one expression, without other clauses"),
        (("id = 1; DELETE FROM faults", "id = 1"), "where of the source must be one expression, without other clauses"),
        (("id = 1", "no_such = 1"), "where of the target: there is no column 'no_such'; use one of id, v"),
        (("id IN (SELECT 1)", "id = 1"), "where of the source must not contain a subquery or a parameter"),
        (("id = ?", "id = 1"), "where of the source must not contain a subquery or a parameter"),
    ],
)
def test_malformed_filter_is_rejected(ready: LiveEngine, faulty: Faulty, where: Any, words: str) -> None:
    url = faulty.url(ready)
    assert faulty.run(url, url, key=["id"], where=where if isinstance(where, str) else dict(zip(SIDES, where, strict=True))) == 2
    assert words in faulty.error
    assert "<class" not in faulty.error


def test_filter_that_the_engine_rejects_is_reported(ready: LiveEngine, faulty: Faulty) -> None:
    url = faulty.url(ready)
    assert faulty.run(url, url, key=["id"], where=dict.fromkeys(SIDES, "no_such_function(id) = 1")) in (2, 3)
    assert faulty.sentence().startswith(("source (here): ", "target (there): "))
    assert "no_such_function" in faulty.sentence().lower()


@pytest.mark.alone  # another worker may install MD5() for the whole server
@only("mysql")
def test_server_without_md5_is_reported(ready: LiveEngine, faulty: Faulty) -> None:
    url = faulty.url(ready)
    for audit in ({"hash": "md5"}, {"encoding": "published"}):
        assert faulty.run(url, url, method="minhash", **audit) == 2
        assert "has no MD5(): have its administrator run INSTALL COMPONENT" in faulty.sentence()


# tables without rows


@pytest.mark.slow_on("spark")
@pytest.mark.parametrize("method", ["counts", "signature", "minhash"])
def test_two_empty_tables_match_only_if_allowed(ready: LiveEngine, faulty: Faulty, method: str) -> None:
    url = faulty.url(ready)
    both = ("faults_empty", "faults_empty")
    assert faulty.run(url, url, "--format", "json", tables=both, key=["id"], method=method) == 3
    assert json.loads(faulty.out)["verdict"] == "unknown"
    assert "both tables are empty, so nothing was compared; write allow_empty: true" in faulty.sentence()
    assert faulty.run(url, url, tables=both, key=["id"], method=method, allow_empty=True) == 0


@pytest.mark.parametrize("tables", [("faults", "faults_empty"), ("faults_empty", "faults")])
def test_one_empty_table_is_a_mismatch(ready: LiveEngine, faulty: Faulty, tables: tuple[str, str]) -> None:
    url = faulty.url(ready)
    assert faulty.run(url, url, "--format", "json", tables=tables, key=["id"], allow_empty=True) == 1
    assert json.loads(faulty.out)["partitions"]["unequal"] == 1


# while statements run


def make_slow_view(engine: LiveEngine) -> None:
    """Create a view of a million long rows: hashing them takes seconds on any engine and can be cancelled."""
    execute(engine, "DROP VIEW IF EXISTS faults_slow")
    make(engine, "faults_thousand", [("id", INTEGER), ("v", TEXT)], [(i, f"row {i}") for i in range(1000)])
    view = "SELECT a.id * 1000 + b.id AS id, REPEAT(a.v, 1000) AS v FROM faults_thousand a CROSS JOIN faults_thousand b"
    if engine.name == "spark":  # whose tasks of a cancelled statement go on to their ends, and keep others waiting
        view += " WHERE b.id < 200"
    execute(engine, f"CREATE VIEW faults_slow AS {view}")


@pytest.mark.quick_for("postgres", "duckdb")
@pytest.mark.slow_on("spark")
@pytest.mark.few
def test_statement_timeout_fails_the_run_and_names_the_side(ready: LiveEngine, faulty: Faulty) -> None:
    """A chunk that cannot be split, because it is a single partition, fails the run."""
    make_slow_view(ready)
    url, partition = faulty.url(ready), {"strategy": "range", "size": 10_000_000}
    tables = ("faults_slow", "faults")
    assert faulty.run(url, url, "--format", "json", tables=tables, key=["id"], statement_timeout="1s", partition=partition) == 3
    assert faulty.sentence().startswith("source (here): ")
    assert re.search("timeout|max_statement_time|maximum statement execution time|longer than 1 s", faulty.sentence())
    found = json.loads(faulty.out)
    assert (found["state"], found["verdict"], found["score"], found["coverage"]["rows"]) == ("failed", "unknown", None, 0)


FIND = {
    "mysql": f"SELECT ID FROM information_schema.PROCESSLIST WHERE USER = '{READER}' AND INFO LIKE '%hashed_rows%'",
    "postgres": f"SELECT pid FROM pg_stat_activity WHERE usename = '{READER}' AND state = 'active' AND query ~ '^DECLARE|FETCH FORWARD'",
}
FIND["redshift"] = FIND["postgres"]
AS_TARGET = pytest.param(("faults", "faults_broken"), marks=pytest.mark.slow_on("spark"))  # which answers both alike
KILL = {"mysql": "KILL {}", **dict.fromkeys(("postgres", "redshift"), "SELECT pg_terminate_backend({})")}


def kill_hashing_connection(engine: LiveEngine, killed: list[int]) -> None:
    """Kill the connection of the reader's account whose statement is hashing rows."""
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


@pytest.mark.quick_for("mysql", "postgres")
@only(*SERVERS)
@pytest.mark.few
def test_killed_connection_fails_the_run_and_names_the_side(ready: LiveEngine, faulty: Faulty, set_durations: SetDurations) -> None:
    """Without retries the run fails and names the side; the target's connection has another account, so that it is not the one killed."""
    set_durations(connection_retry_waits=())
    make_slow_view(ready)
    killed: list[int] = []
    killer = threading.Thread(target=kill_hashing_connection, args=(ready, killed))
    killer.start()
    code = faulty.run(faulty.url(ready), ready.url, "--format", "json", tables=("faults_slow", "faults"), key=["id"])
    killer.join()
    assert killed and code == 3
    assert faulty.sentence().startswith("source (here): ")
    found = json.loads(faulty.out)
    assert (found["state"], found["verdict"]) == ("failed", "unknown")


@pytest.mark.slow_on("spark")
@pytest.mark.parametrize("tables", [("faults_broken", "faults"), AS_TARGET], ids=["source", "target"])
@pytest.mark.few
def test_failing_statement_names_its_side(ready: LiveEngine, faulty: Faulty, tables: tuple[str, str]) -> None:
    view = "SELECT f.id, (SELECT g.v FROM faults g WHERE g.id <> f.id AND g.id < 4) AS v FROM faults f WHERE f.id < 4"
    execute(ready, "DROP VIEW IF EXISTS faults_broken", f"CREATE VIEW faults_broken AS {view}")
    url = faulty.url(ready)
    assert faulty.run(url, url, "--format", "json", tables=tables, key=["id"]) == 3
    assert faulty.sentence().startswith("source (here): " if tables[0] == "faults_broken" else "target (there): ")
    assert json.loads(faulty.out)["verdict"] == "unknown"


@pytest.mark.parametrize("pair", [pytest.param(("mysql", "postgres"), marks=[pytest.mark.mysql, pytest.mark.postgres])], indirect=True)
def test_missing_table_on_the_target_is_named(pair: LivePair, faulty: Faulty) -> None:
    for engine in (pair.source, pair.target):
        make(engine, "faults_pair", [("id", INTEGER), ("v", TEXT)], ROWS, key=["id"])
    assert faulty.run(pair.source.url, pair.target.url, tables=("faults_pair", "faults_nowhere")) == 2
    assert "target: there is no table faults_nowhere" in faulty.sentence()


# rows whose text an engine cannot compute

PACKET = 65536


@pytest.mark.alone
@only("mysql", "mariadb")
@pytest.mark.parametrize("prescan", [False, True], ids=["by partition", "pre-scanned"])
@pytest.mark.parametrize(
    ("here", "there"),
    [
        pytest.param(*[("x" * 40_000, "y" * 40_000)] * 2, id="longer than a packet"),
        pytest.param(("|" * 40_000, "a"), (None, "a"), id="longer once escaped, against NULL"),
    ],
)
def test_row_too_long_to_hash_is_never_equal(ready: LiveEngine, faulty: Faulty, here: Any, there: Any, prescan: bool) -> None:
    """CONCAT and REPLACE return NULL with a warning if the result exceeds max_allowed_packet."""
    columns = [("id", INTEGER), ("v", TEXT), ("w", TEXT)]
    make(ready, "faults_long", columns, [(1, *here)], key=["id"])
    make(ready, "faults_other", columns, [(1, *there)], key=["id"])
    previous = query(ready, "SELECT @@GLOBAL.max_allowed_packet")[0][0]
    execute(ready, f"SET GLOBAL max_allowed_packet = {PACKET}")
    try:
        urls, names = (faulty.url(ready), faulty.url(ready)), ("faults_long", "faults_other")
        code = faulty.run(*urls, "--format", "json", tables=names, prescan=prescan)
    finally:
        execute(ready, f"SET GLOBAL max_allowed_packet = {previous}")
    assert code == 3
    found = json.loads(faulty.out)
    assert (found["verdict"], found["partitions"]["skipped"], found["coverage"]["rows"]) == ("unknown", 1, 0)
    assert "1 partition holds a row that could not be hashed, and was not compared: source, key 1: " in faulty.sentence()
    column = "the text of v could not be built" if there[0] is None else "its columns together are too long a text"
    assert f"{column}; raise max_allowed_packet on its server, or write columns: {{exclude: [" in faulty.sentence()
