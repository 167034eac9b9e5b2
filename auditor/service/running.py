"""Running audits, going on with runs, ending them: everything that a run leaves is kept here."""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from auditor import run as running
from auditor import section, telemetry
from auditor.config import Audit, Connection, Keep, Settings
from auditor.errors import ConfigError, NotResumable, StoreError
from auditor.link import Watcher, unwatched
from auditor.model import SECTIONS, Report, Verdict
from auditor.run import Before, Outcome
from auditor.service import chains

if TYPE_CHECKING:
    from auditor.kept import Kept
    from auditor.store import Store
    from auditor.store.runs import StoredRun
    from auditor.whole import Whole

log = logging.getLogger(__name__)

HISTORY = 30
"""Runs that a choice of method, or a rate, looks back on."""


def run_audit(
    settings: Settings,
    name: str,
    watch: Watcher = unwatched,
    store: Store | None = None,
    *,
    reason: str = "",
    requested_by: str = "",
    overrides: Mapping[str, Any] = {},
) -> Report:
    """Run one audit, and keep the run in ``store`` if there is one, with the event that it is.

    ``overrides`` are settings of the audit for this run alone; with ``keys`` or ``times`` (each with ``from``, ``to`` or both) it
    looks at that section of the table alone, and changes nothing of how the audit stands.

    Raises UnknownAudit, ConfigError for settings that may not be overridden, AlreadyRunning, and StoreError where the run cannot
    be kept from its start; everything else that goes wrong is in the report.
    """
    audit = overridden(chains.audit(settings, name), overrides)
    if store is None:
        return running.run(name, audit, settings.connections, watch, section.asked(audit, overrides))
    from auditor.kept import Kept
    from auditor.store import runs

    identity = uuid.uuid4().hex
    runs.begin(
        store,
        run=identity,
        audit=name,
        definition=definition(chains.audit(settings, name)),
        method=None if audit.ladder or audit.method == "auto" else audit.method,
        reason=reason,
        requested_by=requested_by,
        overrides=overrides,
    )
    kept = Kept(store, identity)
    _note(kept, requested_by, "run requested", {"audit": name, "overrides": dict(overrides), "reason": reason})
    return _carried_out(settings, name, audit, watch, kept, None, overrides)


def resume(settings: Settings, store: Store, run: str, watch: Watcher = unwatched, *, requested_by: str = "") -> Report:
    """Go on with a run that ended early, from the chunks that were read, and note the event.

    Raises UnknownRun, AlreadyRunning, NotResumable, and ConfigError where an ad-hoc run's connections are configured no more;
    everything else that goes wrong is in the report.
    """
    from auditor.kept import Kept, unpacked_plan
    from auditor.service import audits
    from auditor.store import runs

    stored = runs.find(store, run)
    identity = stored.run
    settings = chains.of_run(audits.every(settings, store), stored)
    if definition(chains.audit(settings, stored.audit)) != stored.definition:
        raise NotResumable(
            f"the settings of {stored.audit} changed since run {identity} began; start a new one: auditor run {stored.audit}"
        )
    taken = runs.take_up(store, identity)
    kept = Kept(store, identity)
    kept.take_up()
    _note(kept, requested_by, "run resumed", {"audit": taken.audit})
    audit = overridden(chains.audit(settings, taken.audit), taken.overrides)
    return _carried_out(settings, taken.audit, audit, watch, kept, unpacked_plan(taken.plan), taken.overrides)


def _note(kept: Kept, who: str, what: str, detail: Mapping[str, Any]) -> None:
    """Note an event of a run that this process has begun, and which a store that fails does not end."""
    from auditor.store import events

    try:
        events.note(kept.store, who=who, what=what, subject=kept.run, detail=detail)
    except StoreError as error:
        kept.failure = str(error)


def carry_on(settings: Settings, store: Store, claimed: StoredRun, kept: Kept, finish: Finish) -> Report:
    """Carry out a run that was claimed from the queue: go on with it where it stands, unless its audit's settings changed since.

    Raises UnknownAudit and ConfigError where the audit is there no more, and StoreError; everything else is in the report.
    """
    from pydantic import ValidationError

    from auditor.kept import unpacked_plan
    from auditor.store import queue, runs

    settings = chains.of_run(settings, claimed)
    audit, plan = chains.audit(settings, claimed.audit), None
    if definition(audit) != claimed.definition:
        queue.redefine(store, claimed.run, definition(audit))
    elif claimed.resumable and (packed := runs.plan(store, claimed.run)):
        try:
            plan = unpacked_plan(packed)
        except ValidationError:  # another version's plan: the run begins anew
            log.info("the plan is not understood", extra={"action": "begun_anew", "run": claimed.run})
        else:
            kept.take_up()
    overrides = claimed.overrides
    return _carried_out(settings, claimed.audit, overridden(audit, overrides), unwatched, kept, plan, overrides, finish)


def cancel(store: Store, run: str, wait: float = 0.0, *, by: str = "") -> StoredRun:
    """Ask a run to end, in whatever process it is, and note the event; the run as it was ``wait`` seconds later at most.

    One that has ended stays as it is. Raises UnknownRun.
    """
    from auditor.store import events, runs

    before = runs.find(store, run)
    found = runs.ask_cancel(store, before.run)
    if before.ended is None:
        events.note(store, who=by, what="run cancelled", subject=found.run, detail={"audit": found.audit})
    until = time.monotonic() + wait
    while found.ended is None and time.monotonic() < until:
        time.sleep(0.2)
        found = runs.find(store, found.run)
    return found


def whole(store: Store, name: str) -> Whole | None:
    """The whole table of an audit whose last run read a part of it, as each of its partitions was last read."""
    from auditor.whole import whole

    return whole(store, name)


OVERRIDABLE = ("method", "k", "t", "threshold", "recheck", "force", *SECTIONS)
"""What a single run may have otherwise: settings of its audit, whether it is forced, and the section of the table that it is of."""


def overridden(audit: Audit, overrides: Mapping[str, Any]) -> Audit:
    """The audit with these settings for one run. Raises ConfigError for any override that may not be, or cannot be so."""
    from auditor.config import checked_audit

    unknown = sorted(set(overrides) - set(OVERRIDABLE))
    if unknown:
        raise ConfigError(f"a run cannot override {unknown[0]!r}; it can override {', '.join(OVERRIDABLE)}")
    section.asked(audit, overrides)
    values = {name: value for name, value in overrides.items() if name not in ("force", *SECTIONS)}
    if not values:
        return audit
    if "method" in values:
        values["ladder"] = None
        if values["method"] not in ("exact", "auto"):
            values.setdefault("recheck", None)  # it names no rows that could be looked at again
    return checked_audit({**audit.model_dump(by_alias=True, exclude_unset=True), **values})


def definition(audit: Audit) -> dict[str, Any]:
    """An audit as it is kept: what is not as it is by default."""
    return audit.model_dump(mode="json", by_alias=True, exclude_defaults=True)


def _forced(connection: Connection) -> Connection:
    return connection.model_copy(update={"limits": connection.limits.model_copy(update={"force": True})})


Finish = Callable[["Store", Outcome, Keep], None]
"""Keeps how a run ended. Raises StoreError."""


def finished(store: Store, outcome: Outcome, limits: Keep) -> None:
    """Keep how a run ended, and up to when its audit is verified. Raises StoreError."""
    from auditor import keep

    outcome.report = replace(outcome.report, verified_through=keep.verified_through(store, outcome))
    keep.finish(store, outcome, limits)


def _carried_out(
    settings: Settings,
    name: str,
    audit: Audit,
    watch: Watcher,
    kept: Kept,
    plan: Any,
    overrides: Mapping[str, Any],
    finish: Finish = finished,
) -> Report:
    """The report of a run, of which every line that is logged, and every span, tells that it is of this run."""
    about = {"run": kept.run, "audit": name}
    with telemetry.bound(**about), telemetry.span("run", **about):
        return _kept_as_far_as_may_be(settings, name, audit, watch, kept, plan, overrides, finish)


def _kept_as_far_as_may_be(
    settings: Settings, name: str, audit: Audit, watch: Watcher, kept: Kept, plan: Any, overrides: Mapping[str, Any], finish: Finish
) -> Report:
    """The report of a run that is kept as far as the store lets us; one that it does not let us is not lost, but says so."""
    from auditor import keep

    try:
        before = replace(keep.before(kept.store, name, audit), plan=plan)
    except StoreError as error:
        before = Before(plan=plan)
        kept.failure = str(error)
    part = section.asked(audit, overrides)
    if part:  # it takes no turn in a rolling audit's
        before = replace(before, part=None, size=None)
    connections = settings.connections if not overrides.get("force") else {one: _forced(here) for one, here in settings.connections.items()}
    outcome = running.perform(name, audit, connections, watch, identity=kept.run, keeper=kept, before=before, section=part)
    outcome.report = replace(outcome.report, as_of=chains.as_of(settings, name), resumable=_resumable(outcome, kept))
    try:
        finish(kept.store, outcome, settings.keep)
    except StoreError as error:
        log.warning("the run could not be kept", extra={"action": "not_kept", "run": kept.run})
        return _not_kept(outcome.report, str(error))
    return (
        outcome.report if not kept.failure else replace(outcome.report, notes=(*outcome.report.notes, f"the store failed: {kept.failure}"))
    )


def _resumable(outcome: Outcome, kept: Kept) -> bool:
    return outcome.report.plan is not None and outcome.report.state.value in ("failed", "cancelled") and not kept.failure


def _not_kept(report: Report, why: str) -> Report:
    """The report of a run that was not kept: what it found stands, and its exit code says that something went wrong."""
    sentence = f"this run was not kept: {why}"
    return replace(report, reasons=(*report.reasons, sentence), exit_code=Verdict.UNKNOWN.exit_code, resumable=False)
