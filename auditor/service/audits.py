"""The audits that there are: configured ones and those kept through the API, how each stands, and pausing them."""

from __future__ import annotations

import datetime as dt
import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from auditor import keep, ticks
from auditor.config import Audit, Settings, TableRef, checked_audit
from auditor.errors import ConfigError
from auditor.service import chains, planning
from auditor.service.running import definition as kept_definition
from auditor.store import claims, defined, events, runs, standing

if TYPE_CHECKING:
    from auditor.store import Store
    from auditor.store.runs import StoredRun

log = logging.getLogger(__name__)

TREND = dt.timedelta(days=30)

ALLOWED: Mapping[str, frozenset[str] | None] = {
    "source": frozenset({"connection", "table"}),
    "target": frozenset({"connection", "table", "columns"}),
    "columns": frozenset({"include", "exclude"}),
    **dict.fromkeys(
        ("key", "method", "k", "t", "bits", "partition", "limits", "threshold", "recheck", "allow_empty", "schema", "schedule")
    ),
}
"""What a definition through the API may say: all of a setting (None), or these of its own. Nothing of it is SQL, a URL or a path."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """How an audit stands. ``latest`` is the newest run of its whole table that has begun, ``running`` the one that runs or else waits.

    ``trend`` are the runs of the last 30 days that are done, the oldest first; ``defined`` says that it was kept through the API.
    Of an audit by way of a dump, each leg is an audit here.
    """

    name: str
    source: str
    target: str
    method: str
    threshold: float
    latest: StoredRun | None
    running: StoredRun | None
    verified_through: dt.datetime | None
    paused: bool
    next_due: dt.datetime | None
    trend: Sequence[runs.Point]
    defined: bool


def overview(settings: Settings, store: Store, only: str | None = None, *, trends: bool = True) -> list[Overview]:
    """How each audit stands, or ``only`` that one, in the order in which they are configured. Raises StoreError.

    Without ``trends`` they are left out: they are nearly all of what this reads.
    """
    now = dt.datetime.now(dt.UTC)
    with store.together():
        whole = every(settings, store)
        newest, living = runs.newest_and_living(store, only)
        stand = standing.every(store)
        drawn = runs.scores(store, now - TREND, only) if trends else {}
    found = []
    for name in chains.expanded(whole):
        if only not in (None, name):
            continue
        audit, here = chains.audit(whole, name), stand.get(name, standing.Standing())
        paused = is_paused(stand, name)
        due = ticks.next_times(audit.schedule, now, 1, name) if audit.schedule and not paused else []
        found.append(
            Overview(
                name=name,
                source=label(audit.source),
                target=label(audit.target),
                method=audit.method,
                threshold=audit.threshold.score,
                latest=newest.get(name),
                running=living.get(name),
                verified_through=here.verified(_decisive(name, audit)),
                paused=paused,
                next_due=due[0] if due else None,
                trend=drawn.get(name, ()),
                defined=name not in settings.audits and name in whole.audits,
            )
        )
    return found


_hashes: dict[str, tuple[Audit, str]] = {}
"""The hash of what decides a match, of each audit as it was last seen: those that are configured stay the same objects."""


def _decisive(name: str, audit: Audit) -> str:
    known = _hashes.get(name)
    if known is None or known[0] is not audit:
        known = _hashes[name] = audit, keep.settings(kept_definition(audit))
    return known[1]  # and not what another thread has put there meanwhile, for other settings of that name


def label(table: TableRef) -> str:
    """A table as a person writes it."""
    return f"{table.connection}: {table.table}"


def is_paused(stand: Mapping[str, standing.Standing], name: str) -> bool:
    """Whether an audit is paused, or the one that it is a leg of."""
    return any(one in stand and stand[one].paused for one in (name, name.rpartition(".")[0]))


def every(settings: Settings, store: Store) -> Settings:
    """The settings with the audits that were kept through the API, as far as their connections are configured still."""
    found: dict[str, Audit] = {}
    for name, definition in defined.all(store).items():
        try:
            audit = checked_audit(definition)
        except ConfigError as error:  # another version took it
            log.warning("the audit %s is left out: %s", name, error, extra={"action": "left_out", "audit": name})
            continue
        if name not in settings.audits and {audit.source.connection, audit.target.connection} <= set(settings.connections):
            found[name] = audit
    return settings.model_copy(update={"audits": {**settings.audits, **found}}) if found else settings


def define(settings: Settings, store: Store, name: str, definition: Mapping[str, Any], by: str) -> None:
    """Keep an audit between two configured connections, after planning it, and note the event.

    It says which tables, key and columns, and how they are compared; SQL, URLs, paths and expressions are refused. Raises
    ConfigError, and what keeps it from being planned.
    """
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}", name):
        raise ConfigError("an audit's name has letters, digits, _ and -, at most 100, and begins with a letter or digit")
    if name in settings.audits:
        raise ConfigError(f"the audit {name} stands in the configuration, which only its file can change")
    if re.fullmatch(rf"{runs.AD_HOC}-[0-9a-f]{{12}}", name):
        raise ConfigError(f"{name}: names of this form are those of ad-hoc runs; choose another")
    kept = kept_definition(planned(settings, name, definition))
    defined.keep(store, name, kept, by)
    events.note(store, who=by, what="audit defined", subject=name, detail={"definition": kept})


def planned(settings: Settings, name: str, definition: Mapping[str, Any]) -> Audit:
    """The audit of a definition that came through the API, once it was planned as the databases are now.

    Raises ConfigError for whatever may only be configured, and what keeps it from being planned.
    """
    _refuse_more(definition)
    audit = checked_audit(definition)
    for side in (audit.source, audit.target):
        if side.connection not in settings.connections:
            raise ConfigError(f"there is no connection {side.connection!r} (connections here: {', '.join(sorted(settings.connections))})")
        if side.place.path is not None:
            raise ConfigError(f"{side.table!r} is a path; write the name of a table")
    planning.planned(settings, name, audit)
    return audit


def _refuse_more(definition: Mapping[str, Any]) -> None:
    for setting, value in definition.items():
        if setting not in ALLOWED:
            raise ConfigError(f"{setting}: it can only be written in the configuration; write some of {', '.join(ALLOWED)}")
        allowed = ALLOWED[setting]
        if allowed is None or not isinstance(value, Mapping):
            continue
        if more := sorted(set(map(str, value)) - allowed):
            raise ConfigError(
                f"{setting}.{more[0]}: it can only be written in the configuration; write some of {', '.join(sorted(allowed))}"
            )


def drop(store: Store, name: str, by: str) -> None:
    """Forget an audit that was kept through the API, and note the event; its runs stay. Raises UnknownAudit."""
    defined.drop(store, name)
    events.note(store, who=by, what="audit dropped", subject=name)


def pause(settings: Settings, store: Store, name: str, *, by: str = "") -> None:
    """Let an audit be no longer due by its schedule, and note the event. Raises UnknownAudit."""
    chains.audit(every(settings, store), name)
    standing.update(store, name, paused=True)
    events.note(store, who=by, what="audit paused", subject=name)


def unpause(settings: Settings, store: Store, name: str, *, by: str = "") -> None:
    """Let an audit be due again from its next tick on, and note the event. Raises UnknownAudit."""
    settings = every(settings, store)
    chains.audit(settings, name)
    for leg in chains.expanded(settings, [name]):
        schedule = chains.audit(settings, leg).schedule
        last = ticks.last(schedule, dt.datetime.now(dt.UTC), leg) if schedule else None
        if last:  # what came while it was paused was not missed
            claims.claim(store, leg, last, "paused")
    standing.update(store, name, paused=False)
    events.note(store, who=by, what="audit unpaused", subject=name)
