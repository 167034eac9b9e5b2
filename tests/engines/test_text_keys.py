"""Text keys in every character set and collation, and databases in other encodings: rows are named, and looked at again by their keys."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from urllib.parse import urlsplit

import pytest

import dialects
from auditor import canonical
from auditor.config import Audit, ConnectionSettings
from auditor.model import Report, Verdict
from auditor.run import audit_run
from dialects import Kind
from tests import tables
from tests.engines.test_parallel_workers import CHEAP
from tests.live import Engines, LiveEngine, engine_params
from tests.servers import postgres

pytestmark = pytest.mark.engines_in_turn

KEYS = ["", "plain", "O'Brien", "back\\slash", "Éclair", "éclair", "naïve|~", "日本", "😀"]
"""Keys of both sides as far as the source can hold them; two differ in the case of a letter with an accent."""

CHARACTER_SETS = ["utf8mb4 COLLATE utf8mb4_unicode_ci", "utf8mb4 COLLATE utf8mb4_bin", "utf8mb3", "latin1", "ascii", "ucs2", "sjis"]


def held(character_set: str) -> list[str]:
    """Return the keys that a character set has, and that its collation tells apart."""
    name = character_set.partition(" ")[0]
    codec = {"utf8mb4": "utf-8", "utf8mb3": "utf-8", "ucs2": "utf-16", "sjis": "shift_jis"}.get(name, name)
    keys = [key for key in KEYS if key.encode(codec, "replace").decode(codec) == key and (name == "utf8mb4" or key != "😀")]
    return [key for key in keys if key != "éclair" or character_set.endswith("_bin")]


def audit_keys(source: ConnectionSettings, target: ConnectionSettings, table: str) -> Report:
    audit = Audit.model_validate(
        {
            "source": {"connection": "source", "table": table},
            "target": {"connection": "target", "table": "text_keys"},
            "key": ["k"],
            "t": len(KEYS),
            "recheck": {"times": 1, "wait": "0s"},
        }
    )
    return audit_run.run("text_keys", audit, {"source": source, "target": target})


def assert_named(report: Report, held_keys: list[str]) -> None:
    """Every row that both sides hold was changed, and the others are the target's alone; each was confirmed by a recheck."""
    assert report.differences is not None
    named = {(str(one.key["k"]), one.kind) for one in report.differences.named}
    assert named == {(key, "changed" if key in held_keys else "extra") for key in KEYS}
    assert report.differences.looks == 1


@pytest.fixture
def duckdb_target(engines: Engines) -> ConnectionSettings:
    engine = engines.live("duckdb")
    tables.make(engine, "text_keys", [("k", Kind("text")), ("v", Kind("integer"))], [(key, -n) for n, key in enumerate(KEYS)], key=["k"])
    return ConnectionSettings(url=engine.url)


@pytest.mark.slow_on("mariadb")
@pytest.mark.parametrize("engine", engine_params("mysql", "mariadb"), indirect=True)
def test_keys_of_every_character_set_are_named_and_rechecked(engine: LiveEngine, duckdb_target: ConnectionSettings) -> None:
    for character_set in CHARACTER_SETS:
        keys = held(character_set)
        values = ", ".join(f"(_utf8mb4 X'{key.encode().hex()}', {n + 100})" for n, key in enumerate(keys))
        tables.execute(
            engine,
            "DROP TABLE IF EXISTS text_keys_here",
            f"CREATE TABLE text_keys_here (k VARCHAR(40) CHARACTER SET {character_set} PRIMARY KEY, v INT)",
            f"INSERT INTO text_keys_here VALUES {values}",
        )
        assert_named(audit_keys(ConnectionSettings(url=engine.url), duckdb_target, "text_keys_here"), keys)


ENCODINGS = ["LATIN1", "EUC_JP", "SQL_ASCII", "UTF8"]
"""Encodings of databases."""


@pytest.fixture
def database(engine: LiveEngine, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, str]]:
    """A database in an encoding and the locale C, whose sessions are in another encoding unless they say otherwise."""
    encoding: str = request.param
    name = f"{urlsplit(engine.url).path.strip('/')}_{encoding.lower()}"
    url = urlsplit(engine.url)._replace(path=f"/{name}").geturl()
    with closing(postgres.connect(engine.url)) as connection:
        cursor = connection.cursor()
        cursor.execute(f"DROP DATABASE IF EXISTS {name}")
        provider = " LOCALE_PROVIDER libc" if connection.server_version >= 150000 else ""
        cursor.execute(f"CREATE DATABASE {name} ENCODING '{encoding}' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0{provider}")
        cursor.execute(f"ALTER DATABASE {name} SET client_encoding TO 'LATIN1'")
        cursor.execute(f"ALTER DATABASE {name} SET quote_all_identifiers TO on")
        monkeypatch.setenv("PGCLIENTENCODING", "SQL_ASCII")
        yield encoding, url
        cursor.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.mark.parametrize("database", ENCODINGS, indirect=True)
@pytest.mark.parametrize("engine", engine_params("postgres"), indirect=True)
def test_database_in_any_encoding_is_compared_by_its_characters(database: tuple[str, str], duckdb_target: ConnectionSettings) -> None:
    encoding, url = database
    codec = {"SQL_ASCII": "utf-8", "UTF8": "utf-8"}.get(encoding, encoding)
    keys = [key for key in KEYS if key.encode(codec, "replace").decode(codec) == key]
    with closing(dialects.connect(url)) as session:
        quoted = session.dialect.names.quote("TEXTE_ÉTÉ" if encoding != "EUC_JP" else "TEXTE")
        session.execute(f"CREATE TABLE {quoted} (k TEXT PRIMARY KEY, v INTEGER)")
        values = ", ".join(f"({session.dialect.names.string_literal(key)}, {n + 100})" for n, key in enumerate(keys))
        session.execute(f"INSERT INTO {quoted} VALUES {values}")
        folded = f"SELECT {session.dialect.text.lower('k')} FROM {quoted} ORDER BY v"
        assert [row[0] for row in session.query(folded)] == [canonical.fold_case(key, "lower") for key in keys]
    assert_named(audit_keys(ConnectionSettings(url=url), duckdb_target, quoted.strip('"')), keys)


@pytest.mark.parametrize("database", ["LATIN1", "UTF8"], indirect=True)
@pytest.mark.parametrize("engine", engine_params("postgres"), indirect=True)
def test_parallel_workers_hash_the_same_characters(database: tuple[str, str]) -> None:
    """Their client's encoding is the database's, whatever that of their session is."""
    words = ["été", "ÿ", "plain"]
    with closing(dialects.connect(database[1])) as session:
        session.execute("CREATE TABLE words (w TEXT)")
        session.execute(f"INSERT INTO words VALUES {', '.join(f'({session.dialect.names.string_literal(word)})' for word in words)}")
        workers = ("SET max_parallel_workers_per_gather TO 2", "SET parallel_leader_participation TO off", *CHEAP)
        for setting in ("ALTER TABLE words SET (parallel_workers = 2)", *workers):
            session.execute(setting)
        summed = f"SELECT CAST(SUM({session.dialect.hashes.row_word('w', 'sha256')}) AS TEXT) FROM words"
        plan = "\n".join(str(row[0]) for row in session.query(f"EXPLAIN (ANALYZE) {summed}"))
        assert "Workers Launched: 2" in plan, plan
        assert session.query(summed) == [(str(sum(canonical.word(canonical.row_hash(word), 1, 15) for word in words)),)]


@pytest.mark.parametrize("database", ["SQL_ASCII"], indirect=True)
@pytest.mark.parametrize("engine", engine_params("postgres"), indirect=True)
def test_bytes_that_are_no_text_end_the_run_with_a_sentence(database: tuple[str, str], duckdb_target: ConnectionSettings) -> None:
    """A database of SQL_ASCII checks nothing: here it stores a letter of LATIN1 among UTF-8."""
    _, url = database
    with closing(postgres.connect(url)) as connection:
        connection.cursor().execute("CREATE TABLE mixed (k TEXT, v INT)")
        connection.cursor().execute("INSERT INTO mixed VALUES (CONVERT_FROM(DECODE('63e9', 'hex'), 'SQL_ASCII'), 1)")
    report = audit_keys(ConnectionSettings(url=url), duckdb_target, "mixed")
    assert report.verdict is Verdict.UNKNOWN
    assert "bytes that are no UTF-8; exclude the column" in " ".join(report.reasons), report.reasons


@pytest.mark.duckdb
def test_keys_that_are_floats_are_shown_as_numbers(engines: Engines) -> None:
    """They are rechecked by their canonical texts, and reported as decimal numbers."""
    engine = engines.live("duckdb")
    columns = [("k", Kind("float64")), ("part", Kind("text")), ("v", Kind("integer"))]
    keys = [0.1, -1e300, 0.0, 5e-324, 3.0]
    tables.make(engine, "float_keys", columns, [(key, "p", 1) for key in keys])
    tables.make(engine, "float_keys_there", columns, [(key, "p", 2) for key in keys])
    audit = Audit.model_validate(
        {
            "source": {"connection": "source", "table": "float_keys"},
            "target": {"connection": "target", "table": "float_keys_there"},
            "key": ["k", "part"],
            "recheck": {"times": 1, "wait": "0s"},
        }
    )
    connection = ConnectionSettings(url=engine.url)
    differences = audit_run.run("float_keys", audit, {"source": connection, "target": connection}).differences
    assert differences is not None
    assert {(one.key["k"], one.key["part"], one.kind) for one in differences.named} == {
        (number, "p", "changed") for number in ("0.1", "-1e+300", "0.0", "5e-324", "3.0")
    }
