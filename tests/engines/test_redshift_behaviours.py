"""Where Redshift does otherwise than PostgreSQL, or its manual is silent: the stand-in imitates it, and audits are right either way."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from redshift_connector.error import ProgrammingError

import auditor
import dialects
from auditor.config import Audit, ConnectionSettings
from auditor.connections import connection
from auditor.errors import (
    AuditorError,
    BadUrl,
    EngineError,
    NotVerified,
    SerializationConflict,
    StatementCancelled,
    StatementTimeout,
)
from auditor.planning import chunks
from auditor.run import audit_run, chunk_queue
from auditor.testing.statements import METHODS
from dialects import Kind, Place
from dialects.postgres.session import PostgresSession
from tests import tables
from tests.durations import SetDurations
from tests.live import Engines, LiveEngine, engine_params
from tests.servers import postgres, redshift
from tests.servers.redshift import StandIn
from tests.servers.redshift_strict import MESSAGES, NAMES, REFUSALS, SCHEMAS, STRICT
from tests.unit.test_throttle import wait_until

pytestmark = pytest.mark.parametrize("engine", engine_params("redshift"), indirect=True)

MANNERS = {"strict": STRICT, "without case": STRICT | {"case"}, "as PostgreSQL": frozenset[str]()}
"""Behaviours under which every audit below must come out the same."""

LARGE = "(2147483646 + id * 0)"
"""A BIGINT that is the greatest rest of a division by 2^31 - 1."""

DIFFERENCES: dict[str, tuple[str, Any, Any]] = {
    "mod": (
        f"SELECT ({LARGE} % 2147483647) * ({LARGE} % 2147483647) FROM behaviours WHERE id = 9",
        "integer out of range",
        (2**31 - 2) ** 2,
    ),
    "sum": ("SELECT SUM(9223372036854775790 + id) FROM behaviours WHERE id > 7", "bigint out of range", 2**64 - 19),
    "blanks": ("SELECT COUNT(*) FROM behaviours WHERE name = 'a'", 2, 1),
    "case": ("SELECT COUNT(*) FROM behaviours WHERE name = 'a'", 3, 1),
    "long": ("SELECT LEFT(SHA2(REPEAT('xy', 32768), 256), 8)", "Value too long for character type", "f35f95dd"),
    "float_round": ("SELECT ROUND(9007199254740993 + id * 0, 0) FROM behaviours WHERE id = 9", 9007199254740992, 9007199254740993),
    "capitals": ("SELECT FROM_VARBYTE(TO_VARBYTE('ab', 'hex'), 'hex')", "AB", "ab"),
    "no_groups": ("SELECT REGEXP_REPLACE('ab', '(a)b', '$1', 1, 'p')", "a back-reference", "a"),
    "ieee": ("SELECT CAST('NaN' AS DOUBLE PRECISION) = CAST('NaN' AS DOUBLE PRECISION)", False, True),
    "unknown": ("SELECT MIN(k) FROM (SELECT NULL AS k FROM behaviours) z", 'conversion function from "unknown" to text', None),
    "leader": ("SELECT CURRENT_SCHEMA() FROM behaviours WHERE id = 9", "not supported on Redshift tables", "public"),
    "serverless": ("SELECT COUNT(*) FROM stv_inflight WHERE pid = 0", "permission denied for relation stv_inflight", 0),
}
"""By behaviour: a statement, what it yields or is refused with where the behaviour is on, and what it yields where it is off."""


@pytest.fixture
def stand_in(engine: LiveEngine, engines: Engines) -> Iterator[StandIn]:
    server = engines.server(engine.name)
    if not isinstance(server, StandIn):
        pytest.skip(f"{engine.name}: {server.how}, whose behaviour is its own")
    columns = [("id", Kind("integer")), ("name", Kind("text"))]
    tables.make(engine, "behaviours", columns, [(7, "a"), (8, "a "), (9, "A")], key=["id"])
    yield server


def answer(engine: LiveEngine, sql: str) -> Any:
    """Return a statement's only value, or the message of its error."""
    try:
        return tables.query(engine, sql)[0][0]
    except EngineError as error:
        return str(error)


@pytest.mark.parametrize("name", DIFFERENCES)
def test_each_behaviour_can_be_switched(stand_in: StandIn, engine: LiveEngine, name: str) -> None:
    sql, strict, plain = DIFFERENCES[name]
    with stand_in.behaving({name}):
        found = answer(engine, sql)
    assert strict in found if isinstance(strict, str) and strict != "AB" else found == strict, found
    with stand_in.behaving((STRICT | {"case"}) - {name, "blanks", "unknown", "leader"} if name in REFUSALS else ()):
        assert answer(engine, sql) == plain


def test_every_behaviour_has_a_test(engine: LiveEngine) -> None:
    assert engine.name == "redshift"
    assert set(DIFFERENCES) == {*SCHEMAS, *REFUSALS}
    assert {*SCHEMAS, *REFUSALS, MESSAGES, NAMES} >= STRICT


def test_leader_node_relations_are_not_joined_with_others(stand_in: StandIn, engine: LiveEngine) -> None:
    joined = "SELECT COUNT(*) FROM behaviours b JOIN {} ON 1 = 1"
    for relation in ("pg_catalog.pg_class c", "svv_columns c", "information_schema.tables c"):
        assert "not supported on Redshift tables" in answer(engine, joined.format(relation))
    assert answer(engine, "SELECT COUNT(*) FROM pg_catalog.pg_class c WHERE pg_table_is_visible(c.oid) AND c.relname = 'behaviours'") == 1
    assert answer(engine, "SELECT EXTRACT(YEAR FROM DATE '2001-01-01') FROM behaviours WHERE id = 9") == 2001
    assert "permission denied" in answer(engine, "SELECT COUNT(*) FROM behaviours b JOIN stv_inflight s ON s.pid = b.id")


KEYS = ["a", "a ", "a  ", "A", "A ", " a", "", " ", "b", "é", "É", "|", "\\"]
"""Texts of which several are equal where trailing blanks, or case, mean nothing."""


def keys_and_manners() -> list[Any]:
    """Return each key under each manner; a normal run takes each key under one, and the one of two columns where most compare as equal."""
    quick = {("id", "as PostgreSQL"), ("k", "strict"), ("k,n", "without case")}
    some = [(key, manner) for key in ("id", "k", "k,n") for manner in MANNERS]
    return [pytest.param(key.split(","), manner, id=f"{key}-{manner}", marks=[] if (key, manner) in quick else pytest.mark.slow)
            for key, manner in some]  # fmt: skip


@pytest.mark.quick_for("k-strict", "id-as PostgreSQL")
@pytest.mark.parametrize(("key", "manner"), keys_and_manners())
def test_audits_tell_texts_apart_that_compare_as_equal(stand_in: StandIn, engine: LiveEngine, manner: str, key: list[str]) -> None:
    columns = [("id", Kind("integer")), ("k", Kind("text")), ("n", Kind("integer"))]
    rows = [(number, text, number % 3) for number, text in enumerate(KEYS)]
    changed = [(number, text, n + (text in ("a ", "A"))) for number, text, n in rows if text != ""]
    tables.make(engine, "alike", columns, rows, key=["id"])
    tables.make(engine, "alike_changed", columns, changed, key=["id"])
    with stand_in.behaving(MANNERS[manner]):
        for method in METHODS:
            report = auditor.audit((engine.url, "alike"), (engine.url, "alike"), key=key, method=method)
            assert report.verdict == "match", (method, report.reasons)
        report = auditor.audit((engine.url, "alike"), (engine.url, "alike_changed"), key=key, t=8)
    assert report.verdict == "mismatch" and report.differences is not None
    named = {(tuple(str(one.key[name]) for name in key), one.kind) for one in report.differences.named}
    if key == ["id"]:
        assert named == {(("1",), "changed"), (("3",), "changed"), (("6",), "missing")}
    elif key == ["k"]:
        assert named == {(("a ",), "changed"), (("A",), "changed"), (("",), "missing")}
    else:
        of_n = {text: n for _, text, n in rows}
        moved = {((text, str(of_n[text])), "missing") for text in ("a ", "A", "")} | {
            ((text, str(of_n[text] + 1)), "extra") for text in ("a ", "A")
        }
        assert named == moved


@pytest.mark.quick_for("without case")
@pytest.mark.parametrize("manner", MANNERS)
def test_classes_and_filters_tell_texts_apart_that_compare_as_equal(stand_in: StandIn, engine: LiveEngine, manner: str) -> None:
    columns = [("id", Kind("integer")), ("k", Kind("text"))]
    rows = [(number, KEYS[number % len(KEYS)]) for number in range(100)]
    swapped = [(number, {"a": "a ", "a ": "a", "A": "b", "b": "A"}.get(text, text) if number < 13 else text) for number, text in rows]
    tables.make(engine, "classed", columns, [*rows, (100, "a"), (101, "b")], key=["id"])
    tables.make(engine, "classed_swapped", columns, [*swapped, (100, "a "), (101, "A")], key=["id"])
    tables.make(engine, "classed_only", columns, [row for row in rows if row[1] == "a "], key=["id"])
    both = (engine.url, "classed"), (engine.url, "classed_swapped")
    with stand_in.behaving(MANNERS[manner]):
        assert auditor.audit(both[0], both[0], method="counts", counts={"classes": ["k"], "most_classes": 5}).verdict == "match"
        report = auditor.audit(*both, method="counts", counts={"classes": ["k"]})
        few = auditor.audit(*both, method="counts", counts={"classes": ["k"], "most_classes": 4})
        wheres = ("k = 'a '", "k LIKE 'a%' AND NOT k IN ('a', 'a  ')")
        selected = [auditor.audit(both[0], (engine.url, "classed_only"), where=where) for where in wheres]
    differing = {measure.name for measure in report.measures if "class" in measure.name}
    assert differing == {"k class 'a'", "k class 'a '", "k class 'A'", "k class 'b'"}
    assert {measure.name for measure in few.measures} & {"k class 'a'", "k class 'b'"}
    assert [one.verdict for one in selected] == ["match"] * 2, [one.reasons for one in selected]


@pytest.mark.quick_for("as PostgreSQL")
@pytest.mark.parametrize("manner", MANNERS)
def test_numbers_and_documents_are_right_either_way(stand_in: StandIn, engine: LiveEngine, manner: str) -> None:
    """Keys and sums near the end of 64 bits, NaN, binary columns, JSON in text with quotation marks, backslashes and white space."""
    columns = [("id", Kind("integer")), ("n", Kind("integer")), ("f", Kind("float64")), ("b", Kind("binary"))]
    most = 2**63 - 1
    rows = [(most - 5 * number, most - number, float("nan") if number % 2 else 0.5, bytes([0xAB, number])) for number in range(20)]
    tables.make(engine, "numbers", columns, rows, key=["id"])
    with stand_in.behaving(MANNERS[manner]):
        for method in METHODS:
            report = auditor.audit((engine.url, "numbers"), (engine.url, "numbers"), method=method)
            assert report.verdict == "match", (method, report.reasons)
        with closing(dialects.connect(engine.url)) as session:
            dialect, text, json = session.dialect, Kind("text"), Kind("json")
            double = dialect.numbers.float_text("f", Kind("float64"), Kind("float64"))
            assert session.query(f"SELECT DISTINCT {double} FROM numbers ORDER BY 1") == [("9007199254740992p-1",), ("NaN",)]
            assert session.query(f"SELECT {dialect.text.hex_text('b')} FROM numbers WHERE id = {most}") == [("ab00",)]
            assert session.query(f"SELECT {dialect.numbers.decimal_text('n', 0, Kind('integer'))} FROM numbers WHERE id = {most}") == [
                (str(most),)
            ]
            for document in DOCUMENTS:
                sql = dialect.canonical.canonical_text(json, dialect.names.string_literal(document), text)
                assert session.query(f"SELECT {sql}") == [(auditor_text(document),)], document


DOCUMENTS = [
    '{ "a b" : [ 1 , 2 ] ,\n\t"c": "d  e" }',
    r'{"q": "say \"x  y\" ", "b": "\\", "c" : " "}', r'["\\\" ", " \\" , " "]', "[ ]", " 1 ", '"  "',
]  # fmt: skip


def auditor_text(document: str) -> str | None:
    from auditor import canonical

    return canonical.text(Kind("json"), document)


@pytest.mark.quick_for("messages")
@pytest.mark.parametrize("words", [MESSAGES, "PostgreSQL's"])
def test_a_timeout_is_told_from_a_cancel(stand_in: StandIn, engine: LiveEngine, words: str) -> None:
    with stand_in.behaving({words}):
        with closing(dialects.connect(engine.url, 1.0)) as session, pytest.raises(StatementTimeout, match="timeout"):
            session.query("SELECT pg_sleep(600)")
        for by_us in (True, False):
            with closing(dialects.connect(engine.url, 600.0)) as session:
                assert isinstance(error := ended_while_running(session, stand_in, by_us), StatementCancelled), repr(error)
                assert ("by somebody else" in str(error)) == (not by_us)


def ended_while_running(session: Any, stand_in: StandIn, by_us: bool) -> object:
    caught: list[object] = []

    def run() -> None:
        try:
            session.query("SELECT pg_sleep(600)")
        except EngineError as error:
            caught.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    time.sleep(0.3)
    if by_us:
        session.cancel()
    else:
        with closing(postgres.connect(stand_in.behind_database)) as connection:
            connection.cursor().execute(f"SELECT pg_cancel_backend({session.process_id})")
    thread.join(30)
    return caught[0]


def test_a_chunk_that_takes_too_long_is_cut(stand_in: StandIn, engine: LiveEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    """A statement that took too long is not repeated as it is, although Redshift's words are those of a cancelled one."""
    monkeypatch.setattr(chunks, "COLUMN_CHUNK_ROWS", 19)
    monkeypatch.setattr(chunk_queue, "FIRST", 1)
    nap = "CREATE OR REPLACE FUNCTION nap(c text) RETURNS text LANGUAGE plpgsql STABLE AS 'begin perform pg_sleep(0.06); return c; end'"
    tables.make(engine, "quick", [("id", Kind("integer")), ("v", Kind("text"))], [(n, f"v{n}") for n in range(20)], key=["id"])
    tables.execute(engine, nap, "DROP VIEW IF EXISTS slow", "CREATE VIEW slow AS SELECT id, nap(v) AS v FROM quick")
    stand_in.forget()
    settings = {"method": "signature", "key": ["id"], "partition": {"strategy": "range", "size": 5}}
    sides = {side: {"connection": "here", "table": table} for side, table in (("source", "quick"), ("target", "slow"))}
    here = ConnectionSettings.model_validate({"url": engine.url, "limits": {"statement_timeout": "0.5s"}})
    report = audit_run.run("slow", Audit.model_validate({**sides, **settings}), {"here": here})
    assert report.verdict == "match", report.reasons
    scans = [sql for sql in stand_in.statements() if sql.startswith("DECLARE") and '"slow"' in sql]
    keys = [re.findall(r'"id" (?:>=|<) \d+', sql) for sql in scans]
    assert keys[:3] == [['"id" < 10'], ['"id" < 5'], ['"id" >= 5', '"id" < 10']]


def test_a_serialisation_conflict_is_retried_and_its_detail_shown(stand_in: StandIn, engine: LiveEngine) -> None:
    conflict = """CREATE OR REPLACE FUNCTION conflict() RETURNS int LANGUAGE plpgsql AS 'begin
      raise exception ''1023'' using errcode = ''XX000'', detail = ''Serializable isolation violation on table - 119371'';
    end'"""
    tables.execute(engine, conflict)
    with closing(dialects.connect(engine.url)) as session:
        with pytest.raises(SerializationConflict, match="1023: Serializable isolation violation on table - 119371") as caught:
            session.query("SELECT conflict()")
    assert connection.is_worth_retrying(caught.value, 0)


def test_a_statement_that_cannot_be_cancelled_loses_its_session(
    stand_in: StandIn, engine: LiveEngine, monkeypatch: pytest.MonkeyPatch, set_durations: SetDurations
) -> None:
    set_durations(cancel_grace=0.6)
    with closing(dialects.connect(engine.url, 600.0)) as session, closing(postgres.connect(stand_in.behind_database)) as other:
        assert isinstance(session, PostgresSession)
        session.begin()
        monkeypatch.setattr(session, "cancel_statement", lambda: "SELECT 1")
        assert isinstance(error := ended_while_running(session, stand_in, by_us=True), EngineError) and error.retryable
        cursor = other.cursor()
        wait_until(lambda: not running(cursor, session.process_id), "the statement has ended on the server")


def running(cursor: Any, process_id: int) -> bool:
    cursor.execute(f"SELECT COUNT(*) FROM pg_stat_activity WHERE pid = {process_id} AND state = 'active'")
    return bool(cursor.fetchone()[0])


def test_names_keep_their_capitals(stand_in: StandIn, engine: LiveEngine) -> None:
    tables.make(engine, "MixedCase", [("Id", Kind("integer")), ("Note", Kind("text"))], [(1, "a")], key=["Id"])
    report = auditor.audit((engine.url, "MixedCase"), (engine.url, "MixedCase"))
    assert report.verdict == "match" and report.plan and [column.name for column in report.plan.columns] == ["Id", "Note"]
    with closing(redshift.connect(engine.url)) as plain, pytest.raises(ProgrammingError, match='relation "mixedcase" does not exist'):
        plain.cursor().execute('SELECT 1 FROM "MixedCase"')


@pytest.mark.filterwarnings("ignore:ssl:DeprecationWarning")  # of the driver
@pytest.mark.parametrize(("mode", "error"), [("require", BadUrl), ("prefer", BadUrl), ("verify-full", NotVerified), ("disable", None)])
def test_only_what_the_driver_does_is_an_sslmode(engine: LiveEngine, mode: str, error: type[AuditorError] | None) -> None:
    url = engine.url.replace("sslmode=disable", f"sslmode={mode}")
    if error is None:
        dialects.connect(url).close()
        return
    with pytest.raises(error, match="sslmode=" if error is BadUrl else "refuses SSL"):
        dialects.connect(url)


def test_tables_of_other_databases_are_read_by_names_of_three_parts(stand_in: StandIn, engine: LiveEngine) -> None:
    """The stand-in has one database; a view lists a table of another as a datashare does."""
    own = tables.query(engine, "SELECT CURRENT_DATABASE()")[0][0]
    report = auditor.audit((engine.url, f"{own}.public.behaviours"), (engine.url, "behaviours"))
    assert report.verdict == "match", report.reasons
    assert auditor.audit((engine.url, "nowhere.public.behaviours"), (engine.url, "behaviours")).state == "failed"
    types = ["string", "int", "varchar(100)", "double", "numeric(8,2)", "decimal(5,1)", "character varying(7)", "bigint", "array<int>"]
    rows = " UNION ALL ".join(
        f"SELECT CAST('shared' AS TEXT), CAST('s' AS TEXT), CAST('t' AS TEXT), CAST('c{n}' AS TEXT), {n}, CAST(NULL AS TEXT),"
        f" CAST('{one}' AS TEXT), CAST(NULL AS INTEGER), CAST(NULL AS INTEGER), CAST(NULL AS INTEGER)"
        for n, one in enumerate(types)
    )  # fmt: skip
    names = "database_name, schema_name, table_name, column_name, ordinal_position, is_nullable, data_type"
    view = f"CREATE VIEW svv_all_columns ({names}, character_maximum_length, numeric_precision, numeric_scale) AS {rows}"
    tables.execute(engine, view)
    try:
        with closing(dialects.connect(engine.url)) as session:
            (table,) = session.dialect.catalogue.describe(session, Place(("shared", "s", "t")))
    finally:
        tables.execute(engine, "DROP VIEW svv_all_columns")
    assert table.sql == '"shared"."s"."t"' and table.primary_key == () and all(column.nullable for column in table.columns)
    assert [str(column.kind) for column in table.columns] == [
        "text", "integer", "text", "float64", "decimal(8,2)", "decimal(5,1)", "text", "integer", "None",
    ]  # fmt: skip


def test_policies_on_rows_and_values_are_told(stand_in: StandIn, engine: LiveEngine) -> None:
    tables.make(engine, "guarded", [("id", Kind("integer")), ("note", Kind("text"))], [(1, "a")], key=["id"])
    with closing(postgres.connect(stand_in.behind_database)) as behind:
        behind.cursor().execute(
            "CREATE POLICY concerts ON public.guarded USING (id > 0); ALTER TABLE public.guarded ENABLE ROW LEVEL SECURITY;"
            "COMMENT ON COLUMN public.guarded.note IS 'masked by hide_note'"
        )
    report = auditor.audit((engine.url, "guarded"), (engine.url, "behaviours"), key=["id"], columns={"include": ["id"]})
    assert report.plan
    told = [str(one) for one in report.plan.not_compared if one.how == "hidden"]
    assert told == [
        'source: row-level security (concerts) is attached to "public"."guarded": rows that it hides from this user are not compared',
        'source: the masking policy hide_note is attached to "public"."guarded": where it applies to this user, masked values are compared',
    ]
    try:
        tables.execute(engine, "CREATE VIEW svv_rls_attached_policy AS SELECT 1 AS nothing")
        report = auditor.audit((engine.url, "behaviours"), (engine.url, "behaviours"))
    finally:
        tables.execute(engine, "DROP VIEW svv_rls_attached_policy")
    assert report.verdict == "match" and report.plan
    assert any("may not see whether policies hide rows or mask values" in str(one) for one in report.plan.not_compared)


@pytest.mark.parametrize("written", ["'x'", "NULL", "('x')", "CASE WHEN id > 3 THEN 'x' END"])
def test_literal_of_an_audit_has_a_type(stand_in: StandIn, engine: LiveEngine, written: str) -> None:
    """As a column of a derived table it needs one, under every method."""
    rows = [(number,) for number in range(9)]
    tables.make(engine, "literal", [("id", Kind("integer"))], rows, key=["id"])
    settings: dict[str, Any] = {"columns": {"override": {"note": {"expr": written, "kind": "text"}}}}
    for method in METHODS:
        report = auditor.audit((engine.url, "literal"), (engine.url, "literal"), method=method, **settings)
        assert report.verdict == "match", (method, report.reasons)
