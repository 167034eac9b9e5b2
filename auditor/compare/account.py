"""Rows of named keys to differences, and the proof that they explain what differs in their partition."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from auditor.model import SIDES, ColumnDifference, Difference, DifferenceKind, Side

Key = tuple[str | None, ...]
"""The canonical texts of a key's columns."""

Alike = Callable[[str | None, str | None], bool]
"""Whether a column's text on the source and its text on the target count as equal."""

MATCHED = 256
"""Rows of one key, on one side, up to which as many as possible are paired."""

MASK = "***"
"""What is shown of a masked column's value."""


@dataclass(frozen=True, slots=True)
class Row:
    """One row as fetched: its partition (None: a key with a NULL), the first hexadecimal digits of its hash, its key's texts,
    and the texts of the other columns, if asked for."""

    partition: int | None
    digits: str
    key: Key
    texts: Key = ()


def explains(rows: Mapping[Side, Sequence[Row]], words: Sequence[int], count: int) -> bool:
    """Whether these rows' differences add up to a partition's: target minus source in every 30-bit word and in the count."""
    found = [0] * len(words)
    for side, sign in (("target", 1), ("source", -1)):
        for row in rows[side]:  # type: ignore[index]
            for index, word in enumerate(words_of(row.digits, len(words))):
                found[index] += sign * word
    return found == list(words) and len(rows["target"]) - len(rows["source"]) == count


def words_of(digits: str, count: int) -> list[int]:
    """The 30-bit words of the first digits of a row hash: two of every 15 digits."""
    halves = [int(digits[start : start + 15], 16) for start in range(0, 15 * (count // 2), 15)]
    return [word for half in halves for word in (half >> 30, half & (1 << 30) - 1)]


def differences(
    rows: Mapping[Side, Iterable[Row]],
    names: Sequence[str],
    others: Sequence[str],
    masked: set[str],
    alike: Mapping[str, Alike] | None = None,
) -> list[Difference]:
    """The keys whose rows are not equal, in the order of the source's rows, then the target's.

    ``names`` are the key's columns, ``others`` those whose texts the rows hold. Rows of one key are compared as multisets, so
    that a row loaded twice is an extra one. A changed row's columns are those that are not ``alike``.
    """
    found = []
    for key, here in _by_key(rows).items():
        over = _over(here)
        if not over["source"] and not over["target"]:
            continue
        kind: DifferenceKind = "changed" if over["source"] and over["target"] else "missing" if over["source"] else "extra"
        columns = _columns(over, others, masked, alike or {}) if kind == "changed" else ()
        counted = {side: len(over[side]) for side in SIDES}
        hashes = {side: tuple(sorted(row.digits for row in over[side])) for side in SIDES}
        found.append(Difference(kind=kind, key=dict(zip(names, key, strict=True)), rows=counted, columns=columns, hashes=hashes))
    return found


def forgiven(
    rows: Mapping[Side, Sequence[Row]], others: Sequence[str], alike: Mapping[str, Alike]
) -> tuple[dict[Side, Sequence[Row]], int]:
    """The rows without those pairs, of a source's and a target's row of one key, that differ only in columns that count as equal;
    and how many such pairs there are.

    Of several rows of one key as many as possible are paired; beyond MATCHED they are paired in the order of their texts.
    """
    paired: set[int] = set()
    for here in _by_key(rows).values():
        over = _over(here)
        groups: dict[Key, dict[Side, list[Row]]] = defaultdict(lambda: {side: [] for side in SIDES})
        for side in SIDES if over["source"] and over["target"] else ():
            for row in over[side]:
                strict = tuple(text for name, text in zip(others, row.texts, strict=True) if name not in alike)
                groups[strict][side].append(row)
        for group in groups.values():
            for source, target in _paired(group["source"], group["target"], others, alike):
                paired |= {id(source), id(target)}
    return {side: [row for row in rows[side] if id(row) not in paired] for side in SIDES}, len(paired) // 2


def _paired(source: list[Row], target: list[Row], names: Sequence[str], alike: Mapping[str, Alike]) -> list[tuple[Row, Row]]:
    """Pairs of rows that count as equal: a maximum matching, each row joined by a path of exchanges (Berge, 1957)."""

    def agree(one: Row, other: Row) -> bool:
        return all(alike[name](a, b) for name, a, b in zip(names, one.texts, other.texts, strict=True) if name in alike)

    if max(len(source), len(target)) > MATCHED:
        ordered = (sorted(rows, key=lambda row: [text or "" for text in row.texts]) for rows in (source, target))
        return [(a, b) for a, b in zip(*ordered, strict=False) if agree(a, b)]
    edges = [[j for j, other in enumerate(target) if agree(one, other)] for one in source]
    partner: dict[int, int] = {}  # of a target's row

    def joined(i: int, seen: set[int]) -> bool:
        for j in edges[i]:
            if j not in seen:
                seen.add(j)
                if j not in partner or joined(partner[j], seen):
                    partner[j] = i
                    return True
        return False

    for i in range(len(source)):
        joined(i, set())
    return [(source[i], target[j]) for j, i in partner.items()]


def _by_key(rows: Mapping[Side, Iterable[Row]]) -> dict[Key, dict[Side, list[Row]]]:
    by_key: dict[Key, dict[Side, list[Row]]] = defaultdict(lambda: {side: [] for side in SIDES})
    for side in SIDES:
        for row in rows[side]:
            by_key[row.key][side].append(row)
    return by_key


def _over(here: Mapping[Side, Sequence[Row]]) -> dict[Side, list[Row]]:
    """The rows of one key that the other side has not, each as often as it has it more often."""
    counts = {side: Counter(row.digits for row in here[side]) for side in SIDES}
    over: dict[Side, list[Row]] = {}
    for side, other in (SIDES, SIDES[::-1]):
        left = counts[side] - counts[other]
        over[side] = []
        for row in here[side]:
            if left[row.digits] > 0:
                left[row.digits] -= 1
                over[side].append(row)
    return over


def _columns(
    over: Mapping[Side, Sequence[Row]], names: Sequence[str], masked: set[str], alike: Mapping[str, Alike]
) -> tuple[ColumnDifference, ...]:
    """The columns in which a changed row's two versions differ; of several rows of one key, the first of each side."""
    source, target = over["source"][0].texts, over["target"][0].texts
    return tuple(
        ColumnDifference(name, *((MASK, MASK) if name in masked else (mine, other)))
        for name, mine, other in zip(names, source, target, strict=False)
        if not (alike[name](mine, other) if name in alike else mine == other)
    )
