"""The standing of a table of which several audits compare columns of their own, because several systems master its fields."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from auditor.config import Audit
from auditor.history.audit_status import STATUSES, Standing, status_label
from auditor.model import Status


@dataclass(frozen=True, slots=True)
class TableStanding:
    """How the audits of a table stand together."""

    target: str
    """The text ``connection: table``."""
    audits: Mapping[str, Status]
    """The status of each, by its name."""

    @property
    def status(self) -> Status:
        """The most urgent of them: the table matches if all do."""
        return min(self.audits.values(), key=STATUSES.index)

    @property
    def sentence(self) -> str:
        """Say how each stands."""
        each = ", ".join(f"{name} {status_label(status)}" for name, status in self.audits.items())
        return f"{len(self.audits)} audits compare columns of {self.target}: {each}"


def find_shared(audits: Mapping[str, Audit]) -> dict[str, Sequence[str]]:
    """Return for each audit that names columns of its target's table, and is not the only one, all that do, with itself."""
    by_table: dict[Any, list[str]] = {}
    for name, audit in audits.items():
        if audit.columns.include and not audit.via and "target" not in audit.queries:
            by_table.setdefault((audit.target.connection, audit.target.place), []).append(name)
    return {name: sharing for sharing in by_table.values() if len(sharing) > 1 for name in sharing}


def combine(audit: Audit, sharing: Sequence[str], standings: Mapping[str, Standing]) -> TableStanding | None:
    """Return how the table of an audit stands, which these share; None if it is shared by none."""
    return TableStanding(audit.target.label, {name: standings[name].status for name in sharing}) if sharing else None
