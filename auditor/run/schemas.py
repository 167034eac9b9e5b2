"""Whether the tables' columns are still those that an earlier run, or the run itself, has found."""

from __future__ import annotations

from collections.abc import Mapping

from auditor.config import Audit
from auditor.errors import ColumnsChanged, SchemaChanged
from auditor.history.handover import Schemas
from auditor.model import Side
from auditor.planning import introspect, schema_drift
from auditor.planning.columns import Endpoint
from dialects import Session


def compare_schemas(audit: Audit, earlier: Schemas | None, tables: Mapping[Side, Endpoint]) -> tuple[Schemas, tuple[str, ...]]:
    """Return the tables' columns, and how they changed since the last run. Raises SchemaChanged if the audit is strict about that."""
    schemas: Schemas = {side: schema_drift.describe_schema(end.table) for side, end in tables.items()}
    changes = schema_drift.describe_changes(earlier, schemas)
    if changes and audit.schema_ == "strict":
        raise SchemaChanged(
            f"the tables' columns changed since the last run that was done: {'; '.join(changes)}; to accept them, write"
            " schema: note in this audit, run it once, and write schema: strict again"
        )
    return schemas, changes


def check_columns(audit: Audit, known: Schemas, side: Side, session: Session) -> None:
    """Raise ColumnsChanged if a table's columns are no longer those that the run found when it began."""
    now = schema_drift.describe_schema(introspect.describe_table(audit, side, session).table)
    if changes := schema_drift.describe_breaks(known[side], now):
        raise ColumnsChanged(
            f"{side}: while the run read the table, {'; '.join(changes)}: nothing is claimed about rows read before and after that;"
            " run the audit again"
        )
