"""Salted digests, which stand for the values of masked key columns in what is stored of a run.

Values of other masked columns never enter a report. A digest distinguishes the rows of a store and finds a row again in a later run. Its
salt is stored beside it: a reader of the store sees no value and can compare none with those of another store, but can confirm a value
that they guess.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Callable, Mapping
from dataclasses import replace

from auditor.history.left_out import Key, LeftOut
from auditor.masking import MASK
from auditor.model import Difference, Plan, RangeDifference, Report

Digest = Callable[[str], str]
"""Returns what is stored in place of a masked value."""

DIGITS = 16
"""Hexadecimal digits of a digest: among 10,000 rows, two have the same one with a chance of 1 in 10^11."""


def salted(salt: bytes) -> Digest:
    """Return the digest with a store's salt: the mask, and digits of an HMAC-SHA-256.

    A text that is a digest, or the mask alone, stays as it is.
    """

    def digest(value: str) -> str:
        if re.fullmatch(rf"{re.escape(MASK)}([0-9a-f]{{{DIGITS}}})?", value):
            return value
        return MASK + hmac.new(salt, value.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()[:DIGITS]

    return digest


not_stored = salted(secrets.token_bytes(32))
"""The digest of runs that are not stored, whose salt ends with the process."""


def hide_key(key: Key, plan: Plan, digest: Digest) -> Key:
    """Return a key with the digests of its masked columns; NULL stays NULL."""
    return tuple(digest(text) if column.masked and text is not None else text for column, text in zip(plan.key_columns, key, strict=True))


def hide_left_out(left_out: LeftOut, plan: Plan, digest: Digest) -> LeftOut:
    """Return what was left out, with the digests of masked columns of the keys."""
    return replace(left_out, rows={hide_key(key, plan, digest): row for key, row in left_out.rows.items()})


def hide_report(report: Report, digest: Digest) -> Report:
    """Return a report as it is stored: with the digests of masked columns in its keys, and without ranges of masked keys."""
    plan = report.plan
    masked = frozenset(column.name for column in plan.key_columns if column.masked) if plan else frozenset[str]()
    if not masked:
        return report
    overdue = tuple(replace(row, key=_hide_names(row.key, masked, digest)) for row in report.overdue)
    differences = report.differences
    if differences:
        named: tuple[Difference, ...] = tuple(
            replace(difference, key=_hide_names(difference.key, masked, digest)) for difference in differences.named
        )
        ranges: tuple[RangeDifference, ...] = tuple(replace(span, first=None, last=None) for span in differences.ranges)
        differences = replace(differences, named=named, ranges=ranges)
    live = report.live
    if live:
        live = replace(live, lost=tuple(replace(lost, key=_hide_names(lost.key, masked, digest)) for lost in live.lost))
    return replace(report, overdue=overdue, differences=differences, live=live)


def _hide_names(key: Mapping[str, str | None], masked: frozenset[str], digest: Digest) -> dict[str, str | None]:
    return {name: digest(text) if name in masked and text is not None else text for name, text in key.items()}
