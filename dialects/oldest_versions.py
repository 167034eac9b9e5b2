"""The oldest version of a server that works, checked before a session depends on it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from dialects.errors import ServerTooOld


@dataclass(frozen=True, slots=True)
class OldestVersion:
    """The oldest version of a product that works."""

    product: str
    """The product's name."""
    oldest: str
    """Its oldest version, as numbers with points between."""
    needs: str
    """What is missing in older versions, as a clause."""

    def check(self, version: str, where: str) -> None:
        """Raise ServerTooOld if a server at ``where`` (its URL) that reports ``version`` is older.

        Only numbers are compared that both have: some services report no more than ``8.0`` before a name of their own. A version that
        begins with no number passes.
        """
        match = re.match(r"\d+(\.\d+)*", version)
        numbers = _numbers(match[0]) if match else ()
        if numbers and numbers < _numbers(self.oldest)[: len(numbers)]:
            raise ServerTooOld(
                f"{where}: {self.product} {version} is too old: {self.oldest} is the oldest that has {self.needs}; upgrade the server, or"
                " audit a newer replica or copy of it"
            )


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in version.split("."))
