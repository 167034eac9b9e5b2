"""Plans as the JSON in which they are stored."""

from __future__ import annotations

from pydantic import TypeAdapter, ValidationError

from auditor import canonical
from auditor.model import Plan

_PLAN = TypeAdapter(Plan)


def dump_plan(plan: Plan) -> bytes:
    """Return a plan as JSON."""
    return _PLAN.dump_json(plan)


def load_plan(data: bytes) -> Plan | None:
    """Return the plan in the JSON; None for that of another version, whose summaries cannot be compared with those of this one."""
    try:
        plan = _PLAN.validate_json(data)
    except ValidationError:
        return None
    return plan if plan.version == canonical.VERSION else None
