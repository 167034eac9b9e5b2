"""The auditor in the duel: a process like the others, with a written auditor.yaml, judged by its JSON."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any, get_args

import yaml

import auditor
from auditor.config import Audit, Connection
from auditor.model import Method
from benchmarks.data import Key
from benchmarks.process import Ran
from benchmarks.rivals import Answer, Job, Pair, Tool

EXACT = "exact" in get_args(Method)
THREADS = next((name for name in ("connections", "parallel", "threads", "max_connections") if name in Connection.model_fields), None)
"""The setting of a connection that says how many statements run at once; None until there is one."""
SYNDROMES = next((name for name in ("t", "syndromes") if name in Audit.model_fields), None)
ROOT = Path(auditor.__file__).parent.parent


class Auditor(Tool):
    """``auditor run`` with its default settings."""

    name = "auditor"
    about = "one scan of each side, summaries only, then reads by key" if EXACT else "method minhash: keys are not named yet"

    def refuses(self, pair: Pair, threads: int) -> str | None:
        if threads > 1 and not THREADS:
            return "it has one connection a side as yet"
        return None

    def before(self, job: Job) -> None:
        method: dict[str, Any] = {"method": "exact" if EXACT else "minhash"}
        more = {THREADS: job.threads} if THREADS else {}
        table = job.damage.shape.table
        written = {
            "connections": {side: {"url": end.url, **more} for side, end in (("source", job.source), ("target", job.target))},
            "audits": {
                "duel": {
                    "source": {"connection": "source", "table": table},
                    "target": {"connection": "target", "table": table},
                    "key": list(job.damage.shape.key),
                    **method,
                }
            },
        }
        (job.directory / "auditor.yaml").write_text(yaml.safe_dump(written))

    def environment(self, job: Job) -> dict[str, str]:
        return {"PYTHONPATH": str(ROOT)}

    def commands(self, job: Job) -> list[list[str]]:
        config = str(job.directory / "auditor.yaml")
        return [[sys.executable, "-m", "auditor", "run", "duel", "--config", config, "--format", "json", "--quiet", "--no-store"]]

    def answer(self, job: Job, ran: Ran) -> Answer:
        if ran.code not in (0, 1):
            raise ValueError(ran.last_words)
        report = json.loads(ran.out)
        differences = report.get("differences")
        if differences is None:
            unequal = report["partitions"]["unequal"]
            return Answer(None, 0 if not unequal else None, note=f"{unequal} unequal partitions; keys are not named")
        key = job.damage.shape.key
        named: set[Key] = {tuple(str(row["key"][name]) for name in key) for row in differences["sample"]}
        for one in differences["ranges"]:
            named |= {(str(i),) for i in range(_number(one["first"]), _number(one["last"]) + 1)}
        count = sum(differences[kind] or 0 for kind in ("missing", "extra", "changed"))
        notes = [] if differences["exact"] else ["estimated"]
        notes += [f"{len(differences['ranges'])} range(s)"] if differences["ranges"] else []
        told = {tuple(str(row["key"][name]) for name in key): [c["name"] for c in row["columns"]] for row in differences["sample"]}
        true = job.damage.columns()
        if true:
            looked = {row: names for row, names in told.items() if names}  # the columns of many listed rows are not looked at
            notes.append("columns right" if all([true.get(row)] == names for row, names in looked.items()) else "columns WRONG")
            notes += [f"columns of {len(looked):,}"] if len(looked) < len(told) else []
        score, similarity = report["score"]["jaccard"], job.damage.similarity(job.rows)
        exact = bool(score) and all(math.isclose(score[bound], similarity, abs_tol=1e-12) for bound in ("lower", "value", "upper"))
        notes.append("score exact" if exact else "score not exact")
        return Answer(named, count if differences["exact"] else None, "; ".join(notes))


def _number(value: Any) -> int:
    """The key at the end of a range, however it is written."""
    if isinstance(value, dict):
        value = next(iter(value.values()))
    return int(value[0] if isinstance(value, list) else value)
