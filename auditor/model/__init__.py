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
    Comparison,
    Divergent,
    Jaccard,
    Overdue,
    OverdueRange,
    Report,
    Score,
    SideCost,
    Step,
)
from auditor.model._measure import Measure
from auditor.model._part import Part
from auditor.model._plan import (
    NULL_PARTITION,
    SIDES,
    Chunk,
    ColumnPlan,
    Leveling,
    Method,
    NotCompared,
    Partitioning,
    Plan,
    Prescan,
    Progress,
    Side,
    SidePlan,
    State,
    Tolerance,
    Verdict,
    consecutive_ranges,
)
from auditor.model._segment import Segment
from auditor.model._slice import PERMISSIONS, SLICES, Slice, describe_other_settings
from auditor.model._table_note import NoteKind, Skip, TableNote
from auditor.model._time import parse_time

__all__ = [
    "NULL_PARTITION",
    "PERMISSIONS",
    "SIDES",
    "SLICES",
    "Advice",
    "ChangedColumn",
    "Chunk",
    "ColumnDifference",
    "ColumnPlan",
    "Comparison",
    "DefinedColumn",
    "DefinedTable",
    "Difference",
    "DifferenceKind",
    "Differences",
    "Divergent",
    "Jaccard",
    "Leveling",
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
    "Remedy",
    "Report",
    "Score",
    "Segment",
    "Settling",
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
    "consecutive_ranges",
    "describe_other_settings",
    "parse_time",
]
