"""A measure of the method counts."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """A measure of the method counts that differs between the two sides, or whose classes were capped."""

    partition: int | None
    """Partition id; None for the partition without a key and for measures over all partitions (classes and histograms)."""
    label: str
    """The rows it is about, for a person: a partition, a class, a bucket of a histogram, or the whole table."""
    name: str
    """``rows``, or the column and its measure, e.g. ``price sum``."""
    source: str | None
    """Value on the source as readable text; None for no value, ``***`` for a masked one."""
    target: str | None
    """Value on the target as readable text; None for no value, ``***`` for a masked one."""
    deviation: float | None
    """abs(target - source) / abs(source), at least 0; None where it is undefined, too large for a float, or masked."""
    allowed: bool
    """Whether ``counts: allow`` in the audit permits this deviation."""

    @property
    def reports_cap(self) -> bool:
        """Return whether it reports that only the most frequent classes of a column were compared."""
        return self.partition is None and self.name.endswith(" classes") and self.label.startswith("only ")

    @property
    def deviates(self) -> bool:
        """Return whether the two sides differ in it, allowed or not."""
        return self.source != self.target or not self.reports_cap
