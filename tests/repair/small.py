"""Small tables, written in SQL, to patch: a source in DuckDB unless said otherwise, and a target on a live engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from auditor import service
from auditor.config import Settings
from auditor.model import Report
from auditor.repair.keys import Selection
from auditor.service import patches
from auditor.service.patches import Followed, PatchResult
from auditor.store import Store, open_store
from tests import tables
from tests.live import LiveEngine

EVERYTHING = Selection(delete_extra=True)


@dataclass
class Small:
    """A pair of tables named ``s`` and ``t``, with a store."""

    source: LiveEngine
    target: LiveEngine
    settings: Settings
    store: Store

    def run(self) -> Report:
        return service.run_audit(self.settings, "small", store=self.store)

    def apply(self, selection: Selection = EVERYTHING, **followed: Any) -> PatchResult:
        return patches.apply_patch(self.settings, self.store, self.run().run, selection, Followed(**followed))

    def script(self, selection: Selection = EVERYTHING) -> str:
        return "".join(patches.print_patch(self.settings, self.store, self.run().run, selection, "sql"))

    def rows(self) -> list[tuple[Any, ...]]:
        return sorted(tables.query(self.target, "SELECT * FROM t"), key=str)

    def on_target(self, *statements: str) -> None:
        tables.execute(self.target, *statements)

    def on_source(self, *statements: str) -> None:
        tables.execute(self.source, *statements)


def make(
    folder: Path,
    target: LiveEngine,
    source_sql: Sequence[str],
    target_sql: Sequence[str],
    *,
    source: LiveEngine | None = None,
    write: dict[str, Any] | None = None,
    **audit: Any,
) -> Small:
    """Run the statements of both sides, and return an audit of their tables ``s`` and ``t`` by the key ``id``."""
    start = source or LiveEngine("duckdb", "duckdb", f"duckdb:///{folder}/source.duckdb")
    tables.execute(start, "DROP TABLE IF EXISTS s", *source_sql)
    tables.execute(target, *target_sql)
    written = {"url": target.url, "max_share": "100%", **(write or {})}
    settings = Settings.model_validate(
        {
            "connections": {"a": {"url": start.url}, "b": {"url": target.url, "write": written}},
            "audits": {
                "small": {"source": {"connection": "a", "table": "s"}, "target": {"connection": "b", "table": "t"}, "key": ["id"], **audit}
            },
        }
    )
    return Small(start, target, settings, open_store(f"sqlite:///{folder}/store.db"))
