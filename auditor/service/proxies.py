"""Look up audits by name or run.

An audit via a dump (``via:``) consists of two legs, which are audits of their own; `combined` merges their results.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from typing import TYPE_CHECKING

from auditor.config import Audit, Settings, validate_audit
from auditor.errors import ConfigError
from auditor.planning import proxy
from auditor.planning.proxy import Combined, Leg
from auditor.service.definitions import own_definition

if TYPE_CHECKING:
    from auditor.store import Store
    from auditor.store.runs import StoredRun


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
