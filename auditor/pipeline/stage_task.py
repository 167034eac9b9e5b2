"""What a task of the stream does: project its events and write their parts.

Tasks run in processes of Spark's own, which import this module and not the store.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from auditor.config import Pipeline
from auditor.errors import AuditorError, BadExpression, ColumnRefused, StagingFailed, ValueRefused, error_named, name_of
from auditor.model import Part, TableNote
from auditor.pipeline.columns import Projection, Rules, digest, refuse_short_year
from auditor.pipeline.event_count import EventCount, Tally, check_routes
from auditor.pipeline.events import TableSchema
from auditor.pipeline.folders import folder_at
from auditor.pipeline.live.staged_sums import TaskSums
from auditor.pipeline.part_writer import WrittenPart, write_parts
from auditor.pipeline.row_expressions import RowFilter
from auditor.pipeline.table_ops import ChangeBody, Op, Value
from auditor.pipeline.worker_process import freeze_modules


def project_ops(body: ChangeBody, table: str, rules: Rules) -> ChangeBody:
    """Return the body of a note on a table without excluded columns, with renamed ones by their new names and masked values as digests.

    It stops the table if that has a YEAR(2) which is not excluded.
    """
    ops = [projected for op in body["ops"] if op["op"] != "short_year" for projected in _project(op, rules)]
    projected: ChangeBody = {**body, "ops": ops}
    short = [op["column"] for op in body["ops"] if op["op"] == "short_year" and not _is_in(op["column"], rules.columns.exclude)]
    if short and "reason" not in projected:
        projected.pop("advances", None)
        projected |= {"stage": "statement", "reason": refuse_short_year(table, short[0])}
    return projected


def _project(op: Op, rules: Rules) -> list[Op]:
    if op["op"] == "rename":
        return _renamed(op, rules)
    if op["op"] == "key":
        return [{**op, "columns": [_name(column, rules) for column in op["columns"]]}]
    if "column" not in op:
        return [op]
    column = op["column"]
    if _is_in(column, rules.columns.exclude):
        return _computed_anew(op, rules)
    projected: Op = {**op, "column": _name(column, rules)}
    if "type" in op and _is_in(column, rules.columns.mask):
        projected["type"] = ""  # the digests of values, which may have changed
    if "value" in op and _is_in(column, rules.columns.mask):
        text = op["value"].get("hex", op["value"].get("text"))
        projected["value"] = {"text": digest(rules.salt, text)} if text is not None else op["value"]
    return [projected]


def _computed_anew(op: Op, rules: Rules) -> list[Op]:
    """Return what another type of an excluded column is to the columns that are computed from it: values that may be others."""
    if op["op"] != "modify" or "type" not in op:
        return []
    return [{**op, "column": name, "type": ""} for name in rules.computed_from(op["column"])]


def _renamed(op: Op, rules: Rules) -> list[Op]:
    """Return what a renamed column is to the target: it may be excluded, or masked, under one of its names only."""
    old, new = op["from"], op["to"]
    was, now = (not _is_in(column, rules.columns.exclude) for column in (old, new))
    if was and now and _is_in(old, rules.columns.mask) == _is_in(new, rules.columns.mask):
        renamed: Op = {**op, "from": _name(old, rules), "to": _name(new, rules)}
        return [{**renamed, "type": ""} if "type" in op and _is_in(new, rules.columns.mask) else renamed]
    value: Value = {"unknown": f"it has the values that {old} had, to which other rules of the pipeline applied"}
    dropped: list[Op] = [{"op": "drop", "column": _name(old, rules)}] if was else []
    added: list[Op] = [{"op": "add", "column": _name(new, rules), "value": value}] if now else []
    return dropped + added


def _name(column: str, rules: Rules) -> str:
    return next((new for old, new in rules.columns.rename.items() if old.lower() == column.lower()), column)


def _is_in(column: str, chosen: object) -> bool:
    return column.lower() in {name.lower() for name in chosen}  # type: ignore[attr-defined]


MANIFEST = pa.schema([("part", pa.string()), ("note", pa.string()), ("error", pa.string())])
"""What a task that wrote parts returns to the driver: no row, but a part each, notes on tables, or why it could not be written."""

NOTES = {"poison", "change"}
"""Kinds of events that are notes."""

NO_ROWS = pa.array([*NOTES, "schema"])


def stage_task(root: str, rules: TableRules, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Project a task's events and write their parts, and yield the entries of the manifest.

    It runs in the process that decodes, so that what is excluded or masked reaches no disk.
    """
    freeze_modules()
    try:
        notes: list[TableNote] = []
        sums, count = TaskSums(root), EventCount()
        written = write_parts(folder_at(root), project(batches, rules, notes, sums, count))
        count.check(_by_table(written))
        sums.write(entry.part for entry in written)
        yield _entries([_to_json(entry) for entry in written], [_note_json(note) for note in notes], "")
    except AuditorError as error:
        yield _entries([], [], f"{name_of(error)}: {error}")


def _by_table(written: Iterable[WrittenPart]) -> dict[str, Tally]:
    tallies: dict[str, Tally] = {}
    for entry in written:
        tallies.setdefault(entry.part.table, Tally()).add_up(entry.tally)
    return tallies


def project(
    batches: Iterable[pa.RecordBatch], rules: TableRules, notes: list[TableNote], sums: TaskSums, count: EventCount
) -> Iterator[pa.RecordBatch]:
    """Yield the projected events, each batch of one schema or with announcements, of batches that announce each schema before its rows.

    Notes on tables are appended. What is decoded is summed up, and what is to be written is counted. Each batch is projected before the
    next one is decoded. Events that cannot be projected are noted. Raises StagingFailed.
    """
    projections: dict[str, Sequence[Projection] | AuditorError] = {}
    schemas: dict[str, TableSchema] = {}
    for read in batches:
        found, announced, rows = _split(read)
        notes += [note for row in found for note in _read_notes(row, rules)]
        for event in announced.select(["schema_id", "after"]).to_pylist():
            schema_id, [body] = event["schema_id"], event["after"]
            if schema_id not in projections:
                schemas[schema_id] = TableSchema.from_json(body)
                projections[schema_id] = _project_schema(schemas[schema_id], rules)
        yield from _announce(announced, projections)
        for schema_id, chosen in _runs(rows):
            if (projected_by := projections.get(schema_id)) is None:
                raise StagingFailed(f"the source announced no schema {schema_id} before its events; report this as a bug of the source")
            schema = schemas[schema_id]
            outputs = rules.outputs_of(schema)
            sums.take(schema, chosen, outputs)
            if isinstance(projected_by, AuditorError):
                notes += [note for table in outputs for note in _refuse(chosen, projected_by, table)]
                continue
            is_split = len(projected_by) > 1 and rules.of(schema.table).columns.where is None
            routed, refused_any = list[pa.RecordBatch](), False
            for projection, table in zip(projected_by, outputs, strict=True):
                projected, refused = _apply(projection, chosen, table)
                notes += refused
                count.take(table, chosen, projected, sum(note.events for note in refused), projection.leaves_out)
                yield from projected
                routed, refused_any = [*routed, *projected] if is_split else [], refused_any or bool(refused)
            if is_split and not refused_any:
                check_routes(f"{schema.database}.{schema.table}", chosen, routed)


def _split(read: pa.RecordBatch) -> tuple[list[dict[str, Any]], pa.RecordBatch, pa.RecordBatch]:
    """Return the notes of a batch, the announcements of schemas, and the other events."""
    kinds = {*read["kind"].unique().to_pylist()}
    notes = read.filter(pc.is_in(read["kind"], pa.array([*NOTES]))).to_pylist() if NOTES & kinds else []
    announced = read.filter(pc.equal(read["kind"], "schema")) if "schema" in kinds else read.slice(0, 0)
    rows = read.filter(pc.invert(pc.is_in(read["kind"], NO_ROWS))) if notes or announced.num_rows else read
    return notes, announced, rows


def _announce(announced: pa.RecordBatch, projections: Mapping[str, Sequence[Projection] | AuditorError]) -> Iterator[pa.RecordBatch]:
    """Yield the announcements of schemas that can be projected, as those of the projected ones: all that stay as they are together."""
    alike: list[int] = []
    for place, schema_id in enumerate(announced["schema_id"].to_pylist()):
        projected_by = projections[schema_id]
        for projection in () if isinstance(projected_by, AuditorError) else projected_by:
            if projection.changes_nothing:
                alike.append(place)
            else:
                yield projection.announce(announced.slice(place, 1))
    if alike:
        yield announced if len(alike) == announced.num_rows else announced.take(pa.array(alike))


def _runs(events: pa.RecordBatch) -> list[tuple[str, pa.RecordBatch]]:
    """Return the events by schema, in which they are one after the other; each schema is of one table."""
    if not events.num_rows:
        return []
    encoded = events["schema_id"].dictionary_encode()
    places = encoded.indices.to_numpy()
    starts = [0, *(np.flatnonzero(places[1:] != places[:-1]) + 1).tolist(), len(places)]
    return [(encoded.dictionary[places[start]].as_py(), events.slice(start, end - start)) for start, end in pairwise(starts)]


def _project_schema(schema: TableSchema, rules: TableRules) -> Sequence[Projection] | AuditorError:
    """Return what is made of a schema's events for each table into which they go; the error if that is not known of one."""
    try:
        return rules.project(schema)
    except (ColumnRefused, BadExpression) as error:
        return error


def _apply(projection: Projection, batch: pa.RecordBatch, table: str) -> tuple[list[pa.RecordBatch], list[TableNote]]:
    """Return the projected events, and a note on each that cannot be projected, for a table of the stream."""
    projected: list[pa.RecordBatch] = []
    notes: list[TableNote] = []
    left = [batch]
    while left:
        batch = left.pop()
        try:
            projected.append(projection.apply(batch))
        except (ValueRefused, BadExpression) as error:
            half = batch.num_rows // 2
            if half:
                left += [batch.slice(half), batch.slice(0, half)]
            else:
                notes += _refuse(batch, error, table, projection.describe_key(batch))
    return projected, notes


def _refuse(batch: pa.RecordBatch, error: AuditorError, table: str, key: str = "") -> list[TableNote]:
    """Return the note on events that cannot be staged, for a table of the stream; none if there is no row among them."""
    rows = batch.sort_by([("position", "ascending"), ("row", "ascending")])
    if not rows.num_rows:
        return []
    first, last = rows["position"][0].as_py(), rows["position"][-1].as_py()
    body = {"stage": "staging", "reason": str(error)}
    if key:
        body |= {"reason": f"{error}; the row with {key}", "cause": str(error)}
    return [TableNote(table, "poison", first, last, rows.num_rows, rows["time"][0].as_py(), body, row=rows["row"][0].as_py())]


def _read_notes(row: Mapping[str, Any], rules: TableRules) -> list[TableNote]:
    """Return the note that the source wrote as an event, for each table of the stream that it is about."""
    content = json.loads(row["after"][0])
    body, table = content["body"], f"{row['database']}.{row['table']}"
    if row["kind"] == "change":
        body = project_ops(body, table, rules.of(body.get("beside", row["table"])))
        if why := rules.refuse_change(table, body):
            ops = [op for op in body["ops"] if not _is_move(op)]
            body = {"ops": ops, "stage": "statement", "reason": why, **{key: body[key] for key in ("statement",) if key in body}}
    about = row["position"], content["last"], content["events"], row["time"], body
    return [TableNote(output, row["kind"], *about, row=row["row"]) for output in rules.pipeline.outputs_of(table)]


def _is_move(op: Op) -> bool:
    return op["op"] == "moved" or (op["op"] == "gone" and "to" in op)


@dataclass(frozen=True, slots=True)
class TableRules:
    """What happens to the columns of each table of a pipeline, and into which tables its rows go."""

    pipeline: Pipeline
    salt: bytes = field(repr=False)

    def of(self, table: str) -> Rules:
        """Return the rules of a table."""
        return Rules(self.pipeline.columns_of(table), self.salt)

    def outputs_of(self, schema: TableSchema) -> list[str]:
        """Return into which tables of the stream the rows of a source's table go."""
        return self.pipeline.outputs_of(f"{schema.database}.{schema.table}")

    def project(self, schema: TableSchema) -> list[Projection]:
        """Return what is made of a source's events for each table into which they go. Raises ColumnRefused and BadExpression."""
        rules = self.of(schema.table)
        if other := self.pipeline.routed_from(schema.table):
            raise ColumnRefused(refuse_name(f"{schema.database}.{schema.table}", other))
        if not rules.columns.table:
            return [Projection(schema, rules)]
        for condition in (rules.columns.where, *(route.when for route in rules.columns.table)):
            if condition is not None:
                RowFilter(condition, schema)  # by itself: brackets of one must not close those of another
        return [
            Projection(schema, dataclasses.replace(rules, columns=rules.columns.model_copy(update={"where": where, "table": ()})), name)
            for name, where in rules.columns.outputs(schema.table).items()
        ]

    def refuse_change(self, table: str, body: ChangeBody) -> str:
        """Return why a statement of the source cannot be done to the tables into which a table's rows go; '' if it can."""
        name = table.partition(".")[2]
        if other := self.pipeline.routed_from(name):
            return refuse_name(table, other)
        names = [table, *(str(op["from" if op["op"] == "moved" else "to"]) for op in body["ops"] if _is_move(op))]
        if len(names) > 1 and (routed := next((one for one in names if self._is_routed(one)), "")):
            return (
                f"the source renamed {' or '.join(sorted(names))}, and rows of {routed} go into tables of other names (columns: table);"
                f" send all rows of {table} again: auditor pipeline refresh, and skip this"
            )
        return ""

    def _is_routed(self, table: str) -> bool:
        name = table.partition(".")[2]
        return bool(self.pipeline.columns_of(name).table or self.pipeline.routed_from(name))


def refuse_name(table: str, other: str) -> str:
    """Return why a table of the source has no place of its own in the stream, and what gives it one."""
    return (
        f"the source has a table {table}, and rows of {other} go into a table of this name (columns: table); give that route another name,"
        " or rename the source's table"
    )


def _entries(written: list[str], notes: list[str], error: str) -> pa.RecordBatch:
    rows = [*((part, "", "") for part in written), *(("", note, "") for note in notes), *([("", "", error)] if error else [])]
    return pa.RecordBatch.from_arrays([pa.array([row[place] for row in rows], pa.string()) for place in range(3)], schema=MANIFEST)


def _to_json(written: WrittenPart) -> str:
    part = {name: getattr(written.part, name) for name in PART_FIELDS}
    return json.dumps({**part, "time": written.part.time.isoformat(), "schema": written.schema_json})


PART_FIELDS = [field.name for field in dataclasses.fields(Part)]


def _note_json(note: TableNote) -> str:
    return json.dumps({**dataclasses.asdict(note), "time": note.time.isoformat()})


def read_entries(rows: Iterable[Any]) -> tuple[list[WrittenPart], list[TableNote]]:
    """Return the parts and the notes that tasks wrote. Raises a task's error."""
    listed = list(rows)
    written = [read_entry(row) for row in listed if row["part"] or row["error"]]
    return written, [read_note(row["note"]) for row in listed if row["note"]]


def read_note(text: str) -> TableNote:
    """Return a note that a task wrote."""
    values = json.loads(text)
    return TableNote(**{**values, "time": dt.datetime.fromisoformat(values["time"])})


def read_entry(row: Any) -> WrittenPart:
    """Return a part that a task wrote. Raises the task's error."""
    if row["error"]:
        name, _, message = str(row["error"]).partition(": ")
        raise error_named(name, message, StagingFailed)
    values = json.loads(row["part"])
    schema_json, when, blocks = values.pop("schema"), values.pop("time"), values.pop("blocks")
    part = Part(**values, time=dt.datetime.fromisoformat(when), blocks=tuple((offset, size) for offset, size in blocks))
    return WrittenPart(part, schema_json)
