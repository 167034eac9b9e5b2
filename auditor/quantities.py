"""Quantities as people read them: numbers with their nouns, durations, and sizes."""

from __future__ import annotations


def plural(count: int, singular: str, many: str = "") -> str:
    """Return a number with its noun, and with the verb that agrees with it: ``1 row is``, ``1,200 rows are``.

    ``many`` is what follows every number but 1; without it, ``singular`` with an s.
    """
    return f"{count:,} {singular if count == 1 else many or f'{singular}s'}"


def format_size(count: float) -> str:
    """Format a number of bytes with its decimal unit, e.g. ``3.1 MB``."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if count < 1000 or unit == "GB":
            break
        count /= 1000
    return f"{count:,.0f} {unit}" if unit == "bytes" or count >= 100 else f"{count:,.1f} {unit}"


def format_duration(seconds: float) -> str:
    """Format a duration in its two largest units, e.g. ``1 d 3 h``; a negative one counts as 0."""
    left = max(0, round(seconds))
    parts = []
    for name, size in (("d", 86400), ("h", 3600), ("min", 60), ("s", 1)):
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count:,} {name}")
        elif parts:
            break
    return " ".join(parts[:2]) or "0 s"


def format_rough_duration(seconds: float) -> str:
    """Format a duration in the largest unit that fits at least twice, e.g. ``27 hours``."""
    for unit, length in (("days", 86400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:,.0f} {unit}"
    return f"{seconds:,.0f} seconds"
