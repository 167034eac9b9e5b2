"""SQL of the numbers of partitions: of ranges of a key, and of hours, days and months."""

from __future__ import annotations

from abc import abstractmethod

from dialects.canonical_text import CanonicalText
from dialects.catalogue import TimeUnit
from dialects.kinds import Kind


class Partitions(CanonicalText):
    """The part of a dialect that numbers partitions."""

    @abstractmethod
    def floor_divide(self, c: str, divisor: int, native: Kind) -> str:
        """floor(c / divisor) of an integer, exact over the type's whole range, as a signed 64-bit integer. ``divisor`` > 0."""

    @abstractmethod
    def day_index(self, c: str) -> str:
        """Days from 1970-01-01 to the date of a date or timestamp, as an integer; negative before 1970."""

    def time_index(self, c: str, unit: TimeUnit) -> str:
        """Whole hours, days or months from 1970-01-01 00:00 UTC to a date or timestamp, rounded down, as a signed 64-bit integer."""
        match unit:
            case "day":
                index = self.day_index(c)
            case "hour":
                index = f"{self.as_bigint(self.day_index(c))} * 24 + EXTRACT(HOUR FROM {c})"
            case "month":
                index = f"({self.year(c)} - 1970) * 12 + EXTRACT(MONTH FROM {c}) - 1"
        return self.as_bigint(index)

    def year(self, c: str) -> str:
        """The year of a date or timestamp as a number; 1 BC is 0, and years before are negative, so that each follows the one before."""
        return f"EXTRACT(YEAR FROM {c})"
