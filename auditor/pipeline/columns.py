"""Apply a pipeline's columns to events: exclude, mask, rename, compute, and the filter of rows.

The task that decodes events applies this before it writes them, so that excluded columns and the clear text of masked ones are nowhere
on disk.
"""

from __future__ import annotations

import dataclasses
import hashlib
import hmac
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from auditor.config import PipelineColumns
from auditor.errors import BadExpression, ColumnRefused
from auditor.pipeline.events import ARROW_SCHEMA, SHORT_YEAR, ColumnSchema, TableSchema, describe_key
from auditor.pipeline.row_expressions import ComputedColumns, RowFilter
from auditor.pipeline.transforms import TransformedColumns
from auditor.sql import filter as portable

DIGEST_DIGITS = 32
"""Hexadecimal digits of a masked value's digest: 128 bits, so that no two of the values of a table ever have the same."""

KEYS_ALONE = pa.array(["absent", "bounds"])
"""Kinds of events of which only columns of the key have values."""

TEXTS = pa.list_(pa.field("element", pa.string()))


@dataclass(frozen=True, slots=True)
class Rules:
    """What happens to the columns and rows of one table, and the salt of digests; can be pickled."""

    columns: PipelineColumns
    salt: bytes = dataclasses.field(repr=False)

    def computed_from(self, column: str) -> list[str]:
        """Return the names of the computed columns whose expressions read a column of the source."""
        found = []
        for name, one in self.columns.compute.items():
            with suppress(BadExpression):  # which refuses the table where its columns are known
                if column.lower() in {read.lower() for read in portable.column_names(portable.parse_value(one.expr))}:
                    found.append(name)
        return found


class Projection:
    """What a pipeline makes of the events of one table under one schema, for a table called ``output`` if that is given.

    Raises ColumnRefused if a rule names a column that the table does not have, or excludes one of the key, and for a YEAR(2) that is not
    excluded or that the filter names; BadExpression for a filter or value that cannot be evaluated.
    """

    def __init__(self, schema: TableSchema, rules: Rules, output: str = "") -> None:
        names = [column.name for column in schema.columns]
        table = f"{schema.database}.{schema.table}"
        exclude, mask = (_resolve(table, names, chosen) for chosen in (rules.columns.exclude, rules.columns.mask))
        rename = dict(zip(_resolve(table, names, rules.columns.rename), rules.columns.rename.values(), strict=True))
        if lost := [name for name in schema.key if name in exclude]:
            raise ColumnRefused(f"{table}: {lost[0]!r} is part of the key, so it cannot be excluded; mask it instead")
        self._salt = rules.salt
        if mask and not self._salt:
            raise ColumnRefused(f"{table}: columns are masked, and there is no salt; open the store first")
        self._width = len(names)
        self._kept = [index for index, name in enumerate(names) if name not in exclude]
        self._key = [index for index, name in enumerate(names) if name in schema.key]
        self._key_places = [(name, names.index(name)) for name in schema.key]
        self._is_key_masked = any(name in mask for name in schema.key)
        self._masked = frozenset(index for index, name in enumerate(names) if name in mask)
        self._filter = RowFilter(rules.columns.where, schema) if rules.columns.where is not None else None
        self._computed: list[ComputedColumns | TransformedColumns] = []
        if rules.columns.compute:
            self._computed.append(ComputedColumns(rules.columns.compute, schema))
        if rules.columns.transform:
            carried = {index: names[index] for index in self._kept if index not in self._masked}
            self._computed.append(TransformedColumns(rules.columns.transform, table, carried))
        self._inputs = sorted({index for computed in self._computed for index in computed.indexes})
        if hidden := next((names[index] for index in self._inputs if index in self._masked), ""):
            raise ColumnRefused(
                f"{table}: {hidden!r} is masked, so nothing is computed from its clear text; exclude it instead, or compute"
                " from other columns"
            )
        read = {*self._kept, *self._inputs, *(self._filter.indexes if self._filter else ())}
        if short := next((names[index] for index in sorted(read) if schema.columns[index].type == SHORT_YEAR), ""):
            raise ColumnRefused(refuse_short_year(table, short))
        kept = (_project(schema.columns[index], index in self._masked, rename) for index in self._kept)
        columns = (*kept, *(column for computed in self._computed for column in computed.columns))
        lowered = [column.name.lower() for column in columns]
        if twice := next((name for name in lowered if lowered.count(name) > 1), None):
            raise ColumnRefused(f"{table}: two columns would be named {twice!r}; rename, exclude or compute one of them under another name")
        self.schema = TableSchema(schema.database, output or schema.table, columns, tuple(rename.get(name, name) for name in schema.key))
        """The table's columns as parts and targets have them."""
        self.leaves_out = self._filter is not None or self._is_key_masked
        """Whether it leaves out events: rows outside the filter, and bounds of digests."""
        self._changes_rows = len(self._kept) < self._width or bool(self._masked or self._computed)
        self.changes_nothing = self.schema == schema and not self.leaves_out and not self._changes_rows
        """Whether events leave it as they are."""

    def announce(self, announced: pa.RecordBatch) -> pa.RecordBatch:
        """Return announcements of this schema as those of the projected one."""
        if self.changes_nothing:
            return announced
        after = pa.array([[self.schema.to_json()]] * announced.num_rows, TEXTS)
        return _with(announced, {"after": after}, self.schema)

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows of a batch, all of this table and schema, as they leave the source, under the projected schema's id.

        A row that leaves the filter becomes a delete, one that enters it an insert. Raises ValueRefused for a row on which the filter
        or a computed column cannot be evaluated.
        """
        if self.changes_nothing:
            return batch
        if self._is_key_masked:  # digests have no order
            batch = batch.filter(pc.not_equal(batch["kind"], "bounds"))
        images = {name: batch[name] for name in ("before", "after")}
        kinds = batch["kind"]
        if self._filter:
            passes = {name: self._select(images[name]) for name in images}
            batch, kinds, images = _move(*self._keep_keys(batch, passes))
        if self._changes_rows:
            is_whole = pc.invert(pc.is_in(kinds, KEYS_ALONE))
            images = {name: self._project_rows(images[name], is_whole) for name in images}
        return _with(batch, {"kind": kinds, **images}, self.schema)

    def describe_key(self, event: pa.RecordBatch) -> str:
        """Return the key of a batch's only row, as a condition; of a masked column its digest."""
        [row] = (event["after"] if event["after"].is_valid()[0].as_py() else event["before"]).to_pylist()
        texts = {name: row[index] for name, index in self._key_places}
        masked = {name for name, index in self._key_places if index in self._masked}
        return describe_key({name: digest(self._salt, text) if text and name in masked else text for name, text in texts.items()})

    def _select(self, rows: pa.ListArray) -> pa.Array:
        """Return for each row whether the filter passes it; NULL where there is no row."""
        assert self._filter
        present = rows.is_valid()
        values, count = rows.flatten(), pc.sum(present).as_py() or 0
        texts = {index: self._column(values, count, index) for index in self._filter.indexes}
        passed = self._filter.select(texts, count)
        places = pc.subtract(pc.cumulative_sum(present.cast(pa.int64())), 1)
        return pc.take(passed, pc.if_else(present, places, None))

    def _keep_keys(self, batch: pa.RecordBatch, passes: dict[str, pa.Array]) -> tuple[pa.RecordBatch, dict[str, pa.Array]]:
        """Return a batch in which refreshed rows outside the filter are absent keys, and what passes: keys of a refresh always do."""
        is_lost = pc.and_(pc.equal(batch["kind"], "refresh"), pc.invert(passes["after"].fill_null(False)))
        if pc.any(is_lost).as_py():
            kinds = pc.if_else(is_lost, "absent", batch["kind"])
            keys = pc.if_else(is_lost, self._keys_alone(batch["after"]), batch["before"])
            after = pc.if_else(is_lost, None, batch["after"])
            batch = batch.set_column(0, ARROW_SCHEMA.field("kind"), kinds)
            for name, rows in (("before", keys), ("after", after)):
                batch = batch.set_column(ARROW_SCHEMA.get_field_index(name), ARROW_SCHEMA.field(name), rows)
        is_key = pc.is_in(batch["kind"], KEYS_ALONE)
        return batch, {name: pc.if_else(is_key, batch[name].is_valid(), passed) for name, passed in passes.items()}

    def _keys_alone(self, rows: pa.ListArray) -> pa.ListArray:
        """Return rows without the values of columns that are not of the key."""
        present = rows.is_valid()
        values = rows.flatten()
        is_key = np.tile(np.isin(np.arange(self._width), self._key), len(values) // self._width)
        return _lists(pc.if_else(pa.array(is_key, pa.bool_()), values, None), present, self._width)

    def _project_rows(self, rows: pa.ListArray, is_whole: pa.Array) -> pa.ListArray:
        """Return rows as they leave the source; those that are not whole have keys alone, from which nothing is computed."""
        present = rows.is_valid()
        values, count = rows.flatten(), pc.sum(present).as_py() or 0
        added = self._compute(values, count, is_whole.filter(present)) if self._computed else []
        columns = [self._column(values, count, index) for index in self._kept]
        columns = [self._digests(column) if index in self._masked else column for index, column in zip(self._kept, columns, strict=True)]
        columns += added
        width = len(columns)
        order = np.arange(width * count).reshape(width, count).T.ravel()  # row by row, of columns that follow one another
        woven = pc.take(pa.concat_arrays(columns), pa.array(order)) if count else pa.array([], pa.string())
        return _lists(woven, present, width)

    def _compute(self, values: pa.Array, count: int, is_whole: pa.Array) -> list[pa.Array]:
        """Return the texts of computed columns; NULL for rows that are not whole."""
        texts = {index: self._column(values, count, index).filter(is_whole) for index in self._inputs}
        whole = pc.sum(is_whole).as_py() or 0
        if not whole:
            return [pa.nulls(count, pa.string()) for computed in self._computed for _ in computed.columns]
        places = pc.if_else(is_whole, pc.subtract(pc.cumulative_sum(is_whole.cast(pa.int64())), 1), None)
        return [pc.take(column, places) for computed in self._computed for column in computed.compute(texts, whole)]

    def _column(self, values: pa.Array, count: int, index: int) -> pa.Array:
        return pc.take(values, pa.array(np.arange(index, count * self._width, self._width)))

    def _digests(self, texts: pa.Array) -> pa.Array:
        return pa.array([None if text is None else digest(self._salt, text) for text in texts.to_pylist()], pa.string())


def _lists(values: pa.Array, present: pa.Array, width: int) -> pa.ListArray:
    """Return lists of so many values each; NULL where a row is not present."""
    ends = pc.cumulative_sum(pc.multiply(present.cast(pa.int32()), width))
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), ends.cast(pa.int32())])
    return pa.ListArray.from_arrays(offsets, values, type=TEXTS, mask=pc.invert(present))


def refuse_short_year(table: str, column: str) -> str:
    """Return why a table with a YEAR(2) column stops, and the ways out."""
    return (
        f"{table}: {column!r} is a YEAR(2), or was one that another type has replaced: the source logs and keeps 1901 where every SELECT"
        f" reads 01, which means 2001; run there: ALTER TABLE {table} MODIFY {column} YEAR(4), skip what stopped, and send the"
        " table's rows again: auditor pipeline refresh; or exclude the column"
    )


def digest(salt: bytes, text: str) -> str:
    """Return the digest that stands for a masked value (the first half of HMAC-SHA-256, in hexadecimal digits)."""
    return hmac.new(salt, text.encode(), hashlib.sha256).hexdigest()[:DIGEST_DIGITS]


def _resolve(table: str, names: list[str], chosen: object) -> list[str]:
    """Return the columns that settings name, whatever their case."""
    resolved = []
    for wanted in chosen:  # type: ignore[attr-defined]
        matching = [name for name in names if name == wanted] or [name for name in names if name.lower() == wanted.lower()]
        if not matching:
            raise ColumnRefused(f"{table} has no column {wanted!r}, which the pipeline's columns: name; its columns are {', '.join(names)}")
        resolved.append(matching[0])
    return resolved


def _project(column: ColumnSchema, masked: bool, rename: dict[str, str]) -> ColumnSchema:
    name = rename.get(column.name, column.name)
    if masked:
        return ColumnSchema(name, f"char({DIGEST_DIGITS})", column.nullable, "ascii")
    return dataclasses.replace(column, name=name)


def _move(batch: pa.RecordBatch, passes: dict[str, pa.Array]) -> tuple[pa.RecordBatch, pa.Array, dict[str, pa.Array]]:
    """Return the events whose row is in the filter before or after, their kinds, and their images within the filter."""
    before, after = (passes[name].fill_null(False) for name in ("before", "after"))
    kept = pc.or_(before, after)
    batch, before, after = batch.filter(kept), before.filter(kept), after.filter(kept)
    moved = pc.equal(batch["kind"], "update")
    enters, leaves = pc.and_(moved, pc.invert(before)), pc.and_(moved, pc.invert(after))
    kinds = pc.if_else(enters, "insert", pc.if_else(leaves, "delete", batch["kind"]))
    images = {"before": pc.if_else(before, batch["before"], None), "after": pc.if_else(after, batch["after"], None)}
    return batch, kinds, images


def _with(batch: pa.RecordBatch, columns: dict[str, pa.Array], schema: TableSchema) -> pa.RecordBatch:
    """Return a batch with some columns replaced, and the table and the id of its schema."""
    named = {"table": schema.table, "schema_id": schema.id}
    arrays = {**columns, **{name: pa.array([text] * batch.num_rows, pa.string()) for name, text in named.items()}}
    return pa.RecordBatch.from_arrays(
        [arrays.get(field.name, batch[field.name]).cast(field.type) for field in ARROW_SCHEMA], schema=ARROW_SCHEMA
    )
