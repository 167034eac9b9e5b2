"""Compare a target, read in one snapshot that says where it stands, with the stream's sums of the source as of there.

The signatures of all partitions, or of stretches of them, are read first, and the power sums of those that differ, in the same snapshot.
Rows are then fetched by key from both sides. A row that has changed in the source meanwhile is looked at again, once the pipeline has
merged past that change.

Signatures are sums, so those of a stretch's partitions add up to that of the stretch: the stream's sums serve for any stretch.

The stream's sums begin with a scan of the source, with both sides at one position, and are proved by later ones.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from auditor.compare import patterns, verdict
from auditor.compare.comparator import Aligned, align, compare
from auditor.compare.text_forms import as_shown
from auditor.config import Audit
from auditor.connections.reader import Reader
from auditor.errors import LiveSummariesUnusable, LiveSummariesWrong
from auditor.escaping import shell_word
from auditor.masking import partition_label
from auditor.model import NULL_PARTITION, Difference, Plan, Prescan, Side, Verdict
from auditor.planning import build, introspect, planner
from auditor.planning.columns import Endpoint
from auditor.planning.prescan import decide, plan_of_stretches
from auditor.run.alignment import Aligner
from auditor.run.cross_checks import CrossChecks
from auditor.run.file_summaries import FileSummaries
from auditor.run.findings import Findings
from auditor.run.live import running_sums
from auditor.run.live.summaries import LiveSummaries
from auditor.run.locate import Lost, estimate_similarity, find_lost, locate_as_of, plan_of_partitions
from auditor.run.prescan import ReadResult, count_contradicted, describe, keys_of_stretch, plan_of_rest, some_keys
from auditor.run.scan import check_chunks, scan_side
from auditor.sql import render
from auditor.summary import arrays
from auditor.summary.arrays import Integers, Summaries

if TYPE_CHECKING:
    import numpy.typing as npt

LOOKS = 3
"""How often partitions in which rows keep changing in the source are looked at again."""

MOST_AGAIN = 0.2
"""The share of partitions beyond which all are read by the method once more, instead of those that differ."""

WHOLE_SIGNATURE = 60
"""Bits of the signature of a method that is cheaper than exact."""

AGAIN = "more rows differ there than live summaries name; a scan of the source names them: auditor run {audit} --rescan"

TOLERATED = "the rows that differ may all be within their tolerances, which only a check of each shows: auditor run {audit} --rescan"

log = logging.getLogger(__name__)


def plan_target(
    audit: Audit,
    reader: Reader,
    tables: Mapping[Side, Endpoint],
    draft: Plan,
    checks: CrossChecks,
    files: FileSummaries | None = None,
    unequal_shares: Sequence[float] = (),
) -> Plan:
    """Return the plan by which the target is read, under a draft that has the partitions of an epoch. Only the target is asked.

    ``files`` has the sums that are kept of the target's files; ``unequal_shares`` are the shares of partitions that differed in earlier
    runs, which decide on a pre-scan.
    """
    if files:
        return files.follow(reader, tables, draft, checks)
    bounds = reader.ask_side("target", lambda side, session: introspect.read_bounds(draft, side, session, audit.partition.rows))
    pinned = pin_partitions(audit, draft)
    plan = planner.finish(draft, pinned, tables, {"source": bounds, "target": bounds})
    plan = replace(plan, partitioning=draft.partitioning, salt=draft.salt)
    plan = replace(plan, prescan=decide(plan, audit, unequal_shares))
    return check_chunks(reader, plan, ("target",))


def pin_partitions(audit: Audit, plan: Plan) -> Audit:
    """Return the audit with the partitions of a plan."""
    how = plan.partitioning
    settings = {"strategy": how.strategy, "size": how.size or None, "buckets": how.buckets or None}
    return audit.model_copy(update={"partition": audit.partition.model_copy(update=settings)})


def compare_live(
    audit: Audit,
    reader: Reader,
    plan: Plan,
    live_summaries: LiveSummaries,
    aligner: Aligner,
    checks: CrossChecks,
    files: FileSummaries | None = None,
) -> Findings:
    """Return what differs between the target and the stream's sums of the source; ``files`` has those of the target's files, if kept.

    Raises LiveSummariesWrong if the sums cannot be believed, LiveSummariesUnusable if the target does not say where it stands, and errors
    of the tree.
    """
    looker, broken = _Looker(reader, plan, live_summaries, files), reader.snapshots_broken
    looker.open()
    aligner.let_go()
    result = looker.read_all()
    if files is None:  # which holds each file against a count when it is read
        checks.hold(plan, result, ("target",))
    aligned = result.aligned
    findings = Findings(aligned, compare(aligned, allow_empty=audit.allow_empty, label=partial(partition_label, plan)), prescan=result.note)
    moved = 0
    if plan.method == "exact":
        unequal = looker.read_again(aligned)
        located, moved = locate_as_of(reader, plan, aligned, unequal, audit.limits, looker.look_later)
        differences = located.differences
        if differences.partitions["estimated"]:
            differences = replace(differences, why=AGAIN.format(audit=shell_word(plan.audit)))
        described = patterns.describe(plan, differences, min(findings.comparison.rows.values()))
        findings.differences, findings.states = as_shown(described, plan, audit.limits.value_length), located.states
        findings.jaccard = located.similarity()
    else:
        findings.jaccard = estimate_similarity(plan, aligned)
    if reader.snapshots_broken != broken or reader.unshared:
        raise LiveSummariesUnusable("the target's snapshot was lost while the table was read; run the audit again")
    known = findings.comparison, findings.differences, findings.jaccard
    findings.verdict, findings.reasons = result.doubt(*verdict.conclude(*known, audit.threshold, plan.undecided_documents))
    _doubt_tolerated(plan, findings)
    reader.end_snapshots()
    live_summaries.note_compared(looker.first, moved, _minus_source(aligned))
    findings.reasons = (*_claim(findings.verdict, live_summaries), *findings.reasons, *looker.later)
    return findings


def _doubt_tolerated(plan: Plan, findings: Findings) -> None:
    """Claim no difference where all rows that differ were only counted: they may deviate within the tolerances."""
    differences, aligned = findings.differences, findings.aligned
    if findings.verdict is not Verdict.MISMATCH or not plan.is_tolerant:
        return
    if differences is None or differences.missing + differences.extra + differences.changed:
        return
    if bool((aligned.rows["source"] == aligned.rows["target"]).all()):
        findings.verdict, findings.reasons = Verdict.UNKNOWN, (*findings.reasons, TOLERATED.format(audit=shell_word(plan.audit)))


def _claim(verdict: Verdict, live_summaries: LiveSummaries) -> tuple[str, ...]:
    """Return what a match says: that the target equals the stream, and no more."""
    if verdict is not Verdict.MATCH or live_summaries.check is None:
        return ()
    return (f"the target equals the stream as of {live_summaries.check.place}; the source itself was not read",)


@dataclass(slots=True)
class _Looker:
    """Reads the target, and the sums as of where it stands."""

    reader: Reader
    plan: Plan
    live_summaries: LiveSummaries
    files: FileSummaries | None = None
    position: int = 0
    first: int = 0
    """Where the target was at the first look."""
    looks: int = 0
    later: tuple[str, ...] = ()
    """What became of rows that had changed in the source since, as a sentence; empty if there were none."""
    source: Summaries = field(init=False)

    def open(self) -> None:
        """Open a snapshot of the target, and read the sums as of where it stands."""
        epoch, sums = self.live_summaries.epoch, self.live_summaries.sums
        assert epoch is not None
        target = self.reader.sides["target"]
        self.position = target.begin_snapshot_by(lambda session: sums.open(session, epoch))
        self.first = self.first or self.position
        self.source = target.run(lambda session: sums.read(session, epoch, self.position))
        if self.plan.partitioning.strategy == "range":
            self.source = arrays.with_limits(self.source, self.plan.partitioning.size)

    def read_all(self) -> ReadResult:
        """Return all partitions: from stretches where the plan says so, else by their signatures where the method computes more."""
        if self.plan.prescan and self.plan.prescan.used:
            return read_stretches(self.reader, self.plan, _project(self.source, self.plan), self._read)
        cheap = self._cheap()
        aligned = align(_project(self.source, cheap), self._read(cheap))
        return ReadResult(aligned, read_by=(cheap,), keys=some_keys(aligned))

    def read_again(self, aligned: Aligned) -> Aligned:
        """Return those partitions that differ, by the method."""
        numbers = aligned.partition[aligned.unequal]
        on_target = aligned.partition[aligned.unequal & aligned.present["target"]]
        by_method = self.plan.prescan is not None and self.plan.prescan.used  # what differs was read so after the stretches
        if by_method or self._cheap() is self.plan or not len(numbers):
            return aligned.select(aligned.unequal)
        whole = len(on_target) > MOST_AGAIN * len(aligned.partition)
        plan = self.plan if whole else plan_of_partitions(self.reader, self.plan, on_target.tolist())
        return self._of(numbers.tolist(), self._read(plan) if len(on_target) else arrays.read([], render.result_columns(self.plan)))

    def look_later(self, numbers: Sequence[int]) -> Aligned | None:
        """Return what differs of partitions as of a later position, past what the source has now; None if it is not reached."""
        if self.looks >= LOOKS:
            return None
        self.looks += 1
        self.reader.report_both("waiting for the pipeline to merge what has changed since")
        target = self.reader.sides["target"]
        target.end_snapshot()
        with target.released() if target.session.dialect.OPENS_FILES else nullcontext():
            why = self.live_summaries.sums.pass_end()
        if why:
            self.later = (f"rows that have changed in the source since were not checked again: {why}",)
            return None
        self.open()
        place = self.live_summaries.sums.place_of(self.position)
        self.later = (f"partitions in which rows had changed in the source since were checked again as of {place}",)
        aligned = self._of(numbers, self._read(self.plan if self.files else plan_of_partitions(self.reader, self.plan, numbers)))
        return aligned.select(aligned.unequal)

    def _of(self, numbers: Sequence[int], target: Summaries) -> Aligned:
        return align(_only(self.source, numbers), _only(target, numbers))

    def _cheap(self) -> Plan:
        if self.files or self.plan.method != "exact" or self.plan.bits > WHOLE_SIGNATURE:
            return self.plan
        return replace(self.plan, method="signature", t=0)

    def _read(self, plan: Plan) -> Summaries:
        """Return the target's summaries, all of them read in the snapshot that says where it stands."""
        if self.files:
            return self.files.read_side(self.reader, plan, "target")
        return scan_side(self.reader, replace(plan, aligned=self.live_summaries.sums.place_of(self.position)), "target")


def _project(sums: Summaries, plan: Plan) -> Summaries:
    """Return sums with what a scan by a plan has of them."""
    return sums if plan.method == "exact" else replace(sums, syndromes=np.zeros((len(sums), 0), np.int64))


def _only(sums: Summaries, numbers: Sequence[int]) -> Summaries:
    return select_partitions(sums, np.isin(sums.partition, np.array(numbers, np.int64)))


def begin_scan(
    audit: Audit, reader: Reader, tables: Mapping[Side, Endpoint], draft: Plan, live_summaries: LiveSummaries, aligner: Aligner
) -> Plan:
    """Return the plan by which both sides are read in snapshots at one position, which are open.

    Raises LiveSummariesUnusable if they cannot be: a scan that is not aligned says nothing of the stream.
    """
    before = build.finish_plan(draft, audit, reader, tables)
    if audit.salt == planner.RANDOM_SALT:
        before = replace(before, salt=secrets.token_hex(8))
    before = live_summaries.prepare_scan(before)
    if not aligner.is_wanted or not aligner.begin(reader, draft, {"source": tables["source"].table.names}, live_summaries.place):
        raise LiveSummariesUnusable(
            f"{live_summaries.why_scan}, and the source is scanned for them only in line with it: {aligner.why_not}"
        )
    assert aligner.alignment is not None
    plan = build.finish_plan(replace(draft, aligned=aligner.alignment.position), pin_partitions(audit, before), reader, tables)
    once = Prescan(used=False, why="live summaries need those of every partition")
    return check_chunks(reader, replace(plan, partitioning=before.partitioning, salt=before.salt, prescan=once))


def compare_scan(audit: Audit, reader: Reader, plan: Plan, live_summaries: LiveSummaries, aligned: Aligned) -> None:
    """Note what the scan found of the source, and which of its rows are missing from the stream's sums; both snapshots are open."""
    summaries = aligned.sides["source"]
    if (summaries.hashed != summaries.rows).any():  # the sums have no place for rows that were counted alone
        live_summaries.note = "the source could not build the text of each row; raise max_allowed_packet there, and run the audit again"
        live_summaries.give_up(LiveSummariesWrong(live_summaries.note))
        return
    scanned, apart = running_sums.add([summaries]), _minus_source(aligned)
    epoch, position = live_summaries.epoch, live_summaries.position
    if epoch is None or not live_summaries.proves:
        live_summaries.note_scanned(position, scanned, apart)
        return
    try:
        kept = reader.ask_side("target", lambda _, session: live_summaries.sums.read(session, epoch, position))
    except LiveSummariesWrong as error:
        live_summaries.give_up(error)
        return
    pair = align(_with_empty(kept, scanned), _with_empty(scanned, kept))
    if not pair.unequal.any():
        live_summaries.note_scanned(position, scanned, apart)
        return
    live_summaries.note_scanned(position, scanned, apart, running_sums.changed(running_sums.add([scanned, running_sums.minus(kept)])))
    lost = find_lost(reader, plan, pair, audit.limits) if plan.method == "exact" else Lost((), tuple(pair.partition[pair.unequal].tolist()))
    as_kept = align(kept, running_sums.add([aligned.sides["target"]]))
    same = set(as_kept.partition[as_kept.equal].tolist())
    live_summaries.note_lost(lost, frozenset(number for number in lost.partitions if number in same))


def _name_lost(plan: Plan, findings: Findings, live_summaries: LiveSummaries) -> None:
    """Let the run's own differences name the rows of partitions in which the stream lost more than its sums name.

    That is right where the target holds exactly what the stream had.
    """
    names, left = list(live_summaries.lost.rows), list[int]()
    for number in live_summaries.lost.partitions:
        mine = _of_partition(plan, findings, number) if number in live_summaries.as_in_target else None
        if mine is None:
            left.append(number)
        else:
            names += mine
    live_summaries.note_lost(Lost(tuple(names), tuple(left)))
    if names or left:
        some = "a row" if len(names) == 1 else f"{len(names):,} rows"
        what = some if not left else f"rows of {len(left):,} partitions" if not names else f"{some} and more"
        lost = f"the stream lost {what} of the source, missing from its summaries until this scan"
        findings.reasons = (*findings.reasons, lost)


def _of_partition(plan: Plan, findings: Findings, number: int) -> list[Difference] | None:
    """Return the differences of a range of keys that the run named all of; None where it did not, or the partition is none."""
    if plan.partitioning.strategy != "range" or findings.differences is None or findings.states.get(number) not in ("accounted", "listed"):
        return None
    size = plan.partitioning.size
    return [
        difference
        for difference in findings.differences.named
        if None not in difference.key.values() and difference.key_number // size == number
    ] or None


def _with_empty(sums: Summaries, others: Summaries) -> Summaries:
    """Return sums with empty partitions for those that only others have, so that the few rows in which these differ decode."""
    nothing = running_sums.of(others.partition, 0 * others.rows, 0 * others.words, 0 * others.syndromes)
    return running_sums.add([sums, nothing])


def _minus_source(aligned: Aligned) -> Summaries | None:
    """Return target minus source of the partitions that differ; None if the target could not hash each row."""
    if aligned.skipped.any():
        return None
    return running_sums.changed(running_sums.add([aligned.sides["target"], running_sums.minus(aligned.sides["source"])]))


def save_scan(plan: Plan, findings: Findings, live_summaries: LiveSummaries, aligner: Aligner) -> None:
    """Let the live summaries begin with the scan, or be proved by it; what stands against that does not change what the run found."""
    live_summaries.label = partial(partition_label, plan)
    _name_lost(plan, findings, live_summaries)
    try:
        live_summaries.save(aligner.alignment)
    except LiveSummariesUnusable as error:
        live_summaries.note = str(error)
        log.warning("live summaries: %s", error, extra={"action": "live_not_kept"})


def read_stretches(reader: Reader, plan: Plan, source: Summaries, read: Callable[[Plan], Summaries]) -> ReadResult:
    """Return the summaries of every partition on both sides; ``read`` reads the target by a plan, in the snapshot of the sums.

    Of a stretch that is equal, the target's are those of the source: equal sums of rows are sums of equal rows.
    """
    parents = _stretches_of(plan, source.partition)
    united, whole = running_sums.unite(source, parents), read(plan_of_stretches(plan))
    scanned = align(arrays.join_words(united), arrays.join_words(whole))
    rest = plan_of_rest(reader, plan, scanned, scanned.equal, {side: [] for side in plan.read_sides})
    is_equal = np.isin(parents, scanned.partition[scanned.equal])
    names = render.result_columns(plan)
    remainder = read(rest) if rest else arrays.read([], names)
    target = arrays.concatenate([select_partitions(source, is_equal), remainder], names)
    contradicted = count_contradicted(plan, scanned, align(select_partitions(source, ~is_equal), remainder)) if rest else 0
    return ReadResult(
        align(source, target),
        describe(plan, scanned, scanned.equal, rest is not plan),
        read_by=(plan_of_stretches(plan), *((plan,) if rest else ())),
        keys=some_keys(scanned),
        contradicted=contradicted,
    )


def select_partitions(sums: Summaries, which: npt.NDArray[np.bool_]) -> Summaries:
    """Return the summaries of some partitions."""
    return Summaries(**{name: getattr(sums, name)[which] for name in Summaries.__slots__})


def _stretches_of(plan: Plan, partition: Integers) -> Integers:
    """Return the stretches in which partitions lie, (n,) int64."""
    return np.where(partition == NULL_PARTITION, NULL_PARTITION, partition // (keys_of_stretch(plan) // plan.partitioning.size))
