"""Every kind of statement that an audit sends, on a small table, against what plain Python computes of the same rows."""

from __future__ import annotations

import datetime as dt
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from typing import Any, NotRequired, TypedDict
from uuid import UUID

from auditor import canonical
from auditor.compare.accounting import Row
from auditor.compare.syndromes import power_sums
from auditor.model import NULL_PARTITION, SIDES, Chunk, ColumnPlan, Method, Partitioning, Plan, RangeDifference
from auditor.run.fetch import Fetcher
from auditor.service.selftest.bench import Bench, require
from auditor.service.selftest.texts import Sample, column_plan, plan_of
from auditor.sql import distributions, filter, render
from auditor.sql.filter import FilterColumn
from auditor.sql.power_sums import count_sums
from auditor.summary import arrays, measures
from auditor.summary.key_number import P, bucket_of, key_number, position_of
from auditor.summary.minhash import row_minhashes
from dialects import Column, Kind

Texts = Sequence[str | None]
"""The canonical texts of a row, in the order of the plan's columns."""

SECONDS = {"hour": 3600, "day": 86400}


class Summary(TypedDict):
    """What an engine must say of a partition: fields of ``auditor.summary.arrays.Summaries``."""

    rows: int
    least: int | None
    greatest: int | None
    measures: NotRequired[list[str | None]]
    hashed: NotRequired[int]
    words: NotRequired[list[int]]
    syndromes: NotRequired[list[int]]
    minhashes: NotRequired[list[int]]


def expected_summaries(plan: Plan, rows: Sequence[Texts]) -> dict[int, Summary]:
    """Return what an engine must say of each partition, by its id."""
    groups: defaultdict[int, list[Texts]] = defaultdict(list)
    for row in rows:
        groups[partition_of(plan, row)].append(row)
    return {partition: _summary(plan, partition, groups[partition]) for partition in sorted(groups)}


def partition_of(plan: Plan, row: Texts) -> int:
    """Return the partition id of a row."""
    how = plan.partitioning
    text = row[how.column]
    if how.strategy == "hash":
        number = key_number(plan, row[: plan.key])
        return NULL_PARTITION if number is None else bucket_of(number, how.buckets)
    if text is None:
        return NULL_PARTITION
    if how.strategy == "range":
        return int(text) // how.size
    if how.unit == "month":
        return (int(text[:4]) - 1970) * 12 + int(text[5:7]) - 1
    return int((measures.numeric_value(text) or Fraction(0)) // SECONDS[how.unit])


def position_of_row(plan: Plan, row: Texts) -> int:
    """Return the position of a row with a key in its partition, at least 1."""
    if plan.partitioning.strategy == "range":
        return int(str(row[plan.partitioning.column])) % plan.partitioning.size + 1
    number = key_number(plan, row[: plan.key])
    assert number is not None
    return position_of(number)


def row_digits(plan: Plan, row: Texts) -> str:
    """Return the hash of a row in the plan's encoding, in hexadecimal digits."""
    text = canonical.published_row_text(row) if plan.encoding == "published" else canonical.row_text(row)
    return canonical.row_hash(f"{plan.salt}{canonical.SEPARATOR}{text}" if plan.salt else text, plan.hash)


def _summary(plan: Plan, partition: int, rows: Sequence[Texts]) -> Summary:
    keys = [int(text) for row in rows if plan.has_integer_key and (text := row[0]) is not None]
    summary: Summary = {"rows": len(rows), "least": min(keys, default=None), "greatest": max(keys, default=None)}
    if plan.method == "counts":
        summary["measures"] = [text for index in range(len(plan.columns)) for text in _measures(plan, index, rows)]
        return summary
    digits = [row_digits(plan, row) for row in rows]
    width, count = (8, 4) if plan.method == "minhash" else (15, plan.bits // 60)
    values = [[canonical.word(row_hash, 1 + width * index, width) for index in range(count)] for row_hash in digits]
    words = values if plan.method == "minhash" else [[half for v in row for half in (v >> 30, v & (1 << 30) - 1)] for row in values]
    summary["hashed"] = len(rows)
    summary["words"] = [sum(column) for column in zip(*words, strict=True)]
    if plan.method == "exact" and partition != NULL_PARTITION:
        places = [(position_of_row(plan, row), word[0]) for row, word in zip(rows, words, strict=True)]
        summary["syndromes"] = [value % P for value in power_sums(places, count_sums(plan))[1:]]
    if plan.k:
        minima = [row_minhashes(canonical.word(row_hash, 25, 8), plan.k) for row_hash in digits]
        summary["minhashes"] = [min(column) for column in zip(*minima, strict=True)]
    return summary


def _measures(plan: Plan, index: int, rows: Sequence[Texts]) -> list[str | None]:
    column, values = plan.columns[index], [row[index] for row in rows if row[index] is not None]
    texts = [text for text in values if text is not None]
    results: list[str | None] = []
    for name in measures.column_measures(column):
        match name:
            case "nulls":
                results.append(str(len(rows) - len(values)))
            case "characters":
                results.append(str(sum(map(len, texts))) if texts else None)
            case "bytes":
                results.append(str(sum(len(text.encode()) for text in texts)) if texts else None)
            case "true":
                results.append(str(texts.count("1")) if rows else None)
            case "sum":
                results.append(f"{sum(map(Decimal, texts), Decimal(0)):f}" if texts else None)
            case _:
                results.append((min if name == "min" else max)(texts, key=measures.sort_key) if texts else None)
    return results


"""The canonical texts of a row, in the order of a plan's columns."""

SUMMARY, ROWS_GROUP, OTHER = "summary", "rows", "statement"
UUIDS, TEXT = Kind("uuid"), Kind("text")

KINDS: Mapping[str, Kind] = {
    "id": Kind("integer"),
    "name": TEXT,
    "price": Kind("decimal", 10, 2),
    "weight": Kind("float64"),
    "shipped": Kind("timestamp", scale=6),
    "paid": Kind("boolean"),
    "day": Kind("date"),
    "uid": UUIDS,
}
"""The columns of the table; where an engine has no type for UUIDs, they are stored as text."""

NAMES = ("draft", "DRAFT", "draft ", "A_b", "Ab", "Entwurf für später", "x|y", "", "😀", "draft")
START = dt.datetime(2024, 2, 27, 21, 30, 15, 250000)


def _row(index: int) -> dict[str, Any]:
    at = START + dt.timedelta(hours=7 * index, microseconds=index)
    return {
        "id": index * 5 - 17,
        "name": NAMES[index % len(NAMES)],
        "price": Decimal(index * 997 - 4000).scaleb(-2),
        "weight": (index - 7) * 0.1,
        "shipped": at,
        "paid": index % 3 == 0,
        "day": at.date(),
        "uid": UUID(int=(index * 0x9E3779B97F4A7C15F39CC0605CEDC834 + index) % 2**128),
    }


TABLE: tuple[Mapping[str, Any], ...] = (
    *(_row(index) for index in range(24)),
    {**_row(24), "name": None, "price": None, "weight": None, "paid": None},
    {**_row(25), "id": None, "shipped": None, "day": None, "uid": None},
)
"""The rows: keys below zero, texts that only bytes tell apart, and NULL in every column."""

NOW = dt.datetime(2024, 3, 2, 12)

FILTERS: Mapping[str, Callable[[Mapping[str, Any]], bool]] = {
    "name = 'draft'": lambda row: row["name"] == "draft",
    "name IN ('draft ', 'Entwurf für später', '😀')": lambda row: row["name"] in ("draft ", "Entwurf für später", "😀"),
    "name LIKE 'A!_%' ESCAPE '!'": lambda row: (row["name"] or "").startswith("A_"),
    "price * 1.19 > 100": lambda row: row["price"] is not None and row["price"] * Decimal("1.19") > 100,
    "weight >= 0.5 OR weight IS NULL": lambda row: row["weight"] is None or row["weight"] >= 0.5,
    "shipped >= now - INTERVAL '2' day AND day < DATE '2024-03-03'": lambda row: (
        row["shipped"] is not None and row["shipped"] >= NOW - dt.timedelta(days=2) and row["day"] < dt.date(2024, 3, 3)
    ),
    "paid = TRUE AND NOT id < 0": lambda row: bool(row["paid"]) and row["id"] is not None and row["id"] >= 0,
}
"""Conditions in the portable language, and what they mean in Python."""


@dataclass(frozen=True, slots=True)
class Orders:
    """The table as an engine has it."""

    bench: Bench
    sql: str
    fetched: str
    """The table as rows are fetched from it: MySQL opens a temporary table once a statement, and these name theirs twice to count rows."""
    columns: Mapping[str, ColumnPlan]
    texts: Mapping[str, Sequence[str | None]]
    """Canonical texts by column, in the order of the rows."""

    def plan(self, key: Sequence[str], how: Partitioning, method: Method = "signature", **more: Any) -> Plan:
        """Return a plan by which the table is read; ``how`` partitions by the first column, or by times that are then ``shipped``."""
        names = [*key, *(name for name in self.columns if name not in key)]
        plan = plan_of(self.bench, [self.columns[name] for name in names], self.sql)
        if how.strategy == "time":
            how = replace(how, column=names.index("shipped"))
        defaults = {"k": 4 if method == "minhash" else 0, "t": 3 if method == "exact" else 0}
        return replace(plan, method=method, key=len(key), partitioning=how, **{**defaults, **more})

    def rows(self, plan: Plan) -> list[list[str | None]]:
        """Return the canonical texts of all rows in the order of the plan's columns."""
        return [[self.texts[column.name][index] for column in plan.columns] for index in range(len(TABLE))]


RANGE, BUCKETS = Partitioning(strategy="range", size=8), Partitioning(strategy="hash", buckets=4)
TIMES = tuple(Partitioning(strategy="time", unit=unit) for unit in ("hour", "day", "month"))
ID, NAME, UID, DAY_AND_ID = ("id",), ("name",), ("uid",), ("day", "id")
METHODS: tuple[Method, ...] = ("counts", "signature", "minhash", "exact")


def check_statements(bench: Bench) -> None:
    """Run every kind of statement and compare its result."""
    orders = _create(bench)
    for method in METHODS:
        for how in (RANGE, BUCKETS, TIMES[1]):
            _check_summary(orders, f"{method}, {how.strategy}", orders.plan(ID, how, method))
    for how in (TIMES[0], TIMES[2]):
        _check_summary(orders, f"signature, {how}", orders.plan(ID, how))
    for key in (NAME, UID, ("day",), DAY_AND_ID):
        _check_summary(orders, f"exact, hash of {' and '.join(key)}", orders.plan(key, BUCKETS, "exact"))
    for name, more in (("t: 8", {"t": 8}), ("bits: 120", {"bits": 120}), ("with minhashes", {"k": 4}), ("salted", {"salt": "pepper"})):
        _check_summary(orders, f"exact, {name}", orders.plan(ID, RANGE, "exact", **more))
    for chunk in (Chunk(first=-8, end=40), Chunk(null_key=True)):
        _check_chunk(orders, chunk)
    _check_fetches(orders)
    _check_bounds(orders)
    _check_distributions(orders)
    _check_filters(orders)


def _create(bench: Bench) -> Orders:
    kinds = {name: TEXT if kind == UUIDS and "uuid" not in bench.dialect.types.TYPE_BY_KIND else kind for name, kind in KINDS.items()}
    rows = [[str(row[name]) if kinds[name] != KINDS[name] and row[name] else row[name] for name in kinds] for row in TABLE]
    columns = {name: column_plan(bench, Sample(name, kinds[name], (), ()), kind) for name, kind in KINDS.items()}
    texts = {name: [canonical.text(kind, row[name]) for row in TABLE] for name, kind in KINDS.items()}
    made = bench.table("orders", tuple(kinds.items()), rows)
    fetched = bench.derived_table(tuple(kinds.items()), rows) if bench.dialect.CUTS_STORED_TEXTS else made
    return Orders(bench, made, fetched, columns, texts)


def _check_summary(orders: Orders, name: str, plan: Plan) -> None:
    bench = orders.bench
    statement = render.summary(plan, "source", bench.dialect, Chunk())
    with bench.check(SUMMARY, name, statement):
        summaries = bench.summaries(statement, render.result_columns(plan))
        require_summaries(summaries, expected_summaries(plan, orders.rows(plan)))


def _check_chunk(orders: Orders, chunk: Chunk) -> None:
    bench, plan = orders.bench, orders.plan(ID, RANGE, "exact")
    statement = render.summary(plan, "source", bench.dialect, chunk)
    with bench.check(SUMMARY, "the rows without a key" if chunk.null_key else "a chunk of keys", statement):
        summaries = bench.summaries(statement, render.result_columns(plan))
        low, high = chunk.bounds
        inside = [row for row in orders.rows(plan) if (row[0] is None) is chunk.null_key and (row[0] is None or low <= int(row[0]) < high)]
        require_summaries(summaries, expected_summaries(plan, inside))


def require_summaries(summaries: arrays.Summaries, expected: Mapping[int, Mapping[str, Any]]) -> None:
    """Raise Differs unless an engine's summaries are those of the reference."""
    require(summaries.partition.tolist(), list(expected), "the partitions")
    for index, (partition, fields) in enumerate(expected.items()):
        for name, wanted in fields.items():
            result = getattr(summaries, name)[index]
            result_values = result.tolist() if hasattr(result, "tolist") else result
            numbers = _as_numbers if name == "measures" else _as_they_are
            require(numbers(result_values), numbers(wanted), f"{name} of partition {partition}")


def _as_numbers(texts: Sequence[str | None]) -> list[object]:
    """Return measured texts as the numbers that they stand for: one engine's sum may end with more zeros than another's."""
    return [text if measures.numeric_value(text) is None else measures.numeric_value(text) for text in texts]


def _as_they_are(values: object) -> object:
    return values


def _check_fetches(orders: Orders) -> None:
    """Fetch rows in each way in which a run does: by key, by position, by partition, by range, and all."""
    by_range, by_hash = orders.plan(ID, RANGE, "exact"), orders.plan(NAME, BUCKETS, "exact")
    keys = [text for text in orders.texts["id"] if text is not None]
    fetcher, some = _fetcher(orders, by_range), _fetcher(orders, by_hash)
    span = RangeDifference(kind="missing", first=-7, last=33, label="", rows=1, partitions=1)
    settled = replace(by_range, sides={side: replace(here, settled="1 = 1") for side, here in by_range.sides.items()})
    places = [_place(by_hash, row) for row in orders.rows(by_hash) if row[0] is not None][:4]

    def has_key(low: int, end: int) -> Callable[[Texts], bool]:
        return lambda row: row[0] is not None and low <= int(row[0]) < end

    def is_at_place(row: Texts) -> bool:
        return row[0] is not None and _place(by_hash, row) in places

    _check_rows(orders, "by key", by_range, lambda: fetcher.by_key([int(key) for key in keys[:5]]), lambda row: row[0] in keys[:5], True)
    _check_rows(orders, "of partitions", by_range, lambda: fetcher.by_partition([0, 1]), has_key(0, 16))
    _check_rows(orders, "without a partition", by_hash, lambda: some.by_partition([NULL_PARTITION]), lambda row: row[0] is None)
    _check_rows(orders, "of a range", by_range, lambda: fetcher.of_range(span), has_key(-7, 34))
    _check_rows(orders, "all", settled, _fetcher(orders, settled).all_rows, lambda row: True)
    in_buckets = lambda row: partition_of(by_hash, row) in (1, 2)  # noqa: E731
    _check_rows(orders, "of buckets", by_hash, lambda: some.by_partition([1, 2]), in_buckets)
    _check_rows(orders, "by position", by_hash, lambda: some.by_place(places), is_at_place, True)
    for key in (ID, NAME, UID, ("day",), DAY_AND_ID):
        _check_keys(orders, orders.plan(key, BUCKETS, "exact"))


def _check_keys(orders: Orders, plan: Plan) -> None:
    """Fetch rows by the texts of their keys, NULL among them."""
    rows = orders.rows(plan)
    wanted = {tuple(row[: plan.key]) for row in rows[3:9] + rows[-2:]}

    def fetch() -> Iterator[Row]:
        for row, _ in _fetcher(orders, plan).by_canonical_key(sorted(wanted, key=str)):
            yield row

    name = f"by the key {' and '.join(column.name for column in plan.key_columns)}"
    _check_rows(orders, name, plan, fetch, lambda row: tuple(row[: plan.key]) in wanted, True)


def _place(plan: Plan, row: Texts) -> tuple[int, int]:
    return partition_of(plan, row), position_of_row(plan, row)


def _fetcher(orders: Orders, plan: Plan) -> Fetcher:
    sides = {side: replace(here, table=orders.fetched) for side, here in plan.sides.items()}
    return Fetcher(replace(plan, sides=sides), "source", orders.bench.session, 200)


def _check_rows(
    orders: Orders,
    name: str,
    plan: Plan,
    fetch: Callable[[], Iterable[Row]],
    is_wanted: Callable[[Texts], bool],
    with_texts: bool = False,
) -> None:
    bench = orders.bench
    with bench.check(ROWS_GROUP, name), bench.snapshot():
        rows = Counter((row.digits, tuple(row.key), tuple(row.texts)) for row in fetch())
        wanted = Counter(
            (row_digits(plan, row)[: plan.bits // 4], tuple(row[: plan.key]), tuple(row[plan.key :]) if with_texts else ())
            for row in orders.rows(plan)
            if is_wanted(row)
        )
        require(sorted(rows.elements(), key=str), sorted(wanted.elements(), key=str))


def _check_bounds(orders: Orders) -> None:
    bench, plan = orders.bench, orders.plan(ID, RANGE)
    keys = [int(text) for text in orders.texts["id"] if text is not None]
    for name, statement, wanted in (
        (
            "the least and greatest key",
            render.bounds(plan.columns[0], "source", bench.dialect, orders.sql, "1 = 1"),
            [min(keys), max(keys)],
        ),
        ("the count of rows", render.count(bench.dialect, orders.sql, "1 = 1"), [len(TABLE)]),
    ):
        with bench.check(OTHER, name, statement):
            require([int(value) for value in bench.session.query(statement)[0]], wanted)


def _check_distributions(orders: Orders) -> None:
    bench, plan, dialect = orders.bench, orders.plan(ID, RANGE, "counts"), orders.bench.dialect
    statement = distributions.classes(plan, orders.columns["name"], "source", dialect, 100)
    with bench.check(OTHER, "the classes of a column", statement):
        distribution = {text.decode() if isinstance(text, bytes) else text: int(count) for text, count, _ in bench.session.query(statement)}
        require(
            distribution,
            dict(Counter(orders.texts["name"]))
            if None in distribution
            else {t: n for t, n in Counter(orders.texts["name"]).items() if t is not None},
        )
    for name in ("id", "price", "weight", "shipped", "day"):
        column, texts = orders.columns[name], [text for text in orders.texts[name] if text is not None]
        least, greatest = min(texts, key=measures.sort_key), max(texts, key=measures.sort_key)
        statement = distributions.histogram_bounds(plan, column, "source", dialect)
        with bench.check(OTHER, f"the bounds of a histogram of {name}", statement):
            require(list(bench.session.query(statement)[0]), [least, greatest])
        borders = distributions.borders(column, least, greatest, 4)
        statement = distributions.histogram(plan, column, "source", dialect, borders)
        with bench.check(OTHER, f"a histogram of {name}", statement):
            limits = [_number(text) for text in borders.texts]
            wanted = Counter(sum(_number(text) >= limit for limit in limits) for text in texts)
            require({int(number): int(count) for number, count in bench.session.query(statement)}, dict(wanted))


def _number(text: str) -> Any:
    """Return the number of a measured text, or of a border between floats, which is spelled as Python does."""
    value = measures.numeric_value(text)
    return float(text) if value is None else value


def _check_filters(orders: Orders) -> None:
    bench, dialect = orders.bench, orders.bench.dialect
    described = {
        name: Column(name, column.types["source"].partition(" CHARACTER SET ")[0].lower(), column.native["source"], True)
        for name, column in orders.columns.items()
    }
    truthful = {name: replace(column, kind=Kind("boolean")) if name == "paid" else column for name, column in described.items()}
    columns = {
        name: FilterColumn(name, dict.fromkeys(SIDES, dialect.names.quote(name)), {"source": described[name], "target": truthful[name]})
        for name in orders.columns
    }
    renderer = filter.Renderer(columns, "source", dialect)
    for written, is_met in FILTERS.items():
        statement = render.count(dialect, orders.sql, renderer.condition(filter.bind(filter.parse(written), NOW)))
        with bench.check("filter", written, statement):
            require(int(bench.session.query(statement)[0][0]), sum(map(is_met, TABLE)))
