"""Select, list, define, drop, pause and unpause audits: those in the configuration and those defined through the API."""

from __future__ import annotations

import datetime as dt
import logging
import re
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from auditor.api_models import audit as api_models
from auditor.api_models.incident import Incident
from auditor.config import Audit, ConnectionSettings, LimitedSettings, Settings, Threshold, select_audits, suggest, validate_audit
from auditor.errors import ConfigError, UnknownAudit, UnknownRun
from auditor.escaping import shell_word
from auditor.history import audit_status
from auditor.history.audit_status import Standing
from auditor.history.records import as_run
from auditor.history.table_standing import TableStanding, combine, find_shared
from auditor.model import Verdict
from auditor.planning.columns import Endpoint, is_named
from auditor.service import cron, definitions, planning
from auditor.service.definitions import definition as stored_definition
from auditor.store import audit_state, events, incidents, queue, runs, streaks
from auditor.store import audit_state as stored_definitions
from auditor.store.streaks import Streak
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
        (
            *("key", "method", "k", "t", "bits", "partition", "prescan", "limits", "threshold", "recheck", "allow_empty", "schema"),
            *("schedule", "owner"),
        )
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
    incident: Incident | None
    """The open incident, with who acknowledged it."""
    streak: Streak | None
    """Since when the audit has its last verdict, and what came before; None without one, and for rolling audits without an incident."""
    group: str
    """The group of tables that the audit is of; empty if it is of none."""
    owner: str | None
    """Who answers for the audit: a team or a person."""
    configured: bool = True
    """Whether the audit is still configured."""

    @property
    def change(self) -> api_models.Change | None:
        """Whether what differs is new or still there, or the audit has recovered; None for a match after a match."""
        streak, verdict = self.streak, self.standing.verdict
        if streak is None:
            return None
        if verdict is Verdict.MATCH:
            return "recovered" if streak.before not in (None, Verdict.MATCH) and streak.runs_one else None
        return "new" if streak.runs_one else "still"

    @property
    def needs_attention(self) -> bool:
        """Return whether a person should look: the audit needs attention, and nobody muted its incident."""
        is_muted = self.incident is not None and self.incident.state == "muted"
        return self.standing.has_failed or (self.standing.needs_attention and not is_muted)


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
        found_streaks = find_streaks(store, {name: standings[name] for name in selected})
        opened = incidents.list_open(store)
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
                streak=found_streaks.get(name),
                group=group_of(settings, name),
                owner=audit.owner,
                incident=opened.get(name),
            )
        )
    return overviews


def overview_of_day(settings: Settings, store: Store, day: dt.date, among: Container[str] | None = None) -> list[Overview]:
    """Return what each audit stood at when a day (UTC) ended, or stands at now if it has not ended, from the runs that started until then.

    These are the audits of tables and of segments, and those that are no longer configured but ran in the last 30 days; of these
    ``among`` names all that may be shown. Raises StoreError.
    """
    now = dt.datetime.now(dt.UTC)
    end = dt.datetime.combine(day, dt.time(), dt.UTC) + dt.timedelta(days=1)
    at, is_past = min(now, end), end <= now
    with store.share_connection():
        merged = with_defined_audits(settings, store)
        known = {name: definitions.audit(merged, name) for name in definitions.expand_legs(merged)}
        kept = runs.list_latest_runs_before(store, end) if is_past else runs.list_latest_runs(store)
        states = audit_state.get_states(store)
        standings = audit_status.standings_of_audits(store, known, settings.connections, at, {} if is_past else states, kept)
        for name in {**settings.segments, **{name: one for name, one in _recent(kept, at).items() if among is None or name in among}}:
            if name not in standings:
                paused, segments = audit_state.is_paused(states, name), settings.segments.get(name)
                standings[name] = audit_status.derive_standing(kept.get(name, []), at, segments, paused=paused)
        found_streaks = find_streaks(store, standings, end if is_past else None)
        opened = incidents.list_open(store)
    shared = find_shared(known)
    overviews = []
    for name, standing in standings.items():
        audit = known.get(name)
        overviews.append(
            Overview(
                name=name,
                source=" + ".join(source.label for source in audit.sources) if audit else "",
                target=audit.target.label if audit else "",
                method=audit.method if audit else "",
                threshold=audit.threshold if audit else Threshold(),
                standing=standing,
                paused=audit_state.is_paused(states, name),
                next_due=None,
                trend=(),
                defined=name not in settings.audits and name in merged.audits,
                table=combine(audit, shared.get(name, ()), standings) if audit else None,
                streak=found_streaks.get(name),
                group=group_of(settings, name),
                owner=audit.owner if audit else None,
                incident=None if is_past else opened.get(name),
                configured=audit is not None or name in settings.segments,
            )
        )
    return overviews


def _recent(kept: Mapping[str, Sequence[runs.StoredRun]], at: dt.datetime) -> dict[str, bool]:
    """Return the audits that have run in the last 30 days, without ad-hoc runs."""
    latest = {name: listed[0] for name, listed in kept.items() if listed and not listed[0].is_ad_hoc}
    return {name: True for name, run in latest.items() if run.started >= at - TREND_PERIOD}


def find_streaks(store: Store, standings: Mapping[str, Standing], end: dt.datetime | None = None) -> dict[str, Streak]:
    """Return the streak of each audit that has a verdict: of a rolling one that of its whole table, which its last incident tells.

    ``end`` is when the standings were so, now by default: an incident that was opened or closed later says nothing of them.
    """
    newest = {name: standing.run for name, standing in standings.items() if standing.run}
    rolling = {name: run for name, run in newest.items() if "rolling" in run.definition}
    found = streaks.find_streaks(store, {name: run for name, run in newest.items() if name not in rolling})
    last = incidents.list_last(store, rolling) if rolling else {}
    for name, incident in last.items():
        if end is not None and (incident.closed or incident.opened) > end:
            continue
        verdict, run = standings[name].verdict, rolling[name].run
        if verdict is Verdict.MISMATCH and incident.closed is None:
            found[name] = Streak(incident.opened, None, incident.first_run == run)
        elif verdict is Verdict.MATCH and incident.closed is not None:
            found[name] = Streak(incident.closed, Verdict.MISMATCH, incident.closing_run == run)
    return found


def list_days(store: Store, listed: Sequence[Overview], first: dt.date) -> dict[str, dict[dt.date, Verdict]]:
    """Return by audit the worst verdict of each day (UTC) from ``first`` on on which a run started. Raises StoreError."""
    return streaks.list_days(store, {audit.name: audit.standing.run for audit in listed if audit.standing.run}, first)


def group_of(settings: Settings, name: str) -> str:
    """Return the name of the group that an audit is one of; empty if it is of none."""
    group = name.partition(".")[0]
    return group if group in settings.groups else ""


def list_audits(settings: Settings, store: Store, after: str = "", limit: int | None = None) -> list[api_models.Audit]:
    """Return all audits, or up to ``limit`` after this name, as every door shows them, in the order of their names. Raises StoreError."""
    listed = [audit_overview for audit_overview in overview(settings, store, trends=False) if audit_overview.name > after]
    return [_as_audit(audit_overview) for audit_overview in sorted(listed, key=lambda audit_overview: audit_overview.name)[:limit]]


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
        since=audit_overview.streak.since if audit_overview.streak else None,
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


def find_run(settings: Settings, store: Store, what: str) -> runs.StoredRun:
    """Return the run whose id is or begins so, for a text that may name an audit as well, and names none that ran.

    Raises UnknownRun, which says of an audit that it has not run, and of any other text which audits are the nearest.
    """
    if found := runs.find_run(store, what):
        return found
    known = with_defined_audits(settings, store)
    names = [*definitions.expand_legs(known), *known.segments]
    if what in names:
        raise UnknownRun(f"audit {what} has not run yet; run it: auditor run {shell_word(what)}")
    if what in known.groups:
        raise UnknownRun(known.describe_unknown_audit(what))
    near = suggest(what, names)
    raise UnknownRun(f"there is no run and no audit that ran called {what!r}{near or '; list the runs with: auditor runs'}")


def with_defined_audits(settings: Settings, store: Store) -> Settings:
    """Return the settings plus the audits of groups that have runs, and those defined through the API.

    Of the latter, those whose connections are no longer configured are left out.
    """
    if settings.groups:
        from auditor.service import table_pairs  # which loads how audits of tables are proposed

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
    if isinstance(settings, LimitedSettings):
        return settings.model_copy(update={"audits": settings.select({**settings.audits, **defined})})
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
        from auditor.service import table_pairs

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
        settings.connection(side.connection)  # which raises ConfigError if there is none
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
