"""ClickHouse: what a row of its tables is, which are not read, and that no profile of a server cuts or bends a result."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any
from urllib.parse import urlsplit

import pytest

import auditor
import dialects
from auditor.config import ConnectionSettings, Settings
from auditor.errors import AccessDenied, AuditorError, NoSuchObject, SessionNotKept
from auditor.model import Difference, Verdict
from auditor.service.selftest import selftest
from dialects import Kind, Place, Session
from dialects.clickhouse.settings import PINNED
from tests import tables
from tests.live import LiveEngine, engine_params
from tests.servers import clickhouse

pytestmark = pytest.mark.parametrize("engine", engine_params("clickhouse"), indirect=True)

ONLY = {"include": ["id", "v"]}
COLUMNS = [("id", Kind("integer")), ("v", Kind("text"))]


@pytest.fixture
def run(engine: LiveEngine) -> Iterator[Callable[..., None]]:
    """Runs statements as another user of the server does."""
    with closing(clickhouse.connect(engine.url)) as client:

        def statements(*some: str) -> None:
            for sql in some:
                client.command(sql)

        yield statements


@pytest.fixture
def session(engine: LiveEngine) -> Iterator[Session]:
    with closing(dialects.connect(engine.url)) as opened:
        yield opened


def _as(engine: LiveEngine, user: str) -> str:
    """The URL with which another user signs in, whose profile has settings of its own (tests/servers/clickhouse_serve.py)."""
    parts = urlsplit(engine.url)
    if not parts.netloc.startswith("auditor:audit@127.0.0.1"):
        pytest.skip("the profiles are those of the stand-in")
    return parts._replace(netloc=parts.netloc.replace("auditor:", f"{user}:")).geturl()


def _describe(session: Session, name: str) -> dialects.Table:
    return session.dialect.catalogue.describe(session, Place((name,)))[0]


VERSIONS = (
    "DROP TABLE IF EXISTS {t}",
    "CREATE TABLE {t} (id Int64, v String{more}) ENGINE = {engine} ORDER BY id SETTINGS min_bytes_for_wide_part = 0",
    "SYSTEM STOP MERGES {t}",
)


def _versions(run: Callable[..., None], name: str, engine: str, more: str, *parts: str) -> None:
    """Create a table whose rows stand in several parts."""
    run(*(sql.format(t=name, engine=engine, more=more) for sql in VERSIONS))
    for values in parts:
        run(f"INSERT INTO {name} VALUES {values}")


def _source(tmp_path: Any, rows: list[tuple[int, str]]) -> tuple[str, str]:
    url = f"duckdb:///{tmp_path}/source{len(rows)}.duckdb"
    tables.make(LiveEngine("duckdb", "duckdb", url), "orders", COLUMNS, rows, ["id"])
    return url, "orders"


@pytest.mark.parametrize(
    ("engine_name", "more", "parts", "later"),
    [
        ("ReplacingMergeTree(version, is_deleted)", ", version UInt64, is_deleted UInt8",
         ("(1,'old',1,0),(2,'b',1,0),(3,'c',1,0)", "(1,'a',2,0),(3,'c',2,1)"), "(2,'b',2,1)"),
        ("ReplacingMergeTree(version)", ", version UInt64", ("(1,'a',2),(2,'b',1)", "(1,'old',1)"), "(2,'x',2)"),
        ("ReplacingMergeTree", "", ("(1,'old'),(2,'b')", "(1,'a')"), "(2,'x')"),
        ("CollapsingMergeTree(sign)", ", sign Int8", ("(1,'old',1),(2,'b',1),(3,'c',1)", "(1,'old',-1),(1,'a',1),(3,'c',-1)"),
         "(2,'b',-1)"),
        ("VersionedCollapsingMergeTree(sign, version)", ", sign Int8, version UInt8",
         ("(1,'old',1,1),(2,'b',1,1)", "(1,'old',-1,1),(1,'a',1,2)"), "(2,'b',-1,1),(2,'x',1,2)"),
    ],
)  # fmt: skip
def test_a_row_is_what_final_makes_of_its_versions(
    engine: LiveEngine, run: Callable[..., None], tmp_path: Any, engine_name: str, more: str, parts: tuple[str, ...], later: str
) -> None:
    _versions(run, "versions", engine_name, more, *parts)
    source, target = _source(tmp_path, [(1, "a"), (2, "b")]), (engine.url, "versions")
    equal = auditor.audit(source, target, key=["id"], columns=ONLY)
    assert equal.verdict is Verdict.MATCH, equal
    run(f"INSERT INTO versions VALUES {later}")
    differs = auditor.audit(source, target, key=["id"], columns=ONLY)
    assert differs.verdict is Verdict.MISMATCH
    assert {one.key["id"] for one in differs.differences or () if isinstance(one, Difference)} == {"2"}


def test_a_version_in_a_partition_that_a_filter_leaves_out_counts(engine: LiveEngine, run: Callable[..., None], tmp_path: Any) -> None:
    """The older version would come back, if the partition of the newer one were left out before FINAL."""
    table = "(id Int64, v String, version UInt64, part Int64) ENGINE = ReplacingMergeTree(version) PARTITION BY part ORDER BY id"
    run("DROP TABLE IF EXISTS parted", f"CREATE TABLE parted {table}", "SYSTEM STOP MERGES parted")
    run("INSERT INTO parted VALUES (1, 'old', 1, 1), (2, 'b', 1, 1)", "INSERT INTO parted VALUES (1, 'a', 2, 2)")
    query = "SELECT id, v FROM parted WHERE part = 1"
    assert auditor.audit(_source(tmp_path, [(2, "b")]), (engine.url, query), key=["id"]).verdict is Verdict.MATCH
    with closing(dialects.connect(engine.url)) as session:
        found = _describe(session, "parted")
        assert not [one for one in session.dialect.catalogue.protections(session, found) if "PARTITION BY" in one]
        sent: Any = session
        del sent._settings["defer_partition_pruning_after_final"]  # as of a server that does not have it
        [said] = [one for one in session.dialect.catalogue.protections(session, found) if "PARTITION BY" in one]
        assert 'parted" has partitions, which this server leaves out before' in said


PEERDB = ", _peerdb_synced_at DateTime64(9), _peerdb_is_deleted Int8, _peerdb_version Int64"


@pytest.mark.parametrize(
    ("engine_name", "more", "parts", "convention"),
    [
        ("ReplacingMergeTree(_peerdb_version)", PEERDB,
         ("(1,'old',now64(9),0,1),(2,'b',now64(9),0,1),(3,'c',now64(9),0,1)", "(1,'a',now64(9),0,2),(3,'c',now64(9),1,2)"), "peerdb"),
        ("ReplacingMergeTree(_version)", ", _sign Int8, _version UInt64", ("(1,'a',1,2),(2,'b',1,1)", "(1,'old',1,1),(3,'c',-1,2)"),
         {"deleted": {"column": "_sign", "value": -1}, "metadata": ["_sign", "_version"]}),
        ("MergeTree", ", _sign Int8, _version UInt64", ("(1,'a',1,2),(2,'b',1,1),(3,'c',1,1)", "(1,'old',1,1),(3,'c',-1,2)"),
         {"deleted": {"column": "_sign", "value": -1}, "versions": ["_version"], "metadata": ["_sign", "_version"]}),
    ],
    ids=["peerdb", "sign", "appended"],
)  # fmt: skip
def test_a_convention_says_what_the_engine_does_not(
    engine: LiveEngine, run: Callable[..., None], tmp_path: Any, engine_name: str, more: str, parts: tuple[str, ...], convention: Any
) -> None:
    _versions(run, "replicated", engine_name, more, *parts)
    target = engine.url, "replicated"
    equal = auditor.audit(_source(tmp_path, [(1, "a"), (2, "b")]), target, key=["id"], convention=convention)
    assert equal.verdict is Verdict.MATCH, equal
    differs = auditor.audit(_source(tmp_path, [(1, "a"), (2, "b"), (3, "c")]), target, key=["id"], convention=convention)
    assert differs.verdict is Verdict.MISMATCH
    assert [one.key["id"] for one in differs.differences or () if isinstance(one, Difference)] == ["3"]


def test_a_query_stands_in_place_of_a_table(engine: LiveEngine, run: Callable[..., None], tmp_path: Any) -> None:
    _versions(run, "queried", "ReplacingMergeTree(version)", ", version UInt64", "(1,'old',1),(2,'b',1)", "(1,'a',2)")
    query = "SELECT id, upper(v) AS v FROM queried WHERE id > 0"
    source = _source(tmp_path, [(1, "A"), (2, "B")])
    assert auditor.audit(source, (engine.url, query), key=["id"]).verdict is Verdict.MATCH
    assert auditor.audit(source, (engine.url, query.replace("upper(v)", "v")), key=["id"]).verdict is Verdict.MISMATCH


@pytest.mark.parametrize("over", ["view", "materialized view", "merge"])
def test_views_show_what_final_makes_of_their_tables(engine: LiveEngine, run: Callable[..., None], tmp_path: Any, over: str) -> None:
    _versions(run, "below", "ReplacingMergeTree(version)", ", version UInt64", "(1,'old',1),(2,'b',1)", "(1,'a',2)")
    made = {
        "view": ["CREATE VIEW over_it AS SELECT id, v FROM below"],
        "materialized view": [
            "CREATE TABLE origin AS below ENGINE = Memory",
            "CREATE MATERIALIZED VIEW over_it TO below AS SELECT * FROM origin",
        ],
        "merge": ["CREATE TABLE over_it AS below ENGINE = Merge(currentDatabase(), '^below$')"],
    }[over]
    run("DROP TABLE IF EXISTS over_it", "DROP TABLE IF EXISTS origin", *made)
    report = auditor.audit(_source(tmp_path, [(1, "a"), (2, "b")]), (engine.url, "over_it"), key=["id"], columns=ONLY)
    assert report.verdict is Verdict.MATCH, report


@pytest.mark.parametrize(
    ("definition", "why"),
    [
        ("(id Int64) ENGINE = Null", "it keeps no rows"),
        ("(id Int64) ENGINE = GenerateRandom", "it has other rows each time"),
        ("(id Int64) ENGINE = Buffer(currentDatabase(), nothing, 1, 10, 100, 1, 10, 1, 10)", "without those being made one"),
        ("(id Int64) ENGINE = Set", "was not tried"),
    ],
)
def test_a_table_whose_rows_cannot_be_read_is_refused_by_name(
    run: Callable[..., None], session: Session, definition: str, why: str
) -> None:
    run("DROP TABLE IF EXISTS unreadable", f"CREATE TABLE unreadable {definition}")
    with pytest.raises(NoSuchObject, match=f"unreadable is not read, because it is a table of the engine .*{why}"):
        _describe(session, "unreadable")


def test_the_key_is_that_by_which_rows_are_made_one(run: Callable[..., None], session: Session) -> None:
    keys = {
        "replacing": "(a Int64, `b c` Int64, x Int64) ENGINE = ReplacingMergeTree ORDER BY (a, `b c`)",
        "expression": "(a Int64, b DateTime) ENGINE = ReplacingMergeTree ORDER BY (a, toDate(b))",
        "plain": "(a Int64, b Int64) ENGINE = MergeTree ORDER BY (a, b)",
    }
    for name, definition in keys.items():
        run(f"DROP TABLE IF EXISTS {name}", f"CREATE TABLE {name} {definition}")
    assert {name: _describe(session, name).primary_key for name in keys} == {"replacing": ("a", "b c"), "expression": (), "plain": ()}


def test_types_have_kinds_or_none(session: Session) -> None:
    kinds = {
        "LowCardinality(Nullable(String))": Kind("text"),
        "FixedString(16)": Kind("binary", 16),
        "Decimal(76, 20)": Kind("decimal", 76, 20),
        "DateTime": Kind("timestamptz", scale=0),
        "DateTime('Asia/Tokyo')": Kind("timestamptz", scale=0),
        "Nullable(DateTime64(9, 'UTC'))": Kind("timestamptz", scale=9),
        "Enum8('a' = 1, 'b' = 2)": Kind("enum"),
        "UInt256": Kind("decimal", 78, 0),
    }
    refused = ("Array(String)", "Map(String, Int64)", "Tuple(a Int64)", "JSON", "Variant(String, Int64)", "Dynamic", "Point", "BFloat16",
               "AggregateFunction(sum, Int64)", "SimpleAggregateFunction(sum, Int64)", "IntervalDay", "Nested(a Int64)")  # fmt: skip
    types = session.dialect.types
    assert {native: types.kind(native) for native in kinds} == kinds
    assert {native: types.kind(native) for native in refused} == dict.fromkeys(refused)


def test_a_column_of_no_kind_is_named(engine: LiveEngine, run: Callable[..., None], tmp_path: Any) -> None:
    run(
        "DROP TABLE IF EXISTS lists",
        "CREATE TABLE lists (id Int64, v Array(String), e String EPHEMERAL, m String MATERIALIZED 'x') ENGINE = MergeTree ORDER BY id",
    )
    run("INSERT INTO lists (id, v) VALUES (1, ['a'])")
    report = auditor.audit(_source(tmp_path, [(1, "a")]), (engine.url, "lists"), key=["id"])
    assert re.search(r"v \(target\): clickhouse's type Array\(String\) has no canonical text", str(report))
    assert "m (target): only in the target" in str(report)
    assert not re.search(r"\be \(target\)", str(report))


WIDE = """
CREATE TABLE wide (
  id Int64, i128 Int128, u256 UInt256, d256 Decimal(76, 30), low LowCardinality(Nullable(String)), label Enum16('a|b' = 1, 'c' = 300),
  at DateTime('Asia/Tokyo'), nano DateTime64(9, 'America/New_York'), old Date32, short Date, four IPv4, six IPv6, fixed FixedString(4)
) ENGINE = MergeTree ORDER BY id
"""


def test_types_of_their_own_have_the_text_of_their_values(run: Callable[..., None], session: Session) -> None:
    run(
        "DROP TABLE IF EXISTS wide",
        WIDE,
        "INSERT INTO wide VALUES (1, '-170141183460469231731687303715884105728',"
        " '115792089237316195423570985008687907853269984665640564039457584007913129639935',"
        " '-1234567890123456789012345678901234567890123456.123456789012345678901234567891', NULL, 'c', '2024-01-01 09:00:00',"
        " '2024-03-10 03:30:00.123456789', '1583-01-01', '2149-06-06', '10.0.0.1', '::ffff:10.0.0.1', 'ab')",
    )
    described, dialect = _describe(session, "wide"), session.dialect
    texts = [
        dialect.canonical.canonical_text(column.kind, dialect.names.quote(column.name), column.kind)
        for column in described.columns
        if column.kind
    ]
    assert session.query(f"SELECT {', '.join(texts)} FROM {described.sql}") == [(
        "1", "-170141183460469231731687303715884105728",
        "115792089237316195423570985008687907853269984665640564039457584007913129639935",
        "-1234567890123456789012345678901234567890123456.123456789012345678901234567891", None, "c", "2024-01-01 00:00:00",
        "2024-03-10 07:30:00.123456789", "1583-01-01", "2149-06-06", "10.0.0.1", "::ffff:10.0.0.1", "61620000",
    )]  # fmt: skip


def test_sums_do_not_wrap_around(session: Session) -> None:
    numbers = session.dialect.numbers
    most = "SELECT arrayJoin([9223372036854775807, 9223372036854775807]) AS x"
    assert session.query(f"SELECT toString({numbers.number_sum('x', Kind('integer'))}) FROM ({most})") == [("18446744073709551614",)]
    wide = "SELECT toDecimal256('5e75', 0) AS x FROM numbers(20)"
    with pytest.raises(AuditorError, match="more digits than ClickHouse adds up"):
        session.query(f"SELECT {numbers.number_sum('x', Kind('decimal', 76, 0))} FROM ({wide})")
    with pytest.raises(AuditorError):
        session.query(f"SELECT {numbers.integer_sum('x')} FROM ({most})")


def test_bytes_that_are_no_text_are_hashed_as_they_are_and_shown_as_escapes(session: Session) -> None:
    dialect = session.dialect
    hashed = dialect.hashes.row_hash(dialect.text.characters("x"), "sha256")
    rows = session.query(f"SELECT {hashed}, x FROM (SELECT arrayJoin([unhex('61ff'), 'a\\\\xff']) AS x) ORDER BY x")
    assert rows[0][0] != rows[1][0]
    assert [row[1] for row in rows] == ["a\\xff", "a\\xff"]


def test_columns_with_names_of_statements_are_read(engine: LiveEngine, tmp_path: Any) -> None:
    """An alias takes the place of a column in ClickHouse, unless the session says otherwise."""
    names = ["partition_id", "row_count", "hashed", "key_min", "key_max", "word_0", "one", "read_total", "class_text", "bucket", "always"]
    columns = [("id", Kind("integer")), *((name, Kind("integer")) for name in names)]
    rows = [(key, *(key * 10 + place for place in range(len(names)))) for key in range(40)]
    source = LiveEngine("duckdb", "duckdb", f"duckdb:///{tmp_path}/named.duckdb")
    for side in (source, engine):
        tables.make(side, "named", columns, rows, ["id"])
    for key in ("id", "row_count"):
        for method in ("exact", "counts", "minhash"):
            report = auditor.audit(
                (source.url, "named"), (engine.url, "named"), key=[key], method=method, where="word_0 >= 5 AND key_min >= 3"
            )
            assert report.verdict is Verdict.MATCH, report


@pytest.mark.parametrize("user", ["cutting", "strange"])
def test_no_profile_cuts_or_bends_a_result(engine: LiveEngine, run: Callable[..., None], tmp_path: Any, user: str) -> None:
    """A profile that returns what it has read so far, without an error, must not make two tables equal, nor different."""
    _versions(
        run, "profiled", "ReplacingMergeTree(version)", ", version UInt64", *(f"({key}, 'row {key}', 1)" for key in range(9)), "(3,'x',2)"
    )
    rows = [(key, "x" if key == 3 else f"row {key}") for key in range(9)]
    target = _as(engine, user), "profiled"
    assert auditor.audit(_source(tmp_path, rows), target, key=["id"], columns=ONLY).verdict is Verdict.MATCH
    report = auditor.audit(_source(tmp_path, [*rows[:-1], (8, "other")]), target, key=["id"], columns=ONLY)
    assert report.verdict is Verdict.MISMATCH
    with closing(dialects.connect(_as(engine, user))) as session:
        found = dict(session.query("SELECT name, value FROM system.settings"))
        assert {name: found[name] for name in PINNED if name in found} == {name: value for name, value in PINNED.items() if name in found}


def test_a_limit_of_a_profile_is_an_error(engine: LiveEngine, tmp_path: Any) -> None:
    """What is beyond it would be left out without one."""
    rows = [(key, "a") for key in range(9)]
    tables.make(engine, "beyond", COLUMNS, rows, ["id"])
    report = auditor.audit(_source(tmp_path, rows), (_as(engine, "limited"), "beyond"), key=["id"])
    assert report.verdict is Verdict.UNKNOWN
    assert "TOO_MANY_ROWS" in str(report)


def test_a_user_who_may_set_nothing_is_refused_with_the_next_step(engine: LiveEngine) -> None:
    with pytest.raises(SessionNotKept, match=r"final is 0, not 1.*set readonly = 2 in the profile"):
        dialects.connect(_as(engine, "locked"))


def test_a_user_who_only_reads_is_enough(engine: LiveEngine, tmp_path: Any) -> None:
    tables.make(engine, "plain", COLUMNS, [(1, "a")], ["id"])
    report = auditor.audit(_source(tmp_path, [(1, "a")]), (_as(engine, "reader"), "plain"), key=["id"])
    assert report.verdict is Verdict.MATCH


def test_a_session_writes_nothing(session: Session, engine: LiveEngine) -> None:
    tables.make(engine, "plain", COLUMNS, [(1, "a")], ["id"])
    for sql in ("INSERT INTO plain VALUES (2, 'b')", "DROP TABLE plain", "ALTER TABLE plain DELETE WHERE 1"):
        with pytest.raises(AccessDenied):
            session.execute(sql)
    assert session.query("SELECT COUNT(*) FROM plain") == [(1,)]


def test_a_wrong_password_is_named_and_not_shown(engine: LiveEngine) -> None:
    with pytest.raises(AccessDenied, match="Authentication failed") as raised:
        dialects.connect(_as(engine, "auditor").replace(":audit@", ":secret@"))
    assert "secret" not in str(raised.value)


def test_numbers_in_filters_are_exact(session: Session) -> None:
    """ClickHouse reads a literal with a point, or beyond 64 bits, as a double."""
    literal = session.dialect.names.number_literal
    exact = "CAST('12345678901234567.89' AS Decimal(38, 2))"
    for digits, is_equal in (("12345678901234567.89", 1), ("12345678901234567.90", 0), ("12345678901234567.88", 0)):
        assert session.query(f"SELECT {exact} = {literal(digits)}, {exact} IN ({literal(digits)})") == [(is_equal, is_equal)]
    assert session.query(f"SELECT toDecimal256('99999999999999999999', 0) = {literal('99999999999999999998')}") == [(0,)]


def test_lightweight_deletes_are_gone(engine: LiveEngine, run: Callable[..., None], tmp_path: Any) -> None:
    run(
        "DROP TABLE IF EXISTS deleted",
        "CREATE TABLE deleted (id Int64, v String) ENGINE = MergeTree ORDER BY id",
        "INSERT INTO deleted VALUES (1, 'a'), (2, 'b')",
        "DELETE FROM deleted WHERE id = 2",
    )
    assert auditor.audit(_source(tmp_path, [(1, "a")]), (engine.url, "deleted"), key=["id"]).verdict is Verdict.MATCH


@pytest.mark.slow
def test_the_self_test_passes(engine: LiveEngine) -> None:
    """In derived tables: over HTTP a session has no temporary ones."""
    found = selftest(Settings(connections={"engine": ConnectionSettings(url=engine.url)}, audits={}), "engine")
    assert not found.failed, found.failed[:5]
    assert sum(check.outcome == "passed" for check in found.checks) > 200
