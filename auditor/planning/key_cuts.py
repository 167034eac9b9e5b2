"""Cut a table whose primary key is no single dense integer into stretches of neighbouring keys, so that a pre-scan reads a digest of each.

The stretches are ranges of the key's first column: of whole numbers, or of texts of hexadecimal digits in one form, UUIDs among them, which
have the same order under every collation. The least and the greatest key, which an index yields at once, say where to cut, and what each
server's planner expects in the ranges says whether the keys are spread evenly enough.

Where both sides' keys are in different orders after all, digests of equal rows differ, and the method reads them: that only takes time.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import cast

from auditor.connections.reader import Reader
from auditor.model import SIDES, ColumnPlan, Plan, Prescan, Side
from auditor.planning.columns import Endpoint
from auditor.planning.digests import KEYS, LEAST_ROWS, ROOM, has_primary_key, most_joined_rows
from auditor.sql import key_ranges
from dialects import Dialect, Session

STRETCHES = 64
"""Stretches of a table: on MySQL each adds to the length of the statement."""

MOST_IN_LARGE = 0.1
"""Share of a table's rows that may lie in stretches of more rows than are hashed as one."""

ORDERED_KINDS = frozenset({"integer", "decimal", "year", "date", "timestamp"})
"""Kinds whose values every engine has in the same order, which the further columns of a key must have."""

WHOLE_KINDS = frozenset({"integer", "year"})

BEFORE_YEARS, LAST_YEAR = 1900, 2155
"""The years of MySQL's YEAR are 0 and those between, which alone it compares with its columns as they are written: 31 beside one means
2031, and what is beyond the last means something else on each server. https://dev.mysql.com/doc/refman/9.4/en/year.html"""

PLAIN_TEXT = re.compile(r"(text|varchar|char|character|character varying)\b", re.ASCII)
"""Native types of text that an index yields in its order when compared with a literal: citext is none of them."""

DIGITS = re.compile(r"[0-9a-f]+(-[0-9a-f]+)*", re.ASCII)
UUID_HYPHENS = (8, 13, 18, 23)


def cut_by_key(reader: Reader, plan: Plan, prescan: Prescan, tables: Mapping[Side, Endpoint]) -> Prescan:
    """Return the pre-scan with the cuts of a table's key and digests of the stretches between; as it is where it is better so."""
    if not prescan.used or plan.partitioning.strategy != "hash" or not _is_ordered(plan, tables):
        return prescan
    most = most_joined_rows(plan, tables)
    rows = max((plan.sides[side].estimate or 0) for side in SIDES)
    if most < LEAST_ROWS or rows * ROOM > most * STRETCHES:
        return prescan
    ends = reader.ask_each(lambda side, session: read_ends(plan, side, session))
    cuts = place_cuts(plan, {side: tables[side].dialect for side in SIDES}, ends)
    if not cuts:
        return prescan
    cut = replace(prescan, cuts=cuts, digest_rows=most, groups=len(cuts["source"]) - 1)
    if not all(reader.ask_each(lambda side, session: ascends(replace(plan, prescan=cut), side, session)).values()):
        return prescan
    expected = reader.ask_each(lambda side, session: _estimate_rows(replace(plan, prescan=cut), side, session))
    return cut if all(_is_even(rows, most) for rows in expected.values()) else prescan


def _is_ordered(plan: Plan, tables: Mapping[Side, Endpoint]) -> bool:
    """Return whether an index of both sides yields the rows in the order of the audit's key, which is the same on both."""
    first, *others = plan.key_columns
    if any(column.masked or column.trim or column.case or column.null_as is not None for column in plan.key_columns):
        return False
    if not has_primary_key(plan, tables) or any(" domain of " in column.types[side] for column in plan.key_columns for side in SIDES):
        return False
    if not all(native.name in ORDERED_KINDS for column in others for native in column.native.values()):
        return False
    return all(_is_cut(first, side, tables[side].dialect) for side in SIDES)


def _is_cut(column: ColumnPlan, side: Side, dialect: Dialect) -> bool:
    native = column.native[side]
    if _is_whole(column):
        return native.name != "year" or not native.digits
    if native.name in ("text", "char"):
        return bool(PLAIN_TEXT.match(column.types[side])) and (native.name == "text" or bool(native.digits))
    return native.name == "binary" or (native.name == "uuid" and dialect.ORDERS_UUIDS)


def _is_whole(column: ColumnPlan) -> bool:
    return {native.name for native in column.native.values()} <= WHOLE_KINDS


def read_ends(plan: Plan, side: Side, session: Session) -> tuple[str, str] | None:
    """Return the least and the greatest key's first column, as text; None of a table without rows."""
    statement = key_ranges.ends(plan, side, session.dialect, is_text=not _is_whole(plan.columns[0]))
    least, greatest = session.query_row(statement)
    return None if least is None or greatest is None else (str(least), str(greatest))


def ascends(plan: Plan, side: Side, session: Session) -> bool:
    """Return whether each row is in one stretch, because none is from a cut on and before an earlier one, by the column's own comparison.

    Some collations order digits by the numbers that they denote, or after letters.
    """
    return not session.query(key_ranges.crossings(plan, side, session.dialect))


def place_cuts(plan: Plan, dialects: Mapping[Side, Dialect], ends: Mapping[Side, tuple[str, str] | None]) -> dict[Side, tuple[str, ...]]:
    """Return SQL of the first key of each stretch, ascending, and of the end of the last, by side; empty where keys cannot be cut.

    ``ends`` are the least and the greatest value of the key's first column on each side.
    """
    pairs = [pair for pair in ends.values() if pair]
    if len(pairs) < len(SIDES):
        return {}
    column = plan.columns[0]
    if _is_whole(column):
        numbers = [int(end) for pair in pairs for end in pair]
        has_years = any(native.name == "year" for native in column.native.values())
        cut = _cut_years if has_years else _cut_evenly
        cuts = cut(min(numbers), max(numbers)) if max(map(abs, numbers)) < KEYS else []
        return {side: tuple(str(cut) for cut in cuts) for side in SIDES} if cuts else {}
    forms = {side: _form(pair) for side, pair in ends.items() if pair}
    digits = {len(end.replace("-", "")) for pair in pairs for end in pair}
    if len(digits) > 1 or None in forms.values():
        return {}
    count = digits.pop()
    values = [int(end.replace("-", ""), 16) for pair in pairs for end in pair]
    if max(values) + 1 == 16**count:  # whose end has a digit more
        return {}
    texts = [f"{cut:0{count}x}" for cut in _cut_evenly(min(values), max(values))]
    return {
        side: tuple(_literal(column, side, dialects[side], text, cast("tuple[int, ...]", forms[side])) for text in texts) for side in SIDES
    }


def _cut_evenly(least: int, greatest: int) -> list[int]:
    span = greatest - least + 1
    count = min(STRETCHES, span)
    return [least + span * number // count for number in range(count + 1)]


def _cut_years(least: int, greatest: int) -> list[int]:
    """Return cuts that a YEAR holds, evenly over the years that it holds; rows of its last year may lie beyond all."""
    first, last = (0 if year <= BEFORE_YEARS else min(year, LAST_YEAR) - BEFORE_YEARS for year in (least, greatest))
    years = [cut + BEFORE_YEARS if cut else 0 for cut in _cut_evenly(first, last)]
    portable = [year for year in years if year <= LAST_YEAR]
    return portable if len(portable) > 1 else []


def _form(pair: Sequence[str]) -> tuple[int, ...] | None:
    """Return where the hyphens are in two texts of hexadecimal digits; None if these are none, or of different forms."""
    if not all(DIGITS.fullmatch(text) for text in pair):
        return None
    least, greatest = (tuple(at for at, sign in enumerate(text) if sign == "-") for text in pair)
    return least if least == greatest else None


def _literal(column: ColumnPlan, side: Side, dialect: Dialect, digits: str, hyphens: Sequence[int]) -> str:
    """Return SQL of a value of the column with these digits, of the column's own type where a list of values would lose it."""
    native = column.native[side]
    if native.name == "binary":
        literal = dialect.binary_literal(bytes.fromhex(digits))
    else:
        text = digits
        for at in UUID_HYPHENS if native.name == "uuid" else hyphens:
            text = f"{text[:at]}-{text[at:]}"
        literal = dialect.string_literal(text)
    return dialect.typed_value(literal, native) if dialect.HAS_LATERAL else literal


def _estimate_rows(plan: Plan, side: Side, session: Session) -> list[int]:
    """Return how many rows the server's planner expects in each stretch; empty if it does not say."""
    statements = key_ranges.stretches(plan, side, session.dialect)
    return session.dialect.server.estimate_each(session, statements)


def _is_even(rows: Sequence[int], most: int) -> bool:
    return bool(rows) and sum(some for some in rows if some > most) <= MOST_IN_LARGE * sum(rows)
