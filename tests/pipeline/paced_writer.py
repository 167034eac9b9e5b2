"""A process that writes into a table at a steady pace: ``python -m tests.pipeline.paced_writer URL TABLE KEYS RATE SEED FILE FIRST``.

It writes until its standard input ends. FILE gets a line for each write: when it began (monotonic seconds), and how long it took.
Its keys begin with FIRST.
"""

from __future__ import annotations

import random
import select
import sys
import time
from contextlib import closing, suppress
from pathlib import Path

import pymysql

from tests.servers import mysql


def main(url: str, table: str, keys: int, rate: float, seed: int, path: str, first: int) -> None:
    """Write at the pace, without making up for what a wait cost."""
    random_ = random.Random(seed)
    with closing(mysql.connect(url)) as connection, connection.cursor() as cursor, Path(path).open("w", buffering=1) as file:
        cursor.execute("SET SESSION innodb_lock_wait_timeout = 5")
        due = time.monotonic()
        while not select.select([sys.stdin], [], [], 0)[0]:
            due = max(due + 1 / rate, time.monotonic() - 1)
            time.sleep(max(0.0, due - time.monotonic()))
            key = first + random_.randrange(keys * 11 // 10)
            began = time.monotonic()
            with suppress(pymysql.err.OperationalError):  # a deadlock with the other writer
                cursor.execute(_statement(random_, table, key, first))
            file.write(f"{began} {time.monotonic() - began}\n")


def _statement(random_: random.Random, table: str, key: int, first: int) -> str:
    match random_.randrange(10):
        case 0:
            return f"DELETE FROM {table} WHERE id = {key}"
        case 1:
            return f"INSERT IGNORE INTO {table} (id, item, price) VALUES ({key}, 'inserted', 1)"
        case 2:
            return f"UPDATE IGNORE {table} SET id = {random_.randrange(first, key + 1)} WHERE id = {key}"
        case _:
            return f"UPDATE {table} SET item = 'changed {random_.random()}', price = price + 1 WHERE id = {key}"


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4]), int(sys.argv[5]), sys.argv[6], int(sys.argv[7]))
