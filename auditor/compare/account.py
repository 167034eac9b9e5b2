"""Rows of named keys to differences, and the proof that they explain what differs in their partition."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from auditor.model import SIDES, ColumnDifference, Difference, DifferenceKind, Side

Key = tuple[str | None, ...]
"""The canonical texts of a key's columns."""

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


def differences(rows: Mapping[Side, Iterable[Row]], names: Sequence[str], others: Sequence[str], masked: set[str]) -> list[Difference]:
    """The keys whose rows are not equal, in the order of the source's rows, then the target's.

    ``names`` are the key's columns, ``others`` those whose texts the rows hold. Rows of one key are compared as multisets, so
    that a row loaded twice is an extra one.
    """
    by_key: dict[Key, dict[Side, list[Row]]] = defaultdict(lambda: {side: [] for side in SIDES})
    for side in SIDES:
        for row in rows[side]:
            by_key[row.key][side].append(row)
    found = []
    for key, here in by_key.items():
        over = _over(here)
        if not over["source"] and not over["target"]:
            continue
        kind: DifferenceKind = "changed" if over["source"] and over["target"] else "missing" if over["source"] else "extra"
        columns = _columns(over, others, masked) if kind == "changed" else ()
        counted = {side: len(over[side]) for side in SIDES}
        found.append(Difference(kind=kind, key=dict(zip(names, key, strict=True)), rows=counted, columns=columns))
    return found


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


def _columns(over: Mapping[Side, Sequence[Row]], names: Sequence[str], masked: set[str]) -> tuple[ColumnDifference, ...]:
    """The columns in which a changed row's two versions differ; of several rows of one key, the first of each side."""
    source, target = over["source"][0].texts, over["target"][0].texts
    return tuple(
        ColumnDifference(name, *((MASK, MASK) if name in masked else (mine, other)))
        for name, mine, other in zip(names, source, target, strict=False)
        if mine != other
    )
