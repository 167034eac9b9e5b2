"""Fetching rows by their keys: exactly the rows of these keys, whatever their texts and kinds."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from auditor.config import Audit
from auditor.model import SIDES, Plan, Side
from auditor.run.fetch import Fetcher
from dialects import Kind, Session
from tests import tables
from tests.audits import open_plan
from tests.live import LiveEngine, LivePair, engine_params

pytestmark = pytest.mark.engines_in_turn

HOSTILE = [
    "a", "A", "a ", " a", "á", "a\u0301", "ß", "ss", "it's", '"', "\\", "\\'", "a\\", "%", "_",
    "", " ", "'' OR 1=1 --", "\t", "a\nb", "🐘", "🐘 ",
    "ﬀ", "i", "İ", "ı", "null", "NULL", "X'41'", "${hole}", "日本", "\u200b", "a \n\n b", "\x1e", "a\u2028b", "a\u00a0", "0", "00",
    "1e3",
]  # fmt: skip
SERVERS = engine_params("mysql", "mariadb", "postgres", "duckdb")


def assert_fetched_by_key(
    engine: LiveEngine, kinds: Sequence[tuple[str, Kind]], rows: Sequence[Sequence[Any]], key: Sequence[str], **audit: Any
) -> None:
    """Assert that fetching by keys, one at a time and all at once, returns exactly the rows of these keys."""
    tables.make(engine, "again", [*kinds, ("v", Kind("text"))], [(*row, f"row {number}") for number, row in enumerate(rows)])
    ends = {side: {"connection": side, "table": "again"} for side in SIDES}
    parsed = Audit.model_validate({**ends, "key": key, **audit})
    with open_plan(LivePair(engine, engine), parsed) as (plan, sides):
        fetch = Fetcher(plan, "source", sides["source"], 200)
        all_rows = _fetch_all(plan, sides["source"])
        assert len(all_rows) == len(rows)
        keys = list(dict.fromkeys(row_key for row_key, _ in all_rows))
        assert sorted(repr((row.key, row.texts)) for row, _ in fetch.by_canonical_key(keys, "")) == sorted(map(repr, all_rows))
        for one in keys:
            alone = sorted(repr((row.key, row.texts)) for row, _ in fetch.by_canonical_key([one], ""))
            assert alone == sorted(repr(row) for row in all_rows if row[0] == one), one


def _fetch_all(plan: Plan, session: Session) -> list[tuple[Any, Any]]:
    fetch = Fetcher(plan, "source", session, 200)
    return [(row.key, row.texts) for row in fetch.rows_where("1 = 1", texts=True)]


@pytest.mark.parametrize("engine", SERVERS, indirect=True)
@pytest.mark.parametrize("rules", [{}, {"k": {"case": "lower"}}, {"k": {"trim": True}}], ids=["plain", "lower", "trim"])
def test_rows_are_fetched_by_hostile_text_keys(engine: LiveEngine, rules: dict[str, Any]) -> None:
    assert_fetched_by_key(engine, [("k", Kind("text"))], [(text,) for text in [*HOSTILE, None]], ["k"], columns={"override": rules})


@pytest.mark.parametrize("engine", SERVERS, indirect=True)
def test_rows_are_fetched_by_composite_keys(engine: LiveEngine) -> None:
    numbers = [0, -1, 2**63 - 1, -(2**63), None]
    rows = [(number, text) for number in numbers for text in ("a", "A ", "it's", None)]
    assert_fetched_by_key(engine, [("n", Kind("integer")), ("k", Kind("text"))], rows, ["n", "k"])


@pytest.mark.parametrize("engine", SERVERS, indirect=True)
def test_rows_are_fetched_by_unsigned_keys(engine: LiveEngine) -> None:
    assert_fetched_by_key(engine, [("n", Kind("integer", unsigned=True))], [(number,) for number in (0, 1, 2**63, 2**64 - 1)], ["n"])


@pytest.mark.parametrize("engine", SERVERS, indirect=True)
def test_rows_are_fetched_by_dates(engine: LiveEngine) -> None:
    days = [dt.date(2026, 1, 31), dt.date(1, 1, 1), dt.date(9999, 12, 31), dt.date(2024, 2, 29), None]
    assert_fetched_by_key(engine, [("d", Kind("date"))], [(day,) for day in days], ["d"])


@pytest.mark.parametrize("engine", engine_params("postgres", "duckdb"), indirect=True)
def test_rows_are_fetched_by_dates_before_christ(engine: LiveEngine) -> None:
    tables.execute(engine, "DROP TABLE IF EXISTS again_bc", "CREATE TABLE again_bc (d DATE, v TEXT)")
    bc = "'0044-03-15 BC'" if engine.dialect == "postgres" else "'0044-03-15 (BC)'"
    tables.execute(engine, f"INSERT INTO again_bc VALUES ({bc}, 'a'), ('infinity', 'b'), ('2026-01-01', 'c')")
    ends = {side: {"connection": side, "table": "again_bc"} for side in SIDES}
    with open_plan(LivePair(engine, engine), Audit.model_validate({**ends, "key": ["d"]})) as (plan, sides):
        all_rows = _fetch_all(plan, sides["source"])
        fetch = Fetcher(plan, "source", sides["source"], 200)
        assert sorted(row.key for row, _ in fetch.by_canonical_key([key for key, _ in all_rows], "")) == sorted(key for key, _ in all_rows)


@pytest.fixture(params=engine_params("mysql", "mariadb", "postgres"), scope="module")
def texts(request: pytest.FixtureRequest, engines: Any) -> Iterator[tuple[LiveEngine, Plan, dict[Side, Session]]]:
    """Yield an engine with a table keyed by a text column, its plan, and sessions."""
    engine = engines.live(request.param)
    tables.make(engine, "again_texts", [("k", Kind("text")), ("v", Kind("text"))], [])
    ends = {side: {"connection": side, "table": "again_texts"} for side in SIDES}
    with open_plan(LivePair(engine, engine), Audit.model_validate({**ends, "key": ["k"]})) as (plan, sides):
        yield engine, plan, sides


anything = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=8)


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.one_of(anything, st.sampled_from(HOSTILE)), min_size=1, max_size=20))
def test_rows_are_fetched_by_any_text(texts: tuple[LiveEngine, Plan, dict[Side, Session]], keys: list[str]) -> None:
    engine, plan, sides = texts
    session = sides["source"]
    literals = ", ".join(f"({session.dialect.names.string_literal(key)}, 'x')" for key in keys)
    session.end()
    tables.execute(engine, "DELETE FROM again_texts", f"INSERT INTO again_texts VALUES {literals}")
    session.begin()
    fetched_keys = list(dict.fromkeys(key for key, _ in _fetch_all(plan, session)))
    assert sorted(fetched_keys) == sorted({(key,) for key in keys})
    assert sorted(row.key for row, _ in Fetcher(plan, "source", session, 200).by_canonical_key(fetched_keys, "")) == sorted(
        (key,) for key in keys
    )


@pytest.mark.parametrize("engine", engine_params("postgres", "mysql"), indirect=True)
def test_key_that_an_engine_cannot_store_fetches_no_row(engine: LiveEngine) -> None:
    tables.make(engine, "again_nul", [("k", Kind("text")), ("v", Kind("text"))], [("a", "x")])
    ends = {side: {"connection": side, "table": "again_nul"} for side in SIDES}
    with open_plan(LivePair(engine, engine), Audit.model_validate({**ends, "key": ["k"]})) as (plan, sides):
        assert [row.key for row, _ in Fetcher(plan, "source", sides["source"], 200).by_canonical_key([("a",), ("a\x00b",)], "")] == [("a",)]
