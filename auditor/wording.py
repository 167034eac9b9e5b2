"""Numbers in sentences."""

from __future__ import annotations


def plural(count: int, singular: str, many: str = "") -> str:
    """Return a number with its noun, and with the verb that agrees with it: ``1 row is``, ``1,200 rows are``.

    ``many`` is what follows every number but 1; without it, ``singular`` with an s.
    """
    return f"{count:,} {singular if count == 1 else many or f'{singular}s'}"
