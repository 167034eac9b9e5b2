"""What a filter's column is on both sides, and what may therefore be done with it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from auditor.model import SIDES, Side
from dialects import Column, Kind
from dialects.kinds import Rounding

Sort = Literal["text", "number", "float", "truth", "time", "other"]
"""What a column's values are to a filter. ``other``: nothing that the language knows, so that only IS NULL may be asked."""

TEXTS = frozenset({"text", "char", "enum", "set"})
NUMBERS = frozenset({"integer", "decimal", "year", "bit"})
TIMES = frozenset({"date", "timestamp", "timestamptz"})
INTEGER_DIGITS = {"tinyint": 3, "utinyint": 3, "smallint": 5, "usmallint": 5, "mediumint": 8, "int": 10, "integer": 10, "uinteger": 10}
"""Digits of integer types by native name; any other integer has up to 20."""


@dataclass(frozen=True, slots=True)
class FilterColumn:
    """A column of a filter on both sides."""

    name: str
    """The source's name."""
    sql: Mapping[Side, str]
    """Each side's quoted name."""
    columns: Mapping[Side, Column]
    """Each side's column as the catalogue describes it."""
    rounding: Rounding = ""
    """How finer times of the source came into the target; empty if they were cut, or have no more digits than the target's."""

    def native(self, side: Side) -> Kind:
        """Return the kind of a side's own type; a type without canonical text counts as JSON, of which only IS NULL may be asked."""
        return self.columns[side].kind or Kind("json")

    @property
    def sort(self) -> Sort:
        """Return what the column is to a filter, by the kinds of both sides."""
        names = {self.native(side).name for side in SIDES}
        if names <= TEXTS:
            return "text"
        if "boolean" in names and names <= {"boolean", "integer", "bit"}:
            return "truth"
        if names <= NUMBERS and names != {"bit"}:
            return "number"
        if names in ({"float32"}, {"float64"}):
            return "float"
        return "time" if names <= TIMES else "other"

    @property
    def text_kind(self) -> Kind:
        """Return the kind of a text: where a side has fixed width, trailing blanks mean nothing on either side."""
        return Kind("char" if "char" in {self.native(side).name for side in SIDES} else "text")

    @property
    def in_days(self) -> bool:
        """Return whether a time is compared by its date, because a side holds nothing finer."""
        return "date" in {self.native(side).name for side in SIDES} and self.native("target").name == "date"

    def scale(self, side: Side) -> int | None:
        """Return the digits after the point with which a side's number is compared: no more than the target holds; None if unlimited.

        A source with more of them than the target is rounded to the target's, as the target rounded when it stored the value.
        """
        source, target = (0 if self.native(side).name != "decimal" else self.native(side).scale for side in SIDES)
        if side == "target" or target is None:
            return target if side == "target" else source
        return target if source is None else min(source, target)

    def is_rounded(self, side: Side) -> bool:
        """Return whether a side's number is rounded before it is compared."""
        return self.native(side).name == "decimal" and self.native(side).scale != self.scale(side)

    def digits(self, side: Side) -> int | None:
        """Return the most digits that a side's number may have, with those after the point; None if unlimited."""
        native = self.native(side)
        match native.name:
            case "decimal":
                if native.digits is None or native.scale is None:
                    return None
                more = 1 if self.is_rounded(side) else 0  # 9.99 becomes 10.0
                return native.digits - native.scale + (self.scale(side) or 0) + more
            case "year":
                return 4
            case "bit":
                return 20
        name = re.match(r"[a-z]*", self.columns[side].native.lower())
        return INTEGER_DIGITS.get(name.group() if name else "", 20 if native.unsigned else 19)

    def types(self) -> str:
        """Return the types of both sides, for a message."""
        return " and ".join(f"{self.columns[side].native} in the {side}" for side in SIDES)

    @property
    def shortened_to(self) -> int | None:
        """Return the digits of a second that the target holds if the source's times have more; None if they came whole, or as dates."""
        source, target = (_fraction_digits(self.native(side)) for side in SIDES)
        return target if not self.in_days and source > target else None


def _fraction_digits(kind: Kind) -> int:
    if kind.name == "date":
        return 0
    return 6 if kind.scale is None else kind.scale
