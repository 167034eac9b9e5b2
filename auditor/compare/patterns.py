"""Patterns of changed values: what one sentence explains of a column's changed rows, such as a constant factor or lost endings.

A row counts for a pattern only if its two values obey it, so that the number in the sentence is that of rows that do. A sentence is
reported if one or two patterns together explain more than nine tenths of a column's changed rows, each of them several rows.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from itertools import permutations, product
from operator import mul

from auditor import canonical
from auditor.compare import sampling, text_forms, tolerance
from auditor.compare.text_forms import SHORTENED
from auditor.model import SIDES, ChangedColumn, ColumnPlan, Difference, Differences, Plan
from dialects import Kind

Pair = tuple[str | None, str | None]
"""A column's readable texts in the source and in the target."""

MIN_ROWS = 3
"""Fewest rows, and for numbers fewest different source values, for which a pattern is reported."""

MIN_SHARE = Fraction(9, 10)
"""Share of a column's changed rows beyond which patterns are reported."""

MIN_SECOND_SHARE = Fraction(1, 20)
"""Least share of the second pattern."""

MAX_DIGITS = 9
"""Most digits after the point to which values are seen to be rounded."""

NICE_FACTORS = (
    *(Fraction(10) ** n for n in (*range(-9, 0), *range(1, 10))),
    Fraction(1, 60),
    Fraction(60),
    Fraction(1, 1024),
    Fraction(1024),
)
"""Factors that are looked for in values that were rounded afterwards."""

FLOAT_SPACING = {"float32": Fraction(1, 2**21), "float64": Fraction(1, 2**49)}
"""How far, relative to the value, a float's arithmetic may be off."""

TRIED = 100
"""Pairs on which rarer patterns are tried first."""

HOUR = 3600
MOST_ZONE = 15 * HOUR
"""Greatest offset in seconds that two time zones have."""

DAY = 86400


@dataclass(frozen=True, slots=True)
class Pattern:
    """What is the same about the rows at these places (indices of a column's pairs)."""

    phrase: str
    """The rest of a sentence that begins ``all 785`` or ``12 of 785``."""
    places: frozenset[int]
    hint: str = ""
    """What to do about it, for a person."""


def describe(plan: Plan, differences: Differences, rows: int) -> Differences:
    """Return the differences with the columns in which their changed rows differ, the most frequent first, and their patterns.

    ``rows`` are those of a side: a hint is given only if most of them are changed. Values of masked columns are not looked at.
    """
    columns = {column.name: column for column in plan.columns}
    pairs: dict[str, list[Pair]] = defaultdict(list)
    exchanged: dict[str, dict[str, dict[int, Pair]]] = defaultdict(lambda: defaultdict(dict))
    compared = [difference for difference in differences.named if difference.columns]
    for difference in compared:
        open_columns = [column for column in difference.columns if not columns[column.name].masked]
        for a, b in permutations(open_columns, 2):
            if (a.source, a.target) == (b.target, b.source):
                exchanged[a.name][b.name][len(pairs[a.name])] = (a.source, a.target)
        for column in difference.columns:
            pairs[column.name].append((column.source, column.target))
    most_changed = 2 * (differences.changed + differences.estimated) > rows
    described = [
        ChangedColumn(
            name,
            len(some),
            "" if columns[name].masked else sentence(columns[name], some, _exchanges(exchanged[name]), with_hint=most_changed),
        )
        for name, some in pairs.items()
    ]
    return replace(differences, columns=tuple(sorted(described, key=lambda column: -column.rows)), compared=len(compared))


def _exchanges(others: Mapping[str, Mapping[int, Pair]]) -> list[Pattern]:
    """Return the patterns of a column whose value is in another column and the other way round, by the other's name.

    A few different pairs of values are needed: that two flags are set the other way round says little.
    """
    telling = {other: places for other, places in others.items() if len(set(places.values())) >= MIN_ROWS}
    return [Pattern(f"have the values of {other}, and {other} has theirs", frozenset(places)) for other, places in telling.items()]


def sentence(column: ColumnPlan, pairs: Sequence[Pair], more: Sequence[Pattern] = (), *, with_hint: bool = True) -> str:
    """Return what explains more than nine tenths of these pairs of a column, with their number; empty if nothing does.

    ``more`` are patterns that the pairs alone do not show.
    """
    chosen = find(column, pairs, more)
    if not chosen:
        return ""
    phrases = []
    for pattern in chosen:
        number = f"all {len(pairs):,}" if len(pattern.places) == len(pairs) else f"{len(pattern.places):,} of {len(pairs):,}"
        phrases.append(f"{number} {pattern.phrase}")
    hints = dict.fromkeys(pattern.hint for pattern in chosen if pattern.hint and with_hint)
    return "; ".join([", ".join(phrases), *hints])


def find(column: ColumnPlan, pairs: Sequence[Pair], more: Sequence[Pattern] = ()) -> list[Pattern]:
    """Return the one or two patterns that together explain more than nine tenths of these pairs; none if there are none."""
    kinds = {side: column.unrounded(side).kind for side in SIDES}
    every = (*more, *_patterns(column, kinds["source"], kinds["target"], pairs))
    patterns = [pattern for pattern in every if len(pattern.places) >= MIN_ROWS]
    if not patterns:
        return []
    first = max(patterns, key=lambda pattern: len(pattern.places))
    if len(first.places) > MIN_SHARE * len(pairs):
        return [first]
    others = [
        Pattern(pattern.phrase, pattern.places - first.places, pattern.hint) for pattern in patterns if pattern.phrase != first.phrase
    ]
    second = max(others, key=lambda pattern: len(pattern.places), default=None)
    if second is None or len(second.places) < MIN_ROWS or len(second.places) < MIN_SECOND_SHARE * len(pairs):
        return []
    return [first, second] if len(first.places) + len(second.places) > MIN_SHARE * len(pairs) else []


def _patterns(column: ColumnPlan, source: Kind, target: Kind, pairs: Sequence[Pair]) -> Iterator[Pattern]:
    yield from _null_against_empty(pairs)
    values = {
        place: (a, b)
        for place, (x, y) in enumerate(pairs)
        if x is not None and y is not None and (a := _number(source, x)) is not None and (b := _number(target, y)) is not None
    }
    if source.name in tolerance.MOMENTS | {"date"}:
        yield from _time_offsets(column, values)
    elif not source.is_free_text and source.name not in ("boolean", "uuid", "binary", "bit", "interval"):
        yield from _arithmetic(values, _Precision(source, target, pairs))
    elif source.is_free_text:
        yield from _text_patterns({place: (a, b) for place, (a, b) in enumerate(pairs) if a is not None and b is not None})


def _number(kind: Kind, text: str) -> Fraction | None:
    """Return the number (for times: the seconds) of a readable text; None if it is none."""
    if kind.is_free_text:
        return None
    if kind.name in tolerance.MOMENTS | {"date"}:
        return tolerance.exact_value(kind, text)
    try:
        return Fraction(text)
    except ValueError:
        return None


def _null_against_empty(pairs: Sequence[Pair]) -> Iterator[Pattern]:
    for phrase, wanted in (
        ("are NULL in the source and empty in the target", (None, "")),
        ("are empty in the source and NULL in the target", ("", None)),
    ):
        yield Pattern(phrase, frozenset(place for place, pair in enumerate(pairs) if pair == wanted))


# times


def _time_offsets(column: ColumnPlan, values: Mapping[int, tuple[Fraction, Fraction]]) -> Iterator[Pattern]:
    """Yield the most frequent offset, and the two most frequent ones together if they are an hour apart, as with summer time."""
    offsets: dict[Fraction, set[int]] = defaultdict(set)
    for place, (a, b) in values.items():
        offsets[b - a].add(place)
    offsets.pop(Fraction(0), None)
    ranked = sorted(offsets, key=lambda offset: -len(offsets[offset]))
    if not ranked:
        return
    first = ranked[0]
    if len({values[place][0] for place in offsets[first]}) >= MIN_ROWS:
        yield Pattern(_time_phrase(first), frozenset(offsets[first]), _zone_hint(column, first))
    second = next((offset for offset in ranked[1:] if abs(offset - first) == HOUR), None)
    if second is not None and (first > 0) == (second > 0) and min(len(offsets[offset]) for offset in (first, second)) >= MIN_ROWS:
        near, far = sorted((first, second), key=abs)
        phrase = f"are {_span(near)} or {_span(far)} {'later' if near > 0 else 'earlier'} than the source's, as with summer time"
        yield Pattern(phrase, frozenset(offsets[first] | offsets[second]), _zone_hint(column, first))


def _time_phrase(offset: Fraction) -> str:
    return f"are {_span(offset)} {'later' if offset > 0 else 'earlier'} than the source's"


def _zone_hint(column: ColumnPlan, offset: Fraction) -> str:
    """Return which setting makes such times equal, if they may be those of a time zone."""
    zoneless = [side for side in SIDES if column.native[side].name == "timestamp"]
    if not zoneless or offset % 900 or abs(offset) > MOST_ZONE:
        return ""
    return (
        f"if the {' or the '.join(zoneless)} holds times of a zone, write columns: override: {{{column.name}: {{zone: ...}}}},"
        " or zone: under the connection"
    )


def _span(seconds: Fraction) -> str:
    left = abs(seconds)
    parts = []
    for unit, size in (("d", 86400), ("h", HOUR), ("min", 60)):
        count, left = divmod(left, size)
        parts += [f"{count:,} {unit}"] if count else []
    return " ".join([*parts, *([f"{_decimal(left)} s"] if left else [])])


# numbers


class _Precision:
    """How exactly the two values of a pair are known: the last digit that the target writes, and the spacing of floats."""

    def __init__(self, source: Kind, target: Kind, pairs: Sequence[Pair]) -> None:
        self._pairs = pairs
        self._spacing = max(FLOAT_SPACING.get(kind.name, Fraction(0)) for kind in (source, target))

    def last_digit(self, place: int) -> Fraction:
        """Return the value of one unit in the target's last digit; 0 for a float, whose digits are as many as it needs."""
        _, point, digits = str(self._pairs[place][1]).partition(".")
        return Fraction(0) if self._spacing else Fraction(1, 10 ** len(digits)) if point else Fraction(1)

    def noise(self, value: Fraction) -> Fraction:
        """Return how far a float's arithmetic may be off at this value."""
        return abs(value) * self._spacing if self._spacing else self._spacing


def _arithmetic(values: Mapping[int, tuple[Fraction, Fraction]], precision: _Precision) -> Iterator[Pattern]:
    """Yield what numbers obey: a constant, a factor (exactly, or rounded afterwards), or fewer digits."""
    yield Pattern("are 0 in the target", _obeying(values, precision, lambda _: Fraction(0)))
    if offset := _most_frequent([b - a for a, b in values.values()]):
        phrase = f"are the source's {'plus' if offset > 0 else 'minus'} {_decimal(abs(offset))}"
        yield Pattern(phrase, _obeying(values, precision, lambda a: a + offset))
    exact = _most_frequent([b / a for a, b in values.values() if a and b])
    if exact and exact != 1 and (phrase := _factor(exact)):
        yield Pattern(phrase, _obeying(values, precision, lambda a: a * exact))
    few = {place: values[place] for place in sampling.spread(sorted(values))[:TRIED]}
    for factor in NICE_FACTORS:
        times = partial(mul, factor)
        if not _obeying(few, precision, times, rounded=True, least=1):
            continue
        places = _obeying(values, precision, times, rounded=True)
        sharp = [place for place in places if values[place][1] and abs(values[place][1]) >= 10 * precision.last_digit(place)]
        if len(sharp) >= max(MIN_ROWS, len(places) / 2):
            yield Pattern(f"{_factor(factor)}, rounded", places)
    for digits, (words, shorten) in product(range(MAX_DIGITS + 1), (("rounded", _rounded), ("cut", _cut))):
        if any(b == shorten(a, digits) != a for a, b in few.values()):
            places = frozenset(place for place, (a, b) in values.items() if b == shorten(a, digits) != a)
            if sum(1 for place in places if values[place][1]) >= MIN_ROWS:
                yield Pattern(f"are the source's {words} to {_places(digits)}", places)


def _obeying(
    values: Mapping[int, tuple[Fraction, Fraction]],
    precision: _Precision,
    expected: Callable[[Fraction], Fraction],
    *,
    rounded: bool = False,
    least: int = MIN_ROWS,
) -> frozenset[int]:
    """Return the places whose target is what is expected of the source; none if there are fewer than ``least`` different sources."""
    places = set()
    for place, (a, b) in values.items():
        wanted = expected(a)
        off = abs(b - wanted)
        if not off or off <= precision.noise(max(abs(a), abs(wanted))) + (precision.last_digit(place) / 2 if rounded else 0):
            places.add(place)
    return frozenset(places) if len({values[place][0] for place in places}) >= least else frozenset()


def _most_frequent(values: Sequence[Fraction]) -> Fraction | None:
    return Counter(values).most_common(1)[0][0] if values else None


def _factor(factor: Fraction) -> str:
    """Return the words for a factor; empty for one that has no short decimal, nor is 1 by a whole number."""
    if abs(factor.numerator) == 1 and factor.denominator > 1:
        return f"are the source's divided by {_decimal(1 / factor)}"
    text = _decimal(factor)
    return f"are the source's times {text}" if text and len(text) <= 12 else ""


def _decimal(value: Fraction) -> str:
    """Return a number's decimal digits; as a fraction if they do not end."""
    denominator, digits = value.denominator, 0
    while denominator % 10 == 0 or denominator % 2 == 0 or denominator % 5 == 0:
        denominator //= 10 if denominator % 10 == 0 else 2 if denominator % 2 == 0 else 5
        digits += 1
    if denominator != 1:
        return f"{value.numerator:,}/{value.denominator:,}"
    whole, rest = divmod(abs(value.numerator) * 10**digits // value.denominator, 10**digits)
    fraction = f"{rest:0{digits}d}".rstrip("0") if digits else ""
    return f"{'-' if value < 0 else ''}{whole:,}{'.' + fraction if fraction else ''}"


def _places(digits: int) -> str:
    return "whole numbers" if not digits else f"{digits} decimal {'place' if digits == 1 else 'places'}"


def _rounded(value: Fraction, digits: int) -> Fraction:
    """Return a number rounded half away from zero."""
    units = abs(value) * 10**digits
    return (1 if value >= 0 else -1) * Fraction(int(units + Fraction(1, 2)), 10**digits)


def _cut(value: Fraction, digits: int) -> Fraction:
    return Fraction(int(value * 10**digits), 10**digits)


# texts


FORM_PHRASES = {
    text_forms.TRAILING: "differ only in trailing blanks",
    text_forms.LEADING: "differ only in leading blanks",
    text_forms.NON_BREAKING: "differ only in non-breaking blanks",
    text_forms.OTHER_BLANK: "differ only in the kind of their blanks",
    text_forms.CONTROL: "differ only in control characters",
    text_forms.LOOK_ALIKE: "differ only in characters that look alike",
}
"""What a pattern says of why texts look the same, where that is not ``differ only in`` and the reason."""


def _text_patterns(texts: Mapping[int, tuple[str, str]]) -> Iterator[Pattern]:
    cut = {place: (a, b) for place, (a, b) in texts.items() if _is_beginning(b, a)}
    if cut:
        yield Pattern(_cut_phrase(list(cut.values())), frozenset(cut))
    whole = {place: (a, b) for place, (a, b) in texts.items() if not SHORTENED.search(a) and not SHORTENED.search(b)}
    forms: dict[str, set[int]] = defaultdict(set)
    for place, (a, b) in whole.items():
        form = text_forms.reason(a, b) or (text_forms.CASE if text_forms.differs_in_case_only(a, b) else "")
        forms[form or ("blanks" if a.split() == b.split() or "".join(a.split()) == "".join(b.split()) else "")].add(place)
    forms.pop("", None)
    for form, places in forms.items():
        yield Pattern(FORM_PHRASES.get(form, f"differ only in {form}"), frozenset(places))
    stripped = frozenset(p for p, (a, b) in whole.items() if a.strip(" ") == b != a)
    yield Pattern("are the source's without leading and trailing blanks", stripped)
    lost = {marks: {place: text_forms.with_question_marks(a, marks) for place, (a, _) in whole.items()} for marks in (1, 2, 4)}
    for index, what in enumerate(("emoji and other characters of four bytes", "characters beyond ASCII")):
        for marked in lost.values():
            yield Pattern(f"have ? in place of {what}", frozenset(p for p, (a, b) in whole.items() if marked[p][index] == b != a))


def _is_beginning(short: str, long: str) -> bool:
    """Return whether one text is the other's beginning, and what follows is more than blanks."""
    known = SHORTENED.sub("", long)
    return 0 < len(short) < len(long) and not SHORTENED.search(short) and known.startswith(short) and bool(long[len(short) :].strip())


def _cut_phrase(pairs: Sequence[tuple[str, str]]) -> str:
    lengths = {len(short) for _, short in pairs}
    lost = {len(long) - len(short) for long, short in pairs if not SHORTENED.search(long)}
    if len(lengths) == 1 and len(lost) > 1:
        return f"are the source's cut to {_characters(lengths.pop())}"
    if len(lost) == 1 and not any(SHORTENED.search(long) for long, _ in pairs):
        return f"lost the source's last {_characters(lost.pop())}".replace("last 1 character", "last character")
    if len(lengths) == 1:
        return f"are the source's cut to {_characters(lengths.pop())}"
    most = max(len(short.encode()) for _, short in pairs)
    if all(len(long[: len(short) + 1].encode()) > most for long, short in pairs):  # the next character would not have fitted
        return f"are the source's cut to {most:,} bytes"
    return "are only a beginning of the source's"


def _characters(number: int) -> str:
    return f"{number:,} {'character' if number == 1 else 'characters'}"


def fraction_hints(plan: Plan, named: Sequence[Difference]) -> list[str]:
    """Return a sentence for each column of times in which most changed rows differ as if ``fraction`` said the wrong thing."""
    changed = [difference for difference in named if difference.kind == "changed"]
    hints = []
    for column in plan.columns[plan.key :]:
        unit = _last_digit(column)
        alike = sum(_differs_by_unit(difference, column, unit) for difference in changed) if unit else 0
        if 2 * alike > len(changed):
            did, other = ("cut", "cut") if column.kind.rounding else ("round", "rounded")
            hints.append(
                f"{column.name}: {alike:,} of the {len(changed):,} changed rows that were named differ by exactly one unit of the last"
                f" digit that is compared, as if a loader had {other} the source's times: if so, write columns: override:"
                f" {{{column.name}: {{fraction: {did}}}}}"
            )
    return hints


def _last_digit(column: ColumnPlan) -> Fraction | None:
    """Return the seconds of the last digit to which the source's finer times are brought; None for other columns."""
    native, kind = column.native["source"], column.kind
    if column.masked or column.tolerance:
        return None
    if kind.name == "date":
        return Fraction(DAY) if native.name in canonical.TIMESTAMPS and column.native["target"].name == "date" else None
    if kind.name not in canonical.TIMESTAMPS | {"time"} or kind.scale is None or native.name == "date":
        return None
    return Fraction(1, 10**kind.scale) if native.scale is None or native.scale > kind.scale else None


def _differs_by_unit(difference: Difference, column: ColumnPlan, unit: Fraction) -> bool:
    """Return whether a row's value was rounded up for the comparison and is one unit less in the target, or was cut and is one more."""
    for values in difference.columns:
        if values.name == column.name and values.source is not None and values.target is not None:
            source, target = (tolerance.exact_value(column.kind, text) for text in (values.source, values.target))
            if source is not None and target is not None:
                return abs(source) - abs(target) == (unit if column.kind.rounding else -unit)
    return False
