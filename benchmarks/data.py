"""Tables and damages of the comparison: equal content on every engine, generated once as a file and bulk-loaded.

Each row is a function of its number, and the damaged rows are drawn with a fixed seed. So the correct result of every scenario is
known, and the results of the tools are checked against it.
"""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb

from benchmarks.shapes import NULL, SHAPES, Key, Shape
from tests.servers import mysql, postgres

SLOW_NETWORK = 0.02
"""Seconds that a slow network adds to each exchange with a server."""

TSV = f"(FORMAT csv, DELIMITER '\t', HEADER false, NULLSTR '{NULL}', QUOTE '')"
"""DuckDB's options of the file."""

FLUSH_TIMEOUT = 30
"""Maximum seconds to wait until InnoDB has written its dirty pages."""

FLUSHED_DIRTY_PAGES = 100
"""Number of dirty pages below which InnoDB counts as flushed."""

MYSQL_FAMILY = ("mysql", "mariadb", "replica")


@dataclass(frozen=True)
class Damage:
    """One scenario: the table's shape and the rows changed or missing in the target; ``missing`` is a range, both ends included."""

    name: str
    shape: Shape
    changed: tuple[int, ...] = ()
    missing: tuple[int, int] | None = None
    delay: float = 0.0
    """Seconds that the network adds to each exchange with a server."""

    def expected_keys(self) -> set[Key]:
        """Return the keys of the rows that differ."""
        lost = range(self.missing[0], self.missing[1] + 1) if self.missing else ()
        return {self.shape.key_of(i) for i in (*self.changed, *lost)}

    def changed_columns(self) -> dict[Key, str]:
        """Return the column that differs, by the key of the changed row."""
        return {self.shape.key_of(row): self.shape.changes[index % 2].column for index, row in enumerate(self.changed)}

    def jaccard(self, rows: int) -> float:
        """Return |A and B| / |A or B| over rows: a changed row is not in the intersection and twice in the union."""
        lost = self.missing[1] - self.missing[0] + 1 if self.missing else 0
        return (rows - len(self.changed) - lost) / (rows + len(self.changed))


def damages(rows: int) -> list[Damage]:
    """Return the scenarios, in an order in which they can run one after another on one table per shape."""
    draw = random.Random(20240601)
    range_size = max(10, rows // 200)
    first = rows // 3

    def scattered(count: int) -> tuple[int, ...]:
        return tuple(sorted(draw.sample(range(1, rows + 1), min(count, rows))))

    def with_differences(name: str, shape: str, *counts: int) -> list[Damage]:
        return [
            Damage(f"{name}, {f'{count:,} scattered' if count else 'no difference'}", SHAPES[shape], scattered(count)) for count in counts
        ]

    dense = SHAPES["dense"]
    return [
        Damage("no difference", dense),
        Damage("10 scattered", dense, scattered(10)),
        Damage("0.1 % scattered", dense, scattered(max(1, rows // 1000))),
        Damage(f"hot range of {range_size:,}", dense, tuple(range(first, first + range_size))),
        Damage(f"slow network ({SLOW_NETWORK * 1000:g} ms), no difference", dense, delay=SLOW_NETWORK),
        Damage(f"slow network ({SLOW_NETWORK * 1000:g} ms), 10 scattered", dense, scattered(10), delay=SLOW_NETWORK),
        Damage("missing tail of 10 %", dense, missing=(rows - rows // 10 + 1, rows)),
        *with_differences("sparse keys", "sparse", 10),
        *with_differences("text keys (UUIDs)", "uuid", 0, 10, 1000),
        *with_differences("text keys (any)", "text", 10),
        *with_differences("composite keys", "composite", 0, 10, 1000),
        *with_differences("30 columns", "wide", 0, 10),
        *with_differences("all columns text", "texts", 0, 10),
        *with_differences("1 % NULL", "nulls", 0, 10),
    ]


def make_file(directory: Path, shape: Shape, rows: int) -> Path:
    """Return the table's path as tab-separated text; written if it does not exist."""
    path = directory / f"{shape.table}-{rows}.tsv"
    if not path.exists():
        with duckdb.connect() as connection:
            connection.execute(f"COPY ({shape.select(rows)}) TO '{path}' {TSV}")
        path.chmod(0o644)
    return path


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
        cursor.execute(shape.create_table("DATETIME(6)", " CHARACTER SET utf8mb4"))
        cursor.execute(f"LOAD DATA LOCAL INFILE '{path}' INTO TABLE {shape.table} CHARACTER SET utf8mb4")
        cursor.execute(f"ANALYZE TABLE {shape.table}")


def _load_postgres(url: str, shape: Shape, path: Path) -> None:
    with closing(postgres.connect(url)) as connection:
        cursor = connection.cursor()
        cursor.execute(f"DROP TABLE IF EXISTS {shape.table}")
        cursor.execute(shape.create_table("TIMESTAMP(6)"))
        with path.open() as file:
            cursor.copy_expert(f"COPY {shape.table} FROM STDIN", file)
        cursor.execute(f"VACUUM ANALYZE {shape.table}")


def _load_duckdb(url: str, shape: Shape, path: Path) -> None:
    with duckdb.connect(url.removeprefix("duckdb:///")) as connection:
        connection.execute(f"DROP TABLE IF EXISTS {shape.table}")
        connection.execute(shape.create_table("TIMESTAMP"))
        connection.execute(f"COPY {shape.table} FROM '{path}' {TSV}")


def _load_spark(url: str, shape: Shape, path: Path) -> None:
    """Write a Parquet file beside the text file; Spark reads it by its path."""
    folder = spark_path(path)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    with duckdb.connect() as connection:
        connection.execute(shape.create_table("TIMESTAMP"))
        connection.execute(f"COPY {shape.table} FROM '{path}' {TSV}")
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

    The changed rows get the two changes of their shape in turn.
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
    for turn, change in enumerate(what.shape.changes):
        rows, value = what.changed[turn::2], change.undo if undo else change.apply
        for start in range(0, len(rows), 500):
            yield f"UPDATE {table} SET {change.column} = {value} WHERE {_key_condition(what.shape, rows[start : start + 500])}"
    if what.missing and not undo:
        yield f"DELETE FROM {table} WHERE id BETWEEN {what.missing[0]} AND {what.missing[1]}"


def _key_condition(shape: Shape, rows: Sequence[int]) -> str:
    keys = ["(" + ", ".join(f"'{part}'" if kind.startswith("VARCHAR") else part
                            for part, kind in zip(shape.key_of(i), shape.types, strict=True)) + ")" for i in rows]  # fmt: skip
    return f"({', '.join(shape.key)}) IN ({', '.join(keys)})"
