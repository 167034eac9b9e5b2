"""A Delta table whose log is written by hand: with deletion vectors, renamed and added columns, compactions, and versions restored."""

from __future__ import annotations

import json
import random
import shutil
import uuid
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.deltas import deletion_vector

FEATURES = ["deletionVectors", "columnMapping"]


@dataclass
class Added:
    """A file of a version."""

    action: dict[str, Any]
    rows: pa.Table
    hidden: frozenset[int] = frozenset()

    @property
    def shown(self) -> pa.Table:
        """The rows that are not hidden."""
        return self.rows.take([place for place in range(self.rows.num_rows) if place not in self.hidden])


@dataclass
class History:
    """A table that changes at random, in ways that each come from a seed."""

    root: Path
    chance: random.Random
    versions: list[tuple[dict[str, str], dict[str, Added]]] = field(default_factory=list)
    """Of each version the physical names of its columns, by their names, and its files by path."""
    next_key: int = 0
    oldest: int = 0
    """The first version whose files are all there."""

    def create(self) -> None:
        """Make the table, in place of one that is there: with the paths of its files, and other rows in them."""
        shutil.rmtree(self.root, ignore_errors=True)
        (self.root / "_delta_log").mkdir(parents=True)
        self.versions.clear()
        self.oldest = 0
        self.id = str(uuid.UUID(int=self.chance.getrandbits(128)))
        self._count = 0
        protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": FEATURES, "writerFeatures": FEATURES}
        columns = {"id": "id", "word": "word"}
        self._commit([{"protocol": protocol}, self._metadata(columns)], columns, {})
        self.append(least=100)

    def change(self) -> str:
        """Make the next version, and return by what."""
        ways = {"append": 4, "delete": 4, "update": 3, "compact": 2, "add_column": 1, "rename_column": 1, "restore": 1, "create": 0.3}
        way = self.chance.choices(list(ways), list(ways.values()))[0]
        getattr(self, way)()
        return way

    def append(self, least: int = 1) -> None:
        """Add a file of new keys, of so many at least."""
        columns, files = self._newest()
        first, self.next_key = self.next_key, self.next_key + self.chance.randrange(least, 400)
        self._commit([self._add(columns, files, range(first, self.next_key))], columns, files)

    def delete(self) -> None:
        """Hide some rows of a file, more than are hidden already, or remove a file of which none is left."""
        columns, files = self._newest()
        if not files:
            return self.append()
        path = self.chance.choice(sorted(files))
        added = files.pop(path)
        left = [place for place in range(added.rows.num_rows) if place not in added.hidden]
        gone = frozenset(self.chance.sample(left, min(len(left), self.chance.randrange(1, 60))))
        actions = [_remove(path, added)]
        if len(gone) < len(left):
            actions.append(self._hide(path, files, added, added.hidden | gone))
        return self._commit(actions, columns, files)

    def update(self) -> None:
        """Hide some rows of a file, and write them again with other words."""
        columns, files = self._newest()
        if not files:
            return self.append()
        path = self.chance.choice(sorted(files))
        added = files[path]
        left = [place for place in range(added.rows.num_rows) if place not in added.hidden]
        places = self.chance.sample(left, max(1, len(left) // 3))
        keys = [added.rows["id"][place].as_py() for place in places]
        actions = [_remove(path, added)]
        actions += [self._hide(path, files, added, added.hidden | set(places)), self._add(columns, files, keys)]
        return self._commit(actions, columns, files)

    def compact(self) -> None:
        """Write the rows of several files into one."""
        columns, files = self._newest()
        paths = self.chance.sample(sorted(files), len(files) // 2)
        gone = {path: files.pop(path) for path in paths}
        actions = [_remove(path, added) for path, added in gone.items()]
        if gone:
            rows = pa.concat_tables([added.shown for added in gone.values()], promote_options="default")
            actions.append(self._write(files, rows))
        self._commit(actions, columns, files)

    def add_column(self) -> None:
        """Add a column, which is NULL in files that are older."""
        columns, files = self._newest()
        name = f"more_{len(self.versions)}"
        columns = {**columns, name: f"col-{len(self.versions)}"}
        self._commit([self._metadata(columns)], columns, files)

    def rename_column(self) -> None:
        """Give a column another name, which changes no file."""
        columns, files = self._newest()
        renamed = [name for name in columns if name.startswith("more_")]
        if not renamed:
            return self.add_column()
        old = self.chance.choice(renamed)
        columns = {f"more_{len(self.versions)}" if name == old else name: physical for name, physical in columns.items()}
        return self._commit([self._metadata(columns)], columns, files)

    def restore(self) -> None:
        """Let the newest version be as an older one."""
        columns, files = self.chance.choice(self.versions[self.oldest :])
        now = self._newest()[1]
        actions = [self._metadata(columns)]
        actions += [_remove(path, added) for path, added in now.items()]
        actions += [{"add": added.action} for added in files.values()]
        self._commit(actions, columns, dict(files))

    def vacuum(self) -> None:
        """Delete the files that the newest version does not have; older ones cannot be read from then on."""
        _, files = self._newest()
        for path in self.root.glob("*.parquet"):
            if path.name not in files:
                path.unlink()
        self.oldest = len(self.versions) - 1

    def names(self, place: int) -> Collection[str]:
        """Return the names of the columns of a version."""
        return self.versions[place][0].keys()

    def _newest(self) -> tuple[dict[str, str], dict[str, Added]]:
        columns, files = self.versions[-1]
        return columns, dict(files)

    def _add(self, columns: dict[str, str], files: dict[str, Added], keys: Any) -> dict[str, Any]:
        ids = list(keys)
        values = {"id": pa.array(ids, pa.int64())}
        for physical in columns.values():
            if physical != "id":
                values[physical] = pa.array([f"{physical} {key} {self.chance.random()}" if key % 7 else None for key in ids], pa.string())
        return self._write(files, pa.table(values))

    def _write(self, files: dict[str, Added], rows: pa.Table) -> dict[str, Any]:
        self._count += 1
        path = f"part-{self._count:05}.parquet"
        pq.write_table(rows, self.root / path)
        size = (self.root / path).stat().st_size
        action = {"path": path, "partitionValues": {}, "size": size, "modificationTime": self._count, "dataChange": True}
        files[path] = Added({**action, "stats": json.dumps({"numRecords": rows.num_rows})}, rows)
        return {"add": files[path].action}

    def _hide(self, path: str, files: dict[str, Added], added: Added, hidden: Any) -> dict[str, Any]:
        bare = {name: value for name, value in added.action.items() if name != "deletionVector"}
        files[path] = Added({**bare, **deletion_vector(sorted(hidden))}, added.rows, frozenset(hidden))
        return {"add": files[path].action}

    def _metadata(self, columns: dict[str, str]) -> dict[str, Any]:
        fields = [
            {
                "name": name,
                "type": "long" if name == "id" else "string",
                "nullable": True,
                "metadata": {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": physical},
            }
            for number, (name, physical) in enumerate(columns.items(), 1)
        ]
        schema = json.dumps({"type": "struct", "fields": fields})
        settings = {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": str(len(columns))}
        about = {"id": self.id, "format": {"provider": "parquet", "options": {}}, "partitionColumns": [], "createdTime": 0}
        return {"metaData": {**about, "schemaString": schema, "configuration": settings}}

    def _commit(self, actions: list[dict[str, Any]], columns: dict[str, str], files: dict[str, Added]) -> None:
        log = self.root / "_delta_log" / f"{len(self.versions):020d}.json"
        log.write_text("\n".join(map(json.dumps, actions)) + "\n")
        self.versions.append((columns, files))


def _remove(path: str, added: Added) -> dict[str, Any]:
    """Return the action by which a version loses a file: of the deletion vector that it had."""
    vector = {"deletionVector": added.action["deletionVector"]} if "deletionVector" in added.action else {}
    return {"remove": {"path": path, "deletionTimestamp": 0, "dataChange": True, **vector}}
