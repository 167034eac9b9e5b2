"""Telling people: who is told what, when, and that a channel which fails never fails a run.

A message names keys, and never a value of a row. A channel's URL holds secrets: nothing that apprise or a driver says of it is
repeated, in a log or to a caller; what failed is told in words of our own.
"""

from __future__ import annotations

import datetime as dt
import html
import logging
import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any

from auditor.config import Channel, Notify, Occasion, Settings
from auditor.config._base import closest
from auditor.errors import ConfigError, NotifyError, StoreError
from auditor.model import Report, State, Verdict
from auditor.report import daily, markdown, plain
from auditor.report.day import Day
from auditor.report.day import day as day_of
from auditor.report.shown import shown
from auditor.store import Store, standing, told
from auditor.store.runs import ad_hoc
from auditor.store.standing import Standing

log = logging.getLogger(__name__)

SECONDS = 30.0
"""How long a channel may take."""

NAMED = 5
"""Keys, ranges or partitions that a message names."""

LONGEST = 120
"""Characters of a title."""


@dataclass(frozen=True, slots=True)
class Message:
    """What is told, as sentences; each service is given them as it can show them."""

    title: str
    lines: tuple[str, ...]

    def body(self, form: str) -> str:
        """The sentences as ``text``, ``markdown`` or ``html``."""
        if form == "html":
            return f"<ul>{''.join(f'<li>{_calm(html.escape(line))}</li>' for line in self.lines)}</ul>"
        if form == "markdown":
            return "\n".join(f"- {_calm(markdown.text(line))}" for line in self.lines)
        return "\n".join(_calm(line) for line in self.lines)


def decide(before: Standing, report: Report, now: dt.datetime, again: float) -> Occasion | None:
    """On what occasion a run is told of, if at all: its verdict is not what was told last, or was told ``again`` seconds ago.

    A run that was cancelled, or has not ended, is no occasion; nor is a match after nothing that was told, nor an ad-hoc run, which
    who asked for it looks at. Of a run of a section a mismatch alone is told: that the section is equal, or cannot be compared, says
    nothing of the table.
    """
    if report.state not in (State.DONE, State.FAILED) or report.audit == ad_hoc(report.run):
        return None
    if report.section and report.verdict is not Verdict.MISMATCH:
        return None
    told = before.told_verdict
    if report.verdict is Verdict.MATCH:
        return "recovery" if told in (Verdict.MISMATCH, Verdict.UNKNOWN) else None
    repeated = told == report.verdict and before.told_at is not None and (now - before.told_at).total_seconds() < again
    if repeated:
        return None
    return "mismatch" if report.verdict is Verdict.MISMATCH else "unknown"


def tell(notify: Notify, store: Store, report: Report, now: dt.datetime | None = None) -> list[str]:
    """Tell the channels of a run that ended, as far as there is an occasion, and what was held back earlier. Returns what failed.

    Never raises an error of the tree.
    """
    if not notify.channels:
        return []
    now = now or dt.datetime.now(dt.UTC)
    try:
        failures = _tell_held(notify, store, now)
        before = standing.get(store, report.audit)
        occasion = decide(before, report, now, notify.again)
        if occasion is None:
            return failures
        channels = [name for name, one in notify.channels.items() if occasion in one.on and (not one.audits or report.audit in one.audits)]
        sent = [_limited(notify, store, name, message(report, occasion), now) for name in channels]
        # A recovery that nobody wants to hear of is one all the same: the next mismatch is news.
        if not all(sent) or (not sent and occasion == "recovery"):
            standing.update(store, report.audit, told_verdict=report.verdict.value, told_at=now)
        return [*failures, *filter(None, sent)]
    except StoreError as error:
        return [_logged(f"nobody was told of {plain.visible(report.audit)}: {error}")]


def digest(settings: Settings, store: Store, day: dt.date, now: dt.datetime | None = None) -> list[str]:
    """Send the report of a day to the channels that asked for it. Returns what failed. Raises StoreError."""
    wanting = {name: one for name, one in settings.notify.channels.items() if "digest" in one.on}
    if not wanting:
        return []
    found = day_of(store, settings, day, now)
    sent = []
    for name, channel in wanting.items():
        mine = tuple(entry for entry in found.entries if not channel.audits or entry.audit in channel.audits)
        sent.append(_attempted(name, channel, digested(replace(found, entries=mine))))
    return [failure for failure in sent if failure]


def test(settings: Settings, channel: str) -> str:
    """Send a channel a message that says it is a test; what failed, or nothing. Raises ConfigError for an unknown channel."""
    channels = settings.notify.channels
    if channel not in channels:
        known = ", ".join(sorted(channels)) or "none"
        raise ConfigError(f"there is no channel {channel!r}{closest(channel, channels)} (channels here: {known})")
    lines = (f"This is a test of the channel {plain.visible(channel)}.", "Nothing is wrong, and nothing has to be done.")
    return _attempted(channel, channels[channel], Message("auditor: a test", lines))


# what is said


def message(report: Report, occasion: Occasion) -> Message:
    """What is told of a run."""
    found = shown(report)
    name = plain.visible(found.audit)
    within = f" among the {plain.visible(str(found.section))}" if found.section else ""
    titles = {"recovery": f"{name}: MATCH again", "unknown": f"{name}: UNKNOWN", "mismatch": f"{name}: MISMATCH{_how_much(found)}{within}"}
    lines = [f"verdict: {found.verdict.value} ({found.state.value} after {found.seconds:.1f} s)"]
    lines += [plain.sentence(reason) for reason in found.reasons] if not found.measures else _measures(found)
    if found.jaccard:
        lines.append(f"score: {plain.similarity(found.jaccard)}")
    elif found.comparison and found.comparison.published and not found.measures:
        score = found.comparison.published
        lines.append(f"published score: {plain.score(score.value, score.lower, score.upper)}")
    lines += [f"differs: {one}" for one in daily.sample_of(found, NAMED)] if occasion == "mismatch" else []
    if found.verified_through:
        lines.append(f"verified through {plain.moment(found.verified_through)}")
    lines += [plain.go_on(found)] if found.resumable else []
    lines = [line for line in lines if line]
    return Message(_short(titles[occasion]), (*lines, f"more: auditor show {found.run[:12]}"))


def digested(found: Day) -> Message:
    """What is told of a day."""
    lines = [f"As of {plain.moment(found.at)}."]
    for entry in found.attention:
        lines.append(f"{plain.visible(entry.audit)}: {daily.word(entry.status).upper()}")
        lines += _measures(entry.report) if entry.report and entry.report.measures else map(plain.sentence, entry.why)
        lines += [f"differs: {one}" for one in daily.sample(entry, NAMED)]
        lines += [f"more: auditor show {entry.run.run[:12]}"] if entry.run else []
    fine = [entry for entry in found.rest if entry.configured]
    lines += [f"match: {', '.join(plain.visible(entry.audit) for entry in fine)}"] if fine else []
    return Message(_short(f"Audits on {found.date}: {daily.tally(found)}"), tuple(lines))


def _how_much(found: Report) -> str:
    differences = found.differences
    if differences and (count := differences.missing + differences.extra + differences.changed):
        rows = "row differs" if count == 1 else "rows differ"
        return f", {count:,}{'' if differences.exact else ' or more'} {rows}"
    if measures := [one for one in found.measures if not one.allowed]:
        return f", {len(measures):,} {'measure differs' if len(measures) == 1 else 'measures differ'}"
    return f", {found.comparison.unequal:,} partitions differ" if found.comparison and found.comparison.unequal else ""


def _measures(found: Report) -> list[str]:
    """Which measures differ, without the values that are their classes' names."""
    names = [re.sub(r" (class|histogram) .*", r" \1", plain.sentence(one.name)) for one in found.measures if not one.allowed]
    told = list(dict.fromkeys(names))
    more = f" and {len(told) - NAMED:,} more" if len(told) > NAMED else ""
    return [f"measures that differ: {', '.join(told[:NAMED])}{more}"] if told else []


def _short(title: str) -> str:
    return title if len(title) <= LONGEST else f"{title[: LONGEST - 1]}…"


def _calm(line: str) -> str:
    """A line that alarms nobody by name: what chats read as a mention is parted by a sign of no width."""
    return re.sub(r"(@|&#64;)(?=everyone|here|channel|all\b)|(<)(?=[!@#])", lambda found: f"{found[0]}\u2060", line)


# how it is sent


def _limited(notify: Notify, store: Store, name: str, what: Message, now: dt.datetime) -> str:
    """Send, or hold back what is too much for an hour; what failed, or nothing."""
    if not told.admitted(store, name, notify.most, now):
        told.hold(store, name, [what.title])
        return ""
    return _attempted(name, notify.channels[name], what)


def _tell_held(notify: Notify, store: Store, now: dt.datetime) -> list[str]:
    """Tell in one message what was held back of each channel that has room again; what failed."""
    failures = []
    for name, (count, titles) in told.held(store).items():
        if name not in notify.channels:
            told.forget(store, name)
        elif told.admitted(store, name, notify.most, now):
            told.forget(store, name)
            more = (f"and {count - len(titles):,} more",) if count > len(titles) else ()
            what = Message(f"auditor: {count:,} more {'message' if count == 1 else 'messages'}", (*titles, *more, "more: auditor runs"))
            if failure := _attempted(name, notify.channels[name], what):
                told.hold(store, name, titles, count)
                failures.append(failure)
    return failures


def _attempted(name: str, channel: Channel, what: Message) -> str:
    try:
        send(name, channel, what)
    except NotifyError as error:
        return _logged(str(error))
    return ""


def _logged(sentence: str) -> str:
    log.warning("%s", sentence, extra={"action": "not_told"})
    return sentence


def send(name: str, channel: Channel, what: Message, seconds: float = SECONDS) -> None:
    """Send a message, within so many seconds. Raises NotifyError, which says nothing of what the URL holds."""
    name = plain.visible(name)
    outcome: list[str] = []
    # A service that sends a byte now and then would keep us for ever, whatever timeouts its plugin has.
    thread = threading.Thread(target=lambda: outcome.append(_sent(channel.url, what)), name=f"notify {name}", daemon=True)
    thread.start()
    thread.join(seconds)
    if not outcome:
        raise NotifyError(f"channel {name}: it did not answer within {seconds:g} s")
    if outcome[0]:
        raise NotifyError(f"channel {name}: {outcome[0]}")


def _sent(url: str, what: Message) -> str:
    """Send to every service of a URL; why one could not be told, or nothing."""
    import apprise

    with _overheard() as said:
        try:
            asset = apprise.AppriseAsset(app_id="auditor", app_desc="auditor", async_mode=False, secure_logging=True)
            services = apprise.Apprise(asset=asset)
            if not services.add(url) or not len(services):
                return "its URL is none that apprise understands; see https://appriseit.com/services/"
            for service in services:
                form = _form(service)
                one = apprise.Apprise(asset=asset)
                one.add(service)
                if not one.notify(body=what.body(form), title=_calm(what.title), body_format=apprise.NotifyFormat(form)):
                    return _why(said)
        except Exception as error:  # plugins of many hands raise what they like
            return f"it could not be told ({type(error).__name__})"
    return ""


def _form(service: Any) -> str:
    """The form that a service shows best."""
    chosen = service.resolve_format() if hasattr(service, "resolve_format") else service.notify_format
    return str(getattr(chosen, "value", chosen))


def _why(said: Sequence[str]) -> str:
    """What apprise said, in words that hold nothing of the URL."""
    whole = " ".join(said).lower()
    if code := re.search(r"error[= ]+(\d{3})\b", whole):
        return f"the service answered with the status {code[1]}"
    if "auth" in whole:
        return "the service refused the user, the password or the token"
    if "connection" in whole or "socket" in whole:
        return "the service could not be reached, or did not answer in time"
    return "the service did not take the message"


_SAID: ContextVar[list[str] | None] = ContextVar("said", default=None)
"""What this sending overhears; apprise hands the context on to the threads in which its plugins work."""


@contextmanager
def _overheard() -> Iterator[list[str]]:
    """Collect what is logged by this sending, and let none of it out: debug lines hold URLs, tokens and all."""
    said: list[str] = []

    def listen(record: logging.LogRecord) -> bool:
        if _SAID.get() is not said:
            return True
        if record.levelno >= logging.WARNING:
            said.append(record.getMessage())
        return False

    _SAID.set(said)
    talkers = [logging.getLogger(name) for name in ("apprise", "urllib3.connectionpool", "requests", "urllib3.util.retry")]
    for one in talkers:
        one.addFilter(listen)
    try:
        yield said
    finally:
        for one in talkers:
            one.removeFilter(listen)
