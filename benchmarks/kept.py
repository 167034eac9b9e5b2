"""What was measured, kept beside RESULTS.md as JSON, so that the parts can be measured in several calls and read as one document."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

from benchmarks.cost import Cost
from benchmarks.duel import Row
from benchmarks.load import Load
from benchmarks.results import Results
from benchmarks.wire import Counted

NAME = "measurements.json"


def joined(found: Results, directory: Path) -> Results:
    """``found`` with what earlier calls measured and this one did not measure again."""
    path = directory / NAME
    if not path.exists():
        return found
    before = _read(json.loads(path.read_text(encoding="utf-8")))

    def rows(part: str) -> list[Row]:
        return list({_key(row): row for row in (*getattr(before, part), *getattr(found, part))}.values())

    return dataclasses.replace(
        found,
        costs=list({cost.engine: cost for cost in (*before.costs, *found.costs)}.values()),
        servers=before.servers | found.servers,
        tools=before.tools | found.tools,
        missing={name: why for name, why in before.missing.items() if name not in found.tools} | found.missing,
        calls=[*before.calls, *found.calls],
        duels=rows("duels"),
        growth=rows("growth"),
        threads=rows("threads"),
        loads=list({(one.pair, one.rows, one.store, one.pause): one for one in (*before.loads, *found.loads)}.values()),
    )


def write(found: Results, directory: Path) -> None:
    """Keep everything that was measured so far."""
    told = json.dumps(dataclasses.asdict(found), indent=1, ensure_ascii=False)
    (directory / NAME).write_text(told + "\n", encoding="utf-8")


def _key(row: Row) -> tuple[object, ...]:
    return (row.pair, row.rows, row.scenario, row.tool, row.threads)


def _read(values: dict[str, Any]) -> Results:
    found = Results(**values)
    found.costs = [Cost(**cost) for cost in values["costs"]]
    found.loads = [Load(**load) for load in values.get("loads", ())]
    for part in ("duels", "growth", "threads"):
        setattr(found, part, [Row(**{**row, "wire": Counted(**row["wire"])}) for row in values[part]])
    return found
