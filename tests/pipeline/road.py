"""A pipeline without Spark: events are staged and merged in this process, by the same functions that tasks run."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa

from auditor import config
from auditor.config import AnalyzeSettings, MergeAt, MigrateSettings, TargetKeys
from auditor.connections.writer import open_writer, writing_dialect
from auditor.model import Part, TableNote
from auditor.pipeline.events import TableSchema
from auditor.pipeline.folders import folder_at
from auditor.pipeline.merge.load_tasks import LoadTask, close_sessions
from auditor.pipeline.merge.loader import Loader
from auditor.pipeline.merge.positions import Where
from auditor.pipeline.merge.target_table import NO_KEYS, TargetTable, examine
from auditor.pipeline.part_writer import write_parts
from auditor.pipeline.stage_task import TableRules, read_entries, stage_task
from auditor.pipeline.staging import Staging
from auditor.store import Store, leases, open_store, parts
from dialects import Dialect

PIPELINE = "shop"


@contextmanager
def leased(store: Store, pipeline: str = PIPELINE, target: str = "wh") -> Iterator[None]:
    """Hold the lease of a target for the block, as a process does that loads it."""
    with leases.keep(store, "target", f"{pipeline}/{target}", 600):
        yield


def pass_time(loader: Loader, seconds: float = 3600.0) -> None:
    """Let a loader's clock show a later time: what failed is tried again, and what is noted from time to time is due."""
    earlier = loader.clock
    loader.clock = lambda: earlier() + seconds


class Road:
    """One pipeline into one target."""

    def __init__(self, folder: Path, url: str, empty_store: Path, schema: str = "shop") -> None:
        self.folder, self.schema = folder, schema
        self.config_file = folder / "auditor.yaml"
        self.config_file.write_text(
            f"""\
connections:
  source: {{url: "mysql://nobody@localhost/shop"}}
  warehouse: {{url: "{url}", write: {{url: "{url}"}}, limits: {{lock_timeout: 2s}}}}
audits: {{}}
pipelines:
  {PIPELINE}:
    source: {{connection: source, tables: ["*"]}}
    columns: {{guests: {{where: "born < DATE '2020-01-01'"}}}}
    staging: {{path: "{folder}/staging"}}
    targets: {{wh: {{connection: warehouse, schema: {schema}}}}}
"""
        )
        self.settings = config.load(self.config_file)
        self.root = folder / "staging"
        self.loaders: list[Loader] = []
        assert self.settings.store
        shutil.copy(empty_store, folder / "auditor.db")  # making one takes longer than a merge
        self.store: Store = open_store(self.settings.store.url)

    @property
    def dialect(self) -> Dialect:
        """The target's dialect."""
        return writing_dialect("warehouse", self.settings.connections["warehouse"])

    def close(self) -> None:
        """Close the store, and drop what a shared server has of this road."""
        close_sessions()
        for loader in self.loaders:
            loader.close()
        self.store.close()
        with open_writer("warehouse", self.settings.connections["warehouse"]) as session:
            cascade = "" if self.dialect.name == "mysql" else " CASCADE"
            session.execute(f"DROP SCHEMA IF EXISTS {session.dialect.names.quote(self.schema)}{cascade}")

    def stage(self, *batches: pa.RecordBatch, pipeline: str = PIPELINE) -> list[Part]:
        """Stage batches, each of one table, as one batch of the stream."""
        written = [one for batch in batches for one in write_parts(folder_at(str(self.root)), [batch])]
        found = [one.part for one in written if one.part.rows]
        schemas = {one.part.schema_id: json.loads(one.schema_json) for one in written if one.schema_json}
        parts.record_batch(self.store, pipeline, found, schemas)
        return found

    def stage_task(self, *batches: pa.RecordBatch, pipeline: str = PIPELINE) -> list[TableNote]:
        """Stage batches as a task of the stream does, with the pipeline's rules; return the notes on tables."""
        rules = TableRules(self.settings.pipelines[PIPELINE], b"salt")
        rows = [row for one in stage_task(str(self.root), rules, batches) for row in one.to_pylist()]
        found, notes = read_entries(rows)
        Staging(self.store, pipeline, folder_at(str(self.root)), rules).record_batch(found, {"file": "binlog.000000", "position": 0}, notes)
        return notes

    def loader(
        self,
        clock: Callable[[], float] | None = None,
        keys: Mapping[str, TargetKeys] | None = None,
        pipeline: str = PIPELINE,
        consistency: Literal["target", "table"] | None = None,
        max_transaction: int = 500_000,
        on_breaking: Literal["follow", "stop"] = "follow",
        auto_rows: int = 10_000_000,
        merge_at: MergeAt | None = None,
        analyze: AnalyzeSettings | None = None,
    ) -> Loader:
        """A loader of the target."""
        about = (str(self.config_file), "warehouse", self.schema, str(self.root))
        given: dict[str, Any] = {"consistency": consistency, "max_transaction": max_transaction, "on_breaking": on_breaking}
        given |= {"migrate": MigrateSettings(auto_rows=auto_rows), "merge_at": merge_at or MergeAt(), "analyze": analyze}
        given |= {"tables": keys} if keys else {}
        chosen = self.settings.pipelines[PIPELINE].table_targets["wh"].model_copy(update=given)
        where = Where(self.store, pipeline, *about, run_here, "wh", chosen)
        loader = Loader(where, "wh", self.settings.connections["warehouse"])
        if clock:
            loader.clock = clock
        self.loaders.append(loader)
        return loader

    def prepare(self, schema: TableSchema, keys: TargetKeys = NO_KEYS) -> TargetTable:
        """What becomes of a table in the target."""
        with open_writer("warehouse", self.settings.connections["warehouse"]) as session:
            return examine(session, (self.schema, schema.table), PIPELINE, schema, None, keys)[0]

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """What the target answers."""
        with open_writer("warehouse", self.settings.connections["warehouse"]) as session:
            return session.query(sql)

    def execute(self, *statements: str) -> None:
        """Run statements on the target."""
        with open_writer("warehouse", self.settings.connections["warehouse"]) as session:
            for statement in statements:
                session.execute(statement)

    def rows(self, table: str = "orders", order: str = "1") -> list[tuple[Any, ...]]:
        """The rows of a target's table."""
        return self.query(f"SELECT * FROM {self.dialect.names.table(self.schema, table)} ORDER BY {order}")


def run_here(function: Callable[[LoadTask], Any], tasks: Sequence[LoadTask]) -> list[Any]:
    """Run the tasks one after the other in this process."""
    return [function(task) for task in tasks]
