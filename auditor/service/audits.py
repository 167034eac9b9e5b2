"""Select, list, define, drop, pause and unpause audits: those in the configuration and those defined through the API."""

from __future__ import annotations

import datetime as dt
import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from auditor.api_models import audit as api_models
from auditor.config import Audit, ConnectionSettings, Settings, Threshold, select_audits, validate_audit
from auditor.errors import ConfigError, UnknownAudit
from auditor.history import audit_status
from auditor.history.audit_status import Standing
from auditor.history.records import as_run
from auditor.history.table_standing import TableStanding, combine, find_shared
from auditor.planning.columns import Endpoint, is_named
from auditor.service import cron, definitions, planning, table_pairs
from auditor.service.definitions import definition as stored_definition
from auditor.store import audit_state, events, queue, runs
from auditor.store import audit_state as stored_definitions
from dialects import Place

if TYPE_CHECKING:
    from auditor.store import Store

log = logging.getLogger(__name__)

TREND_PERIOD = dt.timedelta(days=30)
"""How far back the trend of an audit goes."""

ALLOWED_SETTINGS: Mapping[str, frozenset[str] | None] = {
    "source": frozenset({"connection", "table"}),
    "target": frozenset({"connection", "table", "columns"}),
    "columns": frozenset({"include", "exclude"}),
    **dict.fromkeys(
        ("key", "method", "k", "t", "bits", "partition", "prescan", "limits", "threshold", "recheck", "allow_empty", "schema", "schedule")
    ),
}
"""Settings that the API accepts in a definition: in full (None), or only these keys of them. None can hold SQL, a URL or a path."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """An audit and what it stands at.

    ``trend`` contains the finished runs of the last 30 days, oldest first; ``defined`` means that it was defined through the API.
    Each leg of an audit via a dump has an overview of its own.
    """

    name: str
    source: str
    target: str
    method: str
    threshold: Threshold
    standing: Standing
    paused: bool
    next_due: dt.datetime | None
    trend: Sequence[runs.ScorePoint]
    defined: bool
    table: TableStanding | None
    """How the target's table stands, if other audits name columns of it, too."""


def overview(settings: Settings, store: Store, only: str | None = None, *, trends: bool = True) -> list[Overview]:
    """Return each audit, or ``only`` that one, and what it stands at, in the order of the configuration. Raises StoreError.

    ``trends=False`` omits the trends, which are most of the data read.
    """
    now = dt.datetime.now(dt.UTC)
    with store.share_connection():
        merged = with_defined_audits(settings, store)
        known = {name: definitions.audit(merged, name) for name in definitions.expand_legs(merged)}
        selected = {name: audit for name, audit in known.items() if only in (None, name)}
        shared = find_shared(known)
        sharing = {other: known[other] for name in selected for other in shared.get(name, ())}
        states = audit_state.get_states(store)
        paused = {name for name in selected if audit_state.is_paused(states, name)}
        standings = audit_status.load_standings(
            store, {**selected, **sharing}, settings.connections, now, states, None if sharing else only
        )
        scores = runs.list_scores(store, now - TREND_PERIOD, only) if trends else {}
    overviews = []
    for name, audit in selected.items():
        due = cron.next_times(audit.schedule, now, 1, name) if audit.schedule and name not in paused else []
        overviews.append(
            Overview(
                name=name,
                source=" + ".join(source.label for source in audit.sources),
                target=audit.target.label,
                method=audit.method,
                threshold=audit.threshold,
                standing=standings[name],
                paused=name in paused,
                next_due=due[0] if due else None,
                trend=scores.get(name, ()),
                defined=name not in settings.audits and name in merged.audits,
                table=combine(audit, shared.get(name, ()), standings),
            )
        )
    return overviews


def list_audits(settings: Settings, store: Store) -> list[api_models.Audit]:
    """Return all audits as every door shows them, in the order of their names. Raises StoreError."""
    return [
        _as_audit(audit_overview)
        for audit_overview in sorted(overview(settings, store, trends=False), key=lambda audit_overview: audit_overview.name)
    ]


def get_audit(settings: Settings, store: Store, name: str) -> api_models.AuditDetails:
    """Return one audit as every door shows it. Raises UnknownAudit and StoreError."""
    merged = with_defined_audits(settings, store)
    audit, audit_overview = definitions.audit(merged, name), next(iter(overview(settings, store, name)), None)
    if audit_overview is None:  # an audit via a dump has no runs of its own, its legs have
        legs = ", ".join(definitions.expand_legs(merged, [name]))
        raise UnknownAudit(f"{name!r} is audited via a dump and has no runs of its own; use one of its legs: {legs}")
    return api_models.AuditDetails(**dict(_as_audit(audit_overview)), trend=audit_overview.trend, definition=stored_definition(audit))


def _as_audit(audit_overview: Overview) -> api_models.Audit:
    standing = audit_overview.standing
    return api_models.Audit(
        **api_models.Audit.fields_of(audit_overview, without=("threshold", "table")),
        threshold=audit_overview.threshold.score,
        defined_over_http=audit_overview.defined,
        status=_as_status(standing),
        table=as_table_status(audit_overview.table),
        verified_through=standing.verified_through,
        latest_run=as_run(standing.newest) if standing.newest else None,
        active_run=as_run(standing.active) if standing.active else None,
    )


def as_table_status(table: TableStanding | None) -> api_models.SharedTableStatus | None:
    """Return how a table stands that several audits share, as every door shows it."""
    return api_models.SharedTableStatus(status=table.status, audits=dict(table.audits)) if table else None


def _as_status(standing: Standing) -> api_models.AuditStatus:
    last = standing.last
    return api_models.AuditStatus(
        **api_models.AuditStatus.fields_of(standing, without=("run", "last_run")),
        run=standing.run.run if standing.run else None,
        ended=standing.run.ended if standing.run else None,
        last_run=api_models.LastRun(run=last.run, state=last.state, ended=last.ended, note=standing.last_run) if last else None,
    )


def get_standing(settings: Settings, store: Store, name: str) -> Standing:
    """Return an audit's status now, also one that is no longer configured but has runs. Raises StoreError."""
    try:
        audit = definitions.audit(with_defined_audits(settings, store), name)
    except UnknownAudit:
        audit = None
    return audit_status.load_standing(store, name, audit, settings.connections, dt.datetime.now(dt.UTC))


def with_defined_audits(settings: Settings, store: Store) -> Settings:
    """Return the settings plus the audits of groups that have runs, and those defined through the API.

    Of the latter, those whose connections are no longer configured are left out.
    """
    settings = table_pairs.expand_known_groups(settings, store)
    defined: dict[str, Audit] = {}
    for name, definition in stored_definitions.list_definitions(store).items():
        try:
            audit = validate_audit(definition)
        except ConfigError as error:  # accepted by another version
            log.warning("the stored audit %s is invalid and ignored: %s", name, error, extra={"action": "audit_ignored", "audit": name})
            continue
        if name not in settings.audits and {place.connection for place in audit.places.values()} <= set(settings.connections):
            defined[name] = audit
    return settings.model_copy(update={"audits": {**settings.audits, **defined}}) if defined else settings


@dataclass(frozen=True, slots=True)
class Selected:
    """The audits that there are, and those of them that are wanted."""

    settings: Settings
    """The settings with every audit that there is, of tables and of segments."""
    names: list[str]
    """The wanted ones, known or not."""
    left_out: list[str]
    """A sentence for each table of a group that has no audit, with the reason."""


def select(
    settings: Settings, wanted: Sequence[str], store: Store | None, *, asks_databases: bool = False, by_leg: bool = False
) -> Selected:
    """Return every audit that there is, and the names of those that are ``wanted``: by name, by pattern or by group (default: all).

    There are those of the configuration, those of its groups, and those defined over HTTP, which the ``store`` holds. The audits of a
    group are those that have runs, or with ``asks_databases`` those of the tables that both databases have now. With ``by_leg`` an audit
    via a dump is replaced by its two legs.

    Raises UnknownAudit if a pattern matches none, StoreError, and with ``asks_databases`` ConfigError and EngineError.
    """
    known, left_out, asked = settings, list[str](), frozenset[str]()
    if asks_databases and settings.groups:
        known, left_out, asked = table_pairs.expand_groups(settings, wanted)
    if store is not None:
        others = {name: group for name, group in settings.groups.items() if name not in asked}
        merged = with_defined_audits(known.model_copy(update={"groups": others}), store)
        known = merged.model_copy(update={"groups": settings.groups})
    names = [*(definitions.expand_legs(known) if by_leg else known.audits), *known.segments]
    several = {*settings.groups, *(name for name, audit in known.audits.items() if by_leg and audit.via)}.difference(names)
    wishes = [name for wish in wanted for name in (_names_below(names, wish) if wish in several else [wish])]
    return Selected(known, select_audits(names, wishes) if wanted else names, left_out)


def _names_below(names: Iterable[str], whole: str) -> list[str]:
    """Return the audits of a group, or the legs of an audit; the name itself if there are none."""
    return [name for name in names if name.startswith(f"{whole}.")] or [whole]


def define(settings: Settings, store: Store, name: str, definition: Mapping[str, Any], by: str) -> None:
    """Plan and store an audit between two configured connections, and record the event.

    The definition names tables, key, columns and method; SQL, URLs, paths and expressions are rejected. Raises ConfigError, and the
    error that prevents its planning.
    """
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}", name):
        raise ConfigError(f"{name!r} is not a valid audit name: use at most 100 letters, digits, _ and -, starting with a letter or digit")
    if name in settings.audits:
        raise ConfigError(f"audit {name} is defined in the configuration file; change it there")
    if re.fullmatch(rf"{runs.AD_HOC_PREFIX}-[0-9a-f]{{12}}", name):
        raise ConfigError(f"{name}: names of this form are reserved for ad-hoc runs; choose another name")
    stored = stored_definition(validate_definition(settings, name, definition))
    stored_definitions.save_definition(store, name, stored, by)
    events.record_event(store, actor=by, action="audit defined", subject=name, detail={"definition": stored})


def validate_definition(settings: Settings, name: str, definition: Mapping[str, Any]) -> Audit:
    """Validate a definition from the API, plan it against the databases, and return the audit.

    Raises ConfigError for settings that are only allowed in the configuration, and the error that prevents its planning.
    """
    _check_allowed(definition)
    audit = validate_audit(definition)
    for side in audit.places.values():
        if side.connection not in settings.connections:
            raise ConfigError(f"there is no connection {side.connection!r} (connections here: {', '.join(sorted(settings.connections))})")
        if side.place.path is not None:
            raise ConfigError(f"{side.table!r} is a path, which the API does not accept; use the name of a table")
    for where, end in planning.describe_tables(settings, name, audit).items():
        _check_table(settings.connections[end.connection], audit.places[where].place, end)
    planning.make_plan(settings, name, audit)
    return audit


def _check_table(settings: ConnectionSettings, written: Place, end: Endpoint) -> None:
    """Raise ConfigError for a table that audits defined over HTTP may not read."""
    names = end.table.names or written.parts
    if {part.lower() for part in names[:-1]} & end.dialect.catalogue.SYSTEM_SCHEMAS:
        raise ConfigError(f"{end.label}: the server's own tables are not audited over HTTP, as they show statements and values of others")
    if settings.audit_tables is not None and not is_named(settings.audit_tables, Place(names)):
        raise ConfigError(f"{end.label}: audits defined over HTTP may not read it; add it to audit_tables of its connection")
    if end.mask_gap:
        raise ConfigError(f"{end.mask_gap}; define this audit in auditor.yaml, with masks of its own")


def _check_allowed(definition: Mapping[str, Any]) -> None:
    """Raise ConfigError for a setting outside ALLOWED_SETTINGS."""
    for setting, value in definition.items():
        if setting not in ALLOWED_SETTINGS:
            raise ConfigError(f"{setting} is only allowed in the configuration file; allowed here: {', '.join(ALLOWED_SETTINGS)}")
        allowed = ALLOWED_SETTINGS[setting]
        written = value if isinstance(value, list) and setting == "source" else [value]
        fields = {str(name) for level in written if isinstance(level, Mapping) for name in level}
        if allowed is not None and (more := sorted(fields - allowed)):
            raise ConfigError(f"{setting}.{more[0]} is only allowed in the configuration file; allowed here: {', '.join(sorted(allowed))}")


def drop(store: Store, name: str, by: str) -> None:
    """Delete an audit defined through the API, and record the event; its runs stay. Raises UnknownAudit."""
    stored_definitions.delete_definition(store, name)
    events.record_event(store, actor=by, action="audit dropped", subject=name)


def pause(settings: Settings, store: Store, name: str, *, by: str = "") -> None:
    """Stop scheduling an audit, and record the event. Raises UnknownAudit."""
    if name not in settings.segments:
        definitions.audit(with_defined_audits(settings, store), name)
    audit_state.update_state(store, name, paused=True)
    events.record_event(store, actor=by, action="audit paused", subject=name)


def unpause(settings: Settings, store: Store, name: str, *, by: str = "") -> None:
    """Schedule a paused audit again from its next tick on, and record the event. Raises UnknownAudit."""
    settings = with_defined_audits(settings, store)
    if name in settings.segments:
        schedules = {name: settings.segments[name].schedule}
    else:
        schedules = {leg: definitions.audit(settings, leg).schedule for leg in definitions.expand_legs(settings, [name])}
    for leg, schedule in schedules.items():
        last = cron.last_tick(schedule, dt.datetime.now(dt.UTC), leg) if schedule else None
        if last:  # ticks during the pause do not count as missed
            queue.claim_tick(store, leg, last, "paused")
    audit_state.update_state(store, name, paused=False)
    events.record_event(store, actor=by, action="audit unpaused", subject=name)
