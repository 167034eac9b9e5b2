"""The auditor as a tool of the comparison: a process like the others, with its own auditor.yaml, read from its JSON report."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import yaml

import auditor
from benchmarks.process import CompletedCommand
from benchmarks.rivals import Answer, Job, Tool
from benchmarks.shapes import Key

ROOT = Path(auditor.__file__).parent.parent


class Auditor(Tool):
    """``auditor run`` with its default settings: without a history, so that it begins with a pre-scan."""

    name = "auditor"
    description = "one scan of each side, summaries only, then reads by key"
    settings: ClassVar[Mapping[str, Any]] = {}
    """Settings of the audit besides its tables, key and method."""

    def set_up(self, job: Job) -> None:
        table = job.damage.shape.table
        configuration = {
            "connections": {side: {"url": end.url, "connections": 1} for side, end in (("source", job.source), ("target", job.target))},
            "audits": {
                "duel": {
                    "source": {"connection": "source", "table": table},
                    "target": {"connection": "target", "table": table},
                    "key": list(job.damage.shape.key),
                    "method": "exact",
                    **self.settings,
                }
            },
        }
        (job.directory / "auditor.yaml").write_text(yaml.safe_dump(configuration))

    def environment(self, job: Job) -> dict[str, str]:
        return {"PYTHONPATH": str(ROOT)}

    def commands(self, job: Job) -> list[list[str]]:
        config = str(job.directory / "auditor.yaml")
        return [[sys.executable, "-m", "auditor", "run", "duel", "--config", config, "--format", "json", "--quiet", "--no-store"]]

    def answer(self, job: Job, completed: CompletedCommand) -> Answer:
        if completed.code not in (0, 1):
            raise ValueError(completed.error_message)
        report = json.loads(completed.out)
        differences = report.get("differences")
        if differences is None:
            unequal = report["partitions"]["unequal"]
            return Answer(None, 0 if not unequal else None, note=f"{unequal} unequal partitions; keys not named")
        key = job.damage.shape.key
        named: set[Key] = {tuple(str(row["key"][name]) for name in key) for row in differences["sample"]}
        for span in differences["ranges"]:
            named |= {(str(i),) for i in range(_key_number(span["first"]), _key_number(span["last"]) + 1)}
        count = sum(differences[kind] or 0 for kind in ("missing", "extra", "changed"))
        notes = [] if differences["exact"] else ["estimated"]
        notes += [f"{len(differences['ranges'])} range(s)"] if differences["ranges"] else []
        columns_by_key = {
            tuple(str(row["key"][name]) for name in key): [c["name"] for c in row["columns"]] for row in differences["sample"]
        }
        true = job.damage.changed_columns()
        if true:
            compared = {row: names for row, names in columns_by_key.items() if names}  # of many listed rows, columns are not compared
            notes.append("columns right" if all([true.get(row)] == names for row, names in compared.items()) else "columns WRONG")
            notes += [f"columns of {len(compared):,}"] if len(compared) < len(columns_by_key) else []
        score, similarity = report["score"]["jaccard"], job.damage.jaccard(job.rows)
        exact = bool(score) and all(math.isclose(score[bound], similarity, abs_tol=1e-12) for bound in ("lower", "value", "upper"))
        notes.append("score exact" if exact else "score not exact")
        return Answer(named, count if differences["exact"] else None, "; ".join(notes))


class AuditorWithoutPrescan(Auditor):
    """``auditor run`` as it runs where earlier runs found differences."""

    name = "auditor, no pre-scan"
    description = "as it runs after runs that found differences"
    settings: ClassVar[Mapping[str, Any]] = {"prescan": False}


def _key_number(value: Any) -> int:
    """Return the integer key at an end of a range, which the report may wrap in an object or a list."""
    if isinstance(value, dict):
        value = next(iter(value.values()))
    return int(value[0] if isinstance(value, list) else value)
