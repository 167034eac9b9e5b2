"""What a single run may be asked to do differently from its audit: the part of a table to which it is limited, and other settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

SLICES = ("keys", "times")
"""Overrides that limit a run to a slice of its table."""

PERMISSIONS = ("force", "rescan")
"""Overrides that change how a run may read, but not what it says of the audit; a run with others is a one-off run."""


def describe_other_settings(overrides: Mapping[str, Any]) -> str:
    """Return the overrides of a one-off run for a person, e.g. ``threshold 0, keys 1000..2000``; empty if it is the audit's own."""
    return ", ".join(f"{name} {_describe_setting(value)}" for name, value in overrides.items() if name not in PERMISSIONS)


def _describe_setting(value: Any) -> str:
    if isinstance(value, Mapping) and value.keys() <= {"from", "to"}:
        return f"{value.get('from', '')}..{value.get('to', '')}"
    if isinstance(value, Mapping):
        return " ".join(f"{name} {part}" for name, part in value.items())
    return "none" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """The rows to which a run is limited, on both sides: those within all bounds that are given."""

    first: int | None = None
    """Least key, inclusive; None for no bound."""
    last: int | None = None
    """Greatest key, inclusive; None for no bound."""
    since: str | None = None
    """Least time of ``column``, inclusive, as canonical text in UTC; None for no bound."""
    before: str | None = None
    """End of the times of ``column``, exclusive, as canonical text in UTC; None for no bound."""
    column: str = ""
    """The column of times, by the source's name; empty until the run is planned."""

    def __str__(self) -> str:
        return f"rows with {' and '.join(part for part in (self._keys(), self._times()) if part)}"

    @property
    def has_keys(self) -> bool:
        """Return whether it bounds keys."""
        return self.first is not None or self.last is not None

    @property
    def has_times(self) -> bool:
        """Return whether it bounds times."""
        return self.since is not None or self.before is not None

    def _keys(self) -> str:
        if self.first is not None and self.last is not None:
            return f"keys {self.first:,} to {self.last:,}"
        if self.first is not None:
            return f"keys from {self.first:,} on"
        return f"keys up to {self.last:,}" if self.last is not None else ""

    def _times(self) -> str:
        if not self.has_times:
            return ""
        since, before = (None if at is None else f"{at.removesuffix('.000000')} UTC" for at in (self.since, self.before))
        bounds = [f"from {since} on" if since else "", f"before {before}" if before else ""]
        return f"{self.column or 'times'} {' and '.join(bound for bound in bounds if bound)}"
