"""Search the files that lie outside of the store for the rows of one key: parts and segments of pipelines, and dumps.

A file that cannot be searched, or events that do not tell the key, are named with the reason: the key may be there.
"""

from __future__ import annotations

import datetime as dt
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from auditor.api_models.forgetting import KeyPlace
from auditor.compare.accounting import Key
from auditor.config import Audit, Carrier, Pipeline, Settings, find_chains
from auditor.connections.reader import Reader
from auditor.errors import AuditorError, TraceRefused
from auditor.model import Plan, Side
from auditor.pipeline.key_history import KeyHistory, KeyStream, rename_columns
from auditor.pipeline.segments.sides import list_files, side_of_pipeline
from auditor.planning import introspect, planner, proxy
from auditor.quantities import format_duration, plural
from auditor.service import dumps
from auditor.service.trace.rows import KeyRows
from auditor.store import Store, parts


@dataclass(frozen=True, slots=True)
class KeyFiles:
    """The files of one audit, asked for one key."""

    settings: Settings
    store: Store
    name: str
    audit: Audit
    plan: Plan
    """Of a run of the audit; the search uses the unmasked values of masked columns, and never shows them."""
    key: Key

    def search(self, *, apply: bool) -> Iterator[KeyPlace]:
        """Yield where the key is; with ``apply``, delete older dumps that have it. Raises StoreError."""
        if self.audit.via:
            yield self._dumps(apply=apply)
        seen = set[tuple[str, str]]()
        for read in self.audit.sources:
            for chain in find_chains(read, self.audit.target, self.settings.pipelines, self.settings.connections):
                names = {column.name: column.name for column in self.plan.columns}
                for carrier in (chain.first, chain.last) if chain.feed else (chain.last,):
                    yield from self._of_carrier(carrier, names, seen)
                    names = rename_columns(self.settings, names, carrier)

    def _of_carrier(self, carrier: Carrier, names: Mapping[str, str], seen: set[tuple[str, str]]) -> Iterator[KeyPlace]:
        pipeline = self.settings.pipeline(carrier.pipeline)
        table = f"{carrier.database}.{carrier.output}"
        if (carrier.pipeline, table) in seen:
            return
        seen.add((carrier.pipeline, table))
        rules = pipeline.columns_of(carrier.table)
        hidden = {one.lower() for one in (*rules.mask, *rules.exclude)}
        keys = [names[column.name] for column in self.plan.key_columns]
        why = next((f"the pipeline does not keep {key} as it is" for key in keys if key.lower() in hidden), "")
        staged = rename_columns(self.settings, names, carrier)
        stream = KeyStream(self.settings, self.store, carrier.pipeline, table, lambda: self._new_history(staged))
        yield self._parts(stream, pipeline, why)
        if pipeline.segment:
            yield self._segments(stream, pipeline, why)

    def _new_history(self, names: Mapping[str, str]) -> KeyHistory:
        shown = replace(self.plan, columns=tuple(replace(column, masked=False) for column in self.plan.columns))
        return KeyHistory(shown, names, shown.key_columns, "", frozenset([self.key]))

    def _parts(self, stream: KeyStream, pipeline: Pipeline, why: str) -> KeyPlace:
        staging, keep = pipeline.staging, format_duration(self.settings.keep.parts)
        found, moments = set[tuple[str, int]](), list[dt.datetime]()
        try:
            if why:
                raise TraceRefused(why)
            pruned = parts.get_table(self.store, stream.pipeline, stream.table).pruned_through
            for events in stream.read_events(pruned):
                history = stream.new_history()  # of these alone: a statement that moved the table leaves what its parts have
                history.take(stream.get_schema(events.part.schema_id), events.batch, events.part)
                if history.versions.get(self.key):
                    found.add((events.part.path, events.part.first))
                    moments.append(events.part.time)
        except AuditorError as error:
            why = str(error)
        last = f"; the newest that has the key was committed at {max(moments):%Y-%m-%d %H:%M:%S} UTC" if moments else ""
        what = f"{staging.path} has whole rows: a part goes {keep} after it was staged (keep: parts), and every target has it{last}"
        return _place(f"staged parts of {stream.pipeline}", len(found), what, why)

    def _segments(self, stream: KeyStream, pipeline: Pipeline, why: str) -> KeyPlace:
        assert pipeline.segment
        side, found = side_of_pipeline(self.settings, stream.pipeline), 0
        try:
            if why:
                raise TraceRefused(why)
            for one in list_files(self.store, side, stream.table):
                history = stream.new_history()
                for batch in side.folder.read(one).combine_chunks().to_batches():
                    history.take(stream.get_schema(one.schema_id), batch)
                found += bool(history.versions.get(self.key))
        except AuditorError as error:
            why = str(error)
        where = pipeline.segment.path or pipeline.staging.path
        what = f"{where} has whole rows; files of an archive are kept until you delete them, and are never rewritten"
        return _place(f"segments of {stream.pipeline}", found, what, why)

    def _dumps(self, *, apply: bool) -> KeyPlace:
        assert self.audit.via
        holding, removed, why = list[Path](), 0, ""
        try:
            root = dumps.dumps_folder(self.name, self.audit)
            with dumps.written_alone(root):
                written = dumps.list_dumps(root)
                holding = [folder for folder in written if self._read_dump(folder)]
                for folder in holding if apply else ():
                    if folder != written[-1]:
                        shutil.rmtree(folder)
                        removed += 1
        except AuditorError as error:
            why = str(error)
        kept = plural(self.settings.keep.dumps, "dump")
        what = f"{self.audit.via.table} has whole rows: {kept} are kept (keep: dumps); the newest stays until another one is written:"
        what += f" auditor dump {self.name}"
        return _place("dumps", len(holding), what, why, removed)

    def _read_dump(self, folder: Path) -> Sequence[object]:
        """Return the rows of the key that a dump has."""
        assert self.audit.via
        via = self.audit.via.model_copy(update={"table": f"{folder}/*.parquet"})
        whole = self.audit.model_copy(update={"via": via, "key": tuple(column.name for column in self.plan.key_columns), "settle": None})
        leg = proxy.split_audit(self.name, whole, self.settings.connections)[f"{self.name}.target"]
        names: dict[Side, str] = {"source": via.connection, "target": leg.target.connection}
        with Reader(self.name, names, self.settings.connections).open() as reader:
            plan = planner.draft(self.name, leg, introspect.describe_tables(reader, leg), "exact")
            shown = replace(plan, columns=tuple(replace(column, masked=False) for column in plan.columns))
            return KeyRows(reader, shown, [self.key]).read("source").get(self.key, ())


def _place(place: str, found: int, what: str, why: str, removed: int = 0) -> KeyPlace:
    """Return a place that was searched; ``why`` says why not all of it could be, or is ''."""
    what += f"; not all of it could be searched: {why}" if why else ""
    return KeyPlace(place=place, searched=not why, found=found, removed=removed, what=what)
