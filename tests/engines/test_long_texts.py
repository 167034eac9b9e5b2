"""Texts, documents and bytes that are too long for a text of one engine are compared by digests, which are the same on every engine."""

from __future__ import annotations

import json
from contextlib import closing
from typing import Any

import pytest

import auditor
import dialects
from auditor import canonical
from auditor.errors import EngineError
from auditor.planning import planner
from auditor.sql import user_sql
from dialects import Kind
from dialects.hashes import PIECE_BYTES
from tests import tables
from tests.live import Engines, LiveEngine, LivePair, chosen_pairs, engine_params, quick_on

pytestmark = pytest.mark.engines_in_turn

TEXT, BYTES, DOCUMENT = Kind("text"), Kind("binary"), Kind("json")
PIECES = 4
LENGTHS = (0, 1, PIECE_BYTES - 1, PIECE_BYTES, PIECE_BYTES + 1, 2 * PIECE_BYTES, 100_000)
ROWS: list[tuple[Any, ...]] = [
    (
        n,
        "é" * (length // 2) + "|" * (length % 2),
        bytes(k % 251 for k in range(length)),
        json.dumps(["é" * (length // 2)], ensure_ascii=False),
    )
    for n, length in enumerate(LENGTHS)
]
COLUMNS = [("id", Kind("integer")), ("note", TEXT), ("data", BYTES), ("doc", DOCUMENT)]

REVERSED = pytest.param(
    ("redshift", "postgres"), id="redshift-postgres", marks=[pytest.mark.redshift, pytest.mark.postgres, pytest.mark.slow]
)


@pytest.fixture(autouse=True)
def unparsed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spare the parser statements with many pieces: the engines themselves read each statement."""
    monkeypatch.setattr(user_sql, "CHECK_RENDERED_SQL", False)


@pytest.mark.parametrize("engine", quick_on("mysql", "postgres", "redshift", "duckdb"), indirect=True)
def test_digests_are_those_of_the_reference(engine: LiveEngine) -> None:
    """Of values shorter and longer than a piece, whose characters cross the pieces' borders, and NULL."""
    no_json = engine.name == "spark"
    columns = [column for column in COLUMNS if not (no_json and column[1] == DOCUMENT)]
    table = tables.shared_table(engine, columns, [[*row[: len(columns)]] for row in ROWS] + [[99] + [None] * (len(columns) - 1)])
    with closing(dialects.connect(engine.url)) as session:
        dialect = session.dialect
        wanted, asked = [], []
        for name, kind in columns[1:]:
            native = dialect.types.kind(dialect.types.native_type(kind).lower().partition(" character set")[0]) or kind
            asked.append(dialect.hashes.digest_of_pieces(kind, dialect.names.quote(name), native, PIECES))
            asked.append(dialect.hashes.short_text(kind, dialect.names.quote(name), native, 200))
            asked.append(dialect.hashes.byte_count(kind, dialect.names.quote(name), native))
        found = session.query(f"SELECT id, {', '.join(asked)} FROM {dialect.names.quote(table)} ORDER BY id")
    for number, *values in ROWS:
        row: list[Any] = [number]
        for (_, kind), value in zip(columns[1:], values, strict=False):
            text = canonical.text(kind, value)
            assert text is not None
            size = len(value) if kind == BYTES else len(text.encode())
            row += [canonical.digest(kind, text, PIECES), text if size <= 200 else None, size]
        wanted.append(tuple(row))
    assert [tuple(one) for one in found] == [*wanted, (99, *[None] * len(asked))]


@pytest.mark.parametrize("pair", [*chosen_pairs("mysql-redshift"), REVERSED], indirect=True)
def test_rows_longer_than_a_text_of_redshift_are_compared(pair: LivePair) -> None:
    """Of a table with texts, bytes and documents that are each too long for one row text, or for any; a last character is found.

    A document that Redshift cannot yield as one text is not compared as a value, which is said.
    """
    long: list[tuple[Any, ...]] = [(n, "é" * 30_000, "|" * 60_000, bytes([n]) * 90_000, json.dumps(["x" * 90_000])) for n in range(4)]
    columns = [("id", Kind("integer")), ("a", TEXT), ("b", TEXT), ("data", BYTES), ("doc", DOCUMENT)]
    changed = [list(row) for row in long]
    changed[0][1] = changed[0][1][:-1] + "e"
    changed[1][2] = changed[1][2] + "|"
    changed[2][3] = changed[2][3][:-1] + b"!"
    changed[3][4] = json.dumps(["x" * 89_999 + "y"])
    same = [(9, "short", "|", b"\1", "[1]"), (10, None, None, None, None)]
    tables.make(pair.source, "long_rows", columns, [*long, *same], key=["id"])
    tables.make(pair.target, "long_rows", columns, [*long, *same], key=["id"])
    tables.make(pair.target, "long_changed", columns, [*changed, *same], key=["id"])
    for method in ("counts", "signature"):
        report = auditor.audit((pair.source.url, "long_rows"), (pair.target.url, "long_rows"), method=method)
        assert report.verdict == "match", (method, report.reasons)
    report = auditor.audit((pair.source.url, "long_rows"), (pair.target.url, "long_changed"))
    assert report.verdict == "mismatch" and report.differences is not None and report.plan
    named = {one.key["id"]: [column.name for column in one.columns] for one in report.differences.named}
    assert named == {"0": ["a"], "1": ["b"], "2": ["data"]}
    assert report.differences.undecided == 1
    assert any("JSON documents whose values were not compared: masked, too long" in reason for reason in report.reasons)
    assert any("the row text holds the SHA-256 of a, b, data, doc" in note for note in report.plan.notes)


@pytest.mark.quick_for("kind1")
@pytest.mark.parametrize("engine", engine_params("redshift"), indirect=True)
@pytest.mark.parametrize(("kind", "short", "long"), [(DOCUMENT, "[1]", json.dumps(["x" * 600_000])), (BYTES, b"1", b"x" * 600_000)])
def test_value_beyond_its_pieces_makes_the_verdict_unknown(engine: LiveEngine, kind: Kind, short: Any, long: Any) -> None:
    """On Redshift, where no length is declared: such a row counts as not hashed, and is not taken for one that holds NULL."""
    columns = [("id", Kind("integer")), ("value", kind)]
    tables.make(engine, "too_long", columns, [(1, short), (2, long)], key=["id"])
    tables.make(engine, "empty", columns, [(1, short), (2, None)], key=["id"])
    for target in ("too_long", "empty"):
        report = auditor.audit((engine.url, "too_long"), (engine.url, target))
        assert report.verdict == "unknown", (target, report.reasons)
        assert "could not be hashed" in str(report.reasons) or "not hashed" in str(report.reasons), report.reasons


@pytest.mark.parametrize("engine", engine_params("redshift"), indirect=True)
def test_rows_that_fit_are_not_hashed_by_column(engine: LiveEngine) -> None:
    tables.execute(engine, "DROP TABLE IF EXISTS fitting", "CREATE TABLE fitting (id BIGINT, a VARCHAR(300), b VARCHAR(30000), c CHAR(5))")
    tables.execute(engine, "INSERT INTO fitting VALUES (1, 'a', 'b', 'c')")
    report = auditor.audit((engine.url, "fitting"), (engine.url, "fitting"), key=["id"])
    assert report.verdict == "match" and report.plan
    assert [column.digest for column in report.plan.columns] == [False] * 4
    tables.execute(engine, "ALTER TABLE fitting ADD COLUMN d VARCHAR(9000)")
    report = auditor.audit((engine.url, "fitting"), (engine.url, "fitting"), key=["id"])
    assert report.verdict == "match" and report.plan
    assert {column.name for column in report.plan.columns if column.digest} == {"b"}, "the widest, and no more than it needs"


@pytest.mark.parametrize("engine", engine_params("redshift"), indirect=True)
def test_without_digests_the_stand_in_refuses_the_row_text(engine: LiveEngine, engines: Engines, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fault put back: Redshift builds no text of more than 65,535 bytes."""
    tables.make(engine, "unhashed", [*COLUMNS[:2], ("more", TEXT)], [(1, "x" * 40_000, "y" * 40_000)], key=["id"])
    assert auditor.audit((engine.url, "unhashed"), (engine.url, "unhashed")).verdict == "match"
    monkeypatch.setattr(planner, "hash_long_columns", lambda columns, ends: tuple(columns))
    report = auditor.audit((engine.url, "unhashed"), (engine.url, "unhashed"))
    assert report.verdict == "unknown" and "Value too long for character type" in str(report.reasons)
    with pytest.raises(EngineError, match="Value too long for character type"):
        tables.query(engine, "SELECT JSON_SERIALIZE(JSON_PARSE('\"' || REPEAT('x', 66000) || '\"'))")
