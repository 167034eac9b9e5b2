"""Stored runs: what earlier ones left for the next, the result of a finished one, and what doors show of each."""

from __future__ import annotations

import dataclasses
import datetime as dt
import math
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Literal
from weakref import WeakKeyDictionary

from pydantic import TypeAdapter
from pydantic_core import to_json

from auditor.config import Audit, ConnectionSettings, Retention
from auditor.durations import durations
from auditor.errors import NoReport
from auditor.history import fingerprint, key_digests, left_out, rolling
from auditor.history.handover import EarlierRuns, Outcome
from auditor.masking import partition_label
from auditor.model import NULL_PARTITION, SIDES, Difference, Plan, RangeDifference, Report, State, Verdict, parse_time, similarity_error
from auditor.store import Store, audit_state, costs, pruning, rolling_parts, run_lifecycle, runs, salt
from auditor.store import audit_state as stored_left_out
from auditor.store.audit_state import Changes
from auditor.store.evidence import Seal
from auditor.store.rolling_parts import RollingPart
from auditor.store.runs import StoredDifference, StoredRun
from auditor.summary.partition_states import STATES

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from auditor.api_models.run import Partition, PartitionState, Run
    from auditor.summary.codec import PartitionMap

LOOKBACK_RUNS = 30
"""Earlier runs on which the choice of a method and the estimated rate of a rolling audit are based."""

SWEEP_LOOKBACK_RUNS = 1000
"""Earlier runs searched for evidence that a rolling audit has read its whole table once."""

COST_RUNS = 5
"""Earlier runs by whose costs those of the next are estimated."""

MOST_PROVED = 16
"""Shapes of statements that are remembered of an audit: of its methods, on its servers."""

_last_pruned: WeakKeyDictionary[Store, float] = WeakKeyDictionary()
"""When this process last pruned each store, by the monotonic clock."""

MAX_DIVERGENT = 1000
"""Divergent partitions listed in a stored report. Its partition map contains all of them."""


@cache
def _reports() -> TypeAdapter[Report]:
    """Return what reads stored reports; it takes a while to build, and a run that ends reads none."""
    return TypeAdapter(Report)


def load_earlier_runs(store: Store, name: str, audit: Audit, connections: Mapping[str, ConnectionSettings]) -> EarlierRuns:
    """Return what earlier runs of an audit left for the next one. Raises StoreError."""
    # Only done runs: one that failed has not accepted the schema that it found.
    done = runs.list_runs(store, audit=name, state=State.DONE, limit=LOOKBACK_RUNS, own_only=True)
    last = next((run for run in done if run.schema), None)
    settings = fingerprint.hash_audit(name, audit, connections)
    shares = [_differing_share(run) for run in reversed(done)]
    unequal = [run.unequal / run.partitions for run in reversed(done) if run.unequal is not None and run.partitions]

    def choose(plan: Plan) -> tuple[tuple[int, int], ...]:
        return _choose_partitions(store, name, audit, plan, done, settings)

    state = audit_state.get_state(store, name)
    return EarlierRuns(
        ended_runs=state.run_count,
        differing_shares=tuple(share for share in shares if share is not None),
        unequal_shares=tuple(unequal),
        schema=last.schema if last else None,
        choose_partitions=choose if audit.rolling else None,
        digest=key_digests.salted(salt.get_salt(store)),
        proved=frozenset(state.counted_shapes),
        verified_through=state.verified_under(settings)[0],
        unequal_keys=_unequal_keys(store, done),
        left_out=left_out.unpack(stored_left_out.get_left_out(store, name, settings)),
        costs=tuple(costs.list_of_runs(store, [run.run for run in reversed(done[:COST_RUNS])])),
        partition_size=_last_partition_size(store, name) if audit.rolling else None,
    )


def _differing_share(run: StoredRun) -> float | None:
    """Return the share of rows that differed, 0 to 1, None if unknown: D / T of T rows on both sides, where D = T (1 - J) / (1 + J)."""
    if run.score is None or not run.rows or not sum(run.rows.values()):
        return None
    return (1 - run.score) / (1 + run.score)


def _unequal_keys(store: Store, done: Sequence[StoredRun]) -> tuple[int, ...]:
    """Return the least key of each partition that the last run found unequal; none where keys have no order."""
    last = next((run for run in done if run.unequal is not None and run.partitions), None)
    loaded = load_partition_map(store, last.run) if last and last.unequal else None
    return tuple(int(key) for key in loaded.least if key is not None) if loaded else ()


def _own_settings(run: StoredRun) -> str | None:
    """Return the hash of a run's settings; None for a run with other settings, which does not affect its audit's status."""
    return None if run.is_one_off else fingerprint.hash_settings(run.definition)


def _last_partition_size(store: Store, name: str) -> int | None:
    """Return the partition size of the last run, which all runs of a rolling audit share; None if there is none."""
    last = runs.get_latest_run(store, name)
    body = runs.get_report(store, last.run) if last else None
    plan = _reports().validate_json(body).plan if body else None
    return plan.partitioning.size or None if plan else None


def _choose_partitions(
    store: Store, name: str, audit: Audit, plan: Plan, done: Sequence[StoredRun], settings: str
) -> tuple[tuple[int, int], ...]:
    """Return the ranges of partitions that the next run of a rolling audit reads: first those that were read least recently."""
    if audit.rolling is None or plan.least is None or plan.greatest is None or not plan.partitioning.size:
        return ()
    size = plan.partitioning.size
    first, end = plan.least // size, plan.greatest // size + 1
    parts = rolling_parts.list_parts(store, name, fingerprint.hash_layout(plan, settings))
    read = [rolling.Piece(_first_partition(part, first), _end_partition(part, end), part.at) for part in parts]
    rates = [sum(run.rows.values()) / 2 / run.seconds for run in done if run.rows and run.seconds]
    count = rolling.partitions_per_run(
        end - first, audit.rolling.per_run, audit.rolling.budget, plan.rows_per_partition, sum(rates) / len(rates) if rates else None
    )
    earlier = runs.list_runs(store, audit=name, state=State.DONE, limit=SWEEP_LOOKBACK_RUNS, own_only=True)
    swept = sum(run.coverage or 0.0 for run in earlier) >= 1
    return tuple(rolling.choose_partitions(rolling.fill_gaps(read, first, end), count, count // 2 if swept else 0))


def _first_partition(part: RollingPart, first: int) -> int:
    return first if part.first is None else part.first


def _end_partition(part: RollingPart, end: int) -> int:
    return end if part.end is None else part.end


def save_result(store: Store, outcome: Outcome, seal: Seal | None = None) -> None:
    """Store how a run ended, without masked values and with its evidence, in one transaction. Raises StoreError."""
    store.write(lambda _: _save_result(store, outcome, seal))


def _save_result(store: Store, outcome: Outcome, seal: Seal | None) -> None:
    digest = key_digests.salted(salt.get_salt(store))
    report = key_digests.hide_report(outcome.report, digest)
    plan = report.plan
    run = runs.get_run(store, report.run)
    settings = _own_settings(run)
    # First, because it locks the run before the state of its audit, as whatever else ends or continues a run.
    schema = outcome.schema if report.state is State.DONE else None  # of another one a plan stored it, or there is none
    run_lifecycle.finish_run(store, report.run, to_store_outcome(report, outcome.partition_map), seal, schema=schema)
    if settings is None:
        return
    if report.state is State.DONE and plan and plan.partition_ranges and report.comparison:
        # Also without a verdict: partitions that never settle must not keep the others from being read.
        read_at, layout = _read_moment(run, report, plan), fingerprint.hash_layout(plan, settings)
        latest = max((part.at for part in rolling_parts.list_parts(store, report.audit, layout)), default=read_at)
        # Later than every other part, even if the clock was set back.
        at = max(report.began or read_at, latest + dt.timedelta(microseconds=1))
        for first, end in plan.partition_ranges:
            part = RollingPart(first=first, end=end, run=report.run, at=at, watermark=read_at)
            rolling_parts.record_part(store, report.audit, layout, part)
    if report.state is State.DONE and plan and outcome.left_out is not None:
        rows = key_digests.hide_left_out(outcome.left_out, plan, digest)
        stored_left_out.save_left_out(store, report.audit, settings, left_out.pack(rows))
    changes: Changes = {}
    if outcome.proved and report.state is State.DONE:
        before = [shape for shape in audit_state.get_state(store, report.audit).counted_shapes if shape not in outcome.proved]
        changes["counted_shapes"] = [*before, *outcome.proved][-MOST_PROVED:]
    if report.verified_through or report.within_threshold_through:
        changes["verified_settings"] = settings
        changes["verified_through"], changes["within_threshold_through"] = report.verified_through, report.within_threshold_through
    if changes:
        audit_state.update_state(store, report.audit, **changes)


def prune_at_times(store: Store, limits: Retention) -> None:
    """Prune the store, unless this process did a while ago: it reads all runs of all audits. Raises StoreError."""
    if time.monotonic() - _last_pruned.get(store, -durations().store_pruning) >= durations().store_pruning:
        _last_pruned[store] = time.monotonic()
        pruning.prune(store, runs=limits.runs, days=limits.days, now=dt.datetime.now(dt.UTC), journal=limits.journal)


def _read_moment(run: StoredRun, report: Report, plan: Plan) -> dt.datetime:
    """Return the time at which the run's data was valid: where it was aligned, its watermark, else its first start, before any resume.

    With a history it is not later than the oldest change that was in flight.
    """
    if report.aligned:
        return report.aligned.time
    if plan.watermark:
        return parse_time(plan.watermark)
    in_flight = report.differences.history.oldest if report.differences is not None and report.differences.history else None
    return min(moment for moment in (report.began, run.started, in_flight) if moment)


def with_verified_through(store: Store, report: Report) -> Report:
    """Return the report with the times (UTC) up to which the audit's whole table is verified, this run included. Raises StoreError.

    A match verifies up to the time at which its data was valid: ``verified_through`` if it saw everything equal, and otherwise
    ``within_threshold_through``. For a rolling audit, the oldest of these times over all parts counts, provided that each was equal, or
    within the threshold, when it was last read. Neither is ever earlier than before, even if a clock was set back. Results under other
    settings do not count: they are about other rows.
    """
    run = runs.get_run(store, report.run)
    state = audit_state.get_state(store, report.audit)
    verified, within = state.verified_under(fingerprint.hash_settings(run.definition))
    settings, plan = _own_settings(run), report.plan
    reads_source = report.live is None or bool(report.live.scanned)  # a match with the stream says nothing of what the log does not
    if report.verdict is Verdict.MATCH and plan and not plan.slice and settings and reads_source:
        read_at, all_equal = _read_moment(run, report, plan), not report.within_threshold
        if plan.partition_ranges:
            parts = _parts_as_read(store, report, plan, settings, read_at)
            read_at = min((piece.at for piece in parts if piece.at), default=read_at)
            complete, all_equal = all(piece.at for piece in parts), all(piece.equal for piece in parts)
        else:
            complete = True
        if complete and all_equal:
            verified = _later(verified, read_at)
        elif complete:
            within = _later(within, read_at)
    if report.verified_through:  # of a segment audit, which knows it from its register
        verified = _later(verified, report.verified_through)
    within = within if within and (verified is None or within > verified) else None
    return dataclasses.replace(report, verified_through=verified, within_threshold_through=within)


def _later(before: dt.datetime | None, at: dt.datetime) -> dt.datetime:
    return max(before, at) if before else at


@dataclass(frozen=True, slots=True)
class _MatchedPiece(rolling.Piece):
    """Partitions that matched when they were last read, ``at`` (None: they did not, or never were); whether they were all equal."""

    equal: bool


def _parts_as_read(store: Store, report: Report, plan: Plan, settings: str, read_at: dt.datetime) -> list[_MatchedPiece]:
    """Return pieces that cover the table: the partitions of this run, which matches, and the others as earlier runs left them."""
    size = plan.partitioning.size
    first, end = (plan.least or 0) // size, (plan.greatest or 0) // size + 1
    pieces = [_MatchedPiece(low, high, read_at, not report.within_threshold) for low, high in plan.partition_ranges]
    parts = rolling_parts.list_parts(store, report.audit, fingerprint.hash_layout(plan, settings))
    for gap in rolling.fill_gaps(pieces, first, end):
        for part in parts if gap.at is None else ():
            low, high = max(gap.first, _first_partition(part, first)), min(gap.end, _end_partition(part, end))
            if low < high and (result := _range_seen(store, part.run, low, high)):
                pieces.append(_MatchedPiece(low, high, part.watermark, result == "equal"))
    covered = rolling.fill_gaps(sorted(pieces, key=lambda piece: piece.first), first, end)
    unequal = {piece.first for piece in pieces if not piece.equal}
    return [_MatchedPiece(piece.first, piece.end, piece.at, piece.first not in unequal) for piece in covered]


def _range_seen(store: Store, run: str, first: int, end: int) -> Literal["equal", "allowed"] | None:
    """Return how a run saw a range of partitions: equal, or within the threshold; None if it found it different or did not compare it.

    Rows without a key are of no range: each run reads them.
    """
    record = runs.get_run(store, run)
    if record.verdict is Verdict.MATCH and not record.within_threshold:
        return "equal"
    loaded = load_partition_map(store, run)
    if loaded is not None:
        equal = loaded.state == STATES.index("equal")
        if record.verdict is Verdict.UNKNOWN and len(loaded) and equal.all():
            return None  # something else made it unknown, which may concern any partition
        if equal[partitions_in_range(loaded, first, end)].all():
            return "equal"
    return "allowed" if record.verdict is Verdict.MATCH else None


def iterate_partitions(store: Store, run: str, state: PartitionState | None = None, start: int = 0) -> Iterator[tuple[int, Partition]]:
    """Yield the partitions of a run from the place ``start`` on, with their places, ascending; of one state alone, if it is given.

    Raises UnknownRun, and NoReport if the run has none yet.
    """
    stored = runs.get_run(store, run)
    partition_map, report = load_partition_map(store, stored.run), load_report(store, stored.run, max_differences=0)
    if partition_map is None or report is None or report.plan is None:
        raise NoReport(f"run {stored.run} has no partitions{'' if stored.ended else ' yet'}")
    for place in range(start, len(partition_map)):
        if state is None or partition_map.state[place] == STATES.index(state):
            yield place, _partition(partition_map, place, report.plan)


def _partition(partition_map: PartitionMap, place: int, plan: Plan) -> Partition:
    from auditor.api_models.run import Partition  # models take long to load, and a run builds none

    number, state = int(partition_map.partition[place]), STATES[partition_map.state[place]]
    identity = None if number == NULL_PARTITION else number
    hidden, similarity = plan.hides_ranges, float(partition_map.similarity[place])
    is_estimated = not math.isnan(similarity) and state not in ("equal", "source_only", "target_only")
    least, greatest = (
        None if hidden or any(column.masked for column in plan.key_columns) or key is None else str(key)
        for key in (partition_map.least[place], partition_map.greatest[place])
    )
    return Partition(
        partition=None if hidden else identity,
        label=partition_label(plan, identity),
        state=state,
        similarity=None if math.isnan(similarity) else similarity,
        similarity_error=similarity_error(plan.k) if is_estimated else None,
        rows={side: int(counts[place]) for side, counts in partition_map.rows.items()},
        least=least,
        greatest=greatest,
    )


def partitions_in_range(partition_map: PartitionMap, first: int, end: int) -> npt.NDArray[np.bool_]:
    """Return a mask, shape (partitions,), of the partitions numbered ``first`` (inclusive) to ``end`` (exclusive)."""
    mask: npt.NDArray[np.bool_] = (partition_map.partition >= first) & (partition_map.partition < end)
    return mask


def to_store_outcome(report: Report, partition_map: PartitionMap | None) -> run_lifecycle.Outcome:
    """Return how a run ended as it is stored."""
    packed = b""
    if partition_map:
        from auditor.summary.codec import pack_partition_map  # which loads NumPy, and lists of runs need none

        packed = pack_partition_map(partition_map)
    comparison, differences = report.comparison, report.differences
    score = report.jaccard.score if report.jaccard else comparison.published if comparison else None
    slim = report
    if comparison:
        slim = dataclasses.replace(report, comparison=dataclasses.replace(comparison, divergent=comparison.divergent[:MAX_DIVERGENT]))
    if differences:
        slim = dataclasses.replace(slim, differences=dataclasses.replace(differences, named=(), ranges=()))
    return run_lifecycle.Outcome(
        state=report.state,
        verdict=report.verdict,
        exit_code=report.exit_code,
        seconds=report.seconds,
        method=report.method,
        reasons=report.reasons,
        score=score.value if score else None,
        lower=score.lower if score else None,
        upper=score.upper if score else None,
        published=comparison.published.value if comparison and comparison.published else None,
        coverage=report.coverage["rows"] if comparison else None,
        rows=comparison.rows if comparison else None,
        partitions=comparison.total if comparison else None,
        unequal=comparison.unequal if comparison else None,
        missing=differences.missing if differences else None,
        extra=differences.extra if differences else None,
        changed=differences.changed if differences else None,
        unsettled=differences.unsettled if differences else None,
        verified_through=report.verified_through,
        within_threshold=report.within_threshold,
        within_threshold_through=report.within_threshold_through,
        resumable=report.resumable,
        report=to_json(slim, inf_nan_mode="null"),
        partition_map=packed,
        differences=[*map(_to_stored_range, differences.ranges), *map(_to_stored_difference, differences.named)] if differences else (),
    )


def _to_stored_difference(difference: Difference) -> StoredDifference:
    columns = [dataclasses.asdict(column) for column in difference.columns]
    looks = [{"at": look.at.isoformat(), "outcome": look.outcome} for look in difference.looks]
    shards = list(difference.shards)
    return StoredDifference(
        kind=difference.kind,
        key=difference.key,
        rows=dict(difference.rows),
        columns=columns,
        state=difference.state,
        looks=looks,
        shards=shards,
        cause=difference.cause,
    )


def _to_stored_range(difference: RangeDifference) -> StoredDifference:
    sides = {side: difference.rows if (side == "source") == (difference.kind == "missing") else 0 for side in SIDES}
    return StoredDifference(
        kind=difference.kind, key=None, rows=sides, columns=[], state=difference.state, range=dataclasses.asdict(difference)
    )


def load_report(store: Store, run: str, max_differences: int | None = None) -> Report | None:
    """Return the report of a finished run with all differences that are stored, or up to so many; None if the run has not ended.

    Raises UnknownRun.
    """
    body = runs.get_report(store, run)
    if body is None or runs.get_run(store, run).ended is None:
        return None
    report = _reports().validate_json(body)
    if report.differences is None:
        return report
    stored = [difference for _, difference in runs.list_differences(store, run, limit=max_differences)]
    named = tuple(row_difference(difference) for difference in stored if difference.range is None)
    ranges = tuple(range_difference(difference) for difference in stored if difference.range is not None)
    return dataclasses.replace(report, differences=dataclasses.replace(report.differences, named=named, ranges=ranges))


@cache
def _named() -> TypeAdapter[Difference]:
    return TypeAdapter(Difference)


@cache
def _ranges() -> TypeAdapter[RangeDifference]:
    return TypeAdapter(RangeDifference)


def row_difference(difference: StoredDifference) -> Difference:
    """Return a stored difference of one key as what a run found."""
    values = {
        "kind": difference.kind,
        "key": difference.key,
        "rows": difference.rows,
        "columns": difference.columns,
        "state": difference.state,
        "looks": difference.looks,
        "cause": difference.cause,
    }
    return _named().validate_python({**values, "shards": difference.shards})


def range_difference(difference: StoredDifference) -> RangeDifference:
    """Return a stored difference of a range as what a run found."""
    return _ranges().validate_python(difference.range)


def load_partition_map(store: Store, run: str) -> PartitionMap | None:
    """Return the partition map of a run, None if none is stored. Raises UnknownRun."""
    body = runs.get_partition_map(store, run)
    if not body:
        return None
    from auditor.summary.codec import unpack_partition_map

    return unpack_partition_map(body)


def list_runs(
    store: Store,
    *,
    audit: str | None = None,
    state: str | None = None,
    limit: int = 50,
    before: str | None = None,
    verdict: str | None = None,
    since: dt.datetime | None = None,
    until: dt.datetime | None = None,
    among: Collection[str] | None = None,
) -> list[Run]:
    """Return the newest runs that these conditions select, older than ``before``. Raises StoreError, and UnknownRun for ``before``."""
    filters: dict[str, Any] = {"audit": audit, "state": state, "verdict": verdict, "since": since, "until": until, "among": among}
    return [as_run(stored) for stored in runs.list_runs(store, limit=limit, before=before, **filters)]


def get_run(store: Store, run: str) -> Run:
    """Return the run whose id is or begins with ``run``. Raises UnknownRun."""
    return as_run(runs.get_run(store, run))


def as_run(stored: StoredRun) -> Run:
    """Return a stored run as it leaves the process."""
    from auditor.api_models.run import Run, RunScore  # models take long to load, and a run builds none

    progress = stored.progress if stored.state in (State.PENDING, State.RUNNING) else {}
    return Run(
        **Run.fields_of(stored, without=("score", "other_settings", "definition", "progress")),
        began=stored.started,
        score=RunScore(value=stored.score, lower=stored.lower, upper=stored.upper, published=stored.published),
        other_settings=stored.other_settings or None,
        keys=stored.overrides.get("keys"),
        times=stored.overrides.get("times"),
        definition=fingerprint.without_connections(stored.definition) if stored.is_ad_hoc else None,
        progress=progress,
        waiting_for={side: now["doing"] for side, now in progress.items() if str(now.get("doing", "")).startswith("waits")},
    )
