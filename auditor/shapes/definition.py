"""Audits as they are stored, shown, and written into ``auditor.yaml``."""

from __future__ import annotations

from typing import NotRequired, TypeAlias, TypedDict

from pydantic import JsonValue

Definition: TypeAlias = dict[str, JsonValue]
"""JSON values of an audit's settings that differ from their defaults, by the names that they have in ``auditor.yaml``."""

Overrides: TypeAlias = dict[str, JsonValue]
"""Settings of one run that differ from its audit's."""


class ProposedTable(TypedDict):
    """One end of a proposed audit."""

    connection: str
    table: str
    columns: NotRequired[dict[str, str]]
    """The target's names of columns that are called differently there."""


class ProposedAudit(TypedDict):
    """An audit that is written into ``auditor.yaml``."""

    source: ProposedTable
    target: ProposedTable
    columns: NotRequired[dict[str, list[str]]]
    where: NotRequired[str]
