"""How the source's finer times came into a coarser target: as the target's engine stores them, or as the audit's ``fraction`` says."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Literal

from auditor import canonical
from auditor.errors import ColumnRefused
from auditor.model import Side
from dialects import Dialect, Kind

CLOCKS = canonical.TIMESTAMPS | {"time"}
"""Kinds whose seconds have a fraction."""

Fraction = Literal["cut", "round"] | None
"""How a loader shortens times; None for what the target's engine does."""


def with_rounding(kind: Kind, native: Mapping[Side, Kind], target: Dialect, fraction: Fraction) -> Kind:
    """Return the kind with the rounding that brought the source's times into the target; unchanged where none did.

    A kind that is coarser than both columns, as an override or a tolerance can request, is no type that anything was stored in: both
    sides are cut.
    """
    if kind.name == "date":
        shortened, rounds = native["target"].name == "date" and native["source"].name in CLOCKS, target.ROUNDS_TO_DATES
    else:
        kept = kind.scale if kind.name in CLOCKS else None
        shortened = kept is not None and _digits(native["source"]) > kept >= _digits(native["target"])
        rounds = bool(target.TIME_ROUNDING)
    if fraction is not None:
        rounds = fraction == "round"
    return dataclasses.replace(kind, rounding=target.TIME_ROUNDING or "half up") if shortened and rounds else kind


def _digits(native: Kind) -> int:
    """Return the fraction digits of a type's seconds; 0 for a date."""
    if native.name not in CLOCKS:
        return 0
    return 6 if native.scale is None else native.scale


def check_fraction(kind: Kind, name: str, fraction: Fraction) -> None:
    """Raise ColumnRefused for ``fraction`` of a column that is not compared as times or dates."""
    if fraction is not None and kind.name not in CLOCKS | {"date"}:
        raise ColumnRefused(f"column {name!r} is compared as {kind}, which has no fractions of seconds: remove fraction")
