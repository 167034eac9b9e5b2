"""Which audit a name or a run is of. Of one by way of a dump the legs are audits of their own, and what both found is told together."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from typing import TYPE_CHECKING

from auditor import chain
from auditor.chain import Combined, Leg
from auditor.config import Audit, Settings, checked_audit
from auditor.errors import ConfigError

if TYPE_CHECKING:
    from auditor.store import Store
    from auditor.store.runs import StoredRun


def expanded(settings: Settings, names: Iterable[str] = ()) -> list[str]:
    """The audits to run for these names (all, without any): of one by way of a dump, its two legs. Raises UnknownAudit."""
    found: list[str] = []
    for name in names or settings.audits:
        one = audit(settings, name)
        found += [f"{name}.{leg}" for leg in chain.LEGS] if one.via else [name]
    return found


def audit(settings: Settings, name: str) -> Audit:
    """The audit of that name, or the leg. Raises UnknownAudit, and ConfigError where a leg cannot be made."""
    base, _, leg = name.rpartition(".")
    whole = settings.audits.get(base)
    if name not in settings.audits and whole and whole.via and leg in chain.LEGS:
        return chain.legs(base, whole, settings.connections)[name]
    return settings.audit(name)


def of_run(settings: Settings, run: StoredRun) -> Settings:
    """The settings with the audit of an ad-hoc run, which brings it along. Raises ConfigError where it can be run no more."""
    if not run.is_ad_hoc:
        return settings
    audit = checked_audit(run.definition)
    for side in (audit.source, audit.target):
        if side.connection not in settings.connections:
            raise ConfigError(f"run {run.run} is of the connection {side.connection!r}, which is configured no more")
    return settings.model_copy(update={"audits": {**settings.audits, run.audit: audit}})


def as_of(settings: Settings, name: str) -> dt.datetime | None:
    """The moment that the dump of a leg stands for; None of an audit that is no leg, and where nobody knows."""
    whole = settings.audits.get(name.rpartition(".")[0])
    return chain.as_of(whole.via) if name not in settings.audits and whole and whole.via else None


def combined(settings: Settings, store: Store, name: str) -> Combined:
    """What the last runs of both legs say together. Raises UnknownAudit."""
    from auditor import keep
    from auditor.store import runs

    threshold = settings.audit(name).threshold
    found: list[Leg | None] = []
    for leg in chain.LEGS:
        last = runs.latest(store, f"{name}.{leg}")
        report = keep.report(store, last.run) if last else None
        found.append(chain.leg(report.verdict, last.started, report) if last and report else None)
    return chain.combined(found[0], found[1], dt.datetime.now(dt.UTC), threshold)
