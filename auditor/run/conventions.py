"""Say of the rows that a side's convention hides which the other side has, and of its keys which have no single latest row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from auditor import canonical
from auditor.compare.accounting import Key
from auditor.connections.reader import Reader
from auditor.model import SIDES, DifferenceKind, Differences, Followed, Plan, Side, Verdict
from auditor.planning.conventions import describe_ties
from auditor.quantities import plural
from auditor.run.fetch import Fetcher
from auditor.run.findings import Findings
from dialects import Session

MOST_KEYS = 10_000
"""Keys of rows on one side only that are looked for among the hidden rows of the other."""

MOST_NAMED = 5
"""Keys that a sentence names."""

ONE_SIDED: dict[Side, DifferenceKind] = {"target": "missing", "source": "extra"}
"""What a row is, by the side that hides it, if the other side has it."""


def describe_conventions(reader: Reader, plan: Plan, findings: Findings, *, compares_all: bool) -> tuple[str, ...]:
    """Return sentences of each side whose convention hides rows: how many, how many of them the other side has, and ties of versions.

    Both numbers are measured: the rows when the plan was made, and of the rows that the run found on the other side only, those whose key
    the side holds as a hidden row now. ``compares_all`` is whether the run compared the whole table.
    """
    sentences = [_describe_side(reader, plan, findings, side, compares_all) for side in SIDES]
    sentences += [describe_ties(side, follows) for side in SIDES if (follows := plan.sides[side].follows)]
    return tuple(sentence for sentence in sentences if sentence)


def _describe_side(reader: Reader, plan: Plan, findings: Findings, side: Side, compares_all: bool) -> str:
    follows = plan.sides[side].follows
    hidden = _count_hidden(follows) if follows else 0
    if follows is None or not hidden:
        return ""
    other = "source" if side == "target" else "target"
    what = f"flagged as deleted ({follows.flagged_by})" if follows.flagged else f"not current ({follows.current_by})"
    begin = f"{plural(hidden, f'row of the {side} is', f'rows of the {side} are')} {what}"
    within = "" if compares_all else " among the rows that were compared"
    if findings.differences is None:
        if findings.verdict is Verdict.MATCH and not findings.comparison.unequal and plan.method != "counts":
            return f"{begin}, and the {other} has none of them{within}"
        return f"{begin}; which of them the {other} has is not known, as the method {plan.method} names no rows"
    keys, is_complete = _one_sided_keys(reader, plan, findings.differences, side)
    found = _find_hidden(reader, plan, follows, side, keys)
    if not found and is_complete:
        return f"{begin}, and the {other} has none of them{within}"
    least = "" if is_complete else "at least "
    return f"{begin}; the {other} has {least}{len(found):,} of them{within}{_named(plan, [key for key in keys if key in found])}"


def _count_hidden(follows: Followed) -> int:
    """Return how many rows are flagged, or are not current where none can be flagged; 0 where only older versions are hidden."""
    if follows.flagged:
        return follows.flagged_rows or 0
    return 0 if follows.by_version else follows.not_current_rows or 0


def _one_sided_keys(reader: Reader, plan: Plan, differences: Differences, side: Side) -> tuple[list[Key], bool]:
    """Return the keys of rows that only the other side has, at most MOST_KEYS, and whether these are all."""
    kind, other = ONE_SIDED[side], "source" if side == "target" else "target"
    keys: list[Key] = [tuple(difference.key.values()) for difference in differences.named if difference.kind == kind]
    counted = sum(difference.row_count for difference in differences.named if difference.kind == kind)
    for span in (span for span in differences.ranges if span.kind == kind):
        if len(keys) + span.rows > MOST_KEYS:
            continue
        counted += span.rows

        def of_range(place: Side, session: Session) -> list[Key]:
            return [row.key for row in Fetcher(plan, place, session, 0).of_range(span)]  # noqa: B023 - asked at once

        each = reader.ask_source(of_range) if other == "source" else [reader.ask_side("target", of_range)]
        keys += [key for part in each for key in part]
    total = differences.missing if kind == "missing" else differences.extra
    return keys[:MOST_KEYS], differences.exact and counted >= total and len(keys) <= MOST_KEYS


def _find_hidden(reader: Reader, plan: Plan, follows: Followed, side: Side, keys: Sequence[Key]) -> set[Key]:
    """Return those of the keys that a side holds as hidden rows now."""
    if not keys:
        return set()
    here = replace(plan.sides[side], where=follows.hidden, settled="")
    hidden = replace(plan, sides={**plan.sides, side: here})

    def ask(place: Side, session: Session) -> set[Key]:
        return {row.key for row, _ in Fetcher(hidden, place, session, 0).by_canonical_key(keys)}

    return reader.ask_side(side, ask)


def _named(plan: Plan, keys: Sequence[Key]) -> str:
    """Return the first keys for a person; empty where there are none, or they are masked."""
    if not keys or any(column.masked for column in plan.key_columns):
        return ""
    shown = list(_shown(plan, keys[:MOST_NAMED]))
    return f" ({'key' if len(keys) == 1 else 'keys'} {', '.join(shown)}{', ...' if len(keys) > MOST_NAMED else ''})"


def _shown(plan: Plan, keys: Sequence[Key]) -> Iterator[str]:
    for key in keys:
        texts = [canonical.readable(column.kind, text) or "NULL" for column, text in zip(plan.key_columns, key, strict=True)]
        yield texts[0] if len(texts) == 1 else f"({', '.join(texts)})"
