"""What a pipeline does to a target: rows are loaded and merged, columns change, and merges are killed; the target must be the source.

There is no source: the events of a table are made here, so that what the target must hold is known in Python.
"""

from __future__ import annotations

import datetime as dt
import itertools
import json
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from auditor import config
from auditor.durations import durations
from auditor.errors import MergeFailed, ResultError
from auditor.model import Verdict
from auditor.pipeline.events import ARROW_SCHEMA, ColumnSchema, EventKind, TableSchema, source_kind
from auditor.pipeline.folders import LocalFolder
from auditor.pipeline.merge.load_tasks import close_sessions
from auditor.pipeline.merge.loader import Loader
from auditor.pipeline.merge.positions import Where
from auditor.pipeline.stage_task import TableRules, stage_task
from auditor.pipeline.staging import Staging
from auditor.service.certify.book import Book, Meter, listed
from auditor.service.certify.scratch import Scratch
from auditor.service.running import audit_tables
from auditor.service.selftest import Differs
from auditor.store import open_store, pipelines
from dialects import Kind

PIPELINE, TARGET, DATABASE, TABLE = "certify", "target", "certify", "orders"
COLUMNS = {
    "id": "bigint",
    "item": "varchar(40)",
    "amount": "decimal(12,2)",
    "ratio": "double",
    "seen": "datetime(6)",
    "day": "date",
    "data": "varbinary(20)",
    "small": "int",
}
KEY = "id"
BEGAN = dt.datetime(2024, 2, 28, 23, 59, 58, tzinfo=dt.UTC)
STEPS = ("stage", "load", "merge", "merged", "commit", "committed", "report")
"""The steps of a merge at which it is killed."""

COMMITTED = ("committed", "report")
"""The steps after which the target holds what was merged."""

Row = dict[str, Any]


@dataclass(slots=True)
class Table:
    """A source's table: its rows as they are now, and the events that were not staged yet."""

    columns: dict[str, str] = field(default_factory=lambda: dict(COLUMNS))
    """The types of its columns, as MySQL writes them."""
    rows: dict[int, Row] = field(default_factory=dict)
    position: int = 1
    events: list[dict[str, object]] = field(default_factory=list)

    @property
    def schema(self) -> TableSchema:
        """The table's schema now."""
        columns = [ColumnSchema(name, kind, name != KEY, "utf8mb4" if "char" in kind else None) for name, kind in self.columns.items()]
        return TableSchema(DATABASE, TABLE, tuple(columns), (KEY,))

    @property
    def kinds(self) -> dict[str, Kind]:
        """The kinds of its columns."""
        return {column.name: kind for column in self.schema.columns if (kind := source_kind(column))}

    def write(self, changes: Sequence[tuple[int | None, Row | None]]) -> None:
        """Write one transaction: each change says which row there was, and which there is."""
        schema, self.position = self.schema, self.position + 1
        if not any(event["schema_id"] == schema.id for event in self.events):
            self.events.append(self._event("schema", -1, None, [schema.to_json()], schema.id))
        for number, (key, row) in enumerate(changes):
            before = self.rows.pop(key) if key is not None else None
            if row is not None:
                self.rows[row[KEY]] = row
            kind: EventKind = "insert" if before is None else "delete" if row is None else "update"
            self.events.append(self._event(kind, number, self._texts(before), self._texts(row), schema.id))

    def alter(self, columns: dict[str, str], changed: Callable[[Row], Row], *ops: Mapping[str, Any]) -> None:
        """Change the table by one statement, which has these operations; ``changed`` returns an existing row as it is afterwards."""
        self.position += 1
        body: dict[str, Any] = {"ops": list(ops)}
        if any(op["op"] == "clear" for op in ops):
            body["advances"] = True
        content = json.dumps({"last": self.position, "events": 0, "body": body})
        self.events.append(self._event("change", -1, None, [content], ""))
        self.columns = columns
        self.rows = {key: changed(row) for key, row in self.rows.items()}

    def take(self) -> pa.RecordBatch:
        """Return the events that were not taken yet."""
        events, self.events = self.events, []
        return pa.RecordBatch.from_pylist(events, schema=ARROW_SCHEMA)

    def make(self, key: int, version: int) -> Row:
        """Return a row whose values follow from its key and version; every seventh value is NULL."""
        number = key * 31 + version
        values: Row = {KEY: key}
        for place, (name, kind) in enumerate(self.kinds.items()):
            if name != KEY:
                values[name] = None if (number + place) % 7 == 0 else _value(kind, number)
        return values

    def _event(self, kind: EventKind, row: int, before: object, after: object, schema_id: str) -> dict[str, object]:
        names = {"database": DATABASE, "table": TABLE, "schema_id": schema_id}
        place = {"gtid": f"0-1-{self.position}", "position": self.position, "row": row, "time": BEGAN + dt.timedelta(seconds=self.position)}
        return {"kind": kind, **names, **place, "before": before, "after": after}

    def _texts(self, row: Row | None) -> list[str | None] | None:
        return None if row is None else [_text(kind, row[name]) for name, kind in self.kinds.items()]


def _value(kind: Kind, number: int) -> Any:
    match kind.name:
        case "integer":
            return number - 1000
        case "decimal":
            return Decimal(number).scaleb(-(kind.scale or 0))
        case "float64":
            return number / 8
        case "timestamp":
            return (BEGAN + dt.timedelta(seconds=number, microseconds=number)).replace(tzinfo=None)
        case "date":
            return (BEGAN + dt.timedelta(days=number % 5000)).date()
        case "binary":
            return number.to_bytes(8, "big")
    return f"é😀 {number} '\\"


def _text(kind: Kind, value: Any) -> str | None:
    """Return a value as an event has it."""
    if value is None:
        return None
    match kind.name:
        case "decimal":
            return f"{value:.{kind.scale or 0}f}"
        case "timestamp":
            return str(value.isoformat(" ", "microseconds"))
        case "binary":
            return str(value.hex())
        case "float64":
            return f"{value:g}" if value == int(value) else repr(value)
    return str(value)


class Pipeline:
    """A pipeline of one table into the scratch schema, without Spark: what its tasks do is done in this process."""

    def __init__(self, folder: Path, here: Scratch, meter: Meter) -> None:
        (folder / "url").write_text(here.url, encoding="utf-8")
        url, staging = f"${{file:{folder / 'url'}}}", folder / "staging"
        self.file = folder / "auditor.yaml"
        self.file.write_text(
            json.dumps(
                {
                    "connections": {"source": {"url": f"mysql://nobody@localhost/{DATABASE}"}, TARGET: {"url": url, "write": {"url": url}}},
                    "audits": {},
                    "pipelines": {
                        PIPELINE: {
                            "source": {"connection": "source", "tables": ["*"]},
                            "staging": {"path": str(staging)},
                            "targets": {TARGET: {"connection": TARGET, "schema": here.name}},
                        }
                    },
                }
            ),
            encoding="utf-8",
        )
        settings = config.load(self.file)
        assert settings.store
        self.store = open_store(settings.store.url)
        self.rules = TableRules(settings.pipelines[PIPELINE], b"certify")
        self.staging = Staging(self.store, PIPELINE, LocalFolder(staging), self.rules)
        self.loader = make_loader(self.file, self.store)
        looks = itertools.count(0, 100)
        self.loader.clock = lambda: float(next(looks))  # what failed is tried again at the next look
        self.loader.closing = meter.add_session
        self.batches = 0

    def stage(self, table: Table) -> None:
        """Stage the events of a table that were not staged yet."""
        events, self.batches = table.take(), self.batches + 1
        offset = {"file": "binlog.000000", "position": table.position}
        self.staging.stage(
            lambda: [row for batch in stage_task(str(self.staging.root), self.rules, [events]) for row in batch.to_pylist()],
            self.batches,
            offset,
        )

    def merge(self) -> pipelines.MergeReport:
        """Merge what is staged, and return what the target reports of the table. Raises MergeFailed if it reports nothing."""
        self.loader.merge_all()
        reports = pipelines.list_merges(self.store, PIPELINE).get(TARGET, {})
        report = reports.get(f"{DATABASE}.{TABLE}") or next(iter(reports.values()), None)
        if report is None:
            raise MergeFailed("the target reports nothing of what was merged")
        return report

    def release(self) -> None:
        """Close all sessions on the target."""
        self.loader.close()
        close_sessions()

    def close(self) -> None:
        """Close sessions and store."""
        self.release()
        self.store.close()


def make_loader(file: Path, store: Any) -> Loader:
    """Return the loader of the target that a configuration of ``Pipeline`` names."""
    settings = config.load(file)
    chosen = settings.pipelines[PIPELINE].table_targets[TARGET]
    root = settings.pipelines[PIPELINE].staging.path
    where = Where(store, PIPELINE, str(file), TARGET, chosen.schema_, root, run_here, TARGET, chosen)
    return Loader(where, TARGET, settings.connections[TARGET])


def run_here(function: Callable[[Any], Any], tasks: Sequence[Any]) -> list[Any]:
    """Run the tasks of a load one after the other in this process."""
    return [function(task) for task in tasks]


def check_target(book: Book, here: Scratch, twin: Scratch, folder: Path, rows: int, steps: Sequence[str]) -> None:
    """Load so many rows, merge changes, change columns, kill merges at these steps, and audit the target against its oracle."""
    folder.mkdir()
    pipeline = Pipeline(folder, here, book.meter)
    try:
        Trial(book, here, twin, pipeline, rows).run(steps)
    finally:
        pipeline.close()


@dataclass(slots=True)
class Trial:
    """What is tried on a target, one step after the other; where one fails, the next ones would only fail after it."""

    book: Book
    here: Scratch
    twin: Scratch
    pipeline: Pipeline
    count: int
    table: Table = field(default_factory=Table)
    audits: int = 0
    by_hand: bool = False
    """Whether a person has to change the target's columns, as certify does then."""

    def run(self, steps: Sequence[str]) -> None:
        """Try everything, in order."""
        self.by_hand = self.here.dialect.writing.WRITES_COMMITS
        work: list[tuple[str, Callable[[], None]]] = [
            (f"{self.count:,} rows are loaded", self._load),
            ("inserts, updates, deletes and changed keys are merged", self._change),
            *self._alterations(),
            ("a table is emptied, and filled again", self._empty),
            *((f"a merge that is killed at the step {step!r} is continued", partial(self._kill, step)) for step in steps),
        ]
        for number, (name, work_step) in enumerate(work):
            if not self.book.attempt("target", name, work_step):
                for later, _ in work[number + 1 :]:
                    self.book.skip("target", later, f"it comes after {name!r}, which did not pass")
                return
        if self.by_hand:
            why = f"a pipeline changes no tables of {self.here.dialect.name}, and columns that take other columns' names need a new copy"
            self.book.skip("target", "columns exchange their names, and come back with other types", why)

    def _load(self) -> None:
        step = 1000
        for first in range(0, self.count, step):
            self.table.write([(None, self.table.make(key, 0)) for key in range(first, min(first + step, self.count))])
        self._merge()
        self._audit()

    def _change(self) -> None:
        for round_ in range(1, 4):
            self._write_some(round_)
            self._merge()
        self._audit()

    def _write_some(self, version: int) -> None:
        """Change about a tenth of the rows, in every way in which events do."""
        keys = sorted(self.table.rows)
        chosen = keys[version % 10 :: 10]
        third = max(1, len(chosen) // 3)
        top = keys[-1] + 1
        make = self.table.make
        self.table.write([(key, make(key, version)) for key in chosen[:third]])
        self.table.write([(key, None) for key in chosen[third : 2 * third]])
        self.table.write([(key, make(top + number, version)) for number, key in enumerate(chosen[2 * third :])])
        back = chosen[third : third + 2]
        self.table.write([(None, make(key, version + 1)) for key in back])  # after they were deleted
        self.table.write([(key, make(key, version + 2)) for key in back])

    def _alterations(self) -> list[tuple[str, Callable[[], None]]]:
        """Return the changes of columns that are tried; where a person has to make them, only those that the printed statements make."""
        text: dict[str, Any] = {"text": "it's"}
        first: list[tuple[str, Callable[[], None]]] = [
            (
                "ALTER: a column is added",
                partial(
                    self._alter,
                    lambda have: have | {"note": "varchar(40)"},
                    {"note": None},
                    {"op": "add", "column": "note", "value": {"text": None}},
                ),
            ),
            ("ALTER: a column is renamed", partial(self._rename, {"item": "thing"})),
            (
                "ALTER: a column is widened",
                partial(self._alter, lambda have: have | {"small": "bigint"}, {}, {"op": "modify", "column": "small"}),
            ),
            ("ALTER: a column is dropped", partial(self._drop, "ratio")),
        ]
        later: list[tuple[str, Callable[[], None]]] = [
            (
                "ALTER: a column with a default is added",
                partial(
                    self._alter,
                    lambda have: have | {"state": "varchar(40)"},
                    {"state": "it's"},
                    {"op": "add", "column": "state", "value": text},
                ),
            ),
            ("ALTER: columns exchange their names", partial(self._rename, {"thing": "note", "note": "thing"})),
            (
                "ALTER: a column comes back with another type",
                partial(
                    self._alter,
                    lambda have: have | {"ratio": "bigint"},
                    {"ratio": None},
                    {"op": "add", "column": "ratio", "value": {"text": None}},
                ),
            ),
        ]
        return [*first, *([] if self.by_hand else later), ("after all ALTERs the table is equal", self._audit)]

    def _alter(self, columns: Callable[[dict[str, str]], dict[str, str]], values: Row, *ops: Mapping[str, Any]) -> None:
        self.table.alter(columns(self.table.columns), lambda row: row | values, *ops)
        self._write_some(len(self.table.columns))
        self._merge()

    def _rename(self, names: Mapping[str, str]) -> None:
        columns = {names.get(name, name): kind for name, kind in self.table.columns.items()}
        ops = [{"op": "rename", "from": old, "to": new} for old, new in names.items()]
        self.table.alter(columns, lambda row: {names.get(name, name): value for name, value in row.items()}, *ops)
        self._write_some(1)
        self._merge()

    def _drop(self, gone: str) -> None:
        columns = {name: kind for name, kind in self.table.columns.items() if name != gone}
        self.table.alter(columns, lambda row: {name: value for name, value in row.items() if name != gone}, {"op": "drop", "column": gone})
        self._write_some(2)
        self._merge()

    def _empty(self) -> None:
        keys = len(self.table.rows)
        self.table.alter(self.table.columns, lambda row: row, {"op": "clear"})
        self.table.rows.clear()
        self.table.write([(None, self.table.make(key, 5)) for key in range(min(keys, 1000))])
        self._merge()
        self._audit()

    def _kill(self, step: str) -> None:
        """Merge in a process that kills itself at a step; the target must hold all of it or nothing, and all once it is continued."""
        before = self._target_rows()
        self._write_some(STEPS.index(step))
        self.pipeline.stage(self.table)
        self.pipeline.release()
        command = [sys.executable, "-m", "auditor.service.certify.killed", str(self.pipeline.file), step]
        child = subprocess.run(command, capture_output=True, timeout=durations().certified_child, text=True, check=False)
        if child.returncode != -signal.SIGKILL:
            said = " ".join(child.stderr.split())[-300:]
            raise MergeFailed(f"the process did not come to the step {step!r}: it ended with {child.returncode}: {said}")
        wanted = self._wanted() if step in COMMITTED else before
        if (rows := self._target_rows()) != wanted:
            raise Differs(f"{_compare(rows, wanted)} after the kill")
        self._merge_staged()
        if (rows := self._target_rows()) != self._wanted():
            raise Differs(f"{_compare(rows, self._wanted())} after it was continued")
        self._audit()

    def _merge(self) -> None:
        self.pipeline.stage(self.table)
        self._merge_staged()

    def _merge_staged(self) -> None:
        """Merge all that is staged; where a person has to change columns, run the statements that the report says."""
        for _ in range(4):
            report = self.pipeline.merge()
            if report.state == "merged" and report.position >= self.table.position:
                break
            statements = report.reason.partition("run there: ")[2]
            if self.by_hand and statements:
                self.pipeline.release()
                with self.here.writing() as session:
                    for statement in statements.split("; "):
                        session.execute(statement)
        else:
            raise MergeFailed(f"the table is {report.state} at {report.position}, not at {self.table.position}: {report.reason}")

    def _target_rows(self) -> dict[int, object]:
        """Return what the target holds now: of each key a number of its row."""
        if self.here.dialect.OPENS_FILES:
            self.pipeline.release()
        quote = self.here.dialect.names.quote
        with self.here.writing() as session:
            rows = session.query(f"SELECT {quote(KEY)}, {quote('small')} FROM {self.here.table(TABLE)}")
        return {int(key): None if small is None else int(small) for key, small in rows}

    def _wanted(self) -> dict[int, object]:
        return {key: row["small"] for key, row in self.table.rows.items()}

    def _audit(self) -> None:
        """Compare the target with its oracle, into which the rows are written that it must hold."""
        if self.here.dialect.OPENS_FILES:
            self.pipeline.release()
        self.audits += 1
        name, kinds = f"orders_{self.audits}", self.table.kinds
        rows = [[row[column] for column in kinds] for _, row in sorted(self.table.rows.items())]
        with self.twin.writing() as session:
            self.twin.fill(session, name, list(kinds.items()), rows)
        report = audit_tables(self.twin.place(name), self.here.place(TABLE), key=[KEY], name="certify", patient=False)
        self.book.meter.add_report(report)
        if report.verdict is Verdict.UNKNOWN:
            raise ResultError(" ".join(report.reasons))
        if report.verdict is not Verdict.MATCH:
            named = [f"{difference.kind} {dict(difference.key)}" for difference in (report.differences.named if report.differences else ())]
            raise Differs(f"the target differs from what was merged: {' '.join(report.reasons)} {listed(named)}")
        compared = {column.name for column in report.plan.columns} if report.plan else set()
        if compared != set(kinds):
            raise Differs(f"the target has not all columns: {listed(sorted(set(kinds) - compared))} were not compared")


def _compare(rows: Mapping[int, object], wanted: Mapping[int, object]) -> str:
    differ = sorted(key for key in rows.keys() | wanted.keys() if rows.get(key, "none") != wanted.get(key, "none"))
    return f"{len(differ):,} rows are not as they must be (keys {listed(differ)})"
