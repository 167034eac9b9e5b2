"""Queries in place of tables, on live engines: exactly the damaged rows are named, and nothing where a table holds what a query returns."""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import auditor
from auditor import Report, Verdict
from dialects import Kind
from tests import tables
from tests.live import LiveEngine, LivePair, chosen_pairs

pytestmark = pytest.mark.engines_in_turn

PAIRS = ("mysql-redshift", "redshift-mariadb", "mariadb-postgres", "postgres-duckdb", "duckdb-mysql")

ORDERS = (
    ("id", Kind("integer")), ("customer", Kind("integer")), ("city", Kind("text")), ("amount", Kind("decimal", 10, 2)),
    ("at_", Kind("timestamp", scale=6)),
)  # fmt: skip
TOTALS = (
    ("customer", Kind("integer")), ("orders", Kind("integer")), ("total", Kind("decimal", 30, 2)), ("city", Kind("text")),
    ("last_at", Kind("timestamp", scale=6)),
)  # fmt: skip
QUERY = (
    "WITH each_order AS (SELECT customer, amount, city, at_ FROM {table} WHERE id > 0) -- all of them\n"
    "SELECT customer, COUNT(*) AS orders, SUM(amount) AS total, MIN(city) AS city, MAX(at_) AS last_at\n"
    "FROM each_order /* as they are */ GROUP BY customer -- by customer;"
)
DAY = dt.datetime(2026, 3, 1, 12, 0, 0, 123456)
CITIES = ("Aachen", "Zürich ", "ZÜRICH")


def orders() -> list[tuple[Any, ...]]:
    return [(n, n % 40, CITIES[n % 40 % 3], Decimal(n % 17) / 4, DAY + dt.timedelta(minutes=n)) for n in range(1, 801)]


def totals(rows: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Return what the query returns of orders, in the order of customers."""
    by_customer: dict[int, list[tuple[Any, ...]]] = defaultdict(list)
    for row in rows:
        by_customer[row[1]].append(row)
    return [
        (customer, len(each), sum((row[3] for row in each), Decimal(0)), each[0][2], max(row[4] for row in each))
        for customer, each in sorted(by_customer.items())
    ]


def damaged(rows: Sequence[tuple[Any, ...]]) -> tuple[list[tuple[Any, ...]], set[tuple[str, str]]]:
    """Return totals with each kind of damage, and the differences that are then there."""
    changed = {3: (2, Decimal("0.01")), 5: (3, "Zürich"), 8: (3, "Zürich "), 11: (1, 1), 13: (4, dt.timedelta(microseconds=1))}
    target = []
    for row in rows:
        at, by = changed.get(row[0], (0, 0))
        new = by if isinstance(by, str) else row[at] + by
        if row[0] != 21:
            target.append((*row[:at], new, *row[at + 1 :]) if at else row)
    return [*target, (99, 1, Decimal(1), "Ulm", DAY)], {*(("changed", str(key)) for key in changed), ("missing", "21"), ("extra", "99")}


def compare(pair: LivePair, source: str, target: str, **options: Any) -> Report:
    return auditor.audit((pair.source.url, source), (pair.target.url, target), **{"key": ["customer"], **options})


def named(report: Report) -> set[tuple[str, str]]:
    assert report.differences is not None, report.reasons
    return {(row.kind, str(row.key["customer"])) for row in report.differences.named}


@pytest.mark.parametrize("pair", chosen_pairs(*PAIRS), indirect=True)
def test_exactly_the_damaged_rows_of_an_aggregate_are_named(pair: LivePair) -> None:
    rows = totals(orders())
    bad, expected = damaged(rows)
    tables.make(pair.source, "query_orders", ORDERS, orders(), ["id"])
    tables.make(pair.target, "query_totals", TOTALS, bad, ["customer"])
    query = QUERY.format(table="query_orders")
    report = compare(pair, query, "query_totals")
    assert report.verdict is Verdict.MISMATCH
    assert named(report) == expected
    assert report.plan
    assert report.plan.queries == {"source": query.removesuffix(" -- by customer;")}
    assert {column.name: str(column.kind) for column in report.plan.columns if column.name != "total"} == {
        "customer": "integer", "orders": "integer", "city": "text", "last_at": "timestamp(6)",
    }  # fmt: skip
    assert named(compare(pair, query, "query_totals", where="customer < 12")) == {one for one in expected if int(one[1]) < 12}
    assert named(compare(pair, query, "query_totals", partition={"strategy": "hash", "buckets": 8})) == expected
    tables.make(pair.target, "query_totals", TOTALS, rows, ["customer"])
    assert compare(pair, query, "query_totals").verdict is Verdict.MATCH
    assert compare(pair, query, "query_totals", method="counts").verdict is Verdict.MATCH

    tables.make(pair.source, "query_totals_of_source", TOTALS, rows, ["customer"])
    lost = [row for row in orders() if row[0] != 77]
    tables.make(pair.target, "query_orders_copy", ORDERS, [(-1, 1, "Ulm", Decimal(1), DAY), *lost], ["id"])
    report = compare(pair, "query_totals_of_source", QUERY.format(table="query_orders_copy"))
    assert named(report) == {("changed", str(77 % 40))}


JOINED = {
    "mysql": "GROUP_CONCAT({id} ORDER BY {id} SEPARATOR ' ')",
    "postgres": "STRING_AGG(CAST({id} AS TEXT), ' ' ORDER BY {id})",
    "redshift": "LISTAGG(CAST({id} AS VARCHAR), ' ') WITHIN GROUP (ORDER BY {id})",
    "duckdb": "STRING_AGG(CAST({id} AS VARCHAR), ' ' ORDER BY {id})",
}


@pytest.mark.parametrize("pair", chosen_pairs("mysql-postgres", "postgres-mariadb", "duckdb-redshift"), indirect=True)
def test_inverted_index_is_compared_with_a_table_of_it(pair: LivePair) -> None:
    """The key is a text, under a collation that takes its values for each other on MySQL: a row of each is named."""
    words = ["apfel", "Apfel", "äpfel", "apfel ", "birne"]
    columns = (("id", Kind("integer")), ("word", Kind("text")))
    rows = [(n, words[n % len(words)]) for n in range(1, 61)]
    index = [(word, " ".join(str(n) for n, other in rows if other == word)) for word in words]
    wrong = [(word, ids.replace("12 ", "", 1) if word == "äpfel" else ids) for word, ids in index]
    binary = {"mysql": " COLLATE utf8mb4_bin", "postgres": "", "redshift": "", "duckdb": ""}[pair.source.dialect]
    by = "HEX(word)" if pair.source.dialect == "mysql" else "word"
    query = f"SELECT MIN(word{binary}) AS word, {JOINED[pair.source.dialect].format(id='id')} AS ids FROM query_words GROUP BY {by}"
    tables.make(pair.source, "query_words", columns, rows)
    for content, expected in ((index, set()), (wrong, {("changed", "äpfel")})):
        tables.make(pair.target, "query_index", (("word", Kind("text")), ("ids", Kind("text"))), content)
        report = compare(pair, query, "query_index", key=["word"])
        assert report.verdict is (Verdict.MISMATCH if expected else Verdict.MATCH), report.reasons
        assert {(row.kind, row.key["word"]) for row in (report.differences.named if report.differences else ())} == expected


@st.composite
def groups(draw: st.DrawFn) -> list[tuple[Any, ...]]:
    """Random orders, some of whose values are NULL."""
    texts = st.text("aAäÄ |' \\%", max_size=4)
    amounts = st.decimals(Decimal(-999), Decimal(999), places=2)
    rows = draw(st.lists(st.tuples(st.integers(-3, 9), st.none() | texts, st.none() | amounts), max_size=30))
    return [(number, *row) for number, row in enumerate(rows)]


RANDOM = (("id", Kind("integer")), ("customer", Kind("integer")), ("city", Kind("text")), ("amount", Kind("decimal", 10, 2)))
RESULT = (("customer", Kind("integer")), ("orders", Kind("integer")), ("total", Kind("decimal", 30, 2)), ("cities", Kind("integer")))


@pytest.mark.parametrize("pair", chosen_pairs("duckdb-postgres", "mysql-duckdb", "postgres-mariadb", "mariadb-redshift"), indirect=True)
def test_random_queries_equal_a_table_of_their_result(pair: LivePair) -> None:
    @settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
    @given(groups(), st.data())
    def check(rows: list[tuple[Any, ...]], data: st.DataObject) -> None:
        keys = sorted({row[1] for row in rows})
        each = {key: [row for row in rows if row[1] == key] for key in keys}
        amounts = {key: [row[3] for row in each[key] if row[3] is not None] for key in keys}
        result = [
            (key, len(each[key]), sum(amounts[key]) if amounts[key] else None, sum(row[2] is not None for row in each[key])) for key in keys
        ]
        wrong = data.draw(st.sets(st.sampled_from(keys)) if keys else st.just(set()), label="wrong")
        lost = data.draw(st.sets(st.sampled_from(keys)) if keys else st.just(set()), label="lost")
        target = [(row[0], row[1] + (row[0] in wrong), *row[2:]) for row in result if row[0] not in lost]
        tables.make(pair.source, "query_random", RANDOM, rows)
        tables.make(pair.target, "query_result", RESULT, target)
        query = "SELECT customer, COUNT(*) AS orders, SUM(amount) AS total, COUNT(city) AS cities FROM query_random GROUP BY customer"
        report = compare(pair, query, "query_result", allow_empty=True, partition={"strategy": "range", "size": 4})
        expected = {*(("missing", str(key)) for key in lost), *(("changed", str(key)) for key in wrong - lost)}
        assert report.verdict is (Verdict.MISMATCH if expected else Verdict.MATCH), report.reasons
        spans = report.differences.ranges if report.differences else ()
        of_spans = {(span.kind, str(key)) for span in spans for key in keys if (span.first or 0) <= key <= (span.last or 0)}
        assert (named(report) | of_spans if report.differences else set()) == expected

    check()


@pytest.mark.parametrize("pair", chosen_pairs("mysql-mariadb", "postgres-redshift"), indirect=True)
def test_query_with_two_columns_of_one_name_is_refused(pair: LivePair) -> None:
    for engine in (pair.source, pair.target):
        _make_small(engine)
    report = compare(pair, "SELECT a.*, b.* FROM query_small a JOIN query_small b ON a.customer = b.customer", "query_small")
    assert report.verdict is Verdict.UNKNOWN
    assert "two columns named 'customer'" in report.reasons[0] or "Duplicate column name 'customer'" in report.reasons[0]
    report = compare(pair, "SELECT nothing AS customer FROM query_small", "query_small")
    assert report.verdict is Verdict.UNKNOWN
    assert "nothing" in report.reasons[0]


def _make_small(engine: LiveEngine) -> None:
    tables.make(engine, "query_small", (("customer", Kind("integer")),), [(1,), (2,)])
