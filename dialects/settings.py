"""Settings of a session on which results depend: each is set when the session begins, then read back and held to its value.

A server may keep its own: because a right is missing, because a proxy answers a SET itself, or because its configuration is locked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dialects.errors import SessionNotKept


def refuse_others(where: str, wanted: Mapping[str, str], actual: Mapping[str, Any]) -> None:
    """Raise SessionNotKept if a setting that was read back is another than it must be; ``where`` is the URL, values are SQL text."""
    if others := find_others(wanted, actual):
        raise SessionNotKept(
            f"{where}: the server keeps settings on which results depend: {'; '.join(others)}; set them so for this user, or on the"
            " server, or connect to the server itself if something between them answers for it"
        )


def find_others(wanted: Mapping[str, str], actual: Mapping[str, Any]) -> list[str]:
    """Return a clause for each setting that was read back and is another than it must be; values are SQL text."""
    return [f"{name} is {value}, not {wanted[name]}" for name, value in actual.items() if not _is_same(wanted[name], value)]


def _is_same(wanted: str, actual: Any) -> bool:
    plain, text = wanted.strip("'").lower(), str("" if actual is None else actual).strip().lower()
    try:
        return plain == text or float(plain) == float(text)
    except ValueError:
        return False
