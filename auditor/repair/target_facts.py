"""What a target's table has that decides what a patch does to it, and which patches it therefore refuses."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from auditor.errors import PatchRefused
from auditor.model import Plan
from auditor.repair.rows import RowChange
from dialects import Session, Table
from dialects.writing import Hazard, HazardKind

Accepted = Literal["triggers", "cascades", "identity", "defaults"]
"""What a person may accept, although a patch then does more than it prints."""

ACCEPTABLE: tuple[Accepted, ...] = get_args(Accepted)


@dataclass(frozen=True, slots=True)
class TargetFacts:
    """Facts of a target's table, its columns by their names in the target."""

    table: str
    """Its name, for a person."""
    hazards: Sequence[Hazard]
    columns: Sequence[str]
    """All its columns."""
    enforces_keys: bool

    def named(self, kind: HazardKind) -> list[str]:
        """Return the names of the hazards of a kind, each once."""
        return list(dict.fromkeys(hazard.name for hazard in self.hazards if hazard.kind == kind))

    def columns_of(self, kind: HazardKind, name: str) -> list[str]:
        """Return the columns of a hazard, each once."""
        return list(dict.fromkeys(hazard.column for hazard in self.hazards if hazard.kind == kind and hazard.name == name))

    @property
    def references(self) -> dict[str, tuple[list[str], list[str]]]:
        """The foreign keys of the table to itself, by name: the columns that refer, and those that they refer to, in the same order."""
        references: dict[str, tuple[list[str], list[str]]] = {}
        for hazard in sorted((hazard for hazard in self.hazards if hazard.kind in ("refers", "referred")), key=lambda hazard: hazard.name):
            name, _, _ = hazard.name.rpartition(" ")  # after which the column's number follows
            references.setdefault(name, ([], []))[hazard.kind == "referred"].append(hazard.column)
        return references

    @property
    def unique(self) -> list[frozenset[str]]:
        """The columns of each unique index; an index of expressions has the column ''."""
        return [
            frozenset(hazard.column for hazard in self.hazards if hazard.kind == "unique" and hazard.name == name)
            for name in self.named("unique")
        ]


def read_facts(session: Session, table: Table) -> TargetFacts:
    """Return the facts of a described table. Raises PatchRefused for files."""
    if not table.names:
        raise PatchRefused(f"{table.sql} is files, which cannot be patched row by row; copy it again")
    names = [column.name for column in table.columns]
    return TargetFacts(
        ".".join(table.names), session.dialect.catalogue.hazards(session, table), names, session.dialect.TABLE_FORM.enforces_keys
    )


def check_table(facts: TargetFacts, written: Sequence[str], key: Collection[str], accepted: Collection[str]) -> None:
    """Raise PatchRefused for a table of which no row is patched safely.

    ``written`` are the target's names of the compared columns, ``key`` those of the audit's key.
    """
    table = facts.table
    if facts.named("view"):
        raise PatchRefused(f"{table} is a view; audit and patch the table beneath it")
    if storage := facts.named("storage"):
        raise PatchRefused(f"{table} is stored by {storage[0]}, which has no transactions, so that no batch could be rolled back; alter it")
    if facts.enforces_keys and not any(index and index <= set(key) for index in facts.unique):
        raise PatchRefused(f"{table} has no primary or unique key of {', '.join(key)}, so that a statement may hit several rows; add one")
    if (triggers := facts.named("trigger")) and "triggers" not in accepted:
        raise PatchRefused(
            f"{table} has the triggers {', '.join(triggers)}, which act on every write; write --accept triggers if they do no harm"
        )


def check_changes(facts: TargetFacts, plan: Plan, written: Sequence[str], changes: Iterable[RowChange], accepted: Collection[str]) -> None:
    """Raise PatchRefused for changes that would do more than they say."""
    target_name = {column.name: name for column, name in zip(plan.columns, written, strict=True)}
    for change in changes:
        if change.kind == "missing":
            _check_insert(facts, written, accepted)
        touches_key = any(target_name[name] in index for name in change.columns for index in facts.unique)
        if (cascades := facts.named("cascade")) and "cascades" not in accepted and (change.kind == "extra" or touches_key):
            raise PatchRefused(
                f"rows of {', '.join(cascades)} would be deleted or changed with those of {facts.table}, by cascading foreign keys;"
                " write --accept cascades if they should, and note that an undo does not bring them back"
            )


def _check_insert(facts: TargetFacts, written: Sequence[str], accepted: Collection[str]) -> None:
    unwritten = unwritten_columns(facts, written)
    if required := [name for name in facts.named("required") if name in unwritten]:
        raise PatchRefused(f"a new row of {facts.table} needs a value of {', '.join(required)}; let the audit compare it too")
    defaults = [name for name in facts.named("default") if name in unwritten]
    if defaults and "defaults" not in accepted:
        raise PatchRefused(
            f"a new row of {facts.table} would get the defaults of {', '.join(defaults)}, which the audit does not compare;"
            " write --accept defaults if it should"
        )
    numbered = [name for name in facts.named("identity") if name in written]
    if numbered and "identity" not in accepted:
        raise PatchRefused(
            f"the server numbers {', '.join(numbered)} of {facts.table} itself; write --accept identity to insert the source's numbers, and"
            " set its sequence afterwards"
        )


def unwritten_columns(facts: TargetFacts, written: Sequence[str]) -> list[str]:
    """Return the target's columns that a new row gets no value for, without those that the target computes."""
    computed = set(facts.named("generated"))
    return [name for name in facts.columns if name not in written and name not in computed]
