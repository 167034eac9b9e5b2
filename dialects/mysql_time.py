"""Dates and times of MySQL and MariaDB: their canonical text, and how they are rounded when they are stored.

https://dev.mysql.com/doc/refman/9.4/en/fractional-seconds.html
https://dev.mysql.com/doc/refman/9.4/en/date-and-time-type-conversion.html
https://mariadb.com/kb/en/microseconds-in-mariadb/
"""

from __future__ import annotations

from dialects.base import Dialect, Session
from dialects.kinds import Kind, Rounding
from dialects.time_text import MICROSECOND


class MySQLTime(Dialect):
    """The part of MySQL's and MariaDB's dialect that writes the SQL of dates and times."""

    TIME_ROUNDING: Rounding = "half up"
    """MySQL rounds finer times that are stored, unless sql_mode has TIME_TRUNCATE_FRACTIONAL; MariaDB cuts them, unless sql_mode has
    TIME_ROUND_FRACTIONAL."""

    ROUNDS_TO_DATES: bool = True
    """MySQL rounds a timestamp to whole seconds before it takes its date; MariaDB never does."""

    LAST_YEAR: int | None = 9999

    def printed(self, c: str) -> str:
        """A number or time as an argument of a function of texts: a column itself, because a cast costs more than the function."""
        return c if c.startswith("`") else self.as_text(c)

    def date_text(self, c: str) -> str:
        return self.as_text(c)

    def time_text(self, c: str) -> str:
        return f"TIME_FORMAT({c}, '%H:%i:%s.%f')"

    def wall_time(self, c: str, native: Kind, zone: str) -> str:
        # Of a zone that is not in the server's tables CONVERT_TZ makes NULL, which would equal NULL: then the time stays one of UTC.
        # https://dev.mysql.com/doc/refman/9.4/en/time-zone-support.html#time-zone-installation
        return f"COALESCE(CONVERT_TZ({c}, '+00:00', {self.string_literal(zone)}), {c})"

    def knows_zone(self, session: Session, zone: str) -> bool:
        return session.query(f"SELECT CONVERT_TZ('2020-01-01 00:00:00', '+00:00', {self.string_literal(zone)})")[0][0] is not None

    def short_time_text(self, c: str, native: Kind) -> str:
        if native.scale is None:
            return super().short_time_text(c, native)
        return self.trim_zeros(self.printed(c)) if native.scale else self.as_text(c)

    def timestamp_text(self, c: str, native: Kind, digits: int | None = None) -> str:
        # A conversion to text shows as many fraction digits as the type has, and is faster than DATE_FORMAT.
        text = self.printed(c) if native.scale is not None else f"DATE_FORMAT({c}, '%Y-%m-%d %H:%i:%s.%f')"
        available = 6 if native.scale is None else native.scale
        if available == 0:
            return self.as_text(c)
        if digits == 0:
            return f"LEFT({text}, 19)"  # years have four digits
        return self.trim_zeros(text if digits is None or digits >= available else f"LEFT({text}, {20 + digits})")

    def cut_fraction(self, text: str, digits: int | None, available: int = 6) -> str:
        # What is left of a negative time can be zero, which has no sign.
        if digits is None or digits >= available:
            return super().cut_fraction(text, digits, available)
        zero = "00:00:00" + ("." + "0" * digits if digits else "")
        cut = self.replace(self.cut_end(text, available - digits if digits else available + 1), f"-{zero}", zero)
        return self.trim_zeros(cut) if digits else cut

    def date_kind_text(self, kind: Kind, c: str, native: Kind) -> str:
        # A cast to a date would yield NULL for a date with zeros, and round.
        if native.name == "date":
            return self.date_text(c)
        day = f"LEFT({self.printed(self.rounded_time(kind, c, native))}, 10)"
        return self.with_last_moment(kind, c, native, day, "")

    def later(self, c: str, nanoseconds: int, native: Kind) -> str:
        # NULL for dates with zeros, and beyond the last year.
        return f"COALESCE(DATE_ADD({c}, INTERVAL {nanoseconds // MICROSECOND} MICROSECOND), {c})"

    def rounded_clock_text(self, c: str, half: int, native: Kind) -> str:
        # A negative time is rounded like a positive one. At the end of the type's range the sum is NULL on MySQL.
        added = f"00:00:00.{half // MICROSECOND:06}"
        end = f"CASE WHEN {c} < 0 THEN '-838:59:59.000000' WHEN {c} >= 0 THEN '838:59:59.000000' END"
        moved = f"ADDTIME({c}, CASE WHEN {c} < 0 THEN '-{added}' ELSE '{added}' END)"
        return f"COALESCE({self.time_text(moved)}, {end})"
