"""Delta tables whose log is written by hand, with what deltalake itself does not write."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"


def write_table(
    root: Path,
    fields: Mapping[str, Any],
    files: Mapping[str, pa.Table],
    *,
    features: Sequence[str] = (),
    configuration: Mapping[str, str] | None = None,
    physical: Mapping[str, str] | None = None,
    deleted: Mapping[str, Sequence[int]] | None = None,
    int96: bool = False,
) -> None:
    """Write version 0 of a table: the types of its columns, its files, and the rows of each file that a deletion vector hides."""
    (root / "_delta_log").mkdir(parents=True)
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": list(features), "writerFeatures": list(features)}
    schema = [
        {"name": name, "type": kind, "nullable": True, "metadata": _mapping(number, (physical or {}).get(name))}
        for number, (name, kind) in enumerate(fields.items(), 1)
    ]
    about = {"id": "0", "format": {"provider": "parquet", "options": {}}, "partitionColumns": [], "createdTime": 0}
    more = {"schemaString": json.dumps({"type": "struct", "fields": schema}), "configuration": dict(configuration or {})}
    actions: list[dict[str, Any]] = [{"protocol": protocol}, {"metaData": {**about, **more}}]
    for name, rows in files.items():
        pq.write_table(rows, root / name, use_deprecated_int96_timestamps=int96)
        add = {"path": name, "partitionValues": {}, "size": (root / name).stat().st_size, "modificationTime": 0, "dataChange": True}
        stats = {"stats": json.dumps({"numRecords": rows.num_rows})}
        actions.append({"add": {**add, **stats, **deletion_vector((deleted or {}).get(name, ()))}})
    (root / "_delta_log" / f"{0:020d}.json").write_text("\n".join(map(json.dumps, actions)))


def _mapping(number: int, physical: str | None) -> dict[str, Any]:
    return {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": physical} if physical else {}


def deletion_vector(rows: Sequence[int]) -> dict[str, Any]:
    """A deletion vector that stands in the log: https://github.com/delta-io/delta/blob/master/PROTOCOL.md#deletion-vector-format"""
    if not rows:
        return {}
    numbers = b"".join(struct.pack("<H", row) for row in rows)
    roaring = struct.pack("<IIHHI", 12346, 1, 0, len(rows) - 1, 16) + numbers
    data = struct.pack("<iqi", 1681511377, 1, 0) + roaring
    described = {"storageType": "i", "pathOrInlineDv": _z85(data), "sizeInBytes": len(data), "cardinality": len(rows)}
    return {"deletionVector": described}


def _z85(data: bytes) -> str:
    data += bytes(-len(data) % 4)
    found = ""
    for at in range(0, len(data), 4):
        number = int.from_bytes(data[at : at + 4], "big")
        found += "".join(_Z85[number // 85**power % 85] for power in range(4, -1, -1))
    return found
