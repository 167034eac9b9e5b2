"""Choose audits by name or by pattern."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

from auditor.errors import UnknownAudit


def select_audits(known: Iterable[str], wanted: Sequence[str]) -> list[str]:
    """Return the names that are wanted, in this order; in a pattern, ``*`` is any characters, ``?`` is one, ``[ab]`` is a or b.

    A name without these characters, or of an audit that is called just so, is returned as it is, known or not, and as often as it is
    wanted; a pattern adds only names that are not there yet. Raises UnknownAudit if a pattern matches none.
    """
    names = list(known)
    selected: list[str] = []
    for wish in wanted:
        if wish in names or not is_pattern(wish):
            selected.append(wish)
            continue
        matching = [name for name in names if fnmatchcase(name, wish)]
        if not matching:
            raise UnknownAudit(f"no audit matches {wish!r} (audits here: {', '.join(sorted(names)) or 'none'})")
        selected += [name for name in matching if name not in selected]
    return selected


def is_pattern(name: str) -> bool:
    """Return whether a name holds a character that stands for others."""
    return re.search(r"[*?\[]", name) is not None
