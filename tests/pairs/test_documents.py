"""JSON documents of two engines are compared by their values: no order of keys, spelling or length of a document is a difference."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from auditor.config import Audit, ConnectionSettings
from auditor.model import Report, Verdict
from auditor.run import audit_run
from dialects import Kind
from tests import tables
from tests.live import LiveEngine, LivePair, chosen_pairs

pytestmark = pytest.mark.engines_in_turn

JSON_TYPES = {"mysql": "JSON", "mariadb": "JSON", "postgres": "JSONB", "duckdb": "JSON", "spark": "STRING", "redshift": "SUPER"}
PAIRS = ("mysql-postgres", "mariadb-postgres", "mysql-mariadb", "postgres-duckdb", "mysql-duckdb")

EQUAL = [
    ("[1, 1.0, 1e0, 0.1, 12345678901234567890]", "[1.0, 1, 1, 0.10, 12345678901234567890]"),
    (r'"\u0041\/\u00e9\ud83d\ude00"', '"A/é😀"'),
    ('{"a":1,"a":{"b":2},"bb":null}', '{ "bb" : null , "a":{"b":2}}'),
    ("null", " null"),
    ("{}", "{ }"),
    ("[[[[[[{}]]]]]]", "[[[[[[ {} ]]]]]]"),
    ('{"aa":1,"b":2,"":3}', '{"b":2,"":3,"aa":1}'),
    ('"a  b | , : \\\\ \\" {"', ' "a  b | , : \\\\ \\" {"'),
]
"""Two spellings of equal documents."""

DIFFERENT = [
    ("null", None),
    ("[1,2]", "[2,1]"),
    ('"1"', "1"),
    ("[]", "{}"),
    ("12345678901234567890", "12345678901234567891"),
    ("[0.1]", "[0.2]"),
]


def create(engine: LiveEngine, table: str, rows: list[tuple[int, str | None, int]], type_: str = "") -> None:
    """Create a table with a key, a document and a number, and fill it."""
    integer = "INTEGER" if engine.name != "spark" else "INT"
    key = "" if engine.name in ("spark", "redshift") else " PRIMARY KEY"
    tables.execute(
        engine,
        f"DROP TABLE IF EXISTS {table}",
        f"CREATE TABLE {table} (id {integer}{key}, doc {type_ or JSON_TYPES[engine.name]}, n {integer})",
    )
    start, size = 0, 0
    for end, (_, document, _) in enumerate(rows, 1):
        size += len(document or "")
        if size > 1_000_000 or end - start >= 500 or end == len(rows):
            values = ", ".join(f"({id_}, {_literal(engine, text)}, {n})" for id_, text, n in rows[start:end])
            tables.execute(engine, f"INSERT INTO {table} VALUES {values}")
            start, size = end, 0


def _literal(engine: LiveEngine, document: str | None) -> str:
    if document is None:
        return "NULL"
    if engine.name in ("mysql", "mariadb", "spark", "redshift"):  # where a backslash is an escape
        document = document.replace("\\", "\\\\")
    quote = "\\'" if engine.name == "spark" else "''"
    literal = "'" + document.replace("'", quote) + "'"
    return f"JSON_PARSE({literal})" if engine.name == "redshift" else literal


def audit(pair: LivePair, **settings: Any) -> Report:
    ends = {side: {"connection": side, "table": f"documents_{side}"} for side in ("source", "target")}
    connections = {"source": ConnectionSettings(url=pair.source.url), "target": ConnectionSettings(url=pair.target.url)}
    return audit_run.run("documents", Audit.model_validate({**ends, "key": ["id"], **settings}), connections)


def changed(report: Report) -> dict[int, list[str]]:
    assert report.differences is not None, report.reasons
    return {int(str(one.key["id"])): [column.name for column in one.columns] for one in report.differences.named}


def shuffled(number: int) -> tuple[str, str]:
    """Return a document and the same one with its keys in another order."""
    value: dict[str, tuple[int, dict[str, int | None]]] = {f"k{n}" * (1 + n % 3): (number, {"b": n, "aa": None}) for n in range(4)}
    items = list(value.items())
    random.Random(number).shuffle(items)
    return json.dumps(value), json.dumps({key: [one, dict(reversed(inner.items()))] for key, (one, inner) in items}, separators=(",", ":"))


def long_document(size: int) -> tuple[str, str]:
    """Return a document of about so many characters, and the same one with its keys in another order."""
    items = [{"id": n, "name": f'x "{n}"\\ |', "v": [1, 2.5, None, True]} for n in range(size // 55)]
    return json.dumps(items), json.dumps([dict(reversed(one.items())) for one in items], separators=(",", ":"))


@pytest.mark.quick_for("mysql-redshift", "mysql-mariadb", "mysql-postgres", "postgres-duckdb")
@pytest.mark.parametrize("pair", [*chosen_pairs(*PAIRS), *chosen_pairs("mysql-spark", "mysql-redshift")], indirect=True)
@pytest.mark.few
def test_documents_are_equal_by_their_values(pair: LivePair) -> None:
    both = [*EQUAL, *DIFFERENT, (None, None)]
    create(pair.source, "documents_source", [(n, one, n) for n, (one, _) in enumerate(both)])
    create(pair.target, "documents_target", [(n, other, n) for n, (_, other) in enumerate(both)])
    report = audit(pair)
    expected = {len(EQUAL) + n: ["doc"] for n in range(len(DIFFERENT))}
    assert changed(report) == expected, report.differences
    create(pair.target, "documents_target", [(n, other, n) for n, (_, other) in enumerate(EQUAL)])
    create(pair.source, "documents_source", [(n, one, n) for n, (one, _) in enumerate(EQUAL)])
    report = audit(pair)
    assert report.verdict is Verdict.MATCH, report.reasons


@pytest.mark.quick_for("JSON-JSONB", "TEXT-JSONB")
@pytest.mark.parametrize(("source_type", "target_type"), [("JSON", "JSONB"), ("JSON", "JSON"), ("TEXT", "JSONB"), ("JSON", "TEXT")])
@pytest.mark.parametrize("pair", chosen_pairs("postgres-postgres"), indirect=True)
def test_documents_of_postgresqls_types(pair: LivePair, source_type: str, target_type: str) -> None:
    both = [*EQUAL, (r'"\ud83d\ude00"', '"😀"')] + ([(r'"\u0000"', r'"\u0000"'), ("1e400", "10e399")] if "JSONB" not in target_type else [])
    create(pair.source, "documents_source", [(n, one, n) for n, (one, _) in enumerate(both)], source_type)
    create(pair.target, "documents_target", [(n, other, n) for n, (_, other) in enumerate(both)], target_type)
    report = audit(pair)
    assert report.verdict is Verdict.MATCH, report.reasons
    tables.execute(pair.target, "UPDATE documents_target SET doc = '[8]' WHERE id = 5")
    assert changed(audit(pair)) == {5: ["doc"]}


def check_order_of_keys(pair: LivePair, rows: int, **settings: Any) -> None:
    pairs = [shuffled(n) for n in range(rows)]
    damaged = set(range(3, rows, rows // 25))
    create(pair.source, "documents_source", [(n, one, n) for n, (one, _) in enumerate(pairs)])
    create(pair.target, "documents_target", [(n, '{"k0":0}' if n in damaged else other, n) for n, (_, other) in enumerate(pairs)])
    report = audit(pair, **settings)
    assert report.verdict is Verdict.MISMATCH, report.reasons
    assert report.differences is not None
    assert changed(report) == {number: ["doc"] for number in sorted(damaged)}
    assert report.differences.changed == len(damaged)
    assert report.differences.exact
    tables.execute(pair.target, "DROP TABLE documents_target")
    create(pair.target, "documents_target", [(n, other, n) for n, (_, other) in enumerate(pairs)])
    report = audit(pair, **settings)
    assert report.verdict is Verdict.MATCH, report.reasons
    assert audit(pair, threshold=0.5, **settings).verdict is Verdict.MATCH


@pytest.mark.parametrize("pair", chosen_pairs("mariadb-postgres", "mysql-duckdb", "mysql-mariadb"), indirect=True)
def test_the_order_of_keys_is_no_difference(pair: LivePair) -> None:
    check_order_of_keys(pair, 600)
    check_order_of_keys(pair, 200, recheck={"times": 1, "wait": 0})


@pytest.mark.slow
@pytest.mark.parametrize("pair", chosen_pairs("mariadb-postgres", "mysql-duckdb", "mysql-spark"), indirect=True)
def test_the_order_of_keys_is_no_difference_in_many_rows(pair: LivePair) -> None:
    check_order_of_keys(pair, 40_000)


@pytest.mark.parametrize("pair", chosen_pairs("mariadb-postgres"), indirect=True)
def test_what_the_limits_leave_is_unknown_unless_rows_differ_for_certain(pair: LivePair) -> None:
    pairs = [shuffled(n) for n in range(300)]
    create(pair.source, "documents_source", [(n, one, n) for n, (one, _) in enumerate(pairs)])
    create(pair.target, "documents_target", [(n, other, n) for n, (_, other) in enumerate(pairs)])
    for settings in (
        {"limits": {"max_rows_listed": 0}},
        {"method": "signature"},
        {"method": "minhash"},
        {"columns": {"override": {"doc": {"mask": True}}}},
    ):
        report = audit(pair, **settings)
        assert report.verdict is Verdict.UNKNOWN, (settings, report.reasons)
        assert "JSON documents" in " ".join(report.reasons), settings
    masked = audit(pair, columns={"override": {"doc": {"mask": True}}})
    assert masked.differences and masked.jaccard
    written_otherwise = masked.differences.undecided
    assert masked.jaccard.least == (600 - 2 * written_otherwise) / (600 + 2 * written_otherwise) < masked.jaccard.score.value == 1
    for rows, verdict in ((written_otherwise, Verdict.MATCH), (written_otherwise - 1, Verdict.UNKNOWN)):
        assert audit(pair, columns={"override": {"doc": {"mask": True}}}, threshold={"rows": rows}).verdict is verdict
    assert audit(pair, json="text").verdict is Verdict.MISMATCH
    assert audit(pair, columns={"exclude": ["doc"]}).verdict is Verdict.MATCH
    tables.execute(pair.target, "DELETE FROM documents_target WHERE id = 7")
    assert audit(pair, method="signature").verdict is Verdict.MISMATCH


def check_long_documents(pair: LivePair, size: int) -> None:
    one, other = long_document(size)
    # To MariaDB's catalogue, JSON is a text.
    columns = {"override": {"doc": {"kind": "json"}}} if pair.source.name == pair.target.name == "mariadb" else {}
    create(pair.source, "documents_source", [(1, one, 1), (2, one, 2), (3, "[]", 3)])
    create(pair.target, "documents_target", [(1, other, 1), (2, other.replace('x \\"7\\"', 'x \\"8\\"'), 2), (3, "[]", 3)])
    report = audit(pair, columns=columns)
    assert report.verdict is Verdict.MISMATCH, report.reasons
    assert changed(report) == {2: ["doc"]}
    assert report.differences is not None
    shown = report.differences.named[0].columns[0]
    assert shown.source is not None
    assert len(shown.source) <= 200 + len("... sha256 ") + 16
    tables.execute(pair.target, "DROP TABLE documents_target")
    create(pair.target, "documents_target", [(1, other, 1), (2, other, 2), (3, "[]", 3)])
    report = audit(pair, columns=columns)
    assert report.verdict is Verdict.MATCH, report.reasons


@pytest.mark.parametrize(
    "pair", chosen_pairs("mysql-mysql", "mysql-postgres", "mariadb-postgres", "mysql-duckdb", "mariadb-mariadb"), indirect=True
)
def test_documents_of_300_kilobytes(pair: LivePair) -> None:
    check_long_documents(pair, 300_000)


@pytest.mark.slow
@pytest.mark.parametrize("size", [1_000_000, 16_000_000])
@pytest.mark.parametrize("pair", chosen_pairs("mysql-postgres", "mariadb-postgres", "mysql-duckdb"), indirect=True)
def test_documents_of_megabytes(pair: LivePair, size: int) -> None:
    check_long_documents(pair, size)


def test_kind_of_documents_says_how_they_are_compared() -> None:
    assert str(Kind("json", form="text")) == "json as text"
