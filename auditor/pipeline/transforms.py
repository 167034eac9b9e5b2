"""Compute columns by a function in Python, which the operator of a pipeline names."""

from __future__ import annotations

import importlib
import traceback
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from auditor.config import Transform, computed_kind
from auditor.errors import ColumnRefused, ValueRefused
from auditor.pipeline.events import ColumnSchema
from auditor.pipeline.row_expressions import check_text, computed_column, texts_of
from dialects import Kind


class TransformedColumns:
    """The columns that a function returns for rows of one table. Raises ColumnRefused if there is no such function."""

    def __init__(self, transform: Transform, table: str, names: Mapping[int, str]) -> None:
        self._table = table
        self._names = names
        self._name = transform.function
        self._function = _load(transform.function, table)
        self._kinds = {name: computed_kind(kind) for name, kind in transform.columns.items()}
        self.columns: list[ColumnSchema] = [computed_column(name, kind, self._name) for name, kind in self._kinds.items()]
        """The columns of the values."""
        self.indexes = list(names)
        """The columns of the table that the function gets."""

    def compute(self, texts: Mapping[int, pa.Array], count: int) -> list[pa.Array]:
        """Return the texts of each column's values; ``texts`` are the columns of ``count`` rows, by index.

        Raises ValueRefused if the function raises, or returns something else than it should. It then holds no value of a row.
        """
        rows = pa.RecordBatch.from_arrays([texts[index] for index in self._names], names=list(self._names.values()))
        try:
            returned = self._function(rows)
        except Exception as error:  # whatever a function does stops its table alone
            *_, last = traceback.extract_tb(error.__traceback__)
            raise ValueRefused(f"{self._about} raised {type(error).__name__} (line {last.lineno} of {last.name})") from error
        return [
            check_text(self._texts(returned, name, kind, count), column, self._table)
            for (name, kind), column in zip(self._kinds.items(), self.columns, strict=True)
        ]

    @property
    def _about(self) -> str:
        return f"transform: {self._name} on a row of {self._table}"

    def _texts(self, returned: Any, name: str, kind: Kind, count: int) -> pa.Array:
        try:
            values = returned[name]
        except (KeyError, TypeError, IndexError, ValueError):
            raise ValueRefused(f"{self._about} returned no column {name!r}; it returns a batch, a table or a mapping") from None
        try:
            array = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else pa.array(values)
            cast = array.cast(_arrow_type(kind))
        except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
            raise ValueRefused(f"{self._about} returned values in {name} that are no {kind} ({type(error).__name__})") from error
        if len(cast) != count:
            raise ValueRefused(f"{self._about} returned {len(cast)} values in {name} for {count} rows")
        unit = 10 ** (6 - (kind.scale or 0))  # microseconds
        if kind.name == "timestamp" and pc.any(pc.not_equal(cast, pc.floor_temporal(cast, unit, "microsecond"))).as_py():
            raise ValueRefused(f"{self._about} returned values in {name} with more digits of a second than {kind} has")
        return texts_of(cast, kind, f"{self._about} returned values in {name} that cannot be written")


def _load(name: str, table: str) -> Callable[[pa.RecordBatch], Any]:
    module_name, _, attribute = name.partition(":")
    try:
        function = getattr(importlib.import_module(module_name), attribute)
    except (ImportError, AttributeError) as error:
        raise ColumnRefused(f"{table}: transform: {name} cannot be imported ({error}); install its package wherever tasks run") from error
    if not callable(function):
        raise ColumnRefused(f"{table}: transform: {name} is no function; name one")
    return function  # type: ignore[no-any-return]


def _arrow_type(kind: Kind) -> pa.DataType:
    match kind.name:
        case "integer":
            return pa.int64()
        case "decimal":
            return pa.decimal128(kind.digits or 38, kind.scale or 0)
        case "date":
            return pa.date32()
        case "timestamp":
            return pa.timestamp("us")
    return pa.string()
