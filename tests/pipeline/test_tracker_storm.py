"""A storm of statements that change tables, read through a schema tracker whose process is killed at each step of its protocol."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.binlog import LiveLog
from tests.live import Engines, engine_params
from tests.pipeline.tracked import METADATA, Killed, TrackedLog, as_rows, empty_server
from tests.servers import tracker

pytestmark = [pytest.mark.slow, pytest.mark.alone]

STEPS = ("noted", "applied", "recorded", "emptied", "restored")
NAMES = ("alpha", "beta", "gamma", "delta", "größe", "a`b", "select", "x y")
LABELS = ("red", "green", "it's", "blau,grün")
ROUNDS = 40
Row = dict[str, str | None]


class Tables:
    """The tables ``t`` and ``u`` of the source, as the statements so far should have left them, and the rows that were written."""

    def __init__(self, seed: int) -> None:
        self.choice = random.Random(seed)
        self.columns: dict[str, list[tuple[str, str]]] = {}
        self.statements: list[str] = []
        self.rows: list[Row] = []
        self.changes: Counter[str] = Counter()
        self._last = 0

    def take(self) -> tuple[list[str], list[Row]]:
        """Return the statements and rows since the last call."""
        found = self.statements, self.rows
        self.statements, self.rows = [], []
        return found

    def create(self, table: str) -> None:
        """Make a table anew."""
        names = self.choice.sample(NAMES, 5)
        self.columns[table] = [(name, self._type()) for name in names]
        defined = ", ".join(f"{_quoted(name)} {kind}" for name, kind in self.columns[table])
        self.statements += [f"DROP TABLE IF EXISTS {table}", f"CREATE TABLE {table} (id int PRIMARY KEY, {defined})"]

    def write(self, table: str) -> None:
        """Insert a row whose values belong to their columns alone, and delete it at times."""
        self._last += 1
        row: Row = {"id": str(self._last), **{name: self._value(name, kind) for name, kind in self.columns[table]}}
        names, values = ", ".join(map(_quoted, row)), ", ".join("NULL" if one is None else _text(one) for one in row.values())
        self.statements.append(f"INSERT INTO {table} ({names}) VALUES ({values})")
        self.rows.append(row)
        if self.choice.random() < 0.3:
            self.statements.append(f"DELETE FROM {table} WHERE id = {self._last}")
            self.rows.append(row)

    def change(self) -> None:
        """Change a table in some way."""
        table = self.choice.choice("tu")
        kinds = ("swap", "rename", "add", "drop", "modify", "exchange", "create", "copy", "truncate", "beside")
        kind = self.choice.choice(kinds)
        self.changes[kind] += 1
        if kind == "create":
            self.create(table)
        elif kind == "exchange":
            self.statements.append("RENAME TABLE t TO tmp, u TO t, tmp TO u")
            self.columns["t"], self.columns["u"] = self.columns["u"], self.columns["t"]
        elif kind == "truncate":
            self.statements.append(f"TRUNCATE TABLE {table}")
        elif kind == "beside":
            self.statements += ["CREATE OR REPLACE VIEW seen AS SELECT 1", "CREATE TABLE IF NOT EXISTS beside.t (id int)"]
            self.statements += [f"ALTER TABLE beside.t ADD COLUMN c{len(self.rows)}_{self._last} int"]
            self._last += 1
        elif kind == "copy":
            self.statements.append(f"CREATE TABLE _{table}_gho LIKE {table}")
            self._alter(f"_{table}_gho", table, self.choice.choice(("swap", "rename", "add")))
            self.statements += [f"RENAME TABLE {table} TO _{table}_del, _{table}_gho TO {table}", f"DROP TABLE _{table}_del"]
        else:
            self._alter(table, table, kind)

    def _alter(self, named: str, table: str, kind: str) -> None:
        columns = self.columns[table]
        number = self.choice.randrange(len(columns))
        name, old = columns[number]
        free = [one for one in NAMES if one not in [column for column, _ in columns]]
        alter = f"ALTER TABLE {named} "
        if kind == "swap":
            other = (number + 1) % len(columns)
            columns[number], columns[other] = (columns[other][0], old), (name, columns[other][1])
            one, two = _quoted(name), _quoted(columns[number][0])
            self.statements.append(alter + f"RENAME COLUMN {one} TO {two}, RENAME COLUMN {two} TO {one}")
        elif kind == "rename" and free:
            columns[number] = free[0], old
            self.statements.append(alter + f"CHANGE {_quoted(name)} {_quoted(free[0])} {old}")
        elif kind == "add" and free:
            columns.insert(0, (free[0], self._type()))
            self.statements.append(alter + f"ADD COLUMN {_quoted(free[0])} {columns[0][1]} AFTER id /* , FIRST */")
        elif kind == "drop" and len(columns) > 2:
            del columns[number]
            self.statements.append(alter + f"DROP COLUMN {_quoted(name)}")
        elif kind == "modify":
            columns[number] = name, self._like(old)
            self.statements.append(alter + f"MODIFY {_quoted(name)} {columns[number][1]}")

    def _type(self) -> str:
        return self.choice.choice(("varchar(20)", "int unsigned", "int", self._enum(), "text CHARACTER SET latin1"))

    def _enum(self) -> str:
        return f"enum({', '.join(map(_text, self.choice.sample(LABELS, 4)))})"

    def _like(self, kind: str) -> str:
        if kind.startswith("int"):
            return "int" if "unsigned" in kind else "int unsigned"
        return self._enum() if kind.startswith("enum") else f"varchar({self.choice.randrange(20, 90)})"

    def _value(self, name: str, kind: str) -> str | None:
        if self.choice.random() < 0.1:
            return None
        if kind.startswith("int"):
            return str(4_000_000_000 + self._last if "unsigned" in kind else -self._last)
        return self.choice.choice(LABELS) if kind.startswith("enum") else f"{name}:ü"


@pytest.fixture(params=engine_params(*METADATA))
def stormy(request: pytest.FixtureRequest, engines: Engines, tmp_path: Path) -> Iterator[TrackedLog]:
    """A server whose log names no columns, and a tracker beside it."""
    name = request.param
    log = LiveLog(engines.live(name).url)
    url = engines.companion(f"{name} tracker", tracker.START[name]).url.removesuffix("audit")
    empty_server(url)
    log.run(*(f"DROP TABLE IF EXISTS {one}" for one in ("t", "u", "tmp", "_t_gho", "_u_gho", "_t_del", "_u_del")))
    log.run("DROP DATABASE IF EXISTS beside", "CREATE DATABASE beside")
    with log.globally(binlog_row_metadata=METADATA[name]):
        made = TrackedLog(tmp_path, log, url, "t, u")
        yield made
        made.close()
    log.run("DROP DATABASE beside", "DROP VIEW IF EXISTS seen")


def test_statements_and_kills_at_each_step(stormy: TrackedLog) -> None:
    tables, killed, kills, rows = Tables(7), Killed(stormy), Counter[str](), 0
    for table in "tu":
        tables.create(table)
    stormy.log.run(*tables.take()[0])
    stormy.at = stormy.here()
    for step in ("owned", "created", "dumped", "begun"):
        kills[step] += killed.plan_until(stormy.at, stormy.plan(), step) == "killed"
    assert stormy.read() == []
    began, replayed = time.monotonic(), 0
    for number in range(ROUNDS):
        for _ in range(tables.choice.randrange(1, 5)):
            tables.change()
            for table in tables.choice.choices("tu", k=tables.choice.randrange(4)):
                tables.write(table)
        statements, wanted = tables.take()
        stormy.log.run("SET NAMES utf8mb4", *statements)
        stormy.restart()
        start, end = stormy.at, stormy.plan()
        for _ in range(4):
            step, count = tables.choice.choice(STEPS), tables.choice.randrange(1, 4)
            kills[step] += killed.plan_until(start, end, step, count) == "killed"
        for again in range(2):  # Spark plans a batch again that it has not committed
            stormy.restart()
            stormy.at = start
            assert as_rows(stormy.read_batch(end)) == wanted, (number, again, statements)
        rows, replayed = rows + len(wanted), replayed + len(statements) - len(wanted)
    killed.close()
    seconds = time.monotonic() - began
    changes = ", ".join(f"{count} {what}" for what, count in sorted(tables.changes.items()))
    print(f"{stormy.log.url.partition(':')[0]}: {replayed} statements ({changes}), {rows} rows, {seconds:.0f} s; kills: {dict(kills)}")
    assert all(kills[step] for step in (*STEPS, "owned", "created", "dumped", "begun")), kills


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
