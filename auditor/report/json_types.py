"""The shapes of the JSON values of a report; ``docs/report.schema.json`` describes them. Later versions only add fields."""

from __future__ import annotations

from typing import NotRequired, TypedDict

from auditor.model import Leveling, Side


class ScoreJson(TypedDict):
    """A score between 0 and 1 with its bounds."""

    value: float
    lower: float
    upper: float


class JaccardJson(ScoreJson):
    """Row-weighted similarity: ``lower`` and ``upper`` are its 95 % interval, the hard bounds are certain."""

    hard_lower: float
    hard_upper: float
    differing_rows: float


class ScoresJson(TypedDict):
    """Both scores of a run; null where there is none."""

    published: ScoreJson | None
    jaccard: JaccardJson | None


class PartitionJson(TypedDict):
    """A partition that is not equal."""

    partition: int | None
    key_range: list[int] | None
    label: str
    rows: dict[Side, int]
    similarity: float | None
    measures: list[str]


class PartitionsJson(TypedDict):
    """Numbers of partitions, and up to 1000 of the unequal ones."""

    total: int
    equal: int
    unequal: int
    source_only: int
    target_only: int
    skipped: int
    divergent: list[PartitionJson]


class RangeJson(TypedDict):
    """Neighbouring rows that one side lacks."""

    kind: str
    first: int | None
    last: int | None
    label: str
    rows: int
    partitions: int
    state: str
    shards: dict[str, int]


class ColumnValuesJson(TypedDict):
    """Canonical text of a differing column on each side, null for NULL."""

    name: str
    source: str | None
    target: str | None
    reason: str


class ChangedColumnJson(TypedDict):
    """A column in which changed rows differ, with what explains most of them."""

    name: str
    rows: int
    pattern: str


class RecheckJson(TypedDict):
    """When a difference was rechecked, and what was seen."""

    at: str
    seen: str


class DifferenceJson(TypedDict):
    """A row that is not equal."""

    kind: str
    key: dict[str, int | str | None]
    rows: dict[Side, int]
    columns: list[ColumnValuesJson]
    state: str
    rechecks: list[RecheckJson]
    shards: list[str]
    doubled: bool


class DifferencesJson(TypedDict):
    """Numbers of differences, and those known by range or key."""

    missing: int
    extra: int
    changed: int
    exact: bool
    partitions_by_outcome: dict[str, int]
    unsettled: int
    why_estimated: str
    ranges: list[RangeJson]
    sample: list[DifferenceJson]
    in_flight: int
    equal_on_recheck: int
    tolerated: int
    partitions_equal_on_recheck: int
    rechecks: int
    estimated: int
    columns: list[ChangedColumnJson]
    compared_by_column: int
    doubled: int


class PlanColumnJson(TypedDict):
    """How a column is compared."""

    name: str
    kind: str
    source_type: str
    target_type: str
    why: str
    masked: bool
    tolerance: str | None


class NotComparedJson(TypedDict):
    """What the comparison does not see: of a column (null: of whole rows), on one side or on both (null)."""

    column: str | None
    side: Side | None
    how: Leveling
    what: str


class PlanJson(TypedDict):
    """How an audit compares its tables; ``k``, ``t``, ``bits``, ``salt`` and ``hash`` as in the configuration.

    ``prescan`` is null where it is decided when the audit runs.
    """

    partitioning: str
    partitioning_why: str
    prescan: bool | None
    prescan_why: str | None
    hash: str
    encoding: str
    k: int
    t: int
    bits: int
    salt: str
    key: list[str]
    columns: list[PlanColumnJson]
    not_compared: list[NotComparedJson]
    notes: list[str]
    snapshot: str
    watermark: str | None
    partition_ranges: list[list[int]]


class ServerTimesJson(TypedDict):
    """What a server recorded of a run's statements."""

    statements: int
    seconds: float
    queued_seconds: float
    executing_seconds: float


class SideCostJson(TypedDict):
    """What one side of a run cost."""

    statements: int
    bytes_received: int
    summary_bytes: int
    seconds: float
    server: NotRequired[ServerTimesJson]


class CostJson(TypedDict):
    """What a run cost; a side that was not reached is left out."""

    seconds: float
    source: NotRequired[SideCostJson]
    target: NotRequired[SideCostJson]


class MeasureJson(TypedDict):
    """A measure that differs, of the method counts."""

    partition: int | None
    label: str
    name: str
    source: str | None
    target: str | None
    deviation: float | None
    allowed: bool


class CheaperMethodJson(TypedDict):
    """The result of a method that a ladder tried before the one reported."""

    method: str
    verdict: str
    seconds: float
    reasons: list[str]


class OverdueRangeJson(TypedDict):
    """A stretch of the table of which no row was compared in ``runs`` runs in a row, since ``since``."""

    label: str
    rows: int
    runs: int
    since: str


class OverdueJson(TypedDict):
    """A row that was not compared, one run after another."""

    key: dict[str, str | None]
    runs: int
    since: str


class RemedyJson(TypedDict):
    """One way to mend a target: the rows that it writes, their share of the table, and how long it is expected to take."""

    tool: str
    rows: int
    share: float
    seconds: float
    command: str


class AdviceJson(TypedDict):
    """Which way fits a mismatch, the first of ``remedies``, and why."""

    why: str
    remedies: list[RemedyJson]


class AlignedJson(TypedDict):
    """Where both sides of a run were read: a place in the source's log (of shards each one's), its clock then, and how that is known."""

    position: str
    time: str
    way: str
    pipeline: str
    held_seconds: float


class ShardJson(TypedDict):
    """What was found of one shard of the source."""

    label: str
    server: str
    verdict: str
    rows: int | None
    missing: int
    changed: int
    doubled: int
    snapshots_lost: int
    cost: SideCostJson | None
    aligned: AlignedJson | None


class PlaceJson(TypedDict):
    """A place of the source's log, and the source's clock there."""

    place: str
    time: str


class LiveJson(TypedDict):
    """What was compared with live summaries, and how old both proofs are."""

    pipeline: str
    place: str
    time: str | None
    began: PlaceJson
    proved: PlaceJson
    scanned: str | None
    moved_rows: int
    lost: list[DifferenceJson]
    lost_partitions: list[str]


class ReportJson(TypedDict):
    """The report of a run."""

    audit: str
    run: str
    state: str
    verdict: str
    method: str | None
    reasons: list[str]
    score: ScoresJson | None
    coverage: dict[str, float]
    rows: dict[Side, int] | None
    partitions: PartitionsJson | None
    differences: DifferencesJson | None
    plan: PlanJson | None
    servers: dict[Side, str]
    cost: CostJson
    began: str | None
    share_read: float
    slice: str | None
    other_settings: str | None
    verified_through: str | None
    within_threshold: bool
    within_threshold_through: str | None
    aligned: AlignedJson | None
    not_aligned: str | None
    live: LiveJson | None
    dump_as_of: str | None
    measures: list[MeasureJson]
    cheaper_methods: list[CheaperMethodJson]
    schema_changes: list[str]
    left_out_rows: int
    overdue_rows: int
    overdue_ranges: list[OverdueRangeJson]
    overdue: list[OverdueJson]
    retries: int
    resumable: bool
    reason: str
    advice: AdviceJson | None
    notes: list[str]
    shards: list[ShardJson]
