"""Tables and damages of the comparison: equal content on every engine, generated once as a file and bulk-loaded.

Row i (from 1) is a function of i alone, and so is its key in each shape; the damaged rows are drawn with a fixed seed. So the correct
result of every scenario is known, and the results of the tools are checked against it.
"""

from __future__ import annotations

import hashlib
import random
import shutil
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb

from tests.servers import mysql, postgres

Key = tuple[str, ...]
"""The key columns of a row, as text."""

VALUE_COLUMNS = ("name", "note", "amount", "created", "flag")
SPARSE_STEP = 1_000_003
SHOPS = 97
NULL = "\\N"
FLUSH_TIMEOUT = 30
"""Maximum seconds to wait until InnoDB has written its dirty pages."""

FLUSHED_DIRTY_PAGES = 100
"""Number of dirty pages below which InnoDB counts as flushed."""

MYSQL_FAMILY = ("mysql", "mariadb", "replica")


@dataclass(frozen=True)
class Shape:
    """One kind of key: its columns and their types, and the key of row i in DuckDB's SQL (``sql``) and in Python (``key_of``)."""

    name: str
    key: tuple[str, ...]
    types: tuple[str, ...]
    sql: tuple[str, ...]
    key_of: Callable[[int], Key]

    @property
    def table(self) -> str:
        """The table's name on every engine."""
        return f"bench_{self.name}"


def _digits(i: int) -> str:
    return hashlib.md5(str(i).encode()).hexdigest()


def _uuid(i: int) -> str:
    return str(uuid.UUID(_digits(i)))


SHAPES = {
    shape.name: shape
    for shape in (
        Shape("dense", ("id",), ("BIGINT",), ("i",), lambda i: (str(i),)),
        Shape("sparse", ("id",), ("BIGINT",), (f"i * {SPARSE_STEP}",), lambda i: (str(i * SPARSE_STEP),)),
        Shape("text", ("code",), ("VARCHAR(40)",), ("substr(md5(CAST(i AS VARCHAR)), 1, 16)",), lambda i: (_digits(i)[:16],)),
        Shape("uuid", ("uid",), ("VARCHAR(36)",), ("CAST(CAST(md5(CAST(i AS VARCHAR)) AS UUID) AS VARCHAR)",), lambda i: (_uuid(i),)),
        Shape(
            "composite",
            ("shop", "nr"),
            ("INT", "BIGINT"),
            (f"i % {SHOPS} + 1", f"i // {SHOPS} + 1"),
            lambda i: (str(i % SHOPS + 1), str(i // SHOPS + 1)),
        ),
    )
}
_COLUMNS = """\
  'customer ' || substr(md5(CAST(i * 31 AS VARCHAR)), 1, 12) AS name,
  CASE WHEN i % 7 <> 0 THEN 'note ' || substr(md5(CAST(i * 17 AS VARCHAR)), 1, CAST(4 + i % 28 AS INTEGER)) END AS note,
  CAST((i * 7919) % 10000000 AS DECIMAL(12, 0)) / 100 AS amount,
  strftime(TIMESTAMP '2024-01-01 00:00:00' + to_microseconds(i * 1000003), '%Y-%m-%d %H:%M:%S.%f') AS created,
  i % 10 AS flag
"""


@dataclass(frozen=True)
class Damage:
    """One scenario: the table's shape and the rows changed or missing in the target; ``missing`` is a range, both ends included."""

    name: str
    shape: Shape
    changed: tuple[int, ...] = ()
    missing: tuple[int, int] | None = None

    def expected_keys(self) -> set[Key]:
        """Return the keys of the rows that differ."""
        lost = range(self.missing[0], self.missing[1] + 1) if self.missing else ()
        return {self.shape.key_of(i) for i in (*self.changed, *lost)}

    def changed_columns(self) -> dict[Key, str]:
        """Return the column that differs, by the key of the changed row."""
        return {self.shape.key_of(row): ("amount", "name")[index % 2] for index, row in enumerate(self.changed)}

    def jaccard(self, rows: int) -> float:
        """Return |A and B| / |A or B| over rows: a changed row is not in the intersection and twice in the union."""
        lost = self.missing[1] - self.missing[0] + 1 if self.missing else 0
        return (rows - len(self.changed) - lost) / (rows + len(self.changed))


def damages(rows: int) -> list[Damage]:
    """Return the scenarios, in an order in which they can run one after another on one table per shape."""
    draw = random.Random(20240601)
    dense = SHAPES["dense"]
    range_size = max(10, rows // 200)
    first = rows // 3

    def scattered(count: int) -> tuple[int, ...]:
        return tuple(sorted(draw.sample(range(1, rows + 1), count)))

    return [
        Damage("no difference", dense),
        Damage("10 scattered", dense, scattered(10)),
        Damage("0.1 % scattered", dense, scattered(max(1, rows // 1000))),
        Damage(f"hot range of {range_size:,}", dense, tuple(range(first, first + range_size))),
        Damage("missing tail of 10 %", dense, missing=(rows - rows // 10 + 1, rows)),
        Damage("sparse keys, 10 scattered", SHAPES["sparse"], scattered(10)),
        Damage("text keys (UUIDs), 10 scattered", SHAPES["uuid"], scattered(10)),
        Damage("text keys (any), 10 scattered", SHAPES["text"], scattered(10)),
        Damage("composite keys, 10 scattered", SHAPES["composite"], scattered(10)),
    ]


def make_file(directory: Path, shape: Shape, rows: int) -> Path:
    """Return the table's path as tab-separated text; written if it does not exist."""
    path = directory / f"{shape.table}-{rows}.tsv"
    if not path.exists():
        keys = ", ".join(f"{sql} AS {name}" for sql, name in zip(shape.sql, shape.key, strict=True))
        select = f"SELECT {keys},\n{_COLUMNS} FROM range(1, {rows} + 1) AS numbers(i)"
        with duckdb.connect() as connection:
            connection.execute(f"COPY ({select}) TO '{path}' (FORMAT csv, DELIMITER '\t', HEADER false, NULLSTR '{NULL}', QUOTE '')")
        path.chmod(0o644)
    return path


def create_table(shape: Shape, timestamp: str, ending: str = "") -> str:
    """Return the CREATE TABLE statement; ``timestamp`` is the engine's type of a timestamp with microseconds."""
    keys = [f"{name} {kind} NOT NULL" for name, kind in zip(shape.key, shape.types, strict=True)]
    values = ["name VARCHAR(60)", "note VARCHAR(100)", "amount DECIMAL(12,2)", f"created {timestamp}", "flag INT"]
    return f"CREATE TABLE {shape.table} ({', '.join([*keys, *values])}, PRIMARY KEY ({', '.join(shape.key)})){ending}"


def drop(engine: str, url: str, shape: Shape) -> None:
    """Drop the table on a server."""
    connection: Any = mysql.connect(url) if engine in MYSQL_FAMILY else postgres.connect(url)
    with closing(connection):
        cursor = connection.cursor()
        if engine in MYSQL_FAMILY:
            cursor.execute("SET sql_log_bin = 0")
        cursor.execute(f"DROP TABLE IF EXISTS {shape.table}")


def load(engine: str, url: str, shape: Shape, path: Path) -> None:
    """Create the table, replacing an existing one, and load it from the file."""
    loaders = {**dict.fromkeys(MYSQL_FAMILY, _load_mysql), "duckdb": _load_duckdb, "spark": _load_spark}
    loaders.get(engine, _load_postgres)(url, shape, path)


def _load_mysql(url: str, shape: Shape, path: Path) -> None:
    import pymysql

    probe = mysql.connect(url)
    connection = pymysql.connect(
        host="127.0.0.1", port=probe.port, user="root", database="audit", charset="utf8mb4", local_infile=True, autocommit=True
    )
    probe.close()
    with connection, connection.cursor() as cursor:
        cursor.execute("SET sql_log_bin = 0")
        cursor.execute(f"DROP TABLE IF EXISTS {shape.table}")
        cursor.execute(create_table(shape, "DATETIME(6)", " CHARACTER SET utf8mb4"))
        cursor.execute(f"LOAD DATA LOCAL INFILE '{path}' INTO TABLE {shape.table} CHARACTER SET utf8mb4")
        cursor.execute(f"ANALYZE TABLE {shape.table}")


def _load_postgres(url: str, shape: Shape, path: Path) -> None:
    with closing(postgres.connect(url)) as connection:
        cursor = connection.cursor()
        cursor.execute(f"DROP TABLE IF EXISTS {shape.table}")
        cursor.execute(create_table(shape, "TIMESTAMP(6)"))
        with path.open() as file:
            cursor.copy_expert(f"COPY {shape.table} FROM STDIN", file)
        cursor.execute(f"VACUUM ANALYZE {shape.table}")


def _load_duckdb(url: str, shape: Shape, path: Path) -> None:
    with duckdb.connect(url.removeprefix("duckdb:///")) as connection:
        connection.execute(f"DROP TABLE IF EXISTS {shape.table}")
        connection.execute(create_table(shape, "TIMESTAMP"))
        connection.execute(f"COPY {shape.table} FROM '{path}' (FORMAT csv, DELIMITER '\t', HEADER false, NULLSTR '{NULL}', QUOTE '')")


def _load_spark(url: str, shape: Shape, path: Path) -> None:
    """Write a Parquet file beside the text file; Spark reads it by its path."""
    folder = spark_path(path)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    with duckdb.connect() as connection:
        connection.execute(create_table(shape, "TIMESTAMP"))
        connection.execute(f"COPY {shape.table} FROM '{path}' (FORMAT csv, DELIMITER '\t', HEADER false, NULLSTR '{NULL}', QUOTE '')")
        connection.execute(f"COPY {shape.table} TO '{folder}/rows.parquet' (FORMAT parquet)")


def spark_path(path: Path) -> Path:
    """Return the folder of Parquet files that is the table on Spark."""
    return path.with_suffix(".parquet")


def flush_and_warm(engine: str, url: str, shape: Shape) -> None:
    """Make the server write its dirty pages and read the table once, so that neither is part of a tool's time."""
    connection: Any = mysql.connect(url) if engine in MYSQL_FAMILY else postgres.connect(url)
    with closing(connection):
        cursor = connection.cursor()
        if engine in MYSQL_FAMILY:
            cursor.execute("SET GLOBAL innodb_max_dirty_pages_pct = 0")
            for _ in range(FLUSH_TIMEOUT * 5):
                cursor.execute("SHOW GLOBAL STATUS LIKE 'Innodb_buffer_pool_pages_dirty'")
                if int(cursor.fetchone()[1]) < FLUSHED_DIRTY_PAGES:
                    break
                time.sleep(0.2)
            cursor.execute("SET GLOBAL innodb_max_dirty_pages_pct = 90")
        else:
            cursor.execute("CHECKPOINT")
        cursor.execute(f"SELECT COUNT(*), SUM(LENGTH(name)) FROM {shape.table}")
        cursor.fetchall()


def apply_damage(engine: str, url: str, what: Damage, *, undo: bool = False) -> None:
    """Damage the target, or undo the changed rows with ``undo`` (missing rows stay missing).

    Of the changed rows, every second one gets a larger amount and the others a longer name.
    """
    statements = list(_statements(what, undo))
    connection: Any = mysql.connect(url) if engine in MYSQL_FAMILY else postgres.connect(url)
    with closing(connection):
        cursor = connection.cursor()
        if engine in MYSQL_FAMILY:
            cursor.execute("SET sql_log_bin = 0")
        for statement in statements:
            cursor.execute(statement)
        analyze = "ANALYZE TABLE" if engine in MYSQL_FAMILY else "VACUUM ANALYZE"
        cursor.execute(f"{analyze} {what.shape.table}")


def _statements(what: Damage, undo: bool) -> Iterator[str]:
    table = what.shape.table
    amount = f"amount {'-' if undo else '+'} 0.01"
    name = "LEFT(name, 21)" if undo else "CONCAT(name, '!')"
    for column, value, rows in (("amount", amount, what.changed[::2]), ("name", name, what.changed[1::2])):
        for start in range(0, len(rows), 500):
            yield f"UPDATE {table} SET {column} = {value} WHERE {_key_condition(what.shape, rows[start : start + 500])}"
    if what.missing and not undo:
        yield f"DELETE FROM {table} WHERE id BETWEEN {what.missing[0]} AND {what.missing[1]}"


def _key_condition(shape: Shape, rows: Sequence[int]) -> str:
    keys = ["(" + ", ".join(f"'{part}'" if kind.startswith("VARCHAR") else part
                            for part, kind in zip(shape.key_of(i), shape.types, strict=True)) + ")" for i in rows]  # fmt: skip
    return f"({', '.join(shape.key)}) IN ({', '.join(keys)})"
