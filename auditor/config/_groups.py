"""Audits of many tables with the same settings: an entry under ``audits:`` with ``tables:`` in place of two tables."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, model_validator

from auditor.config._audit import Audit
from auditor.config._base import Strict

ANY = "*"
"""Stands for the tables that a group's template does not name."""


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


class AuditGroup(Strict):
    """Tables of two connections, each of which is an audit of its own called ``group.table``."""

    tables: Annotated[tuple[str, ...], BeforeValidator(_as_list), Field(min_length=1)]
    """Patterns of the source's tables, with or without their schema: ``orders_*``, ``shop.*``."""
    template: Audit
    """The settings of each audit."""

    @model_validator(mode="after")
    def _is_plain(self) -> AuditGroup:
        if self.template.via:
            raise ValueError("via and tables cannot be combined; a dump stands in for one table")
        if self.template.shards:
            raise ValueError("tables and a source of several shards cannot be combined; write an audit for each table")
        return self

    def matches(self, schema: str, name: str) -> bool:
        """Return whether a table of the source is meant."""
        return any(fnmatchcase(text, pattern) for pattern in self.tables for text in (name, f"{schema}.{name}"))

    def audit(self, source: str, target: str) -> Audit:
        """Return the audit of two tables, named as a configuration names them."""
        sides = {"source": source, "target": target}
        return self.template.model_copy(
            update={side: getattr(self.template, side).model_copy(update={"table": table}) for side, table in sides.items()}
        )


def split_groups(values: Any) -> Any:
    """Move the entries under ``audits`` that have ``tables`` to ``groups``. Raises ValueError."""
    if not isinstance(values, Mapping) or not isinstance(values.get("audits"), Mapping):
        return values
    if "groups" in values:
        raise ValueError("unknown setting 'groups'; write tables: in an audit instead of two tables")
    written = {name: group for name, group in values["audits"].items() if isinstance(group, Mapping) and "tables" in group}
    groups: dict[str, Any] = {}
    for name, group in written.items():
        sides: dict[str, Any] = {}
        for side in ("source", "target"):
            given = group.get(side)
            if isinstance(given, list):
                raise ValueError(f"audits.{name}: tables and a source of several shards cannot be combined; write an audit for each table")
            if isinstance(given, Mapping):
                if "table" in given:
                    raise ValueError(f"audits.{name}: tables and {side}: table cannot be combined; write one of them")
                sides[side] = {**given, "table": ANY}
        groups[name] = {"tables": group["tables"], "template": {**{key: v for key, v in group.items() if key != "tables"}, **sides}}
    audits = {name: audit for name, audit in values["audits"].items() if name not in written}
    return {**values, "audits": audits, "groups": groups} if groups else values


def written_place(where: tuple[str | int, ...]) -> tuple[str | int, ...]:
    """Return where a setting of a group stands in the configuration."""
    if where[:1] != ("groups",):
        return where
    return ("audits", *(part for index, part in enumerate(where[1:], 1) if (index, part) != (2, "template")))
