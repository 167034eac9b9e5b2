"""What a scan of the source, with both sides at one position, does for live summaries: they begin with it, or are proved by it."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Mapping
from dataclasses import replace

from auditor.compare.comparator import Aligned, align
from auditor.config import Audit
from auditor.connections.reader import Reader
from auditor.errors import LiveSummariesUnusable, LiveSummariesWrong
from auditor.model import Difference, Plan, Prescan, Side
from auditor.planning import build, planner
from auditor.planning.columns import Endpoint
from auditor.run.aligning import Aligning
from auditor.run.chunk_check import check_chunks
from auditor.run.findings import Findings
from auditor.run.live_run import pin_partitions
from auditor.run.live_summaries import LiveSummaries
from auditor.run.locate import Lost, find_lost
from auditor.summary import live
from auditor.summary.arrays import Summaries

log = logging.getLogger(__name__)


def begin_scan(
    audit: Audit, reader: Reader, tables: Mapping[Side, Endpoint], draft: Plan, live_summaries: LiveSummaries, aligning: Aligning
) -> Plan:
    """Return the plan by which both sides are read in snapshots at one position, which are open.

    Raises LiveSummariesUnusable if they cannot be: a scan that is not aligned says nothing of the stream.
    """
    before = build.finish_plan(draft, audit, reader, tables)
    if audit.salt == planner.RANDOM_SALT:
        before = replace(before, salt=secrets.token_hex(8))
    before = live_summaries.prepare_scan(before)
    if not aligning.is_wanted or not aligning.begin(reader, draft, {"source": tables["source"].table.names}, live_summaries.place):
        raise LiveSummariesUnusable(
            f"{live_summaries.why_scan}, and the source is scanned for them only in line with it: {aligning.why_not}"
        )
    assert aligning.alignment is not None
    plan = build.finish_plan(replace(draft, aligned=aligning.alignment.position), pin_partitions(audit, before), reader, tables)
    once = Prescan(used=False, why="live summaries need those of every partition")
    return check_chunks(reader, replace(plan, partitioning=before.partitioning, salt=before.salt, prescan=once))


def compare_scan(audit: Audit, reader: Reader, plan: Plan, live_summaries: LiveSummaries, aligned: Aligned) -> None:
    """Note what the scan found of the source, and which of its rows are missing from the stream's sums; both snapshots are open."""
    summaries = aligned.sides["source"]
    if (summaries.hashed != summaries.rows).any():  # the sums have no place for rows that were counted alone
        live_summaries.note = "the source could not build the text of each row; raise max_allowed_packet there, and run the audit again"
        live_summaries.give_up(LiveSummariesWrong(live_summaries.note))
        return
    scanned = live.add([summaries])
    epoch, position = live_summaries.epoch, live_summaries.position
    if epoch is None or not live_summaries.proves:
        live_summaries.note_scanned(position, scanned)
        return
    try:
        kept = reader.ask_side("target", lambda _, session: live_summaries.sums.read(session, epoch, position))
    except LiveSummariesWrong as error:
        live_summaries.give_up(error)
        return
    pair = align(_with_empty(kept, scanned), _with_empty(scanned, kept))
    if not pair.unequal.any():
        live_summaries.note_scanned(position, scanned)
        return
    live_summaries.note_scanned(position, scanned, _changes(live.add([scanned, live.minus(kept)])))
    lost = find_lost(reader, plan, pair, audit.limits) if plan.method == "exact" else Lost((), tuple(pair.partition[pair.unequal].tolist()))
    as_kept = align(kept, live.add([aligned.sides["target"]]))
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
    nothing = live.of(others.partition, 0 * others.rows, 0 * others.words, 0 * others.syndromes)
    return live.add([sums, nothing])


def _changes(sums: Summaries) -> Summaries:
    """Return sums without the partitions in which nothing changes."""
    chosen = (sums.rows != 0) | (sums.words != 0).any(axis=1) | (sums.syndromes != 0).any(axis=1)
    return live.of(sums.partition[chosen], sums.rows[chosen], sums.words[chosen], sums.syndromes[chosen])


def save(plan: Plan, findings: Findings, live_summaries: LiveSummaries, aligning: Aligning) -> None:
    """Let the live summaries begin with the scan, or be proved by it; what stands against that does not change what the run found."""
    live_summaries.label = plan.label
    _name_lost(plan, findings, live_summaries)
    try:
        live_summaries.save(aligning.alignment)
    except LiveSummariesUnusable as error:
        live_summaries.note = str(error)
        log.warning("live summaries: %s", error, extra={"action": "live_not_kept"})
