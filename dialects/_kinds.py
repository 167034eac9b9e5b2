"""Canonical kinds: what a column's values are, whatever an engine calls their type."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Kind:
    """A canonical kind: equal values of one kind have equal canonical text on every engine.

    ``digits`` is the precision of a decimal (all its digits), the bits of a bit string, the width of a fixed-width text or
    the bytes of a fixed-width binary. ``scale`` is the number of digits behind the point: of a decimal or rounded number,
    or of the seconds of a time or timestamp. ``unsigned`` marks integers that may exceed a signed 64-bit integer.
    """

    name: str
    digits: int | None = None
    scale: int | None = None
    unsigned: bool = False

    def __str__(self) -> str:
        inside = [str(n) for n in (self.digits, self.scale) if n is not None]
        return ("unsigned " if self.unsigned else "") + self.name + (f"({','.join(inside)})" if inside else "")

    @property
    def is_free_text(self) -> bool:
        """Whether canonical text of this kind may hold any character, so that the row encoding has to escape it."""
        return self.name in FREE_TEXT


FREE_TEXT = frozenset({"text", "char", "enum", "set", "json"})
"""Kinds whose canonical text may hold the row encoding's separator or its escape character."""

NAMES = frozenset(
    {"boolean", "integer", "decimal", "rounded", "float32", "float64", "binary", "date", "time", "timestamp", "timestamptz",
     "uuid", "bit", "year", "interval"}
) | FREE_TEXT  # fmt: skip
"""Every kind there is."""

_NATIVE = re.compile(r"\s*([a-z_][a-z_0-9 ]*)(?:\(([\d, -]*)\))?([a-z_ ]*)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class NativeType:
    """A native type, taken apart: ``decimal(10,2) unsigned`` is name ``decimal``, numbers (10, 2), suffix ``unsigned``."""

    name: str
    numbers: tuple[int, ...]
    suffix: str

    def number(self, index: int, default: int) -> int:
        """The number at ``index`` between the brackets, or ``default`` where it is not written."""
        return self.numbers[index] if index < len(self.numbers) else default


def parse_native(text: str) -> NativeType | None:
    """Take a native type apart; None where it has no simple form (``array<...>``, ``struct<...>``)."""
    match = _NATIVE.fullmatch(text.lower())
    if match is None:
        return None
    name, inside, suffix = match.groups()
    return NativeType(name.strip(), tuple(int(n) for n in re.findall(r"-?\d+", inside or "")), suffix.strip())
