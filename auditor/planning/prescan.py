"""Decide whether a run begins with a pre-scan, by what that is expected to cost, and plan the pre-scan.

A pre-scan reads one signature for each stretch of the table: about STRETCHES unions of neighbouring partitions where these are key ranges,
and groups of keys where they are buckets of a hash. Only what differs is then read by the method. Where the keys are
in no groups, as those of masked text, there is no pre-scan: one signature of the whole table saved nothing that was measured.

Of key ranges it reads a digest instead where `find_digest_rows` finds that it can: one hash of the texts of many rows, in the order of the
key. Then a stretch has about as many rows as one hash should cover.

A table whose primary key is no single dense integer is cut into stretches of neighbouring keys, so that a digest of each can be read. They
are ranges of the key's first column: of whole numbers, or of texts of hexadecimal digits in one form, UUIDs among them, which have the same
order under every collation. The least and the greatest key, which an index yields at once, say where to cut, and what each server's planner
expects in the ranges says whether the keys are spread evenly enough. Where both sides' keys are in different orders after all, digests of
equal rows differ, and the method reads them: that only takes time.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import mean
from typing import cast

from auditor.config import Audit
from auditor.connections.reader import Reader
from auditor.model import SIDES, Chunk, ColumnPlan, Method, Partitioning, Plan, Prescan, Side
from auditor.planning.chunks import chunks_of_digests
from auditor.planning.columns import Endpoint
from auditor.sql.key_number import count_groups
from auditor.sql.prescan import key_crossings, key_ends, most_bytes, read_stretches
from auditor.summary.key_number import forms
from dialects import Dialect, Session

STRETCHES = 64
"""About how many stretches the key ranges of a run are joined to."""

MAX_PARTITIONS = 1 << 20
"""Partitions above which a key's range is not pre-scanned: each partition of an equal stretch is listed, with rows or without."""

LAST_RUNS = 3
"""Number of latest runs from which it is estimated how much will be read again."""

LEAST_ROWS = 10_000
"""Tables with fewer rows are read by the method at once: the statements cost more than the rows."""

COST = {
    "exact": {"digests": 0.5, "range": 0.9, "numbered hash": 0.9, "hash": 0.65},
    "signature": {"digests": 0.55, "range": 1.0, "numbered hash": 0.95, "hash": 0.85},
}
"""Cost of a pre-scan as a multiple of a scan by the method, by method and strategy of partitions; "numbered" where each column of the key
is a whole number or a date. Measured by `benchmarks/ratios.py` as CPU time on MariaDB, MySQL and PostgreSQL, and rounded up to the most
expensive: of exact, digests 0.32 to 0.45, numbered hash 0.59 to 0.89 and others 0.60 to 0.65; of signature 0.40 to 0.51, 0.86 to 0.97
and 0.68 to 0.83. Those of ranges without digests were measured on the stand-in for Redshift and DuckDB as well. A pre-scan spends
nothing on positions and power sums; of the signatures of ranges it spares nothing."""

AIM_ROWS = 1 << 14
"""Rows of a stretch where nothing asks for fewer: about 64 stretches of a million rows."""

LEAST_DIGEST_ROWS = 1_000
"""Rows of a stretch below which each row is hashed on its own."""

ROOM = 1.25
"""How many times more rows than expected a stretch may hold before it is left to the method."""

KEYS = 1 << 62
"""Integers from which on the end of a stretch might not fit into 64 bits."""

CUT_STRETCHES = 64
"""Stretches of a table: on MySQL each adds to the length of the statement."""

MOST_IN_LARGE = 0.1
"""Share of a table's rows that may lie in stretches of more rows than are hashed as one."""

ORDERED_KINDS = frozenset({"integer", "decimal", "year", "date", "timestamp"})
"""Kinds whose values every engine has in the same order, which the further columns of a key must have."""

PLAIN_TEXT = re.compile(r"(text|varchar|char|character|character varying)\b", re.ASCII)
"""Native types of text that an index yields in its order when compared with a literal: citext is none of them."""

NO_STRETCHES = "the table has no parts, larger than its buckets, of which a signature could be read first"
"""Why a table whose partitions are buckets of a hash has no pre-scan."""

DIGITS = re.compile(r"[0-9a-f]+(-[0-9a-f]+)*", re.ASCII)
UUID_HYPHENS = (8, 13, 18, 23)


def decide(
    plan: Plan,
    audit: Audit,
    unequal_shares: Sequence[float],
    found_by: Method | None = None,
    tables: Mapping[Side, Endpoint] | None = None,
) -> Prescan:
    """Return whether a run by a finished plan begins with a pre-scan, and why.

    ``unequal_shares`` are the shares of partitions (0 to 1) that differed in earlier runs, the latest last; ``found_by`` is the method
    of a ladder's earlier level that found a difference in this run. Stretches have digests only if ``tables`` describes both tables.
    """
    digest_rows, partitions = find_digest_rows(plan, tables) if tables else (0, 0)
    if obstacle := _find_obstacle(plan, digest_rows):
        return Prescan(used=False, why=obstacle)
    is_hash = plan.partitioning.strategy == "hash"
    groups = count_groups(plan) if tables and is_hash else 0
    if is_hash and not groups and not (tables and _is_ordered(plan, tables)):  # whose cuts may be stretches
        return Prescan(used=False, why=NO_STRETCHES)
    hashes_bytes = tables is not None and all(end.dialect.hashes.MAX_JOINED_BYTES for end in tables.values())
    partitions = partitions or partitions_per_stretch(plan)
    prescan = Prescan(used=False, why="", partitions=partitions, digest_rows=digest_rows, hashes_bytes=hashes_bytes, groups=groups)
    if audit.prescan is not None:
        return replace(prescan, used=audit.prescan, why="the audit says so")
    used, why = _weigh(plan, unequal_shares[-LAST_RUNS:], prescan, found_by)
    return replace(prescan, used=used, why=why)


def plan_of_stretches(plan: Plan) -> Plan:
    """Return the plan that reads one signature, or one digest, for each stretch of what ``plan`` reads."""
    how, prescan = plan.partitioning, plan.prescan or Prescan(used=True, why="", partitions=1)
    if how.strategy == "range":
        how = replace(how, size=how.size * prescan.partitions)
    elif how.strategy == "hash":
        how = Partitioning(strategy="group")
    stretches = replace(plan, method="signature", t=0, partitioning=how)
    if not prescan.digest_rows:
        return replace(stretches, joins_words=True, hashes_bytes=prescan.hashes_bytes)
    if prescan.cuts:  # a stretch has to be in one chunk, and a primary key is never NULL
        sides = {side: replace(here, chunks=(Chunk(),), chunk_keys=0) for side, here in plan.sides.items()}
    else:
        sides = {side: chunks_of_digests(here, STRETCHES * how.size) for side, here in plan.sides.items()}
    return replace(stretches, sides=sides, digest_rows=prescan.digest_rows)


def partitions_per_stretch(plan: Plan) -> int:
    """Return how many key ranges are one stretch whose signature is read; 0 if partitions are no key ranges."""
    if plan.partitioning.strategy != "range":
        return 0
    if plan.partition_ranges:
        partitions = sum(end - first for first, end in plan.partition_ranges)
    else:
        partitions = plan.span // plan.partitioning.size + 1
    return max(1, math.ceil(partitions / STRETCHES))


def _find_obstacle(plan: Plan, digest_rows: int) -> str:
    """Return why stretches cannot be read first, whatever it would cost; empty if they can."""
    if plan.queries:
        return "a side is a query, which would run as a whole for each part that is read"
    if plan.method not in ("signature", "exact"):
        return f"the method {plan.method} compares more than signatures"
    if plan.encoding == "published":
        return "the published encoding compares partition by partition"
    if plan.k:
        return "minhashes are compared partition by partition"
    if plan.bits > 60 and not digest_rows:
        return f"the signature of a part of the table has 60 bits, and bits is {plan.bits}"
    if plan.watermark and plan.partitioning.strategy == "hash":
        return "what is left out as in flight is followed bucket by bucket"
    if plan.partitioning.strategy == "range" and plan.span // plan.partitioning.size >= MAX_PARTITIONS:
        return f"the keys' range has more than {MAX_PARTITIONS:,} partitions, which would all be listed"
    if plan.partitioning.strategy == "time":
        return "a signature of each partition by time costs nearly as much as a scan"
    if plan.snapshot == "per_chunk":
        return "each chunk reads a snapshot of its own, so what differs could not be read again as it was"
    return ""


def _weigh(plan: Plan, shares: Sequence[float], prescan: Prescan, found_by: Method | None) -> tuple[bool, str]:
    """Return whether a pre-scan is expected to cost less than it saves, and why."""
    rows = max((plan.sides[side].estimate or 0) for side in SIDES)
    if rows < LEAST_ROWS:
        return False, f"about {rows:,} rows are read at once"
    if found_by:
        return False, f"the method {found_by} has found a difference in this run"
    cost = cost_of(plan, prescan)
    if cost >= 1:
        return False, "the signature of each partition costs no more than that of a part of the table"
    again = mean(share_read_again(share, prescan, plan.partitioning.buckets) for share in shares) if shares else 0.0
    runs = "last run" if len(shares) == 1 else f"last {len(shares)} runs"
    if not shares:
        return True, "no earlier run is known to have found a difference"
    if not again:
        return True, f"no partition differed in the {runs}"
    weighed = f"by the {runs} about {again:.0%} of a scan would be repeated, and {1 - cost:.0%} of one is saved"
    return again < 1 - cost, weighed


def cost_of(plan: Plan, prescan: Prescan) -> float:
    """Return what a pre-scan costs, as a multiple of a scan by the method signature or exact."""
    return COST[plan.method]["digests" if prescan.digest_rows else _priced_strategy(plan)]


def _priced_strategy(plan: Plan) -> str:
    """Return the key of COST for a plan's partitions."""
    shapes, strategy = forms(plan), plan.partitioning.strategy
    return "numbered hash" if strategy == "hash" and shapes and "uuid" not in shapes else strategy


def share_read_again(unequal: float, prescan: Prescan, buckets: int) -> float:
    """Return the share of a table that lies in unequal stretches if this share of its partitions differs, scattered evenly."""
    if prescan.partitions:
        return 1 - (1 - unequal) ** prescan.partitions
    if not prescan.groups or unequal >= 1:  # a key that is still to be cut
        return 1.0 if unequal else 0.0
    rows = -buckets * math.log1p(-unequal)  # so many, in a bucket each or several in one, leave this share of buckets without any
    return float(1 - (1 - 1 / prescan.groups) ** rows)


def find_digest_rows(plan: Plan, ends: Mapping[Side, Endpoint]) -> tuple[int, int]:
    """Return the most rows whose texts are hashed as one, and the partitions of such a stretch; zeros where stretches have no digests.

    They have one where both tables have the audit's integer key as their primary key, so that an index yields the rows in its order, and
    where the columns' types, or a limit that costs little, say how long the texts of so many rows can be.
    """
    if plan.partitioning.strategy != "range" or not has_primary_key(plan, ends):
        return 0, 0
    if {native.name for native in plan.columns[0].native.values()} != {"integer"}:
        return 0, 0
    if plan.least is None or plan.greatest is None or not -KEYS < plan.least <= plan.greatest < KEYS:
        return 0, 0
    most = most_joined_rows(plan, ends)
    partitions = int(min(AIM_ROWS, most / ROOM) // plan.rows_per_partition)
    return (most, partitions) if partitions and most >= LEAST_DIGEST_ROWS else (0, 0)


def has_primary_key(plan: Plan, ends: Mapping[Side, Endpoint]) -> bool:
    """Return whether the audit's key is the primary key of both tables, column by column, and its index yields all rows in its order."""
    if set(plan.read_sides) != set(SIDES):
        return False
    keys = {side: [column.expression[side] for column in plan.key_columns] for side in SIDES}
    return all(
        keys[side] == [end.dialect.names.quote(name) for name in end.table.primary_key] and end.table.yields_in_order
        for side, end in ends.items()
    )


def most_joined_rows(plan: Plan, ends: Mapping[Side, Endpoint]) -> int:
    """Return the most rows whose texts both engines hash as one; 0 where the columns' types do not say how long these can be."""
    most = AIM_ROWS * 4
    for side in SIDES:
        row = most_bytes(plan.columns, side, plan.salt)
        if row is None:
            return 0
        most = min(most, ends[side].dialect.hashes.MAX_JOINED_BYTES // row)
    return most


def cut_by_key(reader: Reader, plan: Plan, prescan: Prescan, tables: Mapping[Side, Endpoint]) -> Prescan:
    """Return the pre-scan with the cuts of a table's key and digests of the stretches between; as it is where it is better so.

    Without cuts there is none of a table whose keys are in no groups.
    """
    if not prescan.used or plan.partitioning.strategy != "hash" or not _is_ordered(plan, tables):
        return prescan
    cut = _cut(reader, plan, prescan, tables)
    return cut or (prescan if prescan.groups else Prescan(used=False, why=NO_STRETCHES))


def _cut(reader: Reader, plan: Plan, prescan: Prescan, tables: Mapping[Side, Endpoint]) -> Prescan | None:
    """Return the pre-scan with the cuts of a table's key; None where it cannot be cut into stretches of few rows."""
    most = most_joined_rows(plan, tables)
    rows = max((plan.sides[side].estimate or 0) for side in SIDES)
    if most < LEAST_DIGEST_ROWS or rows * ROOM > most * CUT_STRETCHES:
        return None
    ends = reader.ask_each(lambda side, session: read_ends(plan, side, session))
    cuts = place_cuts(plan, {side: tables[side].dialect for side in SIDES}, ends)
    if not cuts:
        return None
    cut = replace(prescan, cuts=cuts, digest_rows=most, groups=len(cuts["source"]) - 1)
    if not all(reader.ask_each(lambda side, session: ascends(replace(plan, prescan=cut), side, session)).values()):
        return None
    expected = reader.ask_each(lambda side, session: _estimate_rows(replace(plan, prescan=cut), side, session))
    return cut if all(is_even(rows, most) for rows in expected.values()) else None


def _is_ordered(plan: Plan, tables: Mapping[Side, Endpoint]) -> bool:
    """Return whether an index of both sides yields the rows in the order of the audit's key, which is the same on both."""
    first, *others = plan.key_columns
    if any(column.masked or column.trim or column.case or column.null_as is not None for column in plan.key_columns):
        return False
    if not has_primary_key(plan, tables) or any(" domain of " in column.types[side] for column in plan.key_columns for side in SIDES):
        return False
    if not all(native.name in ORDERED_KINDS for column in others for native in column.native.values()):
        return False
    return all(can_be_cut(first, side, tables[side].dialect) for side in SIDES)


def can_be_cut(column: ColumnPlan, side: Side, dialect: Dialect) -> bool:
    """Return whether a table can be cut by ranges of this first column of its key, as an index of this side yields it in order."""
    native = column.native[side]
    if _is_whole(column):
        return True
    if native.name in ("text", "char"):
        return bool(PLAIN_TEXT.match(column.types[side])) and (native.name == "text" or bool(native.digits))
    return native.name == "binary" or (native.name == "uuid" and dialect.types.ORDERS_UUIDS)


def _is_whole(column: ColumnPlan) -> bool:
    return {native.name for native in column.native.values()} == {"integer"}


def read_ends(plan: Plan, side: Side, session: Session) -> tuple[str, str] | None:
    """Return the least and the greatest key's first column, as text; None of a table without rows."""
    statement = key_ends(plan, side, session.dialect, is_text=not _is_whole(plan.columns[0]))
    least, greatest = session.query_row(statement)
    return None if least is None or greatest is None else (str(least), str(greatest))


def ascends(plan: Plan, side: Side, session: Session) -> bool:
    """Return whether each row is in one stretch, because none is from a cut on and before an earlier one, by the column's own comparison.

    Some collations order digits by the numbers that they denote, or after letters.
    """
    return not session.query(key_crossings(plan, side, session.dialect))


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
        cuts = _cut_evenly(min(numbers), max(numbers)) if max(map(abs, numbers)) < KEYS else []
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
    count = min(CUT_STRETCHES, span)
    return [least + span * number // count for number in range(count + 1)]


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
        literal = dialect.names.binary_literal(bytes.fromhex(digits))
    else:
        text = digits
        for at in UUID_HYPHENS if native.name == "uuid" else hyphens:
            text = f"{text[:at]}-{text[at:]}"
        literal = dialect.names.string_literal(text)
    return dialect.types.typed_value(literal, native) if dialect.HAS_LATERAL else literal


def _estimate_rows(plan: Plan, side: Side, session: Session) -> list[int]:
    """Return how many rows the server's planner expects in each stretch; empty if it does not say."""
    statements = read_stretches(plan, side, session.dialect)
    return session.dialect.server.estimate_each(session, statements)


def is_even(rows: Sequence[int], most: int) -> bool:
    """Return whether few of the rows, expected in each stretch, lie in stretches of more than ``most``; False if nothing is expected."""
    return bool(rows) and sum(some for some in rows if some > most) <= MOST_IN_LARGE * sum(rows)
