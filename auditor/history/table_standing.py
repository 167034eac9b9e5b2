"""The standing of a table of which several audits compare columns of their own, because several systems master its fields."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

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


def list_sharing(audits: Mapping[str, Audit], name: str) -> list[str]:
    """Return the audits that name columns of the table that is an audit's target, with itself; none if no other does, or it names none."""
    asked = audits.get(name)
    if asked is None or not _names_columns(asked):
        return []
    sharing = [other for other, audit in audits.items() if _names_columns(audit) and _is_same_target(audit, asked)]
    return sharing if len(sharing) > 1 else []


def _names_columns(audit: Audit) -> bool:
    return bool(audit.columns.include) and not audit.via


def _is_same_target(one: Audit, other: Audit) -> bool:
    return (one.target.connection, one.target.place) == (other.target.connection, other.target.place)


def combine(audits: Mapping[str, Audit], standings: Mapping[str, Standing], name: str) -> TableStanding | None:
    """Return how the table of an audit stands, if others name columns of it, too; of each the standing must be known."""
    sharing = list_sharing(audits, name)
    return TableStanding(audits[name].target.label, {one: standings[one].status for one in sharing}) if sharing else None
