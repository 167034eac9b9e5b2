"""Notifications about runs, patches and days: choose the occasion, write the message, send it. A failing channel never fails a run.

OpenLineage has an event about each run, whatever the occasion. Messages contain keys but no other values of rows.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import logging
import re
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal
from urllib.parse import quote

from auditor.api_models.incident import Incident
from auditor.config import Audit, Channel, Evidence, Notify, Occasion, Settings, describe_unknown
from auditor.durations import durations
from auditor.errors import ConfigError, NotifyError, StoreError, UnknownRun
from auditor.history.audit_status import Standing, has_recovered, load_standing, status_label
from auditor.history.table_standing import TableStanding, combine, find_shared
from auditor.masking import redact
from auditor.model import Report, State, Verdict
from auditor.quantities import format_duration, plural
from auditor.report import day_text, formatting
from auditor.report.day import Day, load_day
from auditor.report.sentences import build_sentences, live_lines, lost_lines, repeats_story
from auditor.service import audits, lineage
from auditor.service.channels import Kind, Message, knows_incidents, send, within_limit
from auditor.service.difference_changes import compare_with_previous
from auditor.store import Store, audit_state, incidents, notifications, runs
from auditor.store import evidence as chains
from auditor.store.audit_state import AuditState
from auditor.store.patches import Patch
from auditor.store.runs import StoredRun, ad_hoc_audit

log = logging.getLogger(__name__)

MAX_NAMED = 5
"""Maximum number of measures, or of problems of a pipeline, in a message."""

MAX_KEYS = 3
"""Maximum number of keys, ranges or partitions that a message has as examples."""

MAX_KEY = 200
"""Characters of an incident's key; longer ones, of which services take 255, are hashed."""

KINDS: Mapping[Occasion, Kind] = {"mismatch": "failure", "warning": "warning", "unknown": "warning", "recovery": "success"}
"""The types of messages about runs. A run that failed or claims nothing warns: a service of incidents would not open one for an info."""

MAX_TITLE = 120
"""Maximum characters of a title."""


def choose_occasion(
    before: AuditState, report: Report, now: dt.datetime, repeat_after: float, verdict: Verdict | None, warned: bool = False
) -> Occasion | None:
    """Return the occasion to notify about a run; None if the channels know already its audit's status, or need not know.

    ``verdict`` is the audit's status after the run: its last verdict, of a rolling audit that of its whole table; ``warned`` is whether
    it is a match in which more differs than its threshold's ``warn`` allows. The occasion is
    that this differs from the last notified verdict, that runs fail since, or that the last notification is ``repeat_after`` seconds old.
    Cancelled and one-off runs, ad-hoc runs, whose requester reads the result, and a match without an earlier notification are none.
    """
    if report.state not in (State.DONE, State.FAILED) or report.other_settings or report.audit == ad_hoc_audit(report.run):
        return None
    is_recent = before.notified_at is not None and (now - before.notified_at).total_seconds() < repeat_after
    if report.verdict is Verdict.MATCH and warned:
        return None if before.notified_verdict == WARNED and not before.notified_failure and is_recent else "warning"
    if report.verdict is Verdict.MATCH:
        told_otherwise = before.notified_verdict in (Verdict.MISMATCH, Verdict.UNKNOWN, WARNED) or before.notified_failure
        return "recovery" if told_otherwise else None
    if report.state is State.FAILED:
        return None if before.notified_failure and is_recent else "unknown"
    if before.notified_verdict == verdict and is_recent:
        return None
    return "mismatch" if verdict is Verdict.MISMATCH else "unknown"


def notify_of_run(settings: Settings, store: Store, report: Report) -> list[str]:
    """Do as `notify_run` does, with what these settings say, and every audit that there is."""
    try:
        settings = audits.with_defined_audits(settings, store)
    except StoreError as error:
        return [log_failure(f"no notification was sent about {formatting.visible(report.audit)}: {error}")]
    url = settings.service.public_url
    return notify_run(settings.notify, store, report, evidence=settings.evidence, audits=settings.audits, public_url=url)


def notify_run(
    notify: Notify,
    store: Store,
    report: Report,
    now: dt.datetime | None = None,
    evidence: Evidence | None = None,
    audits: Mapping[str, Audit] = {},
    public_url: str | None = None,
) -> list[str]:
    """Send the event of OpenLineage about a finished run, and held messages; then, if there is an occasion, notify the channels about the
    run, with the head of its ``evidence`` and a link to its page below ``public_url``.

    Of a muted incident nobody is notified, and of an acknowledged one not again, until it recovers. Where other ones of ``audits`` name
    columns of the same target's table, messages are about the table, and it recovers once each of them matches. Returns one sentence per
    failure; never raises an AuditorError.
    """
    now = now or dt.datetime.now(dt.UTC)
    failures = _send_lineage(notify, store, report, now, audits)
    if not notify.channels:
        return failures
    failures += send_held(notify, store, now)
    prepared = _prepare(notify, store, report, now, evidence, audits, public_url)
    if isinstance(prepared, str):
        return [*failures, prepared]
    return [*failures, *_deliver(notify, store, [prepared], now)] if prepared else failures


@dataclass(frozen=True, slots=True)
class _Prepared:
    """A message about a run, the channels that are to have it, and what they know of the audit afterwards."""

    audit: str
    message: Message
    channels: tuple[str, ...]
    occasion: Occasion
    verdict: str | None
    failure: bool


def _prepare(
    notify: Notify,
    store: Store,
    report: Report,
    now: dt.datetime,
    evidence: Evidence | None,
    audits: Mapping[str, Audit],
    public_url: str | None,
) -> _Prepared | str | None:
    """Return the message about a run; None if there is no occasion for one, or a sentence on a failure of the store."""
    try:
        before = audit_state.get_state(store, report.audit)
        standing = load_standing(store, report.audit, None, {}, now)
        verdict, incident = _verdict_after(report, standing), incidents.get_open(store, report.audit)
        level = WARNED if is_warned(incident, report) else verdict.value if verdict else None
        occasion = choose_occasion(before, report, now, notify.repeat_after, verdict, level == WARNED)
        if occasion is None or (occasion == "recovery" and not has_recovered(store, report)):
            return None
        if incident and is_silenced(incident, occasion, is_known=before.notified_verdict == level):
            return None
        channels = [name for name, to in notify.channels.items() if occasion in to.on and hears_of(to, report.audit, audits)]
        table = _load_table(store, audits, report.audit, now)
        if table and occasion == "recovery":  # a channel that hears of another audit which is not over hears of it once that is
            waited_for = [other for other, status in table.audits.items() if status in ("mismatch", "unknown")]
            channels = [name for name in channels if not any(hears_of(notify.channels[name], other, audits) for other in waited_for)]
        message = run_message(report, occasion, standing, _describe_progress(store, before, report, level))
        message = replace(message, key=incident_key(report.audit), link=page_link(public_url, "runs", report.run))
        message = _with_head(of_table(message, report.audit, table), store, report.audit, evidence)
        known, failed = level or before.notified_verdict, report.state is State.FAILED
        return _Prepared(report.audit, message, tuple(channels), occasion, known, failed)
    except StoreError as error:
        return log_failure(f"no notification was sent about {formatting.visible(report.audit)}: {error}")


def _deliver(notify: Notify, store: Store, prepared: Sequence[_Prepared], now: dt.datetime) -> list[str]:
    """Send messages, several to one channel as one, and store what the channels know; returns the failures."""
    try:
        errors: dict[str, str] = {}
        for name in notify.channels:
            if messages := [about.message for about in prepared if name in about.channels]:
                whole = messages if knows_incidents(notify.channels[name]) else [join_messages(messages)]
                failed = [error for message in whole if (error := send_limited(notify, store, name, message, now))]
                errors[name] = "; ".join(failed)
        for about in prepared:
            of_audit = [errors[name] for name in about.channels]
            # A recovery is recorded even if no channel wants it, so that the next mismatch is notified.
            if not all(of_audit) or (not of_audit and about.occasion == "recovery"):
                audit_state.update_state(
                    store, about.audit, notified_verdict=about.verdict, notified_failure=about.failure, notified_at=now
                )
        return [error for error in errors.values() if error]
    except StoreError as error:
        names = ", ".join(formatting.visible(about.audit) for about in prepared)
        return [log_failure(f"no notification was sent about {names}: {error}")]


GRAVEST: tuple[Kind, ...] = ("failure", "warning", "success", "info")
"""The types of messages, the gravest first."""


def join_messages(messages: Sequence[Message]) -> Message:
    """Return several messages as one: under the title how many there are of each type, their titles and lines."""
    if len(messages) == 1:
        return messages[0]
    names: Mapping[Kind, tuple[str, str]] = {
        "failure": ("mismatch", "mismatches"), "warning": ("warning", "warnings"), "success": ("recovery", "recoveries"),
        "info": ("message", "messages"),
    }  # fmt: skip
    counts = {kind: sum(message.kind == kind for message in messages) for kind in GRAVEST}
    title = f"{len(messages):,} audits: {', '.join(plural(count, *names[kind]) for kind, count in counts.items() if count)}"
    lines = [line for message in messages for line in (message.title, *(f"  {line}" for line in message.lines))]
    kind = next(kind for kind in GRAVEST if counts[kind])
    return Message(title, tuple(lines), kind, link=messages[0].link.rpartition("/runs/")[0])


class Batch:
    """Notifications about runs that end soon after each other: to each channel one message, a minute after the first at the latest.

    Services of incidents have one for each audit all the same. What was not sent when the process died is sent at the next run.
    """

    def __init__(self, settings: Settings, store: Store) -> None:
        self._settings, self._store = settings, store
        self._prepared: list[_Prepared] = []
        self._since = 0.0
        self._lock = threading.Lock()

    def add(self, settings: Settings, report: Report) -> list[str]:
        """Take in a finished run, and send its event of OpenLineage at once; ``settings`` have its audit. Returns the failures."""
        notify, now = settings.notify, dt.datetime.now(dt.UTC)
        failures = _send_lineage(notify, self._store, report, now, settings.audits)
        if not notify.channels:
            return failures
        with self._lock:
            if any(about.audit == report.audit for about in self._prepared):  # what the channels know decides what they are sent
                failures += self._send()
            prepared = _prepare(notify, self._store, report, now, settings.evidence, settings.audits, settings.service.public_url)
            if isinstance(prepared, str):
                return [*failures, prepared]
            if prepared:
                self._since = self._since if self._prepared else time.monotonic()
                self._prepared.append(prepared)
            return [*failures, *self._send(durations().notify_batch)]

    def flush(self) -> list[str]:
        """Send what is left; returns the failures."""
        with self._lock:
            return self._send()

    def _send(self, age: float = 0.0) -> list[str]:
        """Send what there is, if the first of it is at least so old in seconds."""
        if not self._prepared or time.monotonic() - self._since < age:
            return []
        prepared, self._prepared = self._prepared, []
        now = dt.datetime.now(dt.UTC)
        notify = self._settings.notify
        return [*send_held(notify, self._store, now), *_deliver(notify, self._store, prepared, now)]


WARNED = "warning"
"""What is stored as the notified verdict of a match in which more differs than ``warn`` of its threshold allows."""


def is_warned(incident: Incident | None, report: Report) -> bool:
    """Return whether a run matches and its audit's open incident says that more differs than ``warn`` of its threshold allows."""
    return report.verdict is Verdict.MATCH and incident is not None and incident.last_run == report.run and incident.severity == "warning"


def is_silenced(incident: Incident, occasion: Occasion, *, is_known: bool) -> bool:
    """Return whether an incident's acknowledgement leaves out a message: muted all that it has, else what the channels know already."""
    if occasion not in ("mismatch", "warning"):
        return False
    return incident.state == "muted" or (incident.state == "acknowledged" and is_known)


@dataclass(frozen=True, slots=True)
class Progress:
    """What became of what the channels know already: the word before the verdict, or after it, and a sentence."""

    before: str = ""
    after: str = ""
    sentence: str = ""


def _describe_progress(store: Store, before: AuditState, report: Report, level: str | None) -> Progress:
    """Say whether a message repeats what the channels know, and which differing rows are new or gone since the last run."""
    try:
        changes = compare_with_previous(store, report.run, shown=0)
    except UnknownRun:  # it was not stored
        changes = None
    sentence = ""
    if changes and (changes.same or changes.gone):
        sentence = f"since run {changes.earlier[:12]}: {changes.new:,} new, {changes.gone:,} gone, {changes.same:,} the same"
        sentence += "" if changes.certain else f" (not certain: {'; '.join(changes.reasons)})"
    if before.notified_verdict != level or before.notified_failure:
        return Progress(sentence=sentence)
    # It is forgotten when the channels were notified where an acknowledgement has ended.
    return Progress(after=" changed", sentence=sentence) if before.notified_at is None else Progress("still ", sentence=sentence)


def incident_key(audit: str) -> str:
    """Return under which key services know the incidents of an audit, so that recovery resolves what a mismatch opened."""
    key = f"auditor/{audit}"
    return key if len(key) <= MAX_KEY else f"auditor/sha256:{hashlib.sha256(key.encode()).hexdigest()}"


def page_link(public_url: str | None, kind: Literal["runs", "pipelines"], name: str) -> str:
    """Return the URL of the page of a run or pipeline; empty if the service's is not known."""
    return f"{public_url.rstrip('/')}/{kind}/{quote(name, safe='')}" if public_url else ""


def _send_lineage(notify: Notify, store: Store, report: Report, now: dt.datetime, audits: Mapping[str, Audit]) -> list[str]:
    """Send the event about a run, unless it was with other settings, or of an audit that nobody defined; returns the failure, if any."""
    if notify.openlineage is None or report.other_settings or report.audit not in audits:
        return []
    try:
        verdict = _verdict_after(report, load_standing(store, report.audit, None, {}, now))
        if event := lineage.run_event(notify.openlineage, audits[report.audit], report, verdict, now):
            settings = notify.openlineage
            within_limit("openlineage", lambda: lineage.post_event(settings, event))
    except (NotifyError, StoreError) as error:
        return [log_failure(str(error) if isinstance(error, NotifyError) else f"openlineage: no event was sent: {error}")]
    return []


def _load_table(store: Store, audits: Mapping[str, Audit], name: str, now: dt.datetime) -> TableStanding | None:
    """Return how the table of an audit stands after its run, if other audits name columns of it, too. Raises StoreError."""
    sharing = find_shared(audits).get(name, ())
    return combine(audits[name], sharing, {other: load_standing(store, other, None, {}, now) for other in sharing}) if sharing else None


def hears_of(channel: Channel, audit: str, audits: Mapping[str, Audit]) -> bool:
    """Return whether a channel is notified about an audit: by its name, and by the owner that one of ``audits`` has."""
    if channel.audits and audit not in channel.audits:
        return False
    defined = audits.get(audit) or audits.get(audit.rpartition(".")[0])  # a leg of an audit via a dump has the owner of that
    return not channel.owners or (defined is not None and defined.owner in channel.owners)


def of_table(message: Message, audit: str, table: TableStanding | None) -> Message:
    """Return a message about an audit as one about its table, if other audits name columns of it, too."""
    if table is None:
        return message
    told = message.title.removeprefix(f"{formatting.visible(audit)}: ")
    by = "" if table.status in ("match", "within_threshold") else f" by {formatting.visible(audit)}"
    title = truncate(f"{formatting.visible(table.target)}: {told}{by}")
    key = incident_key(f"table {table.target}")
    return replace(message, title=title, lines=(formatting.sentence(table.sentence), *message.lines), key=key)


def notify_patch(settings: Settings, store: Store, patch: Patch, counts: str) -> list[str]:
    """Notify the channels about a patch that has ended; ``counts`` says what became of its rows.

    Returns one sentence per failure; never raises an AuditorError.
    """
    notify = settings.notify
    if not notify.channels:
        return []
    try:
        owned = audits.with_defined_audits(settings, store).audits
        now = dt.datetime.now(dt.UTC)
        after = runs.get_run(store, patch.after_run) if patch.after_run else None
        channels = [name for name, to in notify.channels.items() if "patch" in to.on and hears_of(to, patch.audit, owned)]
        message = replace(patch_message(patch, counts, after), link=page_link(settings.service.public_url, "runs", patch.run))
        return [error for name in channels if (error := send_limited(notify, store, name, message, now))]
    except StoreError as error:
        return [log_failure(f"no notification was sent about patch {patch.patch}: {error}")]


def drill_channels(notify: Notify, audit: str, audits: Mapping[str, Audit]) -> dict[str, Channel]:
    """Return the channels that hear of mismatches of an audit, and so of the damage of its drill."""
    return {name: to for name, to in notify.channels.items() if "mismatch" in to.on and hears_of(to, audit, audits)}


def notify_drill(notify: Notify, audit: str, report: Report, audits: Mapping[str, Audit] = {}) -> str:
    """Send the report of a drill's damage to each channel that hears of mismatches of an audit, and return which these are.

    No hourly limit holds it back. Raises NotifyError if a channel fails, or there is none.
    """
    channels = drill_channels(notify, audit, audits)
    if not channels:
        raise NotifyError(f"no channel hears of a mismatch of {formatting.visible(audit)}; add one under notify: channels")
    found = run_message(report, "mismatch")
    title = truncate(f"DRILL of {formatting.visible(audit)}: MISMATCH{_difference_count(report)}")
    about = "This is a drill: a row of its own table auditor_drill was damaged, and is repaired again. No other table is concerned."
    key = incident_key(f"drill of {audit}")
    message = Message(title, (about, *found.lines), "failure", key)
    failures = [failure for name, to in channels.items() if (failure := _try_send(name, to, message))]
    if failures:
        raise NotifyError("; ".join(failures))
    return f"to {', '.join(channels)}"


def _with_head(message: Message, store: Store, audit: str, evidence: Evidence | None, prefix: str = "") -> Message:
    """Return a message with the head of an audit's chain, if messages are to name it and there is one. Raises StoreError."""
    if not evidence or "messages" not in evidence.publish:
        return message
    head = chains.get_head(store, audit)
    return replace(message, lines=(*message.lines, f"{prefix}evidence: link {head.number}, sha256:{head.digest}")) if head else message


def _verdict_after(report: Report, standing: Standing) -> Verdict | None:
    """Return the audit's status after a run; by the report alone if the run could not be stored."""
    is_stored = standing.run is not None and standing.run.run == report.run
    return standing.verdict if is_stored or report.state is State.FAILED else report.verdict


def send_digest(settings: Settings, store: Store, day: dt.date, now: dt.datetime | None = None) -> list[str]:
    """Send the report of a day to the channels with ``digest`` in ``on``; returns one sentence per failure. Raises StoreError."""
    channels = {name: channel for name, channel in settings.notify.channels.items() if "digest" in channel.on}
    if not channels:
        return []
    report = load_day(store, settings, day, now)
    errors = []
    for name, channel in channels.items():
        entries = tuple(entry for entry in report.entries if hears_of(channel, entry.audit, settings.audits))
        message = digest_message(replace(report, entries=entries))
        for entry in entries:
            message = _with_head(message, store, entry.audit, settings.evidence, f"{formatting.visible(entry.audit)}: ")
        errors.append(_try_send(name, channel, message))
    return [error for error in errors if error]


def send_test(settings: Settings, channel: str) -> str:
    """Send a test message to a channel; returns the failure, or ''. Raises ConfigError for an unknown channel."""
    channels = settings.notify.channels
    if channel not in channels:
        raise ConfigError(describe_unknown("channel", channel, channels))
    lines = (f"This is a test of the channel {formatting.visible(channel)}.", "No action is required.")
    return _try_send(channel, channels[channel], Message("auditor: test message", lines))


# messages


def run_message(report: Report, occasion: Occasion, standing: Standing | None = None, progress: Progress = Progress()) -> Message:
    """Return the message about a run, with its audit's status if the run failed or read a part of the table.

    ``progress`` is what became of what the channels know already.
    """
    redacted = redact(report)
    name = formatting.visible(redacted.audit)
    known = standing.verdict_label.upper() if standing else ""
    titles = {
        "recovery": f"{name}: MATCH again{' within threshold' if redacted.within_threshold else ''}",
        "unknown": f"{name}: {progress.before}UNKNOWN",
        "mismatch": f"{name}: {progress.before}MISMATCH{progress.after}{_difference_count(redacted)}",
        "warning": f"{name}: {progress.before}WARNING{progress.after}{_difference_count(redacted)}",
    }
    if redacted.state is State.FAILED:
        titles["unknown"] = f"{name}: run FAILED{f', last verdict {known}' if known else ''}"
    reasons = [formatting.sentence(reason) for reason in redacted.reasons if not repeats_story(reason, redacted)]
    lines = _measure_names(redacted) if redacted.measures else reasons
    differs = occasion == "mismatch" or redacted.within_threshold
    lines += [f"differs: {difference}" for difference in day_text.sample_differences(redacted, MAX_KEYS)] if differs else []
    lines += [formatting.sentence(progress.sentence)] if differs else []
    lines += lost_lines(redacted.live) if redacted.live else []
    if standing and standing.run and standing.run.run != redacted.run and standing.age is not None:
        lines.append(f"last verdict: {standing.verdict_label}, {format_duration(standing.age)} ago")
    if redacted.covered < 1 and standing:
        lines += [formatting.sentence(reason) for reason in standing.reasons]
    lines += [f"{statement.name}: {statement}" for statement in build_sentences(redacted).certainty]
    if not redacted.jaccard and redacted.comparison and redacted.comparison.published and not redacted.measures:
        score = redacted.comparison.published
        lines.append(f"published score: {formatting.score(score.value, score.lower, score.upper)}")
    lines += [f"not compared: {line}" for line in formatting.hidden(redacted)]
    lines += [formatting.resume_hint(redacted)] if redacted.resumable else []
    lines += [f"{name}: {line}" for name, line in live_lines(redacted)]
    lines += formatting.verified(redacted.verified_through, redacted.within_threshold_through)
    lines.append(f"verdict: {redacted.verdict.value} ({redacted.state.value} after {redacted.seconds:.1f} s)")
    lines = [line for line in lines if line]
    return Message(truncate(titles[occasion]), (*lines, f"more: auditor show {redacted.run[:12]}"), KINDS[occasion])


def patch_message(patch: Patch, counts: str, after: StoredRun | None) -> Message:
    """Return the message about a patch that has ended, with the run ``after`` it."""
    name, what = formatting.visible(patch.audit), "UNDO" if patch.undoes else "PATCH"
    state = "failed" if patch.state == "failed" else "applied"
    lines = [f"{counts}, requested by {formatting.sentence(patch.requested_by) or 'an unknown person'}"]
    lines += [f"it takes back patch {patch.undoes[:12]}"] if patch.undoes else []
    lines += [formatting.sentence(patch.detail[why]) for why in ("why", "not_audited") if patch.detail.get(why)]
    lines += [f"run {after.run[:12]} checked its rows again: {after.verdict.value}"] if after else []
    title = truncate(f"{name}: {what} {patch.patch[:12]} {state}")
    return Message(title, (*lines, f"more: auditor show {patch.run[:12]}"))


def digest_message(day: Day) -> Message:
    """Return the message about a day."""
    lines = [f"As of {formatting.moment(day.at)}."]
    for entry in day.attention:
        lines.append(f"{formatting.visible(entry.audit)}: {status_label(entry.status).upper()}")
        lines += _measure_names(entry.report) if entry.report and entry.report.measures else map(formatting.sentence, entry.reasons)
        lines += [f"differs: {difference}" for difference in day_text.sample(entry, MAX_KEYS)]
        lines += [f"more: auditor show {entry.run.run[:12]}"] if entry.run else []
    told = [judged for entry in day.entries if entry.configured for judged in (entry, *entry.legs) if judged.report]
    hidden = [(entry, line) for entry in told if entry.report for line in formatting.hidden(entry.report)]
    lines += [f"{formatting.visible(entry.audit)}: not compared: {line}" for entry, line in hidden]
    matching = [entry for entry in day.rest if entry.configured]
    for status in ("match", "within_threshold"):
        names = [formatting.visible(entry.audit) for entry in matching if entry.status == status]
        lines += [f"{status_label(status)}: {', '.join(names)}"] if names else []
    return Message(truncate(f"Audits on {day.date}: {day_text.tally(day)}"), tuple(lines))


def _difference_count(report: Report) -> str:
    differences = report.differences
    if differences and (count := differences.missing + differences.extra + differences.changed):
        rows = "row differs" if count == 1 else "rows differ"
        return f", {count:,}{'' if differences.exact else ' or more'} {rows}"
    if measures := [measure for measure in report.measures if not measure.allowed]:
        return f", {len(measures):,} {'measure differs' if len(measures) == 1 else 'measures differ'}"
    unequal = report.comparison.unequal if report.comparison else 0
    return f", {plural(unequal, 'partition differs', 'partitions differ')}" if unequal else ""


def _measure_names(report: Report) -> list[str]:
    """Return a line naming the measures that differ, without class names, which are values of rows."""
    measures = [
        re.sub(r" (class|histogram) .*", r" \1", formatting.sentence(measure.name)) for measure in report.measures if not measure.allowed
    ]
    names = list(dict.fromkeys(measures))
    more = f" and {len(names) - MAX_NAMED:,} more" if len(names) > MAX_NAMED else ""
    return [f"measures that differ: {', '.join(names[:MAX_NAMED])}{more}"] if names else []


def truncate(title: str) -> str:
    """Return a title of at most MAX_TITLE characters."""
    return title if len(title) <= MAX_TITLE else f"{title[: MAX_TITLE - 1]}…"


# sending


def send_limited(notify: Notify, store: Store, name: str, message: Message, now: dt.datetime) -> str:
    """Send a message to a channel, or hold it if the channel's hourly limit is reached; returns the failure, or ''.

    A service of incidents is always sent a recovery, as an incident that is over would stay open there.
    """
    if message.kind == "success" and message.key and knows_incidents(notify.channels[name]):
        return _try_send(name, notify.channels[name], message)
    if not notifications.reserve_message(store, name, notify.max_per_hour, now):
        notifications.hold_messages(store, name, [message.title])
        return ""
    return _try_send(name, notify.channels[name], message)


def send_held(notify: Notify, store: Store, now: dt.datetime) -> list[str]:
    """Send one summary of the held messages to each channel below its limit; returns the failures."""
    try:
        return _send_held(notify, store, now)
    except StoreError as error:
        return [log_failure(f"held messages were not sent: {error}")]


def _send_held(notify: Notify, store: Store, now: dt.datetime) -> list[str]:
    failures = []
    for name, (count, titles) in notifications.list_held_messages(store).items():
        if name not in notify.channels:
            notifications.clear_held_messages(store, name)
        elif notifications.reserve_message(store, name, notify.max_per_hour, now):
            notifications.clear_held_messages(store, name)
            more = (f"and {count - len(titles):,} more",) if count > len(titles) else ()
            message = Message(f"auditor: {count:,} more {'message' if count == 1 else 'messages'}", (*titles, *more, "more: auditor runs"))
            if failure := _try_send(name, notify.channels[name], message):
                notifications.hold_messages(store, name, titles, count)
                failures.append(failure)
    return failures


def _try_send(name: str, channel: Channel, message: Message) -> str:
    try:
        send(name, channel, message)
    except NotifyError as error:
        return log_failure(str(error))
    return ""


def log_failure(sentence: str) -> str:
    """Log why a notification was not sent, and return it."""
    log.warning("%s", sentence, extra={"action": "notify_failed"})
    return sentence
