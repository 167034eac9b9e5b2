"""Differences of fetched rows, and the proof that they account for a partition's whole difference.

The signature of a partition is the sum of its rows' hash words, so the sum over the named rows of (target words - source words) must
equal the signatures' difference in every 30-bit word, and their number that of the row counts. Any further difference would have to
cancel in 60 (or 120) bits.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from auditor.masking import as_shown
from auditor.model import SIDES, ColumnDifference, Difference, DifferenceKind, Side

Key = tuple[str | None, ...]
"""Canonical texts of a key's columns, in key order; None for NULL."""

TextEquality = Callable[[str | None, str | None], bool]
"""Returns whether a column's canonical text on the source and on the target count as equal."""

MAX_MATCHING = 256
"""Rows of one key and side up to which a maximum matching is computed; more rows are paired in the order of their texts."""


@dataclass(frozen=True, slots=True)
class Row:
    """A fetched row."""

    partition: int | None
    """Partition id; None where the key holds a NULL."""
    digits: str
    """Leading hexadecimal digits of the row hash: 15 at 60 bits, 30 at 120 bits."""
    key: Key
    """Canonical texts of the key's columns."""
    texts: Key = ()
    """Canonical texts of the other columns, in plan order; empty if they were not fetched."""
    shard: str = ""
    """The shard that holds it, as reports call it; empty for the target, and for a source of one table."""


def accounts_for(rows: Mapping[Side, Sequence[Row]], words: Sequence[int], count: int) -> bool:
    """Return whether rows account for a partition's difference.

    ``words`` are the differences, target minus source, of the signature's 30-bit word sums, ``count`` that of the row counts.
    """
    sums = [0] * len(words)
    for side, sign in (("target", 1), ("source", -1)):
        for row in rows[side]:  # type: ignore[index]
            for index, word in enumerate(hash_words(row.digits, len(words))):
                sums[index] += sign * word
    return sums == list(words) and len(rows["target"]) - len(rows["source"]) == count


def hash_words(digits: str, count: int) -> list[int]:
    """Return ``count`` 30-bit words of a row hash: two from every 15 hexadecimal digits, the high bits first."""
    halves = [int(digits[start : start + 15], 16) for start in range(0, 15 * (count // 2), 15)]
    return [word for half in halves for word in (half >> 30, half & (1 << 30) - 1)]


def differences(
    rows: Mapping[Side, Iterable[Row]],
    names: Sequence[str],
    others: Sequence[str],
    masked: set[str],
    alike: Mapping[str, TextEquality] | None = None,
) -> list[Difference]:
    """Return the keys whose rows differ, in the order of the source's rows, then the target's.

    ``names`` are the key's columns, ``others`` those whose texts the rows hold. Rows of one key are compared as multisets, so
    that a row loaded twice is an extra one. ``alike`` maps columns with a tolerance, or of documents, to their equality; other texts are
    compared as such.
    """
    result = []
    for key, of_key in _group_by_key(rows).items():
        surplus = _surplus(of_key)
        if not surplus["source"] and not surplus["target"]:
            continue
        kind: DifferenceKind = "changed" if surplus["source"] and surplus["target"] else "missing" if surplus["source"] else "extra"
        columns = _changed_columns(surplus, others, masked, alike or {}) if kind == "changed" else ()
        counts = {side: len(surplus[side]) for side in SIDES}
        hashes = {side: tuple(sorted(row.digits for row in surplus[side])) for side in SIDES}
        shards = tuple(sorted({row.shard for row in of_key["source"]} - {""}))
        named = dict(zip(names, key, strict=True))
        result.append(Difference(kind=kind, key=named, rows=counts, columns=columns, hashes=hashes, shards=shards))
    return result


def merge(parts: Iterable[Difference]) -> list[Difference]:
    """Return one difference for each key of these, which were found in several partitions; rows that are equal after all are left out.

    A merged difference has no columns, because each part saw only one side.
    """
    by_key: dict[Key, list[Difference]] = defaultdict(list)
    for part in parts:
        by_key[tuple(part.key.values())].append(part)
    merged: list[Difference] = []
    for of_key in by_key.values():
        if len(of_key) == 1:
            merged += of_key
            continue
        counts = {side: Counter(digits for part in of_key for digits in part.hashes[side]) for side in SIDES}
        hashes = {side: tuple(sorted((counts[side] - counts[other]).elements())) for side, other in (SIDES, SIDES[::-1])}
        rows = {side: len(hashes[side]) for side in SIDES}
        if any(rows.values()):
            kind: DifferenceKind = "changed" if all(rows.values()) else "missing" if rows["source"] else "extra"
            shards = tuple(sorted({shard for part in of_key for shard in part.shards}))
            merged.append(Difference(kind=kind, key=of_key[0].key, rows=rows, hashes=hashes, shards=shards))
    return merged


def remove_tolerated(
    rows: Mapping[Side, Sequence[Row]], others: Sequence[str], alike: Mapping[str, TextEquality]
) -> tuple[dict[Side, Sequence[Row]], list[tuple[Row, Row]]]:
    """Return the rows without pairs that differ only within tolerances, and these pairs.

    A pair is a source's and a target's row of one key whose texts are equal, or count as equal by ``alike``. Of several rows of one key
    as many as possible are paired; beyond MAX_MATCHING they are paired in the order of their texts.
    """
    pairs: list[tuple[Row, Row]] = []
    for of_key in _group_by_key(rows).values():
        surplus = _surplus(of_key)
        groups: dict[Key, dict[Side, list[Row]]] = defaultdict(lambda: {side: [] for side in SIDES})
        for side in SIDES if surplus["source"] and surplus["target"] else ():
            for row in surplus[side]:
                strict = tuple(text for name, text in zip(others, row.texts, strict=True) if name not in alike)
                groups[strict][side].append(row)
        for group in groups.values():
            pairs += _pair_tolerated(group["source"], group["target"], others, alike)
    paired = {id(row) for pair in pairs for row in pair}
    return {side: [row for row in rows[side] if id(row) not in paired] for side in SIDES}, pairs


def _pair_tolerated(source: list[Row], target: list[Row], names: Sequence[str], alike: Mapping[str, TextEquality]) -> list[tuple[Row, Row]]:
    """Return pairs of rows that count as equal: a maximum matching, by augmenting paths (Berge, 1957)."""

    def agree(a: Row, b: Row) -> bool:
        return all(alike[name](x, y) for name, x, y in zip(names, a.texts, b.texts, strict=True) if name in alike)

    if max(len(source), len(target)) > MAX_MATCHING:
        ordered = (sorted(rows, key=lambda row: [text or "" for text in row.texts]) for rows in (source, target))
        return [(a, b) for a, b in zip(*ordered, strict=False) if agree(a, b)]
    edges = [[j for j, b in enumerate(target) if agree(a, b)] for a in source]
    partner: dict[int, int] = {}  # index of a target's row -> index of its source's row

    def augment(i: int, seen: set[int]) -> bool:
        for j in edges[i]:
            if j not in seen:
                seen.add(j)
                if j not in partner or augment(partner[j], seen):
                    partner[j] = i
                    return True
        return False

    for i in range(len(source)):
        augment(i, set())
    return [(source[i], target[j]) for j, i in partner.items()]


def _group_by_key(rows: Mapping[Side, Iterable[Row]]) -> dict[Key, dict[Side, list[Row]]]:
    by_key: dict[Key, dict[Side, list[Row]]] = defaultdict(lambda: {side: [] for side in SIDES})
    for side in SIDES:
        for row in rows[side]:
            by_key[row.key][side].append(row)
    return by_key


def _surplus(rows: Mapping[Side, Sequence[Row]]) -> dict[Side, list[Row]]:
    """Return for each side the rows of one key beyond those with an equal hash on the other side (multiset difference)."""
    if len(rows["source"]) <= 1 and len(rows["target"]) <= 1:  # as nearly always
        is_equal = [row.digits for row in rows["source"]] == [row.digits for row in rows["target"]]
        return {side: [] if is_equal else list(rows[side]) for side in SIDES}
    counts = {side: Counter(row.digits for row in rows[side]) for side in SIDES}
    surplus: dict[Side, list[Row]] = {}
    for side, other in (SIDES, SIDES[::-1]):
        remaining = counts[side] - counts[other]
        surplus[side] = []
        for row in rows[side]:
            if remaining[row.digits] > 0:
                remaining[row.digits] -= 1
                surplus[side].append(row)
    return surplus


def _changed_columns(
    surplus: Mapping[Side, Sequence[Row]], names: Sequence[str], masked: set[str], alike: Mapping[str, TextEquality]
) -> tuple[ColumnDifference, ...]:
    """Return the columns in which a changed row's two versions differ; of several rows of one key, the first of each side."""
    source, target = surplus["source"][0].texts, surplus["target"][0].texts
    return tuple(
        ColumnDifference(name, as_shown(a, name in masked), as_shown(b, name in masked))
        for name, a, b in zip(names, source, target, strict=False)
        if not (alike[name](a, b) if name in alike else a == b)
    )
