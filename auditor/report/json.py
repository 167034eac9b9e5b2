"""Set the fields of a run's report, and of a plan, as JSON: `auditor/api_models/report.py` and `audit.py` beside it declare them."""

from __future__ import annotations

from auditor import model
from auditor.api_models.audit import CheckedAudit, FilesExpected, NotCompared, Plan, PlanColumn, PlanWrites
from auditor.api_models.report import (
    MAX_LISTED,
    Aligned,
    ConnectionCost,
    Cost,
    Differences,
    DifferingRow,
    Files,
    InFlight,
    Jaccard,
    Live,
    LogPlace,
    LookedUp,
    Partitions,
    RecordedTimes,
    RunReport,
    Scores,
    Shard,
    SideCost,
    Topic,
)
from auditor.masking import redact, redact_plan
from auditor.model import SIDES

CONVERTED = (
    "aligned",
    "cost",
    "differences",
    "files",
    "live",
    "measures",
    "not_aligned",
    "other_settings",
    "plan",
    "shards",
    "slice",
    "topics",
)
"""Fields of a report that the run holds in another form; all others of the same name are taken as they are."""


def report(report: model.Report) -> RunReport:
    """Return the report of a run, without the values of masked columns."""
    report = redact(report)
    comparison = report.comparison
    return RunReport(
        **RunReport.fields_of(report, without=CONVERTED),
        score=Scores(published=comparison.published, jaccard=_jaccard(report)) if comparison else None,
        rows=comparison.rows if comparison else None,
        partitions=_partitions(comparison) if comparison else None,
        differences=_differences(report.differences, report.plan) if report.differences is not None else None,
        plan=plan(report.plan) if report.plan else None,
        cost=_cost(report),
        share_read=report.covered,
        slice=str(report.slice) if report.slice else None,
        other_settings=report.other_settings or None,
        aligned=_aligned(report.aligned),
        not_aligned=report.not_aligned or None,
        live=_live(report.live, report.plan) if report.live else None,
        files=tuple(_files(side, report.files[side]) for side in SIDES if side in report.files),
        dump_as_of=report.as_of,
        measures=report.measures[:MAX_LISTED],
        cheaper_methods=report.steps,
        left_out_rows=report.left_out,
        shards=tuple(map(_shard, report.shards)),
        topics=tuple(_topic(side, report.topics[side]) for side in SIDES if side in report.topics),
    )


def _topic(side: model.Side, topic: model.TopicSide) -> Topic:
    return Topic(**Topic.fields_of(topic, without=("side", "removed")), side=side, removed=topic.removed or None)


def _files(side: model.Side, read: model.FilesRead) -> Files:
    return Files(**Files.fields_of(read, without=("side", "why")), side=side, why=read.why or None)


def _shard(shard: model.ShardResult) -> Shard:
    without = ("cost", "aligned")
    return Shard(
        **Shard.fields_of(shard, without=without), cost=_side_cost(shard.cost) if shard.cost else None, aligned=_aligned(shard.aligned)
    )


def _aligned(alignment: model.Alignment | None) -> Aligned | None:
    return Aligned(**Aligned.fields_of(alignment)) if alignment else None


def _live(live_check: model.LiveCheck, plan: model.Plan | None) -> Live:
    integers = _integer_keys(plan)
    return Live(
        **Live.fields_of(live_check, without=("began", "proved", "scanned", "lost")),
        began=LogPlace(place=live_check.began_place, time=live_check.began),
        proved=LogPlace(place=live_check.proved_place, time=live_check.proved),
        scanned=live_check.scanned or None,
        moved_rows=live_check.moved,
        lost=tuple(_row(row, integers) for row in live_check.lost),
    )


def _integer_keys(plan: model.Plan | None) -> set[str]:
    return {column.name for column in plan.key_columns if column.kind.name == "integer"} if plan else set()


def _jaccard(report: model.Report) -> Jaccard | None:
    jaccard = report.jaccard
    if jaccard is None:
        return None
    score = Jaccard.fields_of(jaccard.score)
    return Jaccard(**score, hard_lower=jaccard.least, hard_upper=jaccard.most, differing_rows=_count_differing(report, jaccard))


def _count_differing(report: model.Report, jaccard: model.Jaccard) -> float:
    """Return how many rows differ, exactly or estimated, where a changed row counts once, as everywhere else."""
    differences = report.differences
    if differences is not None:
        return differences.missing + differences.extra + differences.changed + differences.estimated
    rows = report.comparison.rows if report.comparison else {"source": 0, "target": 0}
    # No row is named. Those on one side only are taken for changed ones as far as the numbers of rows allow.
    return (jaccard.differing + abs(rows["target"] - rows["source"])) / 2


def _partitions(comparison: model.Comparison) -> Partitions:
    listed = comparison.divergent[:MAX_LISTED]
    return Partitions(**Partitions.fields_of(comparison, without=("divergent",)), divergent=listed)


def _differences(differences: model.Differences, plan: model.Plan | None) -> Differences:
    integers = _integer_keys(plan)
    return Differences(
        **Differences.fields_of(differences, without=("history",)),
        history=_looked_up(differences.history) if differences.history else None,
        partitions_by_outcome=differences.partitions,
        why_estimated=differences.why,
        sample=tuple(_row(row, integers) for row in differences.named),
        equal_on_recheck=differences.cleared,
        partitions_equal_on_recheck=differences.vanished,
        rechecks=differences.looks,
        compared_by_column=differences.compared,
    )


def _looked_up(check: model.HistoryCheck) -> LookedUp:
    in_flight = None
    if check.ages and check.oldest:
        least, median, greatest = check.ages
        ages = {"least_seconds": least, "median_seconds": median, "greatest_seconds": greatest}
        in_flight = InFlight(rows=check.in_flight, oldest=check.oldest, **ages)
    return LookedUp(**LookedUp.fields_of(check, without=("in_flight",)), in_flight=in_flight)


def _row(row: model.Difference, integers: set[str]) -> DifferingRow:
    key = {name: _key_value(text) if name in integers else text for name, text in row.key.items()}
    return DifferingRow(**DifferingRow.fields_of(row, without=("key",)), key=key, rechecks=row.looks, doubled=row.is_doubled)


def _key_value(text: str | None) -> int | str | None:
    """Return an integer key as a number; a masked one stays text."""
    return text if text is None or not text.lstrip("-").isdigit() else int(text)


def _cost(report: model.Report) -> Cost:
    known = [cost.spent.usd for cost in report.spent if cost.spent.usd is not None]
    return Cost(
        seconds=report.seconds,
        **{side: _side_cost(report.cost[side]) for side in SIDES if side in report.cost},
        connections=tuple(
            ConnectionCost(**ConnectionCost.fields_of(cost.spent), connection=cost.connection, basis=cost.basis) for cost in report.spent
        ),
        usd=sum(known) if known and len(known) == len(report.spent) else None,
    )


def _side_cost(cost: model.SideCost) -> SideCost:
    return SideCost(
        statements=cost.statements,
        bytes_received=cost.bytes,
        summary_bytes=cost.scan_bytes,
        seconds=cost.seconds,
        server=RecordedTimes(
            statements=cost.server.statements,
            seconds=cost.server.elapsed,
            queued_seconds=cost.server.queued,
            executing_seconds=cost.server.executing,
        )
        if cost.server
        else None,
    )


def plan(plan: model.Plan) -> Plan:
    """Return a plan, without what would reveal the range of a masked key."""
    plan = redact_plan(plan)
    return Plan(
        **Plan.fields_of(plan, without=("partitioning", "prescan", "key", "columns", "not_compared", "watermark", "writes", "files")),
        partitioning=str(plan.partitioning),
        partitioning_why=plan.partitioning.why,
        prescan=plan.prescan.used if plan.prescan else None,
        prescan_why=plan.prescan.why if plan.prescan else None,
        read_at_once=plan.prescan.at_once if plan.prescan else (),
        writes=_writes(plan.writes) if plan.writes else None,
        files={
            side: FilesExpected(**FilesExpected.fields_of(files, without=("why",)), why=files.why or None)
            for side, files in plan.files.items()
        },
        key=tuple(column.name for column in plan.key_columns),
        columns=tuple(map(_column, plan.columns)),
        not_compared=tuple(
            NotCompared(column=levelling.column or None, side=levelling.side, how=levelling.how, what=levelling.what)
            for levelling in plan.not_compared
        ),
        watermark=plan.watermark or None,
    )


def _writes(writes: model.Writes) -> PlanWrites:
    return PlanWrites(
        origin=writes.origin,
        total=writes.total,
        since=writes.since,
        parts=writes.spans,
        written_parts=len(writes.counts),
        first=tuple((low * writes.width, end * writes.width) for low, end in writes.first),
        summary=str(writes),
    )


def checked(audit: str, error: Exception | None, plan_: model.Plan | None) -> CheckedAudit:
    """Return what the check of an audit found, its plan as `plan` returns it."""
    return CheckedAudit(audit=audit, error=str(error) if error else None, plan=plan(plan_) if plan_ else None)


def _column(column: model.ColumnPlan) -> PlanColumn:
    return PlanColumn(
        **PlanColumn.fields_of(column, without=("kind", "tolerance")),
        kind=str(column.kind),
        source_type=column.types["source"],
        target_type=column.types["target"],
        tolerance=str(column.tolerance) if column.tolerance else None,
    )
