"""SQL of dates, times and timestamps: their canonical text, what an engine makes of a finer one when it stores it, and their partitions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import ClassVar

from dialects.catalogue import TimeUnit
from dialects.kinds import Kind, Rounding
from dialects.numbers import Numbers

MICROSECOND = 1000
"""Nanoseconds of a microsecond."""

EPOCHS: dict[Rounding, int] = {"half from 1970": 1970, "half from 2000": 2000}
"""The year from whose beginning an engine counts, where it rounds a half away from there."""

MIDNIGHT = " 00:00:00"
"""What follows the text of a day in that of its first moment."""

MOST_MICROSECONDS = 2**63 - 1
"""What stands for an infinite timestamp as a number of microseconds."""

BC = " BC"
"""What follows the text of a time before Christ."""


class Times(ABC):
    """What an engine does with dates and times."""

    TIME_ROUNDING: Rounding = ""
    """How the engine shortens a finer time or timestamp that is stored in a column; empty if it cuts it."""

    ROUNDS_TO_DATES: bool = False
    """Whether a timestamp that is stored as a date is first rounded to whole seconds, by TIME_ROUNDING; otherwise its day is taken."""

    LAST_YEAR: int | None = None
    """The last year, where rounding its last moment yields no value; None where years continue."""

    UTC_NOW: ClassVar[str] = "CURRENT_TIMESTAMP"
    """SQL of the server's current time in UTC, as a timestamp without time zone."""

    def __init__(self, numbers: Numbers) -> None:
        self.numbers = numbers
        self.text = numbers.text
        self.names = numbers.text.names

    def wall_time(self, c: str, native: Kind, zone: str) -> str:
        """The timestamp, without time zone, that clocks of an IANA zone show at the times of ``c``, which are those of UTC."""
        utc = c if native.name == "timestamptz" else f"({c} AT TIME ZONE 'UTC')"
        return f"({utc} AT TIME ZONE {self.names.string_literal(zone)})"

    @abstractmethod
    def date_text(self, c: str) -> str:
        """``YYYY-MM-DD`` of a date; where the engine holds them, also ``infinity``, ``-infinity`` and ``YYYY-MM-DD BC``."""

    @abstractmethod
    def time_text(self, c: str) -> str:
        """``HH:MM:SS.ffffff`` of a time; more hour digits and a ``-`` where the type has such values. Always with six fraction digits."""

    def short_time_text(self, c: str, native: Kind) -> str:
        """``HH:MM:SS`` of a time and, unless it is zero, its fraction: a point and digits without zeros at their end."""
        return self.text.trim_zeros(self.time_text(c))

    @abstractmethod
    def timestamp_text(self, c: str, native: Kind, digits: int | None = None) -> str:
        """``YYYY-MM-DD HH:MM:SS`` and, unless it is zero, the fraction: a point and digits without zeros at their end.

        In UTC if the type has a time zone. The fraction is first cut to ``digits`` digits; None leaves it as it is. More digits where
        the year has more than four. Also ``infinity`` and ``-infinity``; a time before Christ ends with `` BC``.
        """

    @abstractmethod
    def later(self, c: str, nanoseconds: int, native: Kind) -> str:
        """A timestamp, or a time of day that stays within its day, that much later; whole microseconds unless ``native.scale`` is 9.

        Unchanged where the engine has no such moment.
        """

    def is_common_era(self, c: str) -> str:
        """Whether a date or timestamp is finite and after Christ; empty where the engine holds no others."""
        return ""

    def date_kind_text(self, kind: Kind, c: str, native: Kind) -> str:
        """The text of a date or timestamp as a date."""
        if native.name == "date":
            return self.date_text(c)
        return self.date_text(f"CAST({self.rounded_time(kind, c, native)} AS DATE)")

    def time_kind_text(self, kind: Kind, c: str, native: Kind) -> str:
        """The text of a time with ``kind.scale`` digits, rounded or cut."""
        if not _is_finer(native, kind):
            return self.short_time_text(c, native)
        text = self.rounded_clock_text(c, _half(kind), native) if kind.rounding else self.time_text(c)
        return self.cut_fraction(text, kind.scale)

    def timestamp_kind_text(self, kind: Kind, c: str, native: Kind) -> str:
        """The text of a date or timestamp as a timestamp with up to ``kind.scale`` digits, rounded or cut."""
        if native.name == "date":
            return self._midnight_text(c)
        moved = self.rounded_time(kind, c, native)
        of_moved = native if moved == c or native.scale == 9 else replace(native, scale=None)  # the sum has digits of its own
        text = self.timestamp_text(moved, of_moved, kind.scale)
        return self.with_last_moment(kind, c, native, text, MIDNIGHT)

    def with_last_moment(self, kind: Kind, c: str, native: Kind, text: str, midnight: str) -> str:
        """``text``, or the first day after LAST_YEAR and ``midnight`` where rounding ``c`` reaches it."""
        if self.LAST_YEAR is None or not kind.rounding or not _is_finer(native, kind):
            return text
        last = self.names.timestamp_literal(f"{self.LAST_YEAR}-12-31 23:59:59.{1_000_000 - _half(kind) // MICROSECOND:06}")
        return f"CASE WHEN {c} >= {last} THEN {self.names.string_literal(f'{self.LAST_YEAR + 1}-01-01{midnight}')} ELSE {text} END"

    def rounded_time(self, kind: Kind, c: str, native: Kind) -> str:
        """A timestamp moved by half of the last digit that ``kind`` keeps, so that cutting it rounds ``c``; ``c`` itself if it is cut."""
        if not kind.rounding or native.name == "date" or not _is_finer(native, kind):
            return c
        half = _half(kind)
        year = EPOCHS.get(kind.rounding)
        if year is None:
            return self.later(c, half, native)
        less = half - (1 if native.scale == 9 else MICROSECOND)
        since = f"{c} >= {self.names.timestamp_literal(f'{year}-01-01 00:00:00.000000')}"
        return f"CASE WHEN {since} THEN {self.later(c, half, native)} ELSE {self.later(c, less, native)} END"

    def rounded_clock_text(self, c: str, half: int, native: Kind) -> str:
        """The ``time_text`` of a time ``half`` nanoseconds later; ``24:00:00.000000`` if that is the next day."""
        last = self.names.string_literal(f"23:59:59.{1_000_000 - half // MICROSECOND:06}")
        within = self.time_text(self.later(c, half, native))
        return f"CASE WHEN {c} >= CAST({last} AS TIME) THEN {self.names.string_literal('24:00:00.000000')} ELSE {within} END"

    def cut_fraction(self, text: str, digits: int | None, available: int = 6) -> str:
        """``text``, which ends with a point and ``available`` digits, with at most ``digits`` of them, and no zeros at its end.

        It is cut as text because a cast rounds on some engines and cuts on others, and from its end because hours and years may have
        more digits than usual.
        """
        if digits == 0:
            return self.text.cut_end(text, available + 1)
        cut = text if digits is None or digits >= available else self.text.cut_end(text, available - digits)
        return self.text.trim_zeros(cut)

    def _midnight_text(self, c: str) -> str:
        text = self.text.concat([self.date_text(c), self.names.string_literal(MIDNIGHT)])
        if not self.is_common_era(c):
            return text
        return f"CASE WHEN {self.is_common_era(c)} THEN {text} ELSE {self.text.replace(self.date_text(c), BC, MIDNIGHT + BC)} END"

    @abstractmethod
    def day_index(self, c: str) -> str:
        """Days from 1970-01-01 to the date of a date or timestamp, as an integer; negative before 1970."""

    def microseconds(self, c: str, native: Kind) -> str:
        """Whole microseconds from 1970-01-01 00:00 UTC to a timestamp, or from midnight to a time, as a signed 64-bit integer.

        A timestamp without time zone is taken as UTC. An infinite one is the greatest integer. Raises LookupError if the engine has no such
        expression.
        """
        raise LookupError("this engine has no expression for microseconds since 1970")

    def time_index(self, c: str, unit: TimeUnit) -> str:
        """Whole hours, days or months from 1970-01-01 00:00 UTC to a date or timestamp, rounded down, as a signed 64-bit integer."""
        match unit:
            case "day":
                index = self.day_index(c)
            case "hour":
                index = f"{self.numbers.as_bigint(self.day_index(c))} * 24 + EXTRACT(HOUR FROM {c})"
            case "month":
                index = f"({self.year(c)} - 1970) * 12 + EXTRACT(MONTH FROM {c}) - 1"
        return self.numbers.as_bigint(index)

    def year(self, c: str) -> str:
        """The year of a date or timestamp as a number; 1 BC is 0, and years before are negative, so that each follows the one before."""
        return f"EXTRACT(YEAR FROM {c})"

    @abstractmethod
    def seconds_since(self, c: str) -> str:
        """Seconds from a timestamp to the server's current time, as a number; a timestamp without time zone is taken as UTC."""


def _is_finer(native: Kind, kind: Kind) -> bool:
    """Return whether a time's type holds more fraction digits than are kept; a date keeps whole seconds until it is cut."""
    kept = 0 if kind.name == "date" else kind.scale
    return kept is not None and (native.scale is None or native.scale > kept)


def _half(kind: Kind) -> int:
    """Return half of the last kept digit in nanoseconds."""
    return int(5 * 10 ** (8 - (kind.scale or 0)))
