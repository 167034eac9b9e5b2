"""A pipeline without Spark: events are staged and merged in this process, by the same functions that tasks run."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from auditor import config
from auditor.connections.writer import open_writer
from auditor.model import Part, TableNote
from auditor.pipeline.merge.load import LoadTask, close_sessions
from auditor.pipeline.merge.loader import Loader
from auditor.pipeline.merge.positions import Where
from auditor.pipeline.stage_task import TableRules, read_entries, stage_task
from auditor.pipeline.staged_parts import write_parts
from auditor.pipeline.staging import Staging
from auditor.store import Store, open_store, parts

PIPELINE = "shop"


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

    def close(self) -> None:
        """Close the store, and drop what a shared server has of this road."""
        close_sessions()
        for loader in self.loaders:
            loader.close()
        self.store.close()
        with open_writer("warehouse", self.settings.connections["warehouse"]) as session:
            session.execute(f"DROP SCHEMA IF EXISTS {session.dialect.quote(self.schema)} CASCADE")

    def stage(self, *batches: pa.RecordBatch) -> list[Part]:
        """Stage batches, each of one table, as one batch of the stream."""
        written = [one for batch in batches for one in write_parts(self.root, pa.Table.from_batches([batch]))]
        found = [one.part for one in written if one.part.rows]
        schemas = {one.part.schema_id: json.loads(one.schema_json) for one in written if one.schema_json}
        parts.record_batch(self.store, PIPELINE, found, schemas)
        return found

    def stage_task(self, *batches: pa.RecordBatch) -> list[TableNote]:
        """Stage batches as a task of the stream does, with the pipeline's rules; return the notes on tables."""
        rules = TableRules(self.settings.pipelines[PIPELINE], b"salt")
        rows = [row for one in stage_task(str(self.root), rules, batches) for row in one.to_pylist()]
        found, notes = read_entries(rows)
        Staging(self.store, PIPELINE, self.root, rules)._list(found, {"file": "binlog.000000"}, notes)
        return notes

    def loader(self, step: Callable[[str], None] = lambda _: None, clock: Callable[[], float] | None = None) -> Loader:
        """A loader of the target."""
        where = Where(self.store, PIPELINE, str(self.config_file), "warehouse", self.schema, str(self.root), run_here)
        loader = Loader(where, "wh", self.settings.connections["warehouse"], step)
        if clock:
            loader.clock = clock
        self.loaders.append(loader)
        return loader

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
        return self.query(f'SELECT * FROM "{self.schema}"."{table}" ORDER BY {order}')


def run_here(function: Callable[[LoadTask], Any], tasks: Sequence[LoadTask]) -> list[Any]:
    """Run the tasks one after the other in this process."""
    return [function(task) for task in tasks]
