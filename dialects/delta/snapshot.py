"""One version of a Delta table as SQL of DuckDB: which files it has, and how their columns become those of the table.

The log is read by deltalake, the files by DuckDB. What a file holds in another form than the table says is refused, column by column, and
so is every feature of the protocol that changes what the files mean and is not listed in FEATURES.

https://github.com/delta-io/delta/blob/master/PROTOCOL.md
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from dialects import errors
from dialects.writing import Hazard

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

FEATURES = frozenset({"timestampNtz", "deletionVectors", "columnMapping", "v2Checkpoint", "vacuumProtocolCheck", "variantType"})
"""The features for readers under which files are read correctly. A variant is a column without a kind."""

TYPES = {
    "byte": "TINYINT", "short": "SMALLINT", "integer": "INTEGER", "long": "BIGINT", "float": "FLOAT", "double": "DOUBLE",
    "string": "VARCHAR", "binary": "BLOB", "boolean": "BOOLEAN", "date": "DATE", "timestamp": "TIMESTAMP WITH TIME ZONE",
    "timestamp_ntz": "TIMESTAMP",
}  # fmt: skip
"""DuckDB's types by those of the table's schema."""

_INTEGERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT")
_TIMES = ("TIMESTAMP WITH TIME ZONE", "TIMESTAMP", "TIMESTAMP_MS", "TIMESTAMP_S")

EXACT: Mapping[str, Sequence[str]] = {
    **dict.fromkeys(_INTEGERS, _INTEGERS), "DOUBLE": ("DOUBLE", "FLOAT"),
    "TIMESTAMP WITH TIME ZONE": _TIMES, "TIMESTAMP": _TIMES,
}  # fmt: skip
"""Types of files whose values a cast to the table's type keeps, or refuses, besides that type itself. Spark writes times as INT96, which
say nothing of a zone and are in UTC."""


@dataclass(frozen=True, slots=True)
class LakeColumn:
    """A column of a table, and how it is read from its files."""

    name: str
    declared: str
    """The type that the table's schema gives it, as text."""
    native: str
    """DuckDB's type; empty where DuckDB has none."""
    physical: str
    """Its name in the files."""


@dataclass(frozen=True, slots=True)
class LakeFile:
    """A file of a version."""

    path: str
    """Where it is, relative to the table."""
    size: int
    rows: int | None
    partition: Mapping[str, Any]
    modified: int | None = None
    """When it was written, as the log has it, in milliseconds since 1970; None where it says nothing."""

    @property
    def name(self) -> str:
        """Its name without its folder; no two files of a version have the same."""
        return self.path.rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One version of a table."""

    version: int
    columns: Sequence[LakeColumn]
    files: Sequence[LakeFile]
    partitioned_by: Sequence[str]
    has_deletions: bool
    table_id: str = ""
    """What the log calls the table, whichever its name: another one once it was dropped and made again. '' where nothing says it."""

    @property
    def rows(self) -> int | None:
        """The number of rows as the log has it; None where it does not say."""
        counts = [file.rows for file in self.files]
        return None if None in counts or self.has_deletions else sum(count or 0 for count in counts)


def read_snapshot(table: Any, where: str) -> Snapshot:
    """Return the version that a ``DeltaTable`` of deltalake shows. Raises StatementRefused for one that files alone do not show."""
    import pyarrow as pa

    protocol, configuration = table.protocol(), table.metadata().configuration
    features = set(protocol.reader_features or ())
    if unknown := features - FEATURES:
        raise errors.StatementRefused(
            f"{where} uses the features {', '.join(sorted(unknown))}, which the auditor does not read; drop them, or audit it on Spark"
        )
    mapping = configuration.get("delta.columnMapping.mode", "none")
    partitioned_by = list(table.metadata().partition_columns)
    if mapping not in ("none", "name") or (mapping == "name" and partitioned_by):
        raise errors.StatementRefused(
            f"{where} maps its columns by {mapping}{' and has partitions' if partitioned_by else ''}, which the auditor does not read;"
            " audit it on Spark"
        )
    fields = json.loads(table.schema().to_json())["fields"]
    columns = [_column(field, mapped=mapping == "name") for field in fields]
    files = [_file(action) for action in pa.table(table.get_add_actions()).to_pylist()]
    names = [file.name for file in files]
    if len(set(names)) != len(names) or any(file.path.startswith("/") or ":/" in file.path for file in files):
        raise errors.StatementRefused(f"{where} has files of other tables, or two of one name, which the auditor does not read")
    return Snapshot(int(table.version()), columns, files, partitioned_by, "deletionVectors" in features, str(table.metadata().id))


def _column(field: Mapping[str, Any], mapped: bool) -> LakeColumn:
    declared = field["type"]
    text = declared if isinstance(declared, str) else declared["type"]
    physical = field.get("metadata", {}).get("delta.columnMapping.physicalName", field["name"]) if mapped else field["name"]
    return LakeColumn(field["name"], text, _native(declared), physical)


def _native(declared: Any) -> str:
    """Return DuckDB's type of a type of the table's schema; '' where it has none."""
    if isinstance(declared, str):
        decimal = re.fullmatch(r"decimal\((\d+),\s*(-?\d+)\)", declared)
        return f"DECIMAL({decimal[1]},{decimal[2]})" if decimal else TYPES.get(declared, "")
    if declared["type"] == "array":
        inner = _native(declared["elementType"])
        return f"{inner}[]" if inner else ""
    if declared["type"] == "struct":
        members = [(field["name"], _native(field["type"])) for field in declared["fields"]]
        return f"STRUCT({', '.join(f'{_quoted(name)} {native}' for name, native in members)})" if all(n for _, n in members) else ""
    if declared["type"] == "map":
        key, value = _native(declared["keyType"]), _native(declared["valueType"])
        return f"MAP({key}, {value})" if key and value else ""
    return ""


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _file(action: Mapping[str, Any]) -> LakeFile:
    path = unquote(action["path"])
    return LakeFile(path, int(action["size_bytes"]), action["num_records"], action.get("partition") or {}, action["modification_time"])


def find_hazards(table: Any) -> list[Hazard]:
    """Return what decides what a write does to the columns of a ``DeltaTable``: computed, numbered, with a default, or never NULL."""
    hazards = []
    for field in json.loads(table.schema().to_json())["fields"]:
        name, metadata = str(field["name"]), field.get("metadata", {})
        if "delta.generationExpression" in metadata:
            hazards.append(Hazard("generated", name))
        if any(key.startswith("delta.identity.") for key in metadata):
            hazards.append(Hazard("identity", name))
        if "CURRENT_DEFAULT" in metadata:
            hazards.append(Hazard("default", name))
        elif not field["nullable"]:
            hazards.append(Hazard("required", name))
    return hazards


def deleted_rows(table: Any, snapshot: Snapshot) -> dict[int, npt.NDArray[np.int64]]:
    """Return the places of the rows in each file that a deletion vector hides, ascending, by the file's place in the snapshot."""
    import numpy as np
    import pyarrow as pa

    places = {file.name: place for place, file in enumerate(snapshot.files)}
    hidden = {}
    for batch in table.deletion_vectors():
        vectors = pa.record_batch(batch)
        for uri, kept in zip(vectors.column("filepath").to_pylist(), vectors.column("selection_vector"), strict=True):
            place = places[unquote(uri).rpartition("/")[2]]
            hidden[place] = np.flatnonzero(~kept.values.to_numpy(zero_copy_only=False)).astype(np.int64)
    return hidden
