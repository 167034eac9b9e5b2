"""Values of the portable language drawn by Hypothesis over the table of `tests.filters`, each with its meaning in plain Python."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any, Literal

from hypothesis import strategies as st

from auditor import canonical
from dialects import Kind
from tests import filters
from tests.filters import Row

EXACT = Context(prec=200)
Sort = Literal["number", "text", "date", "time"]


@dataclass(frozen=True)
class Computed:
    """A value as it is written, what it yields for a row, and what it is."""

    text: str
    value: Callable[[Row], Any]
    sort: Sort
    scale: int = 0
    """Of a number, the digits after the point."""

    @property
    def kind(self) -> Kind:
        """Return the kind that holds it."""
        kinds = {"text": Kind("text"), "date": Kind("date"), "time": Kind("timestamp", scale=6)}
        return kinds.get(self.sort) or Kind("decimal", 38, self.scale)

    def canonical(self, row: Row) -> str | None:
        """Return the canonical text of its value for a row."""
        value = self.value(row)
        return None if value is None else canonical.text(self.kind, value)


Drawn = st.SearchStrategy[Computed]


def _on(function: Callable[..., Any], *parts: Computed) -> Callable[[Row], Any]:
    """Return a function of a row that is None where a part is."""

    def found(row: Row) -> Any:
        values = [part.value(row) for part in parts]
        return None if None in values else function(*values)

    return found


def _column(name: str, sort: Sort, scale: int = 0) -> Computed:
    def value(row: Row) -> Any:
        found = row[name]
        return Decimal(found) if sort == "number" and found is not None else found

    return Computed(name, value, sort, scale)


def _literal(text: str, value: Any, sort: Sort, scale: int = 0) -> Computed:
    return Computed(text, lambda _: value, sort, scale)


def _quote(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


NUMBERS = [_column("n", "number"), _column("u", "number"), _column("d", "number", 2), _column("e", "number", 6)]
SMALL = [_literal(text, Decimal(text), "number", len(text.partition(".")[2])) for text in ("0", "2", "-3", "0.5", "-1.25", "100")]
TEXTS = [_column(name, "text") for name in ("s", "r", "c")]
WORDS = [_literal(_quote(text), text, "text") for text in ("", " ", "x", "Ä-", "it's", "😀", "a%_", "\\", "0")]
TIMES = [_column("at", "time"), _column("zoned", "time")]
MOMENTS = [_literal(f"TIMESTAMP '{at.isoformat(' ', 'microseconds')}'", at, "time") for at in filters.TIMES[1:5]]
DAYS = [_column("day", "date"), *(_literal(f"DATE '{day}'", day, "date") for day in filters.DAYS[2:5])]


def values() -> st.SearchStrategy[Computed]:
    """All values of the portable language over the table's columns."""
    return st.deferred(lambda: _numbers(2) | _texts(2) | _texts(2) | _dates(2) | _times(2))


def _numbers(depth: int) -> Drawn:
    plain = st.sampled_from(NUMBERS)
    if not depth:
        return plain | st.sampled_from(SMALL)
    inner = _numbers(depth - 1)
    parts = st.tuples(st.sampled_from(["YEAR", "MONTH", "DAY"]), _dates(depth - 1) | _times(depth - 1)) | st.tuples(
        st.sampled_from(["HOUR", "MINUTE", "SECOND"]), _times(depth - 1)
    )
    return (
        plain
        | st.tuples(inner, st.sampled_from("+-*"), inner | st.sampled_from(SMALL)).map(_calculated)
        | st.tuples(inner, st.integers(0, 7)).map(_rounded)
        | inner.map(lambda one: Computed(f"ABS({one.text})", _on(Decimal.copy_abs, one), "number", one.scale))
        | _texts(depth - 1).map(lambda one: Computed(f"LENGTH({one.text})", _on(lambda text: Decimal(len(text)), one), "number"))
        | parts.map(_part)
        | _chosen(inner)
    )


def _calculated(parts: tuple[Computed, str, Computed]) -> Computed:
    left, op, right = parts
    function = {"+": EXACT.add, "-": EXACT.subtract, "*": EXACT.multiply}[op]
    scale = left.scale + right.scale if op == "*" else max(left.scale, right.scale)
    return Computed(f"({left.text} {op} {right.text})", _on(function, left, right), "number", scale)


def _rounded(parts: tuple[Computed, int]) -> Computed:
    one, digits = parts

    def rounded(value: Decimal) -> Decimal:
        return value if digits >= one.scale else value.quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP, EXACT)

    return Computed(f"ROUND({one.text}, {digits})", _on(rounded, one), "number", min(digits, one.scale))


def _part(parts: tuple[str, Computed]) -> Computed:
    name, one = parts
    return Computed(f"{name}({one.text})", _on(lambda time: Decimal(getattr(time, name.lower())), one), "number")


def _texts(depth: int) -> Drawn:
    plain = st.sampled_from(TEXTS)
    if not depth:
        return plain | st.sampled_from(WORDS)
    inner = _texts(depth - 1)
    joined = st.lists(inner | _numbers(depth - 1), min_size=2, max_size=3).map(_joined)
    cut = st.tuples(inner, st.integers(1, 4), st.none() | st.integers(1, 3)).map(_substring)
    replaced = st.tuples(inner, st.sampled_from(["a", "A", " ", "ab", "😀", "'", "ä"]), st.sampled_from(["", "-", "ß"])).map(_replaced)
    return (
        plain
        | joined
        | cut
        | replaced
        | st.tuples(inner, st.integers(1, 3)).map(
            lambda parts: Computed(f"LEFT({parts[0].text}, {parts[1]})", _on(lambda text: text[: parts[1]], parts[0]), "text")
        )
        | inner.map(lambda one: Computed(f"UPPER({one.text})", _on(lambda text: canonical.fold_case(text, "upper"), one), "text"))
        | inner.map(lambda one: Computed(f"LOWER({one.text})", _on(lambda text: canonical.fold_case(text, "lower"), one), "text"))
        | inner.map(lambda one: Computed(f"TRIM({one.text})", _on(lambda text: text.strip(" "), one), "text"))
        | _chosen(inner)
    )


def _joined(parts: Sequence[Computed]) -> Computed:
    def written(part: Computed, value: Any) -> str:
        return str(canonical.text(part.kind, value)) if part.sort == "number" else str(value)

    def join(*found: Any) -> str:
        return "".join(written(part, value) for part, value in zip(parts, found, strict=True))

    return Computed("(" + " || ".join(part.text for part in parts) + ")", _on(join, *parts), "text")


def _substring(parts: tuple[Computed, int, int | None]) -> Computed:
    one, first, count = parts
    text = f"SUBSTRING({one.text}, {first})" if count is None else f"SUBSTRING({one.text}, {first}, {count})"
    return Computed(text, _on(lambda text: text[first - 1 : None if count is None else first - 1 + count], one), "text")


def _replaced(parts: tuple[Computed, str, str]) -> Computed:
    one, old, new = parts
    return Computed(f"REPLACE({one.text}, {_quote(old)}, {_quote(new)})", _on(lambda text: text.replace(old, new), one), "text")


def _dates(depth: int) -> Drawn:
    plain = st.sampled_from(DAYS)
    if not depth:
        return plain
    of_times = _times(depth - 1).map(lambda one: Computed(f"DATE({one.text})", _on(dt.datetime.date, one), "date"))
    return plain | of_times | _chosen(_dates(depth - 1))


def _times(depth: int) -> Drawn:
    plain = st.sampled_from(TIMES)
    return plain | _chosen(plain | st.sampled_from(MOMENTS)) if depth else plain


def _chosen(inner: Drawn) -> Drawn:
    """Values that one of several is, by a condition or because others are NULL."""
    conditions = filters.filters() | _compared()
    case = st.tuples(st.lists(st.tuples(conditions, inner), min_size=1, max_size=2), st.none() | inner).map(_case)
    return case | st.lists(inner, min_size=2, max_size=3).map(_coalesced)


def _compared() -> st.SearchStrategy[filters.Filter]:
    """Conditions that compare computed values."""
    pairs = [st.tuples(one, one) for one in (_calculations(), _texts(0) | _foldings(), _dates(0), _times(0))]
    compared = st.tuples(st.one_of(pairs), st.sampled_from(sorted(filters.COMPARE))).map(_comparison)
    likes = st.tuples(_foldings(), st.sampled_from(["a", "Ä", "x", "dr"])).map(
        lambda parts: filters.Filter(f"{parts[0].text} LIKE '%{parts[1]}%'", _on(lambda text: parts[1] in text, parts[0]))
    )

    def of_truth(parts: tuple[filters.Filter, bool]) -> filters.Filter:
        one, negated = parts
        return filters.Filter(f"({one.text}) IS {'NOT ' if negated else ''}TRUE", lambda row: (one.holds(row) is True) != negated)

    return compared | likes | st.tuples(compared | likes, st.booleans()).map(of_truth)


def _calculations() -> Drawn:
    return st.tuples(_numbers(0), st.sampled_from("+-*"), _numbers(0)).map(_calculated) | st.tuples(_numbers(0), st.integers(0, 3)).map(
        _rounded
    )


def _foldings() -> Drawn:
    folded = st.sampled_from(TEXTS).map(
        lambda one: Computed(f"UPPER({one.text})", _on(lambda text: canonical.fold_case(text, "upper"), one), "text")
    )
    return (
        folded
        | st.lists(_texts(0), min_size=2, max_size=2).map(_joined)
        | st.tuples(st.sampled_from(TEXTS), st.integers(1, 3), st.none()).map(_substring)
    )


def _comparison(parts: tuple[tuple[Computed, Computed], str]) -> filters.Filter:
    (left, right), op = parts

    def compare(a: Any, b: Any) -> bool:
        return filters.COMPARE[op](a.encode(), b.encode()) if left.sort == "text" else filters.COMPARE[op](a, b)

    return filters.Filter(f"{left.text} {op} {right.text}", _on(compare, left, right))


def _case(parts: tuple[list[tuple[filters.Filter, Computed]], Computed | None]) -> Computed:
    branches, otherwise = parts
    results = [result for _, result in branches] + ([otherwise] if otherwise else [])

    def value(row: Row) -> Any:
        for condition, result in branches:
            if condition.holds(row) is True:
                return result.value(row)
        return otherwise.value(row) if otherwise else None

    written = " ".join(f"WHEN {condition.text} THEN {result.text}" for condition, result in branches)
    end = f" ELSE {otherwise.text}" if otherwise else ""
    return Computed(f"CASE {written}{end} END", value, results[0].sort, max(result.scale for result in results))


def _coalesced(parts: Sequence[Computed]) -> Computed:
    def value(row: Row) -> Any:
        return next((found for part in parts if (found := part.value(row)) is not None), None)

    return Computed(f"COALESCE({', '.join(part.text for part in parts)})", value, parts[0].sort, max(part.scale for part in parts))
