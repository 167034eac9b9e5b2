"""Plans as the JSON in which they are stored."""

from __future__ import annotations

from functools import cache

from pydantic import TypeAdapter, ValidationError
from pydantic_core import to_json

from auditor import canonical
from auditor.model import Plan


@cache
def _plans() -> TypeAdapter[Plan]:
    """Return what reads plans; it takes a while to build, and a run that begins reads none."""
    return TypeAdapter(Plan)


def dump_plan(plan: Plan) -> bytes:
    """Return a plan as JSON."""
    return to_json(plan, inf_nan_mode="null")


def load_plan(data: bytes) -> Plan | None:
    """Return the plan in the JSON; None for that of another version, whose summaries cannot be compared with those of this one."""
    try:
        plan = _plans().validate_json(data)
    except ValidationError:
        return None
    return plan if plan.version == canonical.VERSION else None
