"""The project's nouns as frozen dataclasses: sides, plans, results. ``docs/glossary.md`` defines each word."""

from __future__ import annotations

from auditor.model._advice import Advice, Remedy, Tool
from auditor.model._definition import DefinedColumn, DefinedTable
from auditor.model._differences import (
    ChangedColumn,
    ColumnDifference,
    Difference,
    DifferenceKind,
    Differences,
    Look,
    RangeDifference,
    Settling,
)
from auditor.model._found import (
    Alignment,
    Comparison,
    Divergent,
    Jaccard,
    LiveCheck,
    Overdue,
    OverdueRange,
    Report,
    Score,
    ShardResult,
    SideCost,
    Step,
)
from auditor.model._heartbeat import HEARTBEAT_COLUMN, HEARTBEAT_TABLE
from auditor.model._live import EpochState, LiveEpoch
from auditor.model._measure import Measure
from auditor.model._part import Part
from auditor.model._plan import (
    NULL_PARTITION,
    Chunk,
    ColumnPlan,
    Leveling,
    Method,
    NotCompared,
    Partitioning,
    Plan,
    Progress,
    SidePlan,
    State,
    Tolerance,
    Verdict,
    consecutive_ranges,
)
from auditor.model._prescan import Prescan
from auditor.model._registered_segment import (
    SEGMENT_VERDICTS,
    ComparedBy,
    RegisteredSegment,
    SegmentVerdict,
    compare_segment,
)
from auditor.model._segment import Segment
from auditor.model._side import SIDES, AnySide, Side, is_shard, read_sides, shard_number, shard_side, side_of
from auditor.model._slice import PERMISSIONS, SLICES, Slice, describe_other_settings
from auditor.model._table_note import NoteKind, Skip, TableNote
from auditor.model._time import parse_time

__all__ = [
    "HEARTBEAT_COLUMN",
    "HEARTBEAT_TABLE",
    "NULL_PARTITION",
    "PERMISSIONS",
    "SEGMENT_VERDICTS",
    "SIDES",
    "SLICES",
    "Advice",
    "Alignment",
    "AnySide",
    "ChangedColumn",
    "Chunk",
    "ColumnDifference",
    "ColumnPlan",
    "ComparedBy",
    "Comparison",
    "DefinedColumn",
    "DefinedTable",
    "Difference",
    "DifferenceKind",
    "Differences",
    "Divergent",
    "EpochState",
    "Jaccard",
    "Leveling",
    "LiveCheck",
    "LiveEpoch",
    "Look",
    "Measure",
    "Method",
    "NotCompared",
    "NoteKind",
    "Overdue",
    "OverdueRange",
    "Part",
    "Partitioning",
    "Plan",
    "Prescan",
    "Progress",
    "RangeDifference",
    "RegisteredSegment",
    "Remedy",
    "Report",
    "Score",
    "Segment",
    "SegmentVerdict",
    "Settling",
    "ShardResult",
    "Side",
    "SideCost",
    "SidePlan",
    "Skip",
    "Slice",
    "State",
    "Step",
    "TableNote",
    "Tolerance",
    "Tool",
    "Verdict",
    "compare_segment",
    "consecutive_ranges",
    "describe_other_settings",
    "is_shard",
    "parse_time",
    "read_sides",
    "shard_number",
    "shard_side",
    "side_of",
]
