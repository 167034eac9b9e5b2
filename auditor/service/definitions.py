"""Look up audits by name or run, in the form in which they are stored, with the settings that one run may override.

An audit via a dump (``via:``) consists of two legs, which are audits of their own; `combined` merges their results.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypedDict

from auditor.config import Audit, ConnectionSettings, Settings, validate_audit
from auditor.errors import ConfigError
from auditor.history import fingerprint
from auditor.model import PERMISSIONS, SLICES, Slice
from auditor.planning import proxy, requested_slice
from auditor.planning.proxy import Combined, Leg

if TYPE_CHECKING:
    from auditor.api_models.audit import Definition, Overrides
    from auditor.store import Store
    from auditor.store.runs import StoredRun

OVERRIDABLE = ("method", "k", "t", "threshold", "recheck", *PERMISSIONS, *SLICES)
"""What a single run may override: settings of its audit; permissions and the slice are options of the run itself."""


class RunValues(TypedDict):
    """What the queue stores of a new run, whatever asks for it."""

    run: str
    audit: str
    definition: Definition
    method: str | None


def apply_overrides(audit: Audit, overrides: Mapping[str, Any]) -> tuple[Audit, Slice | None]:
    """Return the audit with these settings for one run, and the slice of its tables that the run compares (None: all of them).

    Raises ConfigError for an override that is not allowed or does not fit the audit.
    """
    unknown = sorted(set(overrides) - set(OVERRIDABLE))
    if unknown:
        raise ConfigError(f"a run cannot override {unknown[0]!r}; it can override {', '.join(OVERRIDABLE)}")
    if overrides.get("rescan") and not (audit.summaries or audit.files):
        raise ConfigError("only an audit with summaries: live or files: kept can be rescanned, as any other reads both sides in every run")
    slice = requested_slice.parse(audit, overrides)
    values = {name: value for name, value in overrides.items() if name not in (*PERMISSIONS, *SLICES)}
    if not values:
        return audit, slice
    if "method" in values:
        values["ladder"] = None
        if values["method"] not in ("exact", "auto"):
            values.setdefault("recheck", None)  # the other methods name no rows that could be rechecked
    return validate_audit({**audit.model_dump(by_alias=True, exclude_unset=True), **values}), slice


def without_own_settings(audit: Audit, overrides: Mapping[str, Any]) -> Overrides:
    """Return the overrides without those that repeat a setting of the audit; a run that has others left is a one-off run.

    Raises ConfigError, as `apply_overrides` does.
    """
    own = definition(audit)
    if definition(apply_overrides(audit, overrides)[0]) == own:
        return {name: value for name, value in overrides.items() if value and name in (*PERMISSIONS, *SLICES)}
    return {
        name: value
        for name, value in overrides.items()
        if (value if name in (*PERMISSIONS, *SLICES) else definition(apply_overrides(audit, {name: value})[0]) != own)
    }


def definition(audit: Audit) -> Definition:
    """Return an audit as it is stored: JSON values of all settings that differ from their defaults."""
    return audit.model_dump(mode="json", by_alias=True, exclude_defaults=True)


def definition_of_run(settings: Settings, audit: Audit) -> Definition:
    """Return an audit as it is stored with its runs: with what of its connections decides what these compare."""
    return fingerprint.with_connections(definition(audit), settings.connections)


def own_definition(run: StoredRun) -> Definition:
    """Return the audit that is stored with a run, as ``definition`` returned it."""
    return fingerprint.without_connections(run.definition)


def connections_of_run(settings: Settings, overrides: Mapping[str, Any]) -> Mapping[str, ConnectionSettings]:
    """Return the connections of a run; a forced one may scan large tables by keys without an index."""
    if not overrides.get("force"):
        return settings.connections
    forced = {"force": True}
    return {
        name: connection.model_copy(update={"limits": connection.limits.model_copy(update=forced)})
        for name, connection in settings.connections.items()
    }


def expand_legs(settings: Settings, names: Iterable[str] = ()) -> list[str]:
    """Return the audits to run for these names (default: all), with an audit via a dump replaced by its two legs. Raises UnknownAudit."""
    expanded: list[str] = []
    for name in names or settings.audits:
        definition = audit(settings, name)
        expanded += [f"{name}.{leg}" for leg in proxy.LEG_SUFFIXES] if definition.via else [name]
    return expanded


def audit(settings: Settings, name: str) -> Audit:
    """Return the audit or leg of that name. Raises UnknownAudit, and ConfigError if the legs cannot be derived."""
    base, _, leg = name.rpartition(".")
    whole = settings.audits.get(base)
    if name not in settings.audits and whole and whole.via and leg in proxy.LEG_SUFFIXES:
        return proxy.split_audit(base, whole, settings.connections)[name]
    return settings.audit(name)


def settings_for_run(settings: Settings, run: StoredRun) -> Settings:
    """Return the settings, plus the audit that an ad-hoc run carries. Raises ConfigError if its connection is no longer configured."""
    if not run.is_ad_hoc:
        return settings
    audit = validate_audit(own_definition(run))
    for side in audit.places.values():
        if side.connection not in settings.connections:
            raise ConfigError(f"run {run.run} uses connection {side.connection!r}, which is no longer configured; start a new run")
    return settings.model_copy(update={"audits": {**settings.audits, run.audit: audit}})


def as_of(settings: Settings, name: str) -> dt.datetime | None:
    """Return the moment a leg's dump represents; None for other audits and if it is unknown."""
    whole = settings.audits.get(name.rpartition(".")[0])
    return proxy.as_of(whole.via) if name not in settings.audits and whole and whole.via else None


def combined(settings: Settings, store: Store, name: str) -> Combined:
    """Return the combined result of the last runs of both legs. Raises UnknownAudit."""
    from auditor.history import records
    from auditor.store import runs

    threshold = settings.audit(name).threshold
    legs: list[Leg | None] = []
    for leg in proxy.LEG_SUFFIXES:
        last = runs.get_latest_run(store, f"{name}.{leg}")
        report = records.load_report(store, last.run) if last else None
        legs.append(proxy.leg_result(report.verdict, last.started, report) if last and report else None)
    return proxy.combine(legs[0], legs[1], dt.datetime.now(dt.UTC), threshold)
