"""Render the statements that change single rows of a target, each if it still is as it was read."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import sql_templates
from auditor.errors import ValueRefused
from auditor.model import ColumnPlan, Plan
from auditor.sql.literals import canonical_literal
from auditor.sql.row_text import row_text
from auditor.sql.user_sql import checked
from dialects import Dialect, Kind

MARKERS = "auditor_patch_marks"
"""The table of a target in which batches of patches leave their marks."""

MARK = Kind("char", 32)
"""The kind of a patch's id in it: of a width, because MySQL has no keys of endless texts."""

Texts = Sequence[str | None]
"""A row's canonical texts, in the order of a plan's columns."""


@dataclass(frozen=True, slots=True)
class RowStatements:
    """Statements on single rows of a plan's target.

    ``computed`` are columns, as SQL, that the target computes itself; ``touched`` those that change automatically with an update.
    """

    plan: Plan
    dialect: Dialect
    computed: Collection[str] = ()
    touched: Sequence[str] = ()
    overriding: bool = False
    """Whether values are given to columns that the server numbers."""
    unwritable: Mapping[str, str] = field(default_factory=dict)
    """Why columns, by their names, cannot be written."""
    _digests: list[str] = field(default_factory=list, init=False, repr=False, compare=False)
    """SQL of a row's digest, once it was made: it is the same for every row."""
    _templates: dict[str, tuple[str, set[str]]] = field(default_factory=dict, init=False, repr=False, compare=False)
    """The templates that were filled, with the names of their holes."""

    def insert(self, new: Texts) -> str:
        """Return the statement that inserts a row. Raises ValueRefused."""
        written = [(column, text) for column, text in zip(self.plan.columns, new, strict=True) if not self._is_computed(column)]
        return self._fill(
            "patch_insert",
            columns=", ".join(column.expression["target"] for column, _ in written),
            values=", ".join(self._literal(column, text) for column, text in written),
            key=self._key(new),
            overriding=self.dialect.writing.OVERRIDES_IDENTITY if self.overriding else "",
        )

    def update(self, old: Texts, new: Texts, digest: str, names: Collection[str]) -> str:
        """Return the statement that gives a row of this digest the new texts of the named columns. Raises ValueRefused."""
        changed = [(column, text) for column, text in zip(self.plan.columns, new, strict=True) if column.name in names]
        values = [
            f"{column.expression['target']} = {self._literal(column, text)}" for column, text in changed if not self._is_computed(column)
        ]
        if not values:
            raise ValueRefused(f"the target computes {', '.join(sorted(names))} itself, from other columns")
        named = {column.expression["target"] for column, _ in changed}
        values += [f"{column} = {column}" for column in self.touched if column not in named]
        return self._fill("patch_update", values=", ".join(values), key=self._key(old), **self._guard(digest))

    def delete(self, old: Texts, digest: str) -> str:
        """Return the statement that deletes a row of this digest."""
        return self._fill("patch_delete", key=self._key(old), **self._guard(digest))

    def matches(self, texts: Texts) -> str:
        """Return the condition that a row has the key of this one."""
        return f"({self._key(texts)})"

    def _guard(self, digest: str) -> dict[str, str]:
        if not self._digests:
            self._digests.append(self.dialect.hashes.row_hash(row_text(self.plan, "target", self.dialect), self.plan.hash))
        return {"digest": self._digests[0], "expected": self.dialect.names.string_literal(digest)}

    def _key(self, texts: Texts) -> str:
        equal = (self._equals(column, text) for column, text in zip(self.plan.key_columns, texts, strict=False))
        return " AND ".join(equal)

    def _equals(self, column: ColumnPlan, text: str | None) -> str:
        sql = column.expression["target"]
        if text is not None and column.kind.name in ("text", "char") and column.native["target"].name == column.kind.name:
            return self.dialect.text.is_one_of(sql, [text], column.types["target"])
        return f"{sql} = {self._literal(column, text)}"

    def _is_computed(self, column: ColumnPlan) -> bool:
        return column.expression["target"] in self.computed

    def _literal(self, column: ColumnPlan, text: str | None) -> str:
        if why := self.unwritable.get(column.name):
            raise ValueRefused(f"the column {column.name!r} cannot be written: {why}")
        try:
            return canonical_literal(self.dialect, column.kind, text, column.native["target"], column.types["target"])
        except ValueRefused as why:
            raise ValueRefused(f"the column {column.name!r} has {why}") from None

    def _fill(self, template: str, **fragments: str) -> str:
        # Not parsed: each has other literals, and to parse one takes longer than to run it.
        if template not in self._templates:
            text = self.dialect.template(template)
            self._templates[template] = text, sql_templates.holes(text)
        text, holes = self._templates[template]
        known = {**fragments, "target": self.plan.sides["target"].table}
        return sql_templates.fill(text, {name: known[name] for name in holes})


@dataclass(frozen=True, slots=True)
class MarkStatements:
    """Statements about the marks of one patch, in the schema of its target."""

    dialect: Dialect
    schema: str
    patch: str
    target: str = ""
    """The patched table as SQL; only asked for where a batch is a commit."""

    @property
    def name(self) -> str:
        """Under which name commits carry the number of a batch, where a batch is a commit."""
        return f"auditor/patch/{self.patch}"

    @property
    def table(self) -> str:
        """The table of marks as SQL."""
        return self.dialect.names.table(self.schema, MARKERS)

    def create(self) -> str:
        """Return the statement that makes the table of marks if it is missing."""
        types = {"text": self.dialect.types.native_type(MARK), "integer": self.dialect.types.native_type(Kind("integer"))}
        return _fill(self.dialect, "patch_markers_create", {"markers": self.table, **types})

    def insert(self, batch: int) -> str:
        """Return the statement that marks a batch."""
        return _fill(self.dialect, "patch_marker_insert", self._batch(batch))

    def count(self, batch: int) -> str:
        """Return the statement that counts the marks of a batch."""
        return _fill(self.dialect, "patch_marker_count", self._batch(batch))

    def delete(self) -> str:
        """Return the statement that removes the patch's marks."""
        return _fill(self.dialect, "patch_marker_delete", {"markers": self.table, "patch": self.dialect.names.literal(self.patch)})

    def _batch(self, batch: int) -> dict[str, str]:
        return {"markers": self.table, "patch": self.dialect.names.literal(self.patch), "batch": self.dialect.names.literal(batch)}


def _fill(dialect: Dialect, template: str, fragments: Mapping[str, str]) -> str:
    return checked(sql_templates.fill(dialect.template(template), fragments), dialect)
