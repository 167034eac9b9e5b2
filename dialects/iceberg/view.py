"""The SELECT of DuckDB that shows the rows of one snapshot of an Iceberg table.

Files with the same columns are read together; a row that a file of deletes names is left out. Which files of deletes count for which files
of rows: https://iceberg.apache.org/spec/#scan-planning
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dialects import errors
from dialects.catalogue import Column
from dialects.data_files import Rows
from dialects.duckdb.catalogue import PARQUET_OPTIONS
from dialects.iceberg.layout import (
    LAYOUT_COLUMNS,
    Columns,
    Node,
    Unreadable,
    check_columns,
    find,
    native_type,
    read_layouts,
    refuse_equal_names,
    with_ids,
)  # fmt: skip
from dialects.iceberg.snapshot import (
    ON_SPARK,
    PATH_ID,
    POSITION_ID,
    DeleteFile,
    LakeFile,
    Part,
    Snapshot,
    deletes_everywhere,
    find_field,
    part_of,
    partition_values,
    read_vector,
)  # fmt: skip
from dialects.kinds import Kind

if TYPE_CHECKING:
    from pyiceberg.table import Table

PLACES = ("file_index", "file_row_number")
"""DuckDB's own columns that say where a row stands; a file's column of such a name hides them."""

ANY = -2
"""In place of a file's: a file of positions that does not say that it is of one file of the snapshot alone."""

Ids = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class LakeColumn:
    """A column of a table, and whether it can be read."""

    field: Any
    """As pyiceberg has it."""
    native: str
    """DuckDB's type; empty where it has none."""
    unreadable: str
    """Why it cannot be read, as a clause; empty if it can."""

    @property
    def name(self) -> str:
        """Its name."""
        return str(self.field.name)


@dataclass(frozen=True, slots=True)
class Group:
    """Files with the same columns, of which the same files of deletes may hide rows."""

    layout: tuple[Node, ...]
    places: Sequence[int]
    """Where they stand in the snapshot."""
    equality: Sequence[tuple[Ids, bool]]
    """The tables of deleted values that count for them: the ids of these columns, and whether they count whatever a file's partition."""


@dataclass(slots=True)
class Reading:
    """What statements read of one snapshot. What deletes hide is read with the first rows that are."""

    columns: Sequence[LakeColumn]
    groups: Sequence[Group]
    knows_deletes: bool = False
    hidden: str = ""
    """The table, as SQL text, of the rows that files of positions and vectors hide; empty if there are none."""
    equality: Mapping[tuple[Ids, bool], str] = field(default_factory=dict)
    """The tables of deleted values, as SQL text."""
    partitions: Mapping[Part, int] = field(default_factory=dict)
    """A number for each partition."""


class Viewer:
    """Makes what a session reads of one snapshot of a table."""

    def __init__(
        self, session: Any, table: Table, name: str, snapshot: Snapshot, paths: Callable[[Sequence[str]], Sequence[str]], prefix: str
    ) -> None:
        """``paths`` makes of files' locations what DuckDB opens; ``prefix`` begins the names of temporary tables."""
        self.session = session
        self.table = table
        self.name = name
        self.snapshot = snapshot
        self.paths = paths
        self.prefix = prefix
        self.quote = session.dialect.names.quote
        self.literal = session.dialect.names.string_literal
        self.sql = Columns(self.quote, self.literal)

    def read(self, layouts: Sequence[tuple[Node, ...]] | None = None) -> Reading:
        """Read the files' columns, unless ``layouts`` are those of each. Raises StatementRefused for what would be read wrongly."""
        schema = self.snapshot.schema
        check_columns(self.name, schema.fields)
        if layouts is None:
            layouts = self.layouts([file.path for file in self.snapshot.files])
        mapping = self.table.name_mapping()
        try:
            layouts = [with_ids(layout, mapping) for layout in layouts]
            for layout in set(layouts):
                refuse_equal_names([node.name for node in layout])
        except Unreadable as error:
            raise errors.StatementRefused(f"{self.name}: {error}; {ON_SPARK}") from error
        partitions: dict[Part, int] = {}
        every: list[LakeFile | DeleteFile] = [*self.snapshot.files, *self.snapshot.deletes]
        for one in every:
            partitions.setdefault(part_of(one), len(partitions))
        reading = Reading([], [], partitions=partitions)
        sets = self._equality_sets()
        reading.groups = list(self._group(layouts, sets))
        reading.columns = [self._column(column, reading.groups) for column in schema.fields]
        for number in {number for ids, _ in sets for number in ids}:
            self.equality_column(number)
        taken = {node.name.lower() for group in reading.groups for node in group.layout}.intersection(PLACES)
        if taken:
            raise errors.StatementRefused(
                f"{self.name} has a column {taken.pop()}, a name that DuckDB needs to read this table; {ON_SPARK}"
            )
        return reading

    def select(self, reading: Reading, places: Iterable[int] | None = None) -> str:
        """Return the SELECT of the readable columns, of all files or of those at some places of the snapshot."""
        self._read_deletes(reading)
        wanted = None if places is None else set(places)
        return self._united(reading, [self._select_group(reading, group, wanted) for group in reading.groups])

    def select_of_files(self, reading: Reading, number: str, rows: Rows) -> str:
        """Return the SELECT of the readable columns and of the place of each row's file: of all rows that files hold, whatever hides them,
        or of those that deletes hide."""
        if rows == "all":
            return self._united(reading, [self._select_of_group(group, reading, "", number) for group in reading.groups], number)
        self._read_deletes(reading)
        touched = {int(row[0]) for row in self.session.query_here(f"SELECT DISTINCT file FROM {reading.hidden}")} if reading.hidden else ()
        selects = []
        for group in reading.groups:
            places = [place for place in group.places if group.equality or place in touched]
            if places:
                some = Group(group.layout, places, group.equality)
                hidden = " OR ".join(f"EXISTS ({one})" for one in self._hidden(reading, some))
                selects.append(self._select_of_group(some, reading, hidden, number))
        return self._united(reading, selects, number)

    def _united(self, reading: Reading, selects: Sequence[str], number: str = "") -> str:
        if shown := [one for one in selects if one]:
            return " UNION ALL ".join(shown)
        empty = [f"CAST(NULL AS {one.native}) AS {self.quote(one.name)}" for one in readable(reading)]
        empty += [f"CAST(NULL AS BIGINT) AS {number}"] if number else []
        return f"SELECT {', '.join(empty)} WHERE 1 = 0"

    def find_places(self, reading: Reading, condition: str) -> set[int]:
        """Return the places of the files that have rows which are not deleted and fulfil a condition on the table's columns."""
        self._read_deletes(reading)
        places: set[int] = set()
        for group in reading.groups:
            rows = self._select_group(reading, group, None, "auditor_place")
            found = self.session.query_here(f"SELECT DISTINCT t.auditor_place FROM ({rows}) AS t WHERE {condition}")
            places.update(int(row[0]) for row in found)
        return places

    def _select_group(self, reading: Reading, group: Group, wanted: set[int] | None, number: str = "") -> str:
        """Return the SELECT of the rows of a group that nothing hides; '' if none of its files is wanted."""
        places = [place for place in group.places if wanted is None or place in wanted]
        if not places:
            return ""
        some = Group(group.layout, places, group.equality)
        shown = " AND ".join(f"NOT EXISTS ({one})" for one in self._hidden(reading, some))
        return self._select_of_group(some, reading, shown, number)

    def _select_of_group(self, group: Group, reading: Reading, condition: str, number: str) -> str:
        values = [f"{self._value(one.field, group)} AS {self.quote(one.name)}" for one in readable(reading)]
        if number:
            values.append(f"{self._of_file(group.places)} AS {number}")
        return f"SELECT {', '.join(values)} FROM {self._source(group.places)} AS f{f' WHERE {condition}' if condition else ''}"

    def _hidden(self, reading: Reading, group: Group) -> list[str]:
        """Return the SELECTs of what hides a row of a group, each of which has rows if it does."""
        own = f"SELECT 1 FROM {reading.hidden} AS d WHERE d.file = {self._of_file(group.places)} AND d.row = f.file_row_number"
        return ([own] if reading.hidden else []) + [self._equal(reading, key, group) for key in group.equality]

    def layouts(self, locations: Sequence[str]) -> list[tuple[Node, ...]]:
        """Return the columns of files, as each says them."""
        if not locations:
            return []
        paths = self.paths(locations)
        listed = ", ".join(self.literal(_escaped(path)) for path in paths)
        found = read_layouts(self.session.query_here(f"SELECT {LAYOUT_COLUMNS} FROM parquet_schema([{listed}])"))
        return [found[path] for path in paths]

    def _source(self, places: Sequence[int]) -> str:
        return self._reader([self.snapshot.files[place].path for place in places])

    def _reader(self, locations: Sequence[str]) -> str:
        """Return the table function that reads files of one layout by their own columns, and nothing by their folders."""
        listed = ", ".join(self.literal(_escaped(path)) for path in self.paths(locations))
        return f"READ_PARQUET([{listed}], hive_partitioning = false, binary_as_string = false, {PARQUET_OPTIONS})"

    def _of_file(self, values: Sequence[int]) -> str:
        """Return SQL of the number, of these, that stands at the place of a row's file."""
        if len(set(values)) == 1:
            return f"CAST({values[0]} AS BIGINT)"
        return f"LIST_EXTRACT(CAST([{', '.join(map(str, values))}] AS BIGINT[]), CAST(f.file_index AS BIGINT) + 1)"

    # columns

    def _column(self, column: Any, groups: Sequence[Group]) -> LakeColumn:
        native = native_type(column.field_type, self.quote)
        if not native:
            return LakeColumn(column, "", "read by Spark only")
        try:
            for group in groups:
                self._value(column, group)
        except Unreadable as error:
            return LakeColumn(column, native, str(error))
        return LakeColumn(column, native, "")

    def _value(self, column: Any, group: Group) -> str:
        """Return the value of a column in files of a group. Raises Unreadable."""
        if find(column.field_id, group.layout) is not None:
            return self.sql.value(column, group.layout, "f")
        by_place = partition_values(self.table, self.snapshot, column.field_id)
        values = [by_place.get(place) if place in by_place else column.initial_default for place in group.places]
        if all(value is None for value in values):
            return self.sql.missing(column)
        texts = [self.sql.constant(column.field_type, value) for value in values]
        if len(set(texts)) == 1:
            return texts[0]
        return f"LIST_EXTRACT([{', '.join(texts)}], CAST(f.file_index AS BIGINT) + 1)"

    # deletes

    def _read_deletes(self, reading: Reading) -> None:
        """Read what deletes hide, unless that was done."""
        if not reading.knows_deletes:
            reading.hidden = self._hide_positions(reading)
            reading.equality = {key: self._delete_values(key, found, reading) for key, found in self._equality_sets().items()}
            reading.knows_deletes = True

    def _group(self, layouts: Sequence[tuple[Node, ...]], sets: Mapping[tuple[Ids, bool], Sequence[DeleteFile]]) -> Iterable[Group]:
        latest: dict[tuple[Any, ...], int] = {}
        for key, found in sets.items():
            for one in found:
                about = (key, None if key[1] else part_of(one))
                latest[about] = max(one.sequence, latest.get(about, 0))
        places: dict[tuple[Any, ...], list[int]] = {}
        for place, (file, layout) in enumerate(zip(self.snapshot.files, layouts, strict=True)):
            own = part_of(file)
            counting = tuple(key for key in sets if latest.get((key, None if key[1] else own), 0) > file.sequence)
            places.setdefault((layout, counting), []).append(place)
        return [Group(layout, found, counting) for (layout, counting), found in places.items()]

    def _equality_sets(self) -> dict[tuple[Ids, bool], list[DeleteFile]]:
        """Return files of deleted values by the ids of their columns, and by whether they count whatever a file's partition."""
        sets: dict[tuple[Ids, bool], list[DeleteFile]] = {}
        for file in self.snapshot.deletes:
            if file.kind == "equality":
                sets.setdefault((tuple(sorted(file.equality_ids)), deletes_everywhere(self.table, file)), []).append(file)
        return sets

    def _delete_values(self, key: tuple[Ids, bool], files: Sequence[DeleteFile], reading: Reading) -> str:
        """Make the table of the values of deleted rows, with the highest number of a commit that deletes them, and return its name."""
        columns = [self.equality_column(number) for number in key[0]]
        layouts = self.layouts([file.path for file in files])
        selects = []
        for layout in dict.fromkeys(layouts):
            these = [file for file, own in zip(files, layouts, strict=True) if own == layout]
            try:
                known = with_ids(layout, self.table.name_mapping())
                values = [f"{self._delete_value(column, known)} AS k{place}" for place, column in enumerate(columns)]
            except Unreadable as error:
                raise errors.StatementRefused(f"{self.name}: a file of deletes is not read: {error}; {ON_SPARK}") from error
            numbers = self._of_file([file.sequence for file in these])
            parts = self._of_file([reading.partitions[part_of(file)] for file in these])
            own = self._reader([file.path for file in these])
            selects.append(f"SELECT {', '.join(values)}, {numbers} AS seq, {'0' if key[1] else parts} AS part FROM {own} AS f")
        names = ", ".join(f"k{place}" for place in range(len(columns)))
        made: str = self.quote(f"{self.prefix} equal {'whole' if key[1] else 'part'} {' '.join(map(str, key[0]))}")
        sql = f"SELECT {names}, part, MAX(seq) AS seq FROM ({' UNION ALL '.join(selects)}) AS d GROUP BY {names}, part"
        self.session.execute_here(f"CREATE OR REPLACE TEMPORARY TABLE {made} AS {sql}")
        return made

    def _delete_value(self, column: Any, layout: tuple[Node, ...]) -> str:
        if find(column.field_id, layout) is None:
            raise Unreadable(f"it has no values of {column.name}")
        return self.sql.value(column, layout, "f")

    def equality_column(self, number: int) -> Any:
        """Return a column by whose values rows are deleted, of its id. Raises StatementRefused for one that is not read."""
        column = find_field(self.table, self.snapshot.schema, number)
        kind = "inside of another" if column is None else str(column.field_type)
        if (
            column is None
            or not native_type(column.field_type, self.quote)
            or not column.field_type.is_primitive
            or kind in ("float", "double")
        ):
            raise errors.StatementRefused(
                f"{self.name} has rows deleted by the values of a column {column.name if column else number} that is {kind},"
                f" which is not read; rewrite its files, or {ON_SPARK}"
            )
        return column

    def _equal(self, reading: Reading, key: tuple[Ids, bool], group: Group) -> str:
        """Return the SELECT of what deletes a row by its values."""
        files = [self.snapshot.files[place] for place in group.places]
        same = []
        for place, number in enumerate(key[0]):
            try:
                value = self._value(self.equality_column(number), group)
            except Unreadable as error:
                raise errors.StatementRefused(
                    f"{self.name}: a column by which rows are deleted is not read: {error}; {ON_SPARK}"
                ) from error
            same.append(f"d.k{place} IS NOT DISTINCT FROM {value}")
        later = f"d.seq > {self._of_file([file.sequence for file in files])}"
        part = "" if key[1] else f" AND d.part = {self._of_file([reading.partitions[part_of(file)] for file in files])}"
        return f"SELECT 1 FROM {reading.equality[key]} AS d WHERE {' AND '.join(same)} AND {later}{part}"

    def _hide_positions(self, reading: Reading) -> str:
        """Make the table of the rows that vectors and files of positions hide, by their files' places, and return its name."""
        import pyarrow as pa

        files = self.snapshot.files
        by_path = {file.path: place for place, file in enumerate(files)}
        vectors = [one for one in self.snapshot.deletes if one.kind == "vector" and self._reaches(one, by_path.get(one.referenced))]
        positions = [one for one in self.snapshot.deletes if one.kind == "positions"]
        if not vectors and not positions:
            return ""
        made: str = self.quote(f"{self.prefix} hidden")
        connection = self.session.connection
        self.session.execute_here(f"CREATE OR REPLACE TEMPORARY TABLE {made} (file BIGINT, row BIGINT)")
        with_vector = {one.referenced for one in vectors}  # which stands for all earlier files of positions
        if len(with_vector) != len(vectors):
            raise errors.StatementRefused(f"{self.name} has two deletion vectors of one file, of which one counts; {ON_SPARK}")
        for one in vectors:
            rows = read_vector(self.table.io, one)
            place = by_path[one.referenced]
            self._insert(made, pa.table({"file": pa.array([place] * len(rows), pa.int64()), "row": pa.array(rows, pa.int64())}))
        if positions:
            about = [(at, file) for at, file in enumerate(files) if file.path not in with_vector]
            known = pa.table(
                {
                    "path": pa.array([file.path for _, file in about], pa.string()),
                    "file": pa.array([at for at, _ in about], pa.int64()),
                    "seq": pa.array([file.sequence for _, file in about], pa.int64()),
                    "part": pa.array([reading.partitions[part_of(file)] for _, file in about], pa.int64()),
                }
            )
            connection.register("auditor_known_files", known)
            try:
                for sql in self._select_positions(positions, reading, by_path):
                    self.session.execute_here(f"INSERT INTO {made} {sql}")
            finally:
                connection.unregister("auditor_known_files")
        return made

    def _reaches(self, file: DeleteFile, place: int | None) -> bool:
        return place is not None and self.snapshot.files[place].sequence <= file.sequence

    def _select_positions(self, files: Sequence[DeleteFile], reading: Reading, by_path: Mapping[str, int]) -> Iterable[str]:
        """Yield the SELECTs of the places of rows in files of positions."""
        layouts = self.layouts([file.path for file in files])
        for layout in dict.fromkeys(layouts):
            these = [file for file, own in zip(files, layouts, strict=True) if own == layout]
            columns = []
            for number, name in ((PATH_ID, "file_path"), (POSITION_ID, "pos")):
                try:
                    node = find(number, layout) or next((one for one in layout if one.id is None and one.name == name), None)
                except Unreadable:
                    node = None
                if node is None or node.native != {"pos": "BIGINT"}.get(name, "VARCHAR"):
                    raise errors.StatementRefused(f"{self.name}: a file of deletes has no column {name} as it should; {ON_SPARK}")
                columns.append(f"f.{self.quote(node.name)}")
            numbers, own = self._of_file([file.sequence for file in these]), self._reader([file.path for file in these])
            parts = self._of_file([reading.partitions[part_of(file)] for file in these])
            only = self._of_file([by_path.get(file.referenced, ANY) for file in these])
            yield (
                f"SELECT DISTINCT k.file, {columns[1]} FROM {own} AS f JOIN auditor_known_files AS k"
                f" ON k.path = {columns[0]} AND k.part = {parts} AND k.seq <= {numbers} AND ({only}) IN ({ANY}, k.file)"
            )

    def _insert(self, table: str, rows: Any) -> None:
        self.session.connection.register("auditor_vector_rows", rows)
        try:
            self.session.execute_here(f"INSERT INTO {table} SELECT file, row FROM auditor_vector_rows")
        finally:
            self.session.connection.unregister("auditor_vector_rows")


def _escaped(path: str) -> str:
    """Return a path as DuckDB takes it, which would look for several files by some characters."""
    return path if "://" in path else "".join(f"[{one}]" if one in "*?[" else one for one in path)


def readable(reading: Reading) -> list[LakeColumn]:
    """Return the columns that statements read."""
    return [column for column in reading.columns if not column.unreadable]


def describe_columns(reading: Reading, kind: Callable[[str], Kind | None]) -> tuple[Column, ...]:
    """Return the table's columns; one that is not read has no kind, and its type says why."""
    columns = []
    for column in reading.columns:
        native = f"{column.native or column.field.field_type}{f' ({column.unreadable})' if column.unreadable else ''}"
        columns.append(Column(column.name, native, None if column.unreadable else kind(native), nullable=True))
    return tuple(columns)
