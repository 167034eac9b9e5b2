"""Say where the key of a row still is in what is kept of an audit, and remove it from the store.

A run that holds the key keeps its verdict and its counts, and loses the keys, values, ranges and reasons of all its rows: any of its
sentences may name the row. Files of pipelines and dumps are searched, too; what is not searched is named, with when it goes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from pydantic import TypeAdapter

from auditor.api_models.forgetting import Forgotten, KeyPlace
from auditor.config import Audit, Settings, find_chains
from auditor.errors import ConfigError
from auditor.history import key_digests, left_out
from auditor.masking import MASK
from auditor.model import Difference, Report
from auditor.quantities import format_duration, plural
from auditor.service import audits, definitions, evidence, scrub
from auditor.service.key_files import KeyFiles
from auditor.service.trace import parse_key
from auditor.store import Store, audit_state, bootstraps, events, patches, repairs, runs, salt, scrubbing
from auditor.store.runs import StoredRun

Key = dict[str, str | None]

FORGOTTEN = "the reasons of this run were removed, because they may name a row that had to be forgotten"

_REPORT = TypeAdapter(Report)


def forget(settings: Settings, store: Store, name: str, text: str, *, apply: bool, by: str) -> Forgotten:
    """Return where the key is that ``text`` writes, as `parse_key` reads it; with ``apply``, remove it from the store and record the event.

    The event does not name the key. Raises UnknownAudit, ConfigError for a text that is no key of the audit, or an audit of which no run
    says what its key is, and StoreError.
    """
    settings = audits.with_defined_audits(settings, store)
    audit = definitions.audit(settings, name)
    reports = {run.run: (run, report) for run, report in _ended_runs(store, name)}
    plans = [report.plan for _, report in reports.values() if report.plan]
    if not plans:
        raise ConfigError(f"no run of {name} is stored, so nothing says which columns its key has; the store holds no row of it")
    key: Key = dict(zip((column.name for column in plans[0].key_columns), parse_key(plans[0], text), strict=True))
    digest = key_digests.salted(salt.get_salt(store))
    masked = key_digests.hide_key(tuple(key.values()), plans[0], digest)
    stored = [key, dict(zip(key, masked, strict=True))]  # the latter of columns that are masked
    held = [run for run, report in reports.values() if _holds(store, run, report, stored)]
    of_repairs = _repairs(store, name, key, apply=apply)  # before runs lose their keys, and with them their repairs
    places = [
        _journal(store, name, apply=apply),
        _runs(settings, store, held, reports, apply=apply),
        of_repairs,
        _left_out(store, name, stored, apply=apply, also=bool(held)),
        *_requests(store, name, key),
        *(_asked(store, name, next(iter(key.values())), apply=apply) if len(key) == 1 else ()),
        *KeyFiles(settings, store, name, audit, plans[0], tuple(key.values())).search(apply=apply),
        *list_outside(settings, audit),
    ]
    if apply:
        scrubbing.rewrite_file(store)
        events.record_event(store, actor=by, action="key forgotten", subject=name)
    return Forgotten(audit=name, key=key, applied=apply, places=tuple(places))


def _every_run(store: Store, name: str) -> Iterator[StoredRun]:
    page = runs.list_runs(store, audit=name, limit=scrub.PAGE)
    while page:
        yield from page
        page = runs.list_runs(store, audit=name, limit=scrub.PAGE, before=page[-1].run)


def _ended_runs(store: Store, name: str) -> Iterator[tuple[StoredRun, Report]]:
    for run in _every_run(store, name):
        if run.ended is not None and (body := runs.get_report(store, run.run)):
            yield run, _REPORT.validate_json(body)


def _holds(store: Store, run: StoredRun, report: Report, stored: list[Key]) -> bool:
    """Return whether what is stored of a run names a key, in one of the forms in which keys are stored: its differences, the rows that it
    left out, or the limits of its ranges."""
    named: list[Mapping[str, str | None]] = [row.key for row in report.overdue]
    named += [difference.key for difference in _differences(report)]
    details = scrubbing.list_details(store, run.run).values()
    named += [detail["key"] for detail in details if detail["key"]]
    if any(dict(one) in stored for one in named):
        return True
    limits = [limit for detail in details if (span := detail["range"]) for limit in (span.get("first"), span.get("last"))]
    texts = {text for measure in report.measures for text in (measure.source, measure.target)}
    if report.plan:
        limits += [report.plan.least, report.plan.greatest]
    if report.comparison:
        limits += [limit for partition in report.comparison.divergent for limit in partition.key_range or ()]
    return len(stored[0]) == 1 and next(iter(stored[0].values())) in {str(limit) for limit in limits if limit is not None} | texts


def _differences(report: Report) -> Iterator[Difference]:
    yield from report.differences.named if report.differences else ()
    yield from report.live.lost if report.live else ()


def _runs(
    settings: Settings, store: Store, held: list[StoredRun], reports: Mapping[str, tuple[StoredRun, Report]], *, apply: bool
) -> KeyPlace:
    seal = evidence.get_seal(settings)
    for run in held if apply else ():
        report = reports[run.run][1]
        if report.plan is None:
            continue
        names = frozenset(column.name for column in report.plan.columns)
        shown = frozenset(column.name for column in report.plan.columns if not column.masked)
        masked = replace(report.plan, columns=tuple(replace(column, masked=True) for column in report.plan.columns))
        scrub.hide_run(store, run.run, replace(report, plan=masked), names, shown, lambda _: MASK, seal, FORGOTTEN)
    what = "stored runs that name it, until they are deleted (keep: runs, days); they lose the keys and values of all their rows"
    what += ", and cannot be resumed. Their evidence is signed anew without them; what was handed out has keyed digests alone"
    return KeyPlace(place="runs", searched=True, found=len(held), removed=len(held) if apply else 0, what=what)


def _repairs(store: Store, name: str, key: Key, *, apply: bool) -> KeyPlace:
    found = repairs.forget_key(store, name, key, MASK, apply=apply)
    what = "recorded repairs, which are kept for good; they lose this key"
    return KeyPlace(place="repairs", searched=True, found=found, removed=found if apply else 0, what=what)


def _journal(store: Store, name: str, *, apply: bool) -> KeyPlace:
    """Return the patches whose rows are stored: packed, so that they are dropped without a look at whose they are. None is all searched."""
    found = patches.count_with_rows(store, name)
    removed = patches.drop_rows(store, audit=name) if apply else 0
    what = "patches of the audit whose rows are stored (keep: journal), whichever these are; without them they cannot be undone"
    return KeyPlace(place="journal", searched=not found, found=found, removed=removed, what=what)


def _left_out(store: Store, name: str, stored: list[Key], *, apply: bool, also: bool) -> KeyPlace:
    bodies = audit_state.list_left_out(store, name)
    found = sum(tuple(key.values()) in left_out.unpack(body).rows for body in bodies for key in stored[: 1 + (stored[1] != stored[0])])
    if apply and (found or also):  # with which ranges a rolling audit has read
        scrubbing.forget_audit(store, name)
    what = "rows that the last runs did not compare, until one compares them; the audit begins anew to count for how long each was left out"
    return KeyPlace(place="left out rows", searched=True, found=found, removed=found if apply else 0, what=what)


def _requests(store: Store, name: str, key: Key) -> Iterator[KeyPlace]:
    every = list(_every_run(store, name))
    asked = [run for run in every if _asks_for(run, key)]
    if asked:
        listed = ", ".join(run.run[:12] for run in asked[:5])
        what = f"requests of runs for a range of keys that ends with it, or with a reason that names it ({listed}), until the runs are"
        yield KeyPlace(place="requests", searched=True, found=len(asked), removed=0, what=f"{what} deleted (keep: runs, days)")
    active = [run for run in every if run.ended is None]
    if active:
        what = f"{plural(len(active), 'run')} of the audit that did not end yet; do it again afterwards"
        yield KeyPlace(place="running", searched=False, found=0, removed=0, what=what)


def _asks_for(run: StoredRun, key: Key) -> bool:
    bounds = run.overrides.get("keys") or {}
    text = next(iter(key.values()))
    return len(key) == 1 and text is not None and (text in {str(bound) for bound in bounds.values()} or events.names(run.reason, text))


def _asked(store: Store, name: str, text: str | None, *, apply: bool) -> Iterator[KeyPlace]:
    """Yield what people asked for by a range of keys that begins or ends with a key, or with a reason that names it, beside runs."""
    if text is None:
        return
    what = (
        "events of requests for a range that ends with it, or with a reason that names it, until they are deleted (keep: days); they lose"
    )
    found = events.forget_asked(store, name, text, MASK, apply=apply)
    yield KeyPlace(place="events", searched=True, found=found, removed=found if apply else 0, what=f"{what} both")
    if found := patches.forget_asked(store, name, text, apply=apply):
        what = "patches of a range of keys that ends with it, which are kept for good; they lose the range"
        yield KeyPlace(place="patches", searched=True, found=found, removed=found if apply else 0, what=what)
    found, ended = bootstraps.forget_key(store, name, text, apply=apply)
    what = "bootstraps with a range of keys that ends with it, until they are deleted (keep: days); they lose the bounds of their ranges"
    what += "; one that did not end goes on from them: continue or drop it, and do this again" if found > ended else ""
    yield KeyPlace(place="bootstraps", searched=True, found=found, removed=ended if apply else 0, what=what)


def list_outside(settings: Settings, audit: Audit) -> Iterator[KeyPlace]:
    """Yield what may hold the key outside of the store and is not searched: each says when it goes."""
    outside: list[tuple[str, str]] = []
    for read in audit.sources:
        for chain in find_chains(read, audit.target, settings.pipelines, settings.connections):
            for name in dict.fromkeys((chain.last.pipeline, *([chain.feed.pipeline] if chain.feed else []))):
                outside += _of_pipeline(name, settings)
    outside.append(("messages", "notifications, reports and evidence files that were sent or written are no longer ours"))
    yield from (KeyPlace(place=place, searched=False, found=0, removed=0, what=what) for place, what in dict.fromkeys(outside))


def _of_pipeline(name: str, settings: Settings) -> Iterator[tuple[str, str]]:
    pipeline = settings.pipelines[name]
    if pipeline.history:
        kept = format_duration(settings.keep.versions)
        yield f"history of {name}", f"hashes of keys and rows, without their values; a version goes after {kept} (keep: versions)"
    yield f"refreshes of {name}", "keys that a refresh was asked to send, or its ranges end with, until the pipeline is reset"
    yield f"notes of {name}", "the reason of an event that stopped a table can quote a value, until the target is past it"
    for target in pipeline.topic_targets:
        yield f"topics of {name}/{target}", "messages have whole rows; how long the broker keeps them is the topics' own setting"
