"""Fingerprints of settings and plans, which identify the runs whose results are about the same rows, compared in the same way."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from auditor import canonical
from auditor.config import Audit, ConnectionSettings
from auditor.model import SIDES, Plan

if TYPE_CHECKING:
    from auditor.api_models.audit import Definition

IGNORED_SETTINGS = frozenset(
    {
        "method",
        "k",
        "t",
        "bits",
        "hash",
        "salt",
        "limits",
        "budget",
        "partition",
        "snapshot",
        "prescan",
        "recheck",
        "overdue_after",
        "ladder",
        "rolling",
        "via",
        "through",
        "schedule",
        "schema",
        "allow_empty",
        "align",
        "files",
        "history",
        "owner",
    }
)
"""Settings that decide how, how much and when a run reads, but not what it means that two rows match."""


CONNECTIONS = "connections"
"""Under this name a run's stored settings hold, by side, what of its connection decides which values it compared."""


def with_connections(definition: Mapping[str, Any], connections: Mapping[str, ConnectionSettings]) -> Definition:
    """Return an audit's settings with what of its connections decides which values a run compares.

    A connection that leads to another database, or whose times are of another zone, makes it another audit: nothing that was seen under
    the former one is known of it.
    """

    def identity(table: Mapping[str, Any]) -> dict[str, str] | None:
        return connections[name].identity if (name := table.get("connection", "")) in connections else None

    read: dict[str, Any] = {}
    for side in SIDES:
        written = definition[side]
        read[side] = [identity(place) for place in written] if isinstance(written, list) else identity(written)
    read = {side: identities for side, identities in read.items() if identities is not None}
    return {**definition, CONNECTIONS: read}


def without_connections(definition: Mapping[str, Any]) -> Definition:
    """Return an audit's settings from those of a run, without what `with_connections` added."""
    return {name: value for name, value in definition.items() if name != CONNECTIONS}


def hash_settings(definition: Mapping[str, Any]) -> str:
    """Return a hash of the settings that decide what a match means: databases, tables, rows, columns and tolerances. 16 hex digits.

    ``definition`` is that of a run, with its connections.

    Rows that match under one method and salt match under any other, and a later watermark concerns the same rows, so these are left
    out. Only whether the first method is counts is included, because it compares nothing but counts and sums; and the version of
    canonical texts, by which keys and partitions of earlier runs are stored.
    """
    ladder = definition.get("ladder")
    first = ladder["levels"][0] if ladder else definition.get("method")
    decisive = {name: value for name, value in definition.items() if name not in IGNORED_SETTINGS} | {"by counts": first == "counts"}
    decisive["version"] = canonical.VERSION
    if threshold := definition.get("threshold"):  # a warning changes no verdict
        decisive["threshold"] = {name: value for name, value in threshold.items() if name != "warn"}
    if settle := definition.get("settle"):
        decisive["settle"] = [settle["column"], settle.get("nulls")]
    return hashlib.sha256(json.dumps(decisive, sort_keys=True).encode()).hexdigest()[:16]


REMEMBERED = 10_000
"""Settings of stored runs of which the hash is remembered."""

_stored_hashes: dict[int, tuple[Mapping[str, Any], str]] = {}
"""Hashes of the settings of stored runs by the identity of the mapping, which the runs of one version share and nothing changes."""


def hash_stored(definition: Mapping[str, Any]) -> str:
    """Return `hash_settings` of a stored run's settings."""
    known = _stored_hashes.get(id(definition))
    if known is None or known[0] is not definition:
        if len(_stored_hashes) >= REMEMBERED:
            _stored_hashes.clear()
        known = _stored_hashes[id(definition)] = definition, hash_settings(definition)
    return known[1]


_hashes: dict[str, tuple[Audit, Mapping[str, ConnectionSettings], str]] = {}
"""Cached hashes of audits by name, with the audit and the connections that each was computed for."""


def hash_audit(name: str, audit: Audit, connections: Mapping[str, ConnectionSettings]) -> str:
    """Return `hash_settings` of a configured audit."""
    known = _hashes.get(name)
    if known is None or known[0] is not audit or known[1] is not connections:
        definition = audit.model_dump(mode="json", by_alias=True, exclude_defaults=True)
        known = _hashes[name] = audit, connections, hash_settings(with_connections(definition, connections))
    return known[2]  # not the dictionary's value: another thread may have stored a hash of other settings under this name


def hash_layout(plan: Plan, settings: str) -> str:
    """Return a hash that is equal for runs with the same partitions and settings. 16 hexadecimal digits.

    ``settings`` is the result of `hash_settings`. Partitions read by runs of one layout can be combined into one table.
    """
    layout: list[object] = [settings, str(plan.partitioning), plan.partitioning.size, plan.key]
    layout += [(plan.sides[side].connection, plan.sides[side].table) for side in SIDES]
    layout += [(c.name, str(c.kind), *(c.expression[side] for side in SIDES)) for c in plan.columns]
    layout += [(c.name, c.pieces) for c in plan.columns if c.digest]
    return hashlib.sha256(repr(layout).encode()).hexdigest()[:16]
