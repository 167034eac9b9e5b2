"""The convention of a side of an audit: which rows of another tool's table count, and which of its columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BeforeValidator, Discriminator, Field, Tag, model_validator

from auditor import conventions
from auditor.config._base import Strict
from auditor.conventions import OWN, Convention, Mark, ToolName, TypeMapping


def _as_text(value: Any) -> Any:
    """Return a boolean or a number as the text that it is in YAML."""
    return str(value).lower() if isinstance(value, bool) else str(value) if isinstance(value, int) else value


class MarkSettings(Strict):
    """A column whose value says something about its row."""

    column: str = Field(min_length=1)
    """The side's name of the column."""
    value: Annotated[str, BeforeValidator(_as_text)] = "true"
    """The value that says it: ``true`` or ``false`` of a boolean column, a number, or a text."""
    filled: bool | None = None
    """Instead of ``value``: whether any value says it (``true``), or NULL does (``false``)."""

    @model_validator(mode="after")
    def _says_once(self) -> MarkSettings:
        if self.filled is not None and "value" in self.model_fields_set:
            raise ValueError("value and filled cannot be combined; write one of them")
        return self

    @property
    def mark(self) -> Mark:
        """The mark."""
        return Mark(self.column, self.value, self.filled)


class OwnConvention(Strict):
    """A convention whose parts are stated; those that are not stated are those of ``tool``, if it is given."""

    tool: Literal["own"] | ToolName = "own"
    """The tool whose convention it is but for the other parts."""
    deleted: MarkSettings | None = None
    """The column that flags a row as deleted."""
    current: MarkSettings | None = None
    """The column that only the current row of a key has that value in, of a table with closed versions."""
    versions: tuple[str, ...] = ()
    """The columns whose greatest values the latest row of a key has, the first column first."""
    metadata: tuple[str, ...] = ()
    """Patterns of columns that are not compared: ``etl_*``."""
    types: tuple[TypeMapping, ...] = ()
    """How values are written that have another type in the other table."""

    @model_validator(mode="after")
    def _states_something(self) -> OwnConvention:
        if not self.model_fields_set - {"tool"}:
            raise ValueError("it states nothing; write deleted, current, versions, metadata or types, or the name of a tool alone")
        if self.current and self.versions:
            raise ValueError("current and versions both say which row of a key counts; write one of them")
        return self

    @property
    def convention(self) -> Convention:
        """The convention."""
        base = Convention(name=OWN) if self.tool == OWN else conventions.by_name(self.tool)
        says_rows = bool(self.current or self.versions)
        marks = [mark.column for mark in (self.deleted, self.current) if mark]
        return Convention(
            name=base.name,
            needs=() if marks or self.versions else base.needs,
            deleted=(self.deleted.mark,) if self.deleted else base.deleted,
            current=self.current.mark if self.current else None if says_rows else base.current,
            versions=self.versions if says_rows else base.versions,
            metadata=(*base.metadata, *(pattern.lower() for pattern in self.metadata)),
            types=self.types or base.types,
            stated=(*marks, *self.versions),
            link=base.link,
        )


CONVENTION_FORMS = ("a tool's convention", "a stated convention")
"""The forms of a convention, as they stand in the places of pydantic's errors."""


def _form(value: Any) -> str:
    return CONVENTION_FORMS[isinstance(value, Mapping | OwnConvention)]


ConventionField: TypeAlias = Annotated[
    Annotated[ToolName, Tag(CONVENTION_FORMS[0])] | Annotated[OwnConvention, Tag(CONVENTION_FORMS[1])], Discriminator(_form)
]
"""A tool's convention by its name, or one whose parts are stated."""
