"""Segment audits: run them, and say how their two sides stand.

A run registers what is not registered yet, reads the log anew where a side is that, and concludes from the register: a mismatch where the
sides differ, unknown where one is awaited for longer than the limit, or where nothing was compared.
"""

from __future__ import annotations

import datetime as dt
import threading
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from auditor import telemetry
from auditor.api_models.audit import Definition
from auditor.api_models.segment import (
    ComparedTable,
    ConcludedSegmentAudit,
    DifferentValue,
    RegisteredEntry,
    SegmentAuditStatus,
    SegmentFinding,
    SideOfTable,
)
from auditor.background import Interruption
from auditor.config import ANEW, SegmentAudit, Settings
from auditor.errors import AuditorError, ConfigError
from auditor.escaping import shell_word
from auditor.history import fingerprint
from auditor.history.audit_status import Standing, derive_standing
from auditor.history.checkpoint import StoreCheckpoint
from auditor.history.handover import Outcome
from auditor.masking import MASK
from auditor.model import RegisteredSegment, Report, State, ValueDifference, ValueDifferences, Verdict
from auditor.quantities import format_duration, plural
from auditor.report import listing
from auditor.service import cron
from auditor.service.definitions import RunValues
from auditor.service.outcomes import check_evidence, save_outcome
from auditor.store import Store, audit_state, events, queue, run_lifecycle, runs, segment_register

if TYPE_CHECKING:
    from auditor.api_models.audit import ListedAudit
    from auditor.compare.segment_findings import Finding
    from auditor.history.checkpoint import StoreCheckpoint
    from auditor.pipeline.segments.by_value import Opening
    from auditor.store.queue import Enqueued
    from auditor.store.segment_register import Place, TableState

MOST_TOLD = 20
"""Findings of a table that a run opens by value, and findings that a report tells one by one."""

MOST_BUCKETS = 8
"""Unequal buckets whose numbers a sentence names."""


@dataclass(frozen=True, slots=True)
class TableComparison:
    """What was compared of a table, and what is wrong."""

    state: TableState
    findings: Sequence[Finding]
    lags: tuple[float, float]
    """Seconds since each side is awaited for the first segment that the other one has; 0 if it is not."""
    uncompared: Sequence[str] = ()
    """Why segments of both sides were not compared."""
    notes: Sequence[str] = ()
    """Why segments have no digests by bucket."""


@dataclass(frozen=True, slots=True)
class Overview:
    """A segment audit and what it stands at."""

    name: str
    audit: SegmentAudit
    sides: tuple[str, str]
    tables: Sequence[TableComparison]
    refused: str
    """Why segments are not comparable; empty if they are."""
    standing: Standing
    paused: bool

    @property
    def lag(self) -> float:
        """Return the seconds since the slower side is awaited; 0 if none is."""
        return max((seconds for comparison in self.tables for seconds in comparison.lags), default=0.0)


def definition_of(settings: Settings, name: str) -> Definition:
    """Return a segment audit as it is stored with its runs. Raises UnknownAudit."""
    return {"segments": settings.segment_audit(name).model_dump(mode="json", exclude_defaults=True)}


def compare(settings: Settings, store: Store, name: str) -> tuple[list[TableComparison], str]:
    """Return what the register says of each table, and why it refuses segments, if it does. Raises UnknownAudit and StoreError."""
    from auditor.pipeline.segments.checking import list_findings

    settings.segment_audit(name)
    now = current_time()
    comparisons = []
    opening = _opening(settings, store, name)
    values = segment_register.get_values(store, name) if opening else {}
    for state in segment_register.list_tables(store, name):
        # The first side's segments that wait are what the second one lacks.
        lags = [max(0.0, (now - side.waiting_since).total_seconds()) if side.waiting_since else 0.0 for side in state.sides]
        findings = list_findings(store, name, state, with_buckets=opening is not None)
        if opening:
            findings = [replace(one, values=_from_json(values.get(opening.digest_of(one)))) for one in findings]
        notes = list(_without_buckets(store, opening, state)) if opening else []
        comparisons.append(TableComparison(state, findings, (lags[1], lags[0]), list(_incomparable(store, name, state)), notes))
    return comparisons, segment_register.get_refusal(store, name)


def _opening(settings: Settings, store: Store, name: str) -> Opening | None:
    """Return what opens findings; None if the pipelines of the audit name no column for that, and read no topics' partitions."""
    from auditor.pipeline.segments.by_value import Opening
    from auditor.pipeline.segments.registering import register_of
    from auditor.pipeline.segments.sides import side_of

    first = settings.pipeline(settings.segment_audit(name).pipelines[0])
    if first.segment is None or not (first.segment.by or first.reads_partitions):
        return None
    names = segment_register.list_sides(store, name) or settings.segment_audit(name).sides
    sides = side_of(settings, name, names[0]), side_of(settings, name, names[1])
    return Opening(settings, store, name, sides, register_of(settings, name).by)


def _from_json(body: Any) -> ValueDifferences | None:
    if body is None:
        return None
    found = [ValueDifference(value, (lacking[0], lacking[1]), altered) for value, lacking, altered in body["values"]]
    return ValueDifferences(body["by"], tuple(found), body["more"], body["refused"], tuple(body["lacking"]), body["unexplained"])


def _open_values(settings: Settings, store: Store, name: str) -> None:
    """Read whose events differ in findings that have not been opened by value yet, and forget those that are none any more."""
    from auditor.pipeline.segments.checking import list_findings

    opening = _opening(settings, store, name)
    if opening is None:
        return
    known, values = segment_register.get_values(store, name), dict[str, Any]()
    for state in segment_register.list_tables(store, name):
        for finding in list_findings(store, name, state, with_buckets=True)[:MOST_TOLD]:
            digest = opening.digest_of(finding)
            if digest in known and not known[digest]["refused"] and not known[digest]["unexplained"]:
                values[digest] = known[digest]
            elif found := opening.open(finding):
                listed = [[one.value, list(one.lacking), one.altered] for one in found.values]
                values[digest] = {"by": found.by, "values": listed, "more": found.more, "refused": found.refused}
                values[digest] |= {"lacking": list(found.lacking), "unexplained": found.unexplained}
    if values != known:
        segment_register.replace_values(store, name, values)


def open_findings(settings: Settings, store: Store, name: str, findings: Sequence[Finding]) -> list[Finding]:
    """Return findings with the values whose events differ, read from the files now; nothing is stored. Raises UnknownAudit, StoreError."""
    opening = _opening(settings, store, name)
    return [replace(finding, values=opening.open(finding)) for finding in findings] if opening else list(findings)


def _incomparable(store: Store, name: str, state: TableState) -> Iterable[str]:
    """Yield that segments were not compared, because no version of the events' text is common to both sides' digests."""
    if not (count := max(side.not_comparable for side in state.sides)):
        return
    sides = segment_register.list_sides(store, name)
    newest = [
        segment_register.list_entries(store, name, state.table, side, verdicts=("not comparable",), newest=True, limit=1) for side in sides
    ]
    said = [
        f"{side} hashed version {' and '.join(map(str, sorted({one.encoding, *one.older})))}"
        for side, some in zip(sides, newest, strict=True)
        for one in some
    ]
    yield (
        f"{state.table}: {_segments(count)} of both sides {'was' if count == 1 else 'were'} not compared, because no version of the events'"
        f" text is common to their digests ({', '.join(said)}); compare their events with: auditor segments verify {shell_word(name)}; once"
        f" both writers are of one release, forget the register with: auditor segments reset {shell_word(name)}"
    )


def _without_buckets(store: Store, opening: Opening, state: TableState) -> Iterable[str]:
    """Yield why the newest segments of a table have no digests by bucket."""
    from auditor.summary.bucket_sums import SegmentSums

    if not (by := opening.column_of(state.table)):
        return
    for side in opening.sides:
        for one in segment_register.list_entries(store, opening.audit, state.table, side.name, newest=True, limit=1, with_buckets=True):
            sums = SegmentSums.decode(one.buckets)
            if sums is not None and not sums.sums:
                yield opening.why_none(one, side)
            elif sums is None or sums.by != by:
                yield f"{state.table}: segments of {side.name} have no digests by {by} yet; they begin with the next one that it cuts"


def current_time() -> dt.datetime:
    """Return the time of this host, in UTC."""
    return dt.datetime.now(dt.UTC)


def overview(settings: Settings, store: Store, name: str) -> Overview:
    """Return a segment audit and what it stands at. Raises UnknownAudit and StoreError."""
    audit = settings.segment_audit(name)
    tables, refused = compare(settings, store, name)
    states = audit_state.get_states(store)
    paused = audit_state.is_paused(states, name)
    kept = runs.list_latest_runs(store, name).get(name, [])
    settings_hash = fingerprint.hash_settings(definition_of(settings, name))
    state = states.get(name, audit_state.AuditState())
    standing = derive_standing(kept, dt.datetime.now(dt.UTC), audit, settings_hash, state=state, paused=paused)
    sides = segment_register.list_sides(store, name) or audit.sides
    return Overview(name, audit, (sides[0], sides[1]), tables, refused, standing, paused)


def list_listed(settings: Settings, store: Store) -> list[ListedAudit]:
    """Return all segment audits as lists of audits have them. Raises StoreError."""
    return [
        listing.listed(
            audit_overview.name,
            f"segments: {audit_overview.sides[0]}",
            f"segments: {audit_overview.sides[1]}",
            audit_overview.standing,
            next_due(audit_overview),
            audit_overview.paused,
        )
        for audit_overview in (overview(settings, store, name) for name in settings.segments)
    ]


def next_due(audit_overview: Overview) -> dt.datetime | None:
    """Return when a segment audit is due next; None if it never is."""
    schedule = audit_overview.audit.schedule
    return (
        next(iter(cron.next_times(schedule, dt.datetime.now(dt.UTC), 1, audit_overview.name)), None)
        if schedule and not audit_overview.paused
        else None
    )


def run(
    settings: Settings, store: Store, name: str, *, reason: str = "", requested_by: str = "", interruption: Interruption | None = None
) -> Report:
    """Run a segment audit, store the run and record the event. Raises UnknownAudit, AlreadyRunning and StoreError."""
    check_evidence(settings)
    run_id, definition = uuid.uuid4().hex, definition_of(settings, name)
    about: dict[str, Any] = {"definition": definition, "method": None, "reason": reason, "requested_by": requested_by}
    run_lifecycle.start_run(store, run=run_id, audit=name, **about, event={"audit": name, "reason": reason})
    return execute(settings, name, StoreCheckpoint(store, run_id), reason, save_outcome, interruption)


def execute(
    settings: Settings,
    name: str,
    checkpoint: StoreCheckpoint,
    reason: str,
    save: Callable[[Store, Outcome, Settings], None],
    interruption: Interruption | None = None,
) -> Report:
    """Execute a run that has begun, and store how it ended with ``save``. Raises UnknownAudit and StoreError."""
    log_fields = {"run": checkpoint.run, "audit": name}
    with telemetry.log_context(**log_fields), telemetry.span("run", **log_fields):
        report = replace(_perform(settings, name, checkpoint, interruption or Interruption()), reason=reason)
        outcome = Outcome(report)
        save(checkpoint.store, outcome, settings)
    return replace(report, notes=outcome.report.notes)


def _perform(settings: Settings, name: str, checkpoint: StoreCheckpoint, interruption: Interruption) -> Report:
    began, at = time.monotonic(), dt.datetime.now(dt.UTC)
    stop = threading.Event()
    state, code = State.DONE, 0
    verdict, through = Verdict.UNKNOWN, None
    reasons: tuple[str, ...] = ("the run was cancelled",)
    try:
        with interruption.calling(stop.set), checkpoint.keep_alive(stop.set, lambda _: (0, 0)):
            _register(settings, checkpoint.store, name, stop)
            if not stop.is_set():
                _open_values(settings, checkpoint.store, name)
        if stop.is_set():
            state = State.CANCELLED
        else:
            verdict, reasons, through = conclude(settings, checkpoint.store, name)
            _prune(settings, checkpoint.store, name, at)
    except AuditorError as error:
        state, reasons, code = State.FAILED, (str(error),), error.exit_code
    return Report(
        audit=name,
        run=checkpoint.run,
        state=state,
        verdict=verdict,
        reasons=reasons,
        seconds=time.monotonic() - began,
        exit_code=code or verdict.exit_code,
        began=at,
        verified_through=through,
    )


def _register(settings: Settings, store: Store, name: str, stop: threading.Event) -> None:
    """Register what both sides have. Raises ConfigError, SegmentFailed, EngineError and StoreError."""
    from auditor.pipeline.segments.registering import Registration, catch_up, register_of
    from auditor.pipeline.segments.sides import side_of

    register = register_of(settings, name)
    for side in register.sides:
        if side == ANEW:
            from auditor.pipeline.segments.rereading import read_stream  # which imports PySpark

            read_stream(settings, store, name, side_of(settings, name, side), stop)
        else:
            catch_up(store, side, Registration(register, side))


def _prune(settings: Settings, store: Store, name: str, at: dt.datetime) -> None:
    if settings.keep.days is not None:
        segment_register.prune(store, name, at - dt.timedelta(days=settings.keep.days))


def conclude(settings: Settings, store: Store, name: str) -> tuple[Verdict, tuple[str, ...], dt.datetime | None]:
    """Return the verdict of a segment audit as its register is now, sentences that explain it, and up to when all tables are equal.

    Raises UnknownAudit and StoreError.
    """
    from auditor.pipeline.events import is_partition

    audit = settings.segment_audit(name)
    tables, refused = compare(settings, store, name)
    sides = segment_register.list_sides(store, name) or audit.sides
    wrong = [sentence for comparison in tables for finding in comparison.findings for sentence in [describe(finding, sides)]]
    unknown = [refused] if refused else []
    unknown += [sentence for comparison in tables for sentence in _unknown(comparison, sides, audit.max_lag)]
    unknown += _never_compared(settings, store, name, {comparison.state.table for comparison in tables})
    compared = [comparison.state for comparison in tables if comparison.state.matches]
    if not tables and not refused:
        unknown.append(f"neither {' nor '.join(sides)} has a finished segment yet")
    elif not compared and not unknown:
        unknown.append("no two segments are equal yet, so nothing was verified")
    rows, count = sum(state.matched_rows for state in compared), sum(state.matches for state in compared)
    streams = "partition" if compared and all(is_partition(state.table) for state in compared) else "table"
    equal = (
        f"{plural(count, 'segment')} with {plural(rows, 'event')} of {plural(len(compared), streams)} {'is' if count == 1 else 'are'} equal"
    )
    moments = [comparison.state.matched_through for comparison in tables]
    through = min(at for at in moments if at) if moments and all(moments) else None
    notes = tuple(note for comparison in tables for note in comparison.notes)
    if wrong:
        more = [f"and {len(wrong) - MOST_TOLD:,} more"] if len(wrong) > MOST_TOLD else []
        return Verdict.MISMATCH, (*wrong[:MOST_TOLD], *more, *unknown, equal, *notes), None
    notes = (*_awaited(tables, sides, audit.max_lag), *notes)
    if unknown:
        return Verdict.UNKNOWN, (*unknown, *([equal] if compared else []), *notes), None
    return Verdict.MATCH, (equal, *notes), through


def _never_compared(settings: Settings, store: Store, name: str, compared: Collection[str]) -> list[str]:
    """Return of which partitions of topics messages were read and no segment ended, for whatever time."""
    from auditor.pipeline.segments.partitions import find_open_partitions

    found: dict[str, int] = {}
    for pipeline in settings.segment_audit(name).pipelines:
        chosen = settings.pipeline(pipeline)
        if chosen.segment and chosen.reads_partitions:
            found |= dict.fromkeys(find_open_partitions(store, pipeline, chosen), chosen.segment.offsets)
    return [
        f"{stream}: it has messages and no finished segment, so that none of them was compared; one ends with the first message behind a"
        f" multiple of {offsets} offsets (segment: offsets)"
        for stream, offsets in sorted(found.items())
        if stream not in compared
    ]


def _unknown(comparison: TableComparison, sides: Sequence[str], limit: float) -> Iterable[str]:
    """Yield why nothing can be said of a table, or of its end."""
    table = comparison.state.table
    for number, seconds in enumerate(comparison.lags):
        if seconds > limit:
            waiting = comparison.state.sides[1 - number].waiting
            yield (
                f"{table}: {sides[number]} is behind: {format_duration(seconds)} ago {sides[1 - number]} had a segment that it still"
                f" lacks ({waiting:,} by now), and max_lag is {format_duration(limit)}"
            )
    yield from comparison.uncompared
    if comparison.state.compared_from is None and not any(seconds for seconds in comparison.lags):
        yield f"{table}: the two sides have no segment that begins at the same place yet, so nothing was compared"


def _awaited(tables: Sequence[TableComparison], sides: Sequence[str], limit: float) -> Iterable[str]:
    """Yield which side is awaited within the limit."""
    for number in (0, 1):
        behind = [comparison for comparison in tables if 0 < comparison.lags[number] <= limit]
        if behind:
            longest = max(comparison.lags[number] for comparison in behind)
            names = ", ".join(comparison.state.table for comparison in behind[:3]) + (
                f" and {len(behind) - 3} more" if len(behind) > 3 else ""
            )
            yield f"{sides[number]} is awaited for {names}, since {format_duration(longest)}"


def describe(finding: Finding, sides: Sequence[str]) -> str:
    """Return what is wrong in a stretch, with its positions, and whose events differ, if that is known."""
    values = finding.values
    lacking = [*values.lacking, *([values.unexplained] if values.unexplained else [])] if values else []
    return _describe(finding, sides) + _by_value(finding, sides) + "".join(f"; {one}" for one in lacking)


def _by_value(finding: Finding, sides: Sequence[str]) -> str:
    unequal, values = finding.unequal_buckets, finding.values if finding.values and finding.values.by else None
    if values and not values.refused:
        said = [_value(one, finding, sides) for one in values.values]
        said += [f"and {values.more:,} values more"] if values.more else []
        return f"; by {values.by}: {'; '.join(said) or 'the events of each value are equal, in another order'}"
    if unequal and (numbers := unequal[1]):
        more = f" and {len(numbers) - MOST_BUCKETS} more" if len(numbers) > MOST_BUCKETS else ""
        listed = f"bucket {numbers[0]} is" if len(numbers) == 1 else f"buckets {', '.join(map(str, numbers[:MOST_BUCKETS]))}{more} are"
        reason = f": {values.refused}" if values else ", which the next run reads"
        return f"; by {unequal[0]} {listed} unequal; the values are not known{reason}"
    return f"; whose by {values.by} is not known: {values.refused}" if values else ""


def _value(one: ValueDifference, finding: Finding, sides: Sequence[str]) -> str:
    value = "NULL" if one.value is None else one.value if one.value == MASK else repr(one.value)
    if finding.kind == "doubled":
        return f"{value}: {_events(sum(one.lacking))}"
    said = [f"{side} lacks {_events(count)}" for side, count in zip(sides, one.lacking, strict=True) if count]
    said += [f"{_events(one.altered)} {'differs' if one.altered == 1 else 'differ'}"] if one.altered else []
    return f"{value}: {', '.join(said)}"


def _events(count: int) -> str:
    return f"{count:,} {'event' if count == 1 else 'events'}"


def _describe(finding: Finding, sides: Sequence[str]) -> str:
    counts = [len(some) for some in finding.segments]
    where = f"{finding.table}, {place_range(finding)}"
    match finding.kind:
        case "missing":
            other = finding.segments[1 - finding.side]
            return f"{where}: {sides[finding.side]} lacks {_segments(len(other))} with {finding.rows:,} events (start mismatch)"
        case "doubled":
            return f"{where}: {sides[finding.side]} has the stretch twice, with {finding.rows:,} events the second time (doubled)"
        case "altered":
            return f"{where}: other events in {sides[0]} and {sides[1]} ({_contents(finding, sides)}) (content mismatch)"
    return f"{where}: {sides[0]} has {_segments(counts[0])} and {sides[1]} {_segments(counts[1])}, with other bounds (end mismatch)"


def place_range(finding: Finding) -> str:
    """Return from where to where a finding goes, as positions of the log."""
    from auditor.pipeline.events import stream_place

    entries = [entry for some in finding.segments for entry in some]
    first, last = min(entry.first for entry in entries), max(entry.last for entry in entries)
    return f"{stream_place(finding.table, first)} to {stream_place(finding.table, last)}"


def _segments(count: int) -> str:
    return f"{count:,} {'segment' if count == 1 else 'segments'}"


def _contents(finding: Finding, sides: Sequence[str]) -> str:
    rows = [some[0].rows for some in finding.segments]
    return f"{rows[0]:,} and {rows[1]:,}" if rows[0] != rows[1] else f"{rows[0]:,} in both"


def request_run(
    settings: Settings, store: Store, name: str, *, reason: str = "", requested_by: str = "", idempotency: str | None = None
) -> Enqueued:
    """Enqueue a run of a segment audit, and record the event if it is new. Raises UnknownAudit, QueueFull and StoreError."""
    values = run_values(settings, name)
    more: dict[str, Any] = {"reason": reason, "requested_by": requested_by, "max_pending": settings.service.queue}
    enqueued = queue.enqueue_run(store, **values, **more, idempotency_key=idempotency)
    if enqueued.how == "new":
        events.record_event(
            store, actor=requested_by, action="run requested", subject=enqueued.run, detail={"audit": name, "reason": reason}
        )
    return enqueued


def run_values(settings: Settings, name: str) -> RunValues:
    """Return what the queue stores about a new run of a segment audit. Raises UnknownAudit."""
    return {"run": uuid.uuid4().hex, "audit": name, "definition": definition_of(settings, name), "method": None}


def status(settings: Settings, store: Store, name: str) -> SegmentAuditStatus:
    """Return the status of a segment audit, with what its sides registered. Raises UnknownAudit and StoreError."""
    audit_overview = overview(settings, store, name)
    return SegmentAuditStatus(
        audit=audit_overview.name,
        sides=list(audit_overview.sides),
        max_lag=audit_overview.audit.max_lag,
        lag_seconds=audit_overview.lag,
        status=audit_overview.standing.status,
        refused=audit_overview.refused,
        paused=audit_overview.paused,
        run=audit_overview.standing.run.run if audit_overview.standing.run else None,
        verified_through=audit_overview.standing.verified_through,
        tables=[_compared_table(table, audit_overview.sides) for table in audit_overview.tables],
    )


def concluded_status(settings: Settings, store: Store, name: str) -> ConcludedSegmentAudit:
    """Return the same with the verdict that the register gives now. Raises UnknownAudit and StoreError."""
    verdict, reasons, _ = conclude(settings, store, name)
    return ConcludedSegmentAudit(**dict(status(settings, store, name)), verdict=verdict, reasons=list(reasons))


def _compared_table(table: TableComparison, sides: Sequence[str]) -> ComparedTable:
    state = table.state
    return ComparedTable(
        table=state.table,
        matches=state.matches,
        matched_events=state.matched_rows,
        matched_through=state.matched_through,
        is_compared=state.compared_from is not None,
        sides={
            name: SideOfTable(segments=side.segments, events=side.rows, through=side.ended, lag_seconds=lag)
            for name, side, lag in zip(sides, state.sides, table.lags, strict=True)
        },
        findings=[
            SegmentFinding(
                kind=finding.kind,
                side=_wrong_side(finding, sides),
                sentence=describe(finding, sides),
                by=(finding.values.by or None) if finding.values else None,
                buckets=list(unequal[1]) if (unequal := finding.unequal_buckets) else None,
                values=different_values(finding, sides),
                more_values=finding.values.more if finding.values else 0,
            )
            for finding in table.findings
        ],
        notes=[*table.uncompared, *table.notes],
    )


def different_values(finding: Finding, sides: Sequence[str]) -> list[DifferentValue]:
    """Return whose events differ in a finding, as far as it was opened by value."""
    return [
        DifferentValue(value=one.value, lacking=dict(zip(sides, one.lacking, strict=True)), altered=one.altered)
        for one in (finding.values.values if finding.values else ())
    ]


def _wrong_side(finding: Finding, sides: Sequence[str]) -> str | None:
    return sides[finding.side] if finding.kind in ("missing", "doubled") else None


def list_registered(
    settings: Settings, store: Store, audit: str, table: str, side: str, *, after: Place, limit: int
) -> list[RegisteredEntry]:
    """Return segments that a side registered of a table, in the order of the stream, after a place.

    Raises UnknownAudit, ConfigError for another side, and StoreError.
    """
    sides = settings.segment_audit(audit).sides
    if side not in sides:
        raise ConfigError(f"{side!r} is no side of {audit}; its sides are {' and '.join(sides)}")
    entries = segment_register.list_entries(store, audit, table, side, after=after, limit=limit)
    return [_registered_entry(entry, side) for entry in entries]


def _registered_entry(entry: RegisteredSegment, side: str) -> RegisteredEntry:
    return RegisteredEntry(
        table=entry.table,
        side=side,
        verdict=entry.verdict,
        start=list(entry.start),
        end=list(entry.end),
        other=list(entry.matched) if entry.matched else None,
        rows=entry.rows,
        schema_id=entry.schema_id,
        sha256=entry.sha256,
        first=entry.first,
        last=entry.last,
        gtid=entry.gtid,
        began=entry.began,
        ended=entry.ended,
        registered=entry.registered,
    )
