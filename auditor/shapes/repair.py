"""Repairs of a target that were recorded."""

from __future__ import annotations

import datetime as dt
from typing import Any, Literal

from pydantic import ConfigDict, Field

from auditor.shapes._shape import Shape

RepairKind = Literal["patch", "bootstrap", "other"]
"""Rows were patched, the table was copied again, or whatever the note says."""

KIND_DESCRIPTION = "`patch`: rows were corrected; `bootstrap`: the table was copied again; `other`: see the note."

REPAIR_EXAMPLE: Any = {"kind": "patch", "note": "copied the lost order again", "rows": 1, "keys": [{"id": "700"}]}


class Repair(Shape):
    """A recorded repair."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "repair": "3c5e7f90a1b2c3d4e5f60718293a4b5c", "run": "9f1c2d3e4a5b60718293a4b5c6d7e8f9", "audit": "orders",
                    "state": "recorded", **REPAIR_EXAMPLE, "recorded_by": "ops", "recorded_at": "2026-03-01T07:10:00+00:00",
                }
            ]
        }
    )  # fmt: skip

    repair: str = Field(description="The repair's id.")
    run: str = Field(description="The run after which the target was corrected; it may have been deleted.")
    audit: str
    kind: RepairKind = Field(description=KIND_DESCRIPTION)
    state: Literal["recorded"] = Field(description="Always `recorded`: what was done is not verified before the audit's next run.")
    note: str
    rows: int | None
    keys: list[dict[str, str | None]]
    recorded_by: str = Field(description="The name of the token that recorded it.")
    recorded_at: dt.datetime
