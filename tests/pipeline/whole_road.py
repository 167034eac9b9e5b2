"""A pipeline from a live server's binary log to both targets, run on Spark in this process."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from textwrap import indent
from urllib.parse import urlsplit

from auditor import config
from auditor.config import Audit
from auditor.connections.writer import open_writer
from auditor.model import Report
from auditor.pipeline.events import Place
from auditor.pipeline.run import Run
from auditor.run import audit_run
from auditor.service import pipelines as service
from auditor.store import Store, open_store, parts
from auditor.store import pipelines as stored
from tests.live import LiveEngine

PIPELINE = "shop"


class WholeRoad:
    """A pipeline from tables of a live server into PostgreSQL and DuckDB."""

    def __init__(
        self,
        folder: Path,
        source: LiveEngine,
        postgres: LiveEngine,
        schema: str,
        tables: Sequence[str],
        more: str = "",
        staging: str = "",
        tracker: str = "",
        audits: str = "{}",
    ) -> None:
        """``more`` are further lines of the pipeline's definition; its parts are in a folder, unless ``staging`` says where."""
        self.source, self.schema = source, schema
        duckdb = f"duckdb:///{folder}/warehouse.duckdb"
        path = folder / "auditor.yaml"
        path.write_text(
            f"""\
connections:
  source: {{url: "{source.url}", write: {{url: "{source.url}"}}}}
  pg: {{url: "{postgres.url}", write: {{url: "{postgres.url}"}}}}
  duck: {{url: "{duckdb}", write: {{url: "{duckdb}"}}}}
audits: {audits}
pipelines:
  {PIPELINE}:
    source: {{connection: source, tables: [{", ".join(tables)}]}}
    staging: {{path: "{staging or folder / "staging"}"}}
    tracker: {f'{{url: "{tracker}"}}' if tracker else "null"}
    targets:
      pg: {{connection: pg, schema: {schema}, every: 0s}}
      duck: {{connection: duck, schema: {schema}, every: 0s}}
{indent(more, "    ")}
"""
        )
        self.settings = config.load(path)
        assert self.settings.store
        self.store: Store = open_store(self.settings.store.url)
        self.path, self.database = path, urlsplit(source.url).path.strip("/")

    def run(self) -> Run:
        """Return a run of it."""
        return Run(self.settings, self.path, self.store, PIPELINE, ["pg", "duck"])

    def audits(self) -> dict[str, Report]:
        """Run the audits that the pipeline proposes."""
        proposed = service.propose_audits(self.settings, PIPELINE)
        definitions = {name: Audit.model_validate(found) for name, found in proposed.items()}
        return {name: audit_run.run(name, audit, self.settings.connections) for name, audit in definitions.items()}

    def has_begun(self) -> bool:
        """Whether the pipeline reads what is committed from now on."""
        return stored.get_pipeline(self.store, PIPELINE).source_offset is not None

    def is_staged(self, end: Place) -> bool:
        """Whether everything was staged up to a place of the log."""
        offset = stored.get_pipeline(self.store, PIPELINE).source_offset
        return Place(offset["file"], offset["position"]).order >= end.order

    def reports(self, table: str) -> dict[str, tuple[str, str]]:
        """State and reason of a table by target, of each target that has merged what was staged of it, or does not go on."""
        name, merges = f"{self.database}.{table}", stored.list_merges(self.store, PIPELINE)
        end = parts.list_tables(self.store, PIPELINE)[name].staged_through
        found = {target: reports[name] for target, reports in merges.items() if name in reports}
        return {target: (one.state, one.reason) for target, one in found.items() if one.state != "merged" or one.position >= end}

    def positions(self, table: str) -> dict[str, int]:
        """Where each target stands that goes on with a table."""
        name, merges = f"{self.database}.{table}", stored.list_merges(self.store, PIPELINE)
        return {target: found[name].position for target, found in merges.items() if name in found and found[name].state == "merged"}

    def close(self) -> None:
        """Close the store, and drop what PostgreSQL has of this pipeline."""
        self.store.close()
        with open_writer("pg", self.settings.connections["pg"]) as session:
            session.execute(f"DROP SCHEMA IF EXISTS {self.schema} CASCADE")
