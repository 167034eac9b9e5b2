"""The tests of an engine, against a reference in plain Python: classes that a test module of the engine imports.

``from auditor.testing.oracle import *`` collects all of them. They take the fixtures of ``auditor.testing.engine_oracle``, of which
``engine_url`` says where the engine is.
"""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Mapping, Sequence
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import auditor
import dialects
from auditor import canonical
from auditor.config import ConnectionSettings, Settings
from auditor.errors import AuditorError
from auditor.model import Difference, Verdict
from auditor.service.selftest import selftest
from auditor.sql import row_text, user_sql
from auditor.testing.columns import (
    TABLE,
    catalogue_kind,
    column_plans,
    describe_columns,
    draw_rows,
    expected,
    make_plan,
    make_table,
    supported_columns,
)
from auditor.testing.statements import render_statements
from auditor.testing.values import EXTREMES
from dialects import HashAlgorithm, Kind, Session
from dialects.kinds import KIND_NAMES

__all__ = ["TestAudits", "TestCanonicalText", "TestGoldenStatements", "TestStatements"]

LEAST_FAMILIES = 12
"""Families of values that an engine must store at least, so that the tests say something."""


class TestCanonicalText:
    """Canonical texts, row hashes and the catalogue, on a table with a column of every kind that the engine stores."""

    def test_canonical_text_of_every_shared_kind_equals_the_oracle(self, engine_session: Session, oracle_examples: int) -> None:
        """Each column is read as every kind it shares with a column of any engine: then any two engines yield the same text."""
        drawn = draw_rows(oracle_examples)
        assert len(drawn) >= oracle_examples
        plans, dialect = column_plans(engine_session), engine_session.dialect
        assert len({compared.family.name for compared in plans}) >= LEAST_FAMILIES, "too few families were compared"
        texts = ", ".join(row_text.text(compared.column, "source", dialect) for compared in plans)
        got = engine_session.query(f"SELECT n, {texts} FROM {dialect.names.quote(TABLE)} ORDER BY n")
        assert len(got) == len(drawn)
        wrong: dict[str, str] = {}
        for row, (_, *got_texts) in zip(drawn, got, strict=True):
            for compared, text in zip(plans, got_texts, strict=True):
                wanted = expected(compared, row)
                if text != wanted:
                    wrong.setdefault(compared.column.name, f"{row[compared.family.name]!r}: {text!r}, not {wanted!r}")
        assert not wrong, "\n" + "\n".join(f"{where}: {what}" for where, what in wrong.items())

    def test_catalogue_reports_the_kind_a_column_was_created_with(
        self, engine_session: Session, catalogue_aliases: Mapping[Kind, Kind]
    ) -> None:
        """This makes the shared kinds of two engines computable without connecting to the other engine."""
        columns, dialect = describe_columns(engine_session), engine_session.dialect
        kinds = {family.column(kind): columns[family.column(kind)].kind for family, kind in supported_columns(dialect)}
        wanted = {
            family.column(kind): catalogue_aliases.get(kind) or catalogue_kind(dialect, kind) for family, kind in supported_columns(dialect)
        }
        assert kinds == wanted

    def test_case_is_folded_as_the_oracle_does(self, engine_session: Session, oracle_examples: int) -> None:
        """Letters beyond A to Z stay as they are, also those that engines, locales and editions of Unicode fold in different ways."""
        dialect, many = engine_session.dialect, "".join(map(chr, range(0x21, 0x600))) + "ẞΣς\u212aǅⅧⓐꙀﬀ😀𐐀"
        column, constant = dialect.text.characters(dialect.names.quote("free_text")), dialect.names.string_literal(many)
        folded = ", ".join(function(c) for c in (column, constant) for function in (dialect.text.lower, dialect.text.upper))
        got = engine_session.query(f"SELECT {folded} FROM {dialect.names.quote(TABLE)} ORDER BY n")
        assert {row[2:] for row in got} == {(canonical.fold_case(many, "lower"), canonical.fold_case(many, "upper"))}
        for text, (lower, upper, *_) in zip((row["free"] for row in draw_rows(oracle_examples)), got, strict=True):
            wanted = (None, None) if text is None else (canonical.fold_case(text, "lower"), canonical.fold_case(text, "upper"))
            assert (lower, upper) == wanted

    @pytest.mark.parametrize("algorithm", ["sha256", "md5"])
    def test_row_hashes_equal_the_oracle(self, engine_session: Session, algorithm: HashAlgorithm, oracle_examples: int) -> None:
        """Rows of different shapes are hashed: all columns at once, and ten at a time."""
        drawn, dialect = draw_rows(oracle_examples), engine_session.dialect
        chosen = column_plans(engine_session)
        random.Random(dialect.name).shuffle(chosen)
        if algorithm == "md5" and not dialect.hashes.HAS_MD5:
            with pytest.raises(AuditorError):
                engine_session.query("SELECT MD5('')")
            return
        for some in ([chosen], [chosen[i : i + 10] for i in range(0, len(chosen), 10)]):
            plans = [make_plan(engine_session, [compared.column for compared in columns]) for columns in some]
            hashes = [dialect.hashes.row_hash(row_text.row_text(plan, "source", dialect), algorithm) for plan in plans]
            got = engine_session.query(f"SELECT n, {', '.join(hashes)} FROM {dialect.names.quote(TABLE)} ORDER BY n")
            for row, (_, *got_hashes) in zip(drawn, got, strict=True):
                for columns, row_hash in zip(some, got_hashes, strict=True):
                    wanted = [expected(compared, row) for compared in columns]
                    assert row_hash == canonical.row_hash(canonical.row_text(wanted), algorithm), row

    def test_kind_without_a_native_type_is_listed_as_unsupported(self, engine_session: Session) -> None:
        """What an engine cannot store is said, so that nobody takes it for forgotten."""
        dialect = engine_session.dialect
        silent = KIND_NAMES - {"rounded", "enum", "set"} - set(dialect.types.TYPE_BY_KIND) - set(dialect.types.UNSUPPORTED_VALUES)
        assert not silent, f"{dialect.name} has no type for these kinds, and does not list them in UNSUPPORTED_VALUES"

    def test_nul_in_text_is_stored_or_listed_as_unsupported(self, engine_url: str) -> None:
        """The character U+0000 is hashed, or refused by an engine that lists it."""
        dialect = dialects.by_scheme(dialects.parse_url(engine_url).scheme)
        column = [("n", Kind("integer")), ("x", Kind("text"))]
        if "NUL in text" in dialect.types.UNSUPPORTED_VALUES:
            with pytest.raises((AuditorError, ValueError)):
                make_table(engine_url, "nul", column, [(1, "a\0b")])
            return
        make_table(engine_url, "nul", column, [(1, "a\0b")])
        hashed = dialect.hashes.row_hash(dialect.canonical.canonical_text(Kind("text"), dialect.names.quote("x"), Kind("text")), "sha256")
        assert _query(engine_url, f"SELECT {hashed} FROM {dialect.names.quote('nul')}") == [(canonical.row_hash("a\0b"),)]

    def test_nan_and_infinity_are_stored_or_listed_as_unsupported(self, engine_url: str) -> None:
        """NaN and the infinities have the oracle's text; an engine that lists them as unsupported may refuse them, never change them."""
        dialect = dialects.by_scheme(dialects.parse_url(engine_url).scheme)
        kind, may_refuse = Kind("float64"), "nan" in dialect.types.UNSUPPORTED_VALUES
        text = dialect.canonical.canonical_text(kind, dialect.names.quote("x"), kind)
        refused = 0
        for value in EXTREMES["double"]:
            try:
                make_table(engine_url, "extremes", [("n", Kind("integer")), ("x", kind)], [(0, value)])
            except AuditorError:
                assert may_refuse, f"{value} is refused, and UNSUPPORTED_VALUES has no 'nan'"
                refused += 1
                continue
            assert _query(engine_url, f"SELECT {text} FROM {dialect.names.quote('extremes')}") == [(canonical.text(kind, value),)]
        assert bool(refused) == may_refuse


class TestStatements:
    """What ``auditor selftest`` checks: each method of the dialect, and each statement that audits send, with its results.

    Summaries by key range, hash and time with their counts, bounds, words and positions; NULL keys; rows by key, position, partition and
    range; histograms; filters; the published example; the server's clock, catalogue and the cancelling of a statement.
    """

    GROUPS = frozenset({"canonical text", "row hash", "method", "summary", "rows", "statement", "filter", "server"})

    def test_every_check_of_the_self_test_passes(self, engine_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """Each statement is also parsed by sqlglot, in the language that the dialect names."""
        monkeypatch.setattr(user_sql, "CHECK_RENDERED_SQL", True)
        result = selftest(Settings(connections={"engine": ConnectionSettings(url=engine_url)}, audits={}), "engine")
        failed = "\n".join(f"{check.group}: {check.name}: {check.detail}\n  {check.sql}" for check in result.failed)
        assert not result.failed, f"\n{failed}"
        assert {check.group for check in result.checks if check.outcome == "passed"} >= self.GROUPS


COLUMNS = [("id", Kind("integer")), ("name", Kind("text")), ("price", Kind("decimal", 10, 2)), ("at", Kind("timestamp", scale=6))]


def _orders(count: int = 300) -> list[tuple[Any, ...]]:
    start = dt.datetime(2024, 2, 28, 22, 30)
    return [
        (i * 3, None if i % 7 == 0 else f"n|{i} é", Decimal(i * 7 - 900).scaleb(-2), start + dt.timedelta(minutes=i, microseconds=i))
        for i in range(count)
    ]


class TestAudits:
    """Whole audits between the engine and DuckDB, in both directions."""

    @pytest.mark.parametrize("engine_is", ["source", "target"])
    def test_audit_matches_and_names_exactly_the_rows_that_differ(self, engine_url: str, engine_is: str, tmp_path: Path) -> None:
        """One row is changed, one missing and one extra, between keys, texts with NULL, decimals and times that are equal."""
        other, rows = f"duckdb:///{tmp_path}/other.duckdb", _orders()
        urls = (engine_url, other) if engine_is == "source" else (other, engine_url)
        for url in urls:
            make_table(url, "oracle_orders", COLUMNS, rows, key="id")
        source, target = ((url, "oracle_orders") for url in urls)
        equal = auditor.audit(source, target, key=["id"])
        assert equal.verdict is Verdict.MATCH, equal
        damaged = [row if row[0] != 30 else (30, "changed", *row[2:]) for row in rows if row[0] != 300]
        make_table(target[0], "oracle_orders", COLUMNS, [*damaged, (31, "extra", None, None)], key="id")
        report = auditor.audit(source, target, key=["id"])
        assert report.verdict is Verdict.MISMATCH, report
        assert report.differences is not None
        named = {
            (difference.kind, difference.key["id"]) if isinstance(difference, Difference) else difference
            for difference in report.differences
        }
        assert named == {("changed", "30"), ("missing", "300"), ("extra", "31")}


class TestGoldenStatements:
    """The statements as files that people review: they show what changed, and only the other tests prove that it is right."""

    def test_statements_equal_the_golden_files(self, engine_url: str, golden_folder: Path | None, request: pytest.FixtureRequest) -> None:
        """``--update-statements`` writes the files anew."""
        if golden_folder is None:
            pytest.skip("the fixture golden_folder names no folder")
        rendered = {name: sql.rstrip() + "\n" for name, sql in render_statements(_dialect(engine_url)).items()}
        if request.config.getoption("--update-statements"):
            golden_folder.mkdir(parents=True, exist_ok=True)
            for name, sql in rendered.items():
                (golden_folder / f"{name}.sql").write_text(sql, encoding="utf-8")
        written = {path.stem: path.read_text(encoding="utf-8") for path in golden_folder.glob("*.sql")}
        assert written == rendered, "read the difference; if the new SQL is right, run pytest --update-statements"


def _dialect(url: str) -> dialects.Dialect:
    return dialects.by_scheme(dialects.parse_url(url).scheme)


def _query(url: str, sql: str) -> Sequence[tuple[Any, ...]]:
    with closing(dialects.connect(url)) as session:
        return session.query(sql)
