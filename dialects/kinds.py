"""Canonical kinds: what the values of a column are, independent of the engine's type names."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal

Rounding = Literal["", "half up", "half from 1970", "half from 2000"]
"""How a time loses digits: they are cut (empty); rounded, a half up; or rounded, a half away from the beginning of a year, as an engine
does that counts from there."""


UTF8_BYTES = 4
"""The most bytes of a character in UTF-8."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A canonical kind: equal values of one kind have equal canonical text on every engine.

    ``name`` is one of KIND_NAMES. ``digits`` is the precision of a decimal (all its digits), the number of bits of a bit string, the
    width of a fixed-width text or the number of bytes of a fixed-width binary. ``scale`` is the number of digits after the point: of
    a decimal or rounded number, or of the seconds of a time or timestamp. ``unsigned`` marks integers that may exceed a signed 64-bit
    integer. ``rounding`` says how a finer time is brought to ``scale``, or a timestamp to a date. None means that the type does not state
    the number. ``members`` are the fields of a struct, or the nameless element of an array, of a column whose kind is ``nested``; such a
    column is compared as ``json``.

    ``utf8``, ``short``, ``bytes`` and ``zero_filled`` are facts of a stored column that its catalogue states, and make no difference
    between kinds: its text is UTF-8 already; no value is longer than 64 KB, so that no text built from one is too long for its server; the
    most bytes that a value has (None: not known); and its numbers are printed with zeros before them.

    ``form`` is of JSON documents. Of a column: ``printed`` if its keys are stored in one order, as MySQL and PostgreSQL's jsonb do, and
    ``ordered`` if the engine can bring them to it. Of a comparison: ``printed`` if both sides yield that form, a blank after each comma and
    colon; ``text`` if they keep the order of their keys; empty for documents without blanks.
    """

    name: str
    digits: int | None = None
    scale: int | None = None
    unsigned: bool = False
    rounding: Rounding = ""
    members: tuple[tuple[str, Kind], ...] = ()
    form: Literal["", "printed", "ordered", "text"] = ""
    utf8: bool = field(default=False, compare=False)
    short: bool = field(default=False, compare=False)
    bytes: int | None = field(default=None, compare=False)
    zero_filled: bool = field(default=False, compare=False)

    def __str__(self) -> str:
        inside = [str(n) for n in (self.digits, self.scale) if n is not None]
        rounded = f" rounded {self.rounding}" if self.rounding else ""
        as_form = f" as {self.form}" if self.form in ("printed", "text") else ""
        return ("unsigned " if self.unsigned else "") + self.name + (f"({','.join(inside)})" if inside else "") + rounded + as_form

    @property
    def is_free_text(self) -> bool:
        """Whether canonical text of this kind may contain any character, so that the row encoding must escape it."""
        return self.name in FREE_TEXT_KINDS


FREE_TEXT_KINDS = frozenset({"text", "char", "enum", "set", "json"})
"""Kinds whose canonical text may contain the row encoding's separator or its escape character."""

KIND_NAMES = frozenset(
    {"boolean", "integer", "decimal", "rounded", "float32", "float64", "binary", "date", "time", "timestamp", "timestamptz",
     "uuid", "bit", "year", "interval", "network"}
) | FREE_TEXT_KINDS  # fmt: skip
"""The names of all canonical kinds."""

_NATIVE = re.compile(r"\s*+([a-z_][a-z_0-9 ]*+)(?:\(([\d, -]*+)\))?([a-z_ ]*+)", re.IGNORECASE)


def without_comments(native: str) -> str:
    """Return a native type without its comments and the blanks before them, as in MariaDB's ``varchar(9) /*M!100301 COMPRESSED*/``."""
    *parts, rest = native.split("*/")
    kept = [part.partition("/*") for part in parts]
    return "".join(before.rstrip() if begun else f"{before}*/" for before, begun, _ in kept) + rest


@dataclass(frozen=True, slots=True)
class NativeType:
    """A parsed native type: ``decimal(10,2) unsigned`` has name ``decimal``, numbers (10, 2) and suffix ``unsigned``."""

    name: str
    numbers: tuple[int, ...]
    suffix: str

    def number(self, index: int, default: int) -> int:
        """Return the number at ``index`` between the brackets, or ``default`` if there is none."""
        return self.numbers[index] if index < len(self.numbers) else default


def parse_native(text: str) -> NativeType | None:
    """Parse a native type; None if it has no simple form (``array<...>``, ``struct<...>``)."""
    match = _NATIVE.fullmatch(text.lower())
    if match is None:
        return None
    name, inside, suffix = match.groups()
    return NativeType(name.strip(), tuple(int(n) for n in re.findall(r"-?\d+", inside or "")), suffix.strip())


def refine(known: Kind, native: NativeType) -> Kind:
    """Return ``known`` with digits and scale from the numbers in the native type's brackets."""
    match known.name:
        case "decimal":
            digits, scale = native.number(0, known.digits or 38), native.number(1, 0 if native.numbers else known.scale or 0)
            # PostgreSQL's numeric(5,-2) holds whole hundreds of up to seven digits, and its numeric(3,5) thousandths of 0.01.
            return Kind("decimal", max(digits - min(scale, 0), scale), max(scale, 0))
        case "time" | "timestamp" | "timestamptz":
            return Kind(known.name, scale=native.number(0, 6 if known.scale is None else known.scale))
        case "char" | "bit" | "binary":
            return Kind(known.name, digits=native.number(0, known.digits or 0) or None)
        case _:
            return known
