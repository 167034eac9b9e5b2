"""What hangs on a target's table, and which tables are therefore not copied again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import sql_templates
from auditor.errors import BootstrapRefused
from auditor.repair.facts import TargetFacts
from auditor.repair.target_writer import writer_class
from dialects import Session, Table

CARRIED = "owner, grants, comments, defaults, sequences, storage settings, replica identity, names of indexes and constraints"
"""What every table has that goes to the one that takes its name."""


@dataclass(frozen=True, slots=True)
class Dependents:
    """Objects by kind and name.

    ``child``: a table whose foreign key points here; ``parent``: one that a foreign key here points to; ``view``, ``publication``,
    ``policy``, ``partition``.
    """

    objects: Sequence[tuple[str, str]]

    def named(self, kind: str) -> list[str]:
        """Return the names of those of a kind."""
        return sorted(name for its_kind, name in self.objects if its_kind == kind)


def read_dependents(session: Session, table: Table) -> Dependents:
    """Return what hangs on a described table; nothing on one that is files below a folder."""
    if writer_class(session.dialect).COMMITS:
        return Dependents([])
    literals = {"schema": session.dialect.literal(table.names[-2]), "table": session.dialect.literal(table.names[-1])}
    rows = session.query(sql_templates.fill(session.dialect.template("dependents"), literals))
    return Dependents([(str(kind), str(name)) for kind, name in rows])


def read_bound(session: Session, table: Table) -> list[str]:
    """Return what a table would lose if another took its name, as its server describes it."""
    literals = {"schema": session.dialect.literal(table.names[-2]), "table": session.dialect.literal(table.names[-1])}
    return [str(what) for (what,) in session.query(sql_templates.fill(session.dialect.template("bootstrap_bound"), literals))]


def describe_carried(dependents: Dependents, old: str) -> Sequence[str]:
    """Return what a person should know of a rename: what goes to the new table, and what stays."""
    names = {"foreign keys to": "parent", "views": "view", "publications": "publication"}
    carried = [f"{what} {', '.join(there)}" for what, kind in names.items() if (there := dependents.named(kind))]
    return [
        f"the old table stays as {old}, its indexes and sequences under names that end like it",
        f"carried to the new one: {'; '.join([CARRIED, *carried])}",
        "all sessions wait while names are exchanged; its own wait for the table is short, and repeated",
    ]


def check_target(facts: TargetFacts, dependents: Dependents, key: Sequence[str], unwritten: Sequence[str]) -> None:
    """Raise BootstrapRefused for a table that cannot be copied again without harm. ``key`` and ``unwritten`` are the target's names."""
    table = facts.table
    if facts.named("view"):
        raise BootstrapRefused(f"{table} is a view; audit the table beneath it, and copy that again")
    if storage := facts.named("storage"):
        raise BootstrapRefused(f"{table} is stored by {storage[0]}, which has no transactions, so that no swap could be undone; alter it")
    if facts.enforces_keys and not any(index and index <= set(key) for index in facts.unique):
        raise BootstrapRefused(f"{table} has no primary or unique key of {', '.join(key)}, so that rows could be doubled; add one")
    if triggers := facts.named("trigger"):
        raise BootstrapRefused(f"{table} has the triggers {', '.join(triggers)}, which would act on every copied row; disable them first")
    if children := dependents.named("child"):
        raise BootstrapRefused(
            f"foreign keys of {', '.join(children)} point at {table}, whose rows are deleted while they are exchanged; drop these keys, and"
            " add them again afterwards"
        )
    if unwritten:
        raise BootstrapRefused(
            f"the audit does not compare {', '.join(unwritten)} of {table}, whose values would be lost; let the audit compare them too, or"
            " patch rows instead"
        )
