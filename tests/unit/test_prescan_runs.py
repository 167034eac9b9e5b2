"""Runs with a pre-scan find what runs without one find: whatever is damaged, wherever they are interrupted."""

from __future__ import annotations

import datetime as dt
import itertools
import tempfile
from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auditor.config import Audit, ConnectionSettings
from auditor.errors import StatementCancelled
from auditor.history.handover import EarlierRuns, NoCheckpoint, Schemas
from auditor.model import SIDES, Chunk, Divergent, Method, Plan, Report, Side, State, Verdict
from auditor.planning import chunks
from auditor.planning import prescan as deciding
from auditor.run import audit_run
from auditor.run import prescan as running
from auditor.summary import codec
from auditor.summary.arrays import Summaries

pytestmark = pytest.mark.duckdb

Rows = list[tuple[int | None, str, int]]
"""Rows of a table: key, text, and the day of a time."""

KEYS = st.integers(-30, 90)
ROW = st.tuples(KEYS | st.none(), st.sampled_from(["a", "b", "", "NULL"]), st.integers(1, 28))
DAMAGE = st.lists(
    st.tuples(st.sampled_from(["lose", "change", "twice", "add", "move", "lose range"]), st.integers(0, 200), ROW), max_size=4
)
LAYOUTS: dict[str, dict[str, Any]] = {
    "range": {"partition": {"size": 3}},
    "wide range": {"partition": {"strategy": "range", "size": 40}},
    "hash": {"partition": {"strategy": "hash", "buckets": 4}},
}
METHODS: st.SearchStrategy[Method] = st.sampled_from(("exact", "signature"))
COUNTS = [10, pytest.param(600, marks=pytest.mark.slow)]
RESUMED = ("verdict", "rows", "unequal", "one-sided", "named", "counts")
"""Findings of a resumed run; ranges of rows that one side lacks are looked at again as they are by then."""


class Tables:
    """Two tables in DuckDB files, filled anew for each example."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.connections: dict[str, ConnectionSettings] = {
            side: ConnectionSettings(url=f"duckdb:///{folder}/{side}.duckdb?access_mode=read_write") for side in SIDES
        }
        self.open = {side: duckdb.connect(str(folder / f"{side}.duckdb")) for side in SIDES}

    def fill(self, side: Side, rows: Rows) -> None:
        self.open[side].execute("CREATE OR REPLACE TABLE t (id BIGINT, v VARCHAR, moved TIMESTAMP)")
        if rows:
            keys, texts, days = (list(values) for values in zip(*rows, strict=True))
            moved = [dt.datetime(2026, 1, day) for day in days]
            self.open[side].execute("INSERT INTO t SELECT unnest($1), unnest($2), unnest($3)", [keys, texts, moved])

    def perform(self, checkpoint: NoCheckpoint | None = None, resumed: Plan | None = None, **more: Any) -> Report:
        ends = {side: {"connection": side, "table": "t"} for side in SIDES}
        audit = Audit.model_validate({**ends, "key": ["id"], "salt": "", **more})
        earlier = EarlierRuns(plan=resumed)
        return audit_run.perform("t", audit, self.connections, checkpoint=checkpoint, earlier=earlier).report

    def close(self) -> None:
        for connection in self.open.values():
            connection.close()


@pytest.fixture(scope="module")
def tables() -> Iterator[Tables]:
    """Two small tables, which have many stretches and are read in several chunks."""
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(chunks, "COLUMN_CHUNK_ROWS", 20)
        patch.setattr(deciding, "STRETCHES", 7)
        made = Tables(Path(folder))
        yield made
        made.close()


def damage(rows: Rows, what: list[tuple[str, int, Any]]) -> Rows:
    """Return the rows as a pipeline might have left them in the target."""
    found = list(rows)
    for how, place, row in what:
        at = place % len(found) if found else 0
        if how == "add" or not found:
            found.append(row)
        elif how == "lose":
            del found[at]
        elif how == "change":
            found[at] = (found[at][0], row[1], found[at][2])
        elif how == "move":
            found[at] = (found[at][0], found[at][1], row[2])
        elif how == "twice":
            found.append(found[at])
        else:
            found = [one for one in found if one[0] is None or not 0 <= one[0] - place % 60 < 12]
    return found


def findings(report: Report) -> dict[str, Any]:
    """Return what a report says of the rows: all but how many partitions there are, which stretches leave open, and how many rows a bucket
    has on both sides, and which keys, which groups of keys leave open."""
    comparison, differences = report.comparison, report.differences
    assert comparison, report.reasons
    found: dict[str, Any] = {
        "verdict": report.verdict,
        "rows": comparison.rows,
        "unequal": [_seen_of(one, report) for one in comparison.divergent],
        "one-sided": (comparison.source_only, comparison.target_only, comparison.skipped),
        "jaccard": report.jaccard,
        "coverage": report.coverage["rows"],
    }
    if differences is not None:
        found["counts"] = (differences.missing, differences.extra, differences.changed, differences.exact, differences.partitions)
        found["named"] = [(one.kind, one.key, one.rows, one.columns) for one in differences.named]
        found["ranges"] = differences.ranges
    return found


def same(scanned: dict[str, Any], plain: dict[str, Any], layout: str, names: Collection[str] = ()) -> bool:
    """Return whether two runs found the same, in what is named or in all.

    Groups of keys leave open whether a bucket has rows of one side alone. What was one difference of a whole bucket then is its rows, by
    their keys, or an estimate where no rows are named.
    """
    chosen = [name for name in plain if not names or name in names]
    if layout == "hash":
        if not all(one in scanned.get("named", ()) for one in plain.get("named", ())):
            return False
        scanned, plain = ({**one, "counts": one.get("counts", ())[:4]} for one in (scanned, plain))
        estimated = () if "counts" in chosen else ("jaccard",)
        chosen = [name for name in chosen if name not in ("one-sided", "named", "ranges", *estimated)]
    return all(scanned.get(name) == plain[name] for name in chosen)


def _seen_of(one: Divergent, report: Report) -> Any:
    assert report.plan
    is_bucket = report.plan.partitioning.strategy == "hash"
    return (one.partition, one.rows["target"] - one.rows["source"]) if is_bucket else (one.partition, one.rows, one.key_range)


@pytest.mark.parametrize("examples", COUNTS)
def test_a_prescan_changes_nothing_that_is_found(tables: Tables, examples: int) -> None:
    @settings(max_examples=examples)
    @given(rows=st.lists(ROW, max_size=50), what=DAMAGE, layout=st.sampled_from(sorted(LAYOUTS)), method=METHODS, t=st.integers(1, 3))
    def compare(rows: Rows, what: Any, layout: str, method: Method, t: int) -> None:
        tables.fill("source", rows)
        tables.fill("target", damage(rows, what))
        more = {**LAYOUTS[layout], "method": method, "t": t}
        plain, scanned = (tables.perform(prescan=wanted, **more) for wanted in (False, True))
        assert same(findings(scanned), findings(plain), layout)
        assert scanned.exit_code == plain.exit_code
        assert scanned.plan and scanned.plan.prescan and scanned.plan.prescan.used
        is_equal = sorted(rows, key=repr) == sorted(damage(rows, what), key=repr)
        assert (plain.verdict is Verdict.MISMATCH) == (not is_equal)
        if is_equal and rows and layout != "hash":
            assert plain.comparison and scanned.comparison
            assert scanned.comparison.total >= plain.comparison.total, "partitions without a row may be among them"

    compare()


class Interrupted(NoCheckpoint):
    """Keeps what a first attempt read, as the store does, and ends it after so many chunks."""

    def __init__(self, after: int) -> None:
        self.after = after
        self.plan: Plan | None = None
        self.chunks: dict[tuple[Side, Chunk], tuple[str, Summaries]] = {}
        self.read: list[tuple[str, Side]] = []

    def save_plan(self, plan: Plan, schema: Schemas) -> None:
        self.plan = plan

    def save_chunk(self, side: Side, chunk: Chunk, summaries: Summaries, seconds: float, attempts: int) -> None:
        self._save("summaries", side, chunk, summaries)

    def save_stretches(self, side: Side, chunk: Chunk, summaries: Summaries, seconds: float, attempts: int) -> None:
        self._save("stretches", side, chunk, summaries)

    def saved_chunks(self, side: Side) -> list[tuple[Chunk, Summaries]]:
        return self._saved("summaries", side)

    def saved_stretches(self, side: Side) -> list[tuple[Chunk, Summaries]]:
        return self._saved("stretches", side)

    def _save(self, kind: codec.SummaryKind, side: Side, chunk: Chunk, summaries: Summaries) -> None:
        if len(self.read) == self.after:
            raise StatementCancelled
        self.read.append((kind, side))
        if not chunk.within:  # the store has one chunk of these bounds, whatever it is of
            self.chunks[side, chunk] = codec.unpack_summaries(codec.pack_summaries(summaries, kind))

    def _saved(self, kind: str, side: Side) -> list[tuple[Chunk, Summaries]]:
        return [(chunk, one) for (of, chunk), (what, one) in self.chunks.items() if (of, what) == (side, kind)]


@pytest.mark.parametrize("examples", COUNTS)
@pytest.mark.slow
def test_an_interrupted_run_finds_the_same(tables: Tables, examples: int) -> None:
    """However often a run is interrupted, in the pre-scan or after it, it ends with what a run without a pre-scan finds."""

    @settings(max_examples=examples)
    @given(
        rows=st.lists(ROW, min_size=1, max_size=50), what=DAMAGE, layout=st.sampled_from(sorted(LAYOUTS)), method=METHODS,
        stops=st.lists(st.integers(0, 14), min_size=1, max_size=3),
    )  # fmt: skip
    def interrupt(rows: Rows, what: Any, layout: str, method: Method, stops: list[int]) -> None:
        tables.fill("source", rows)
        tables.fill("target", damage(rows, what))
        more = {**LAYOUTS[layout], "method": method}
        expected = findings(tables.perform(prescan=False, **more))
        checkpoint, resumed = Interrupted(0), None
        for stop in [*stops, 1000]:
            checkpoint.after, checkpoint.read = stop, []
            report = tables.perform(checkpoint, resumed, prescan=True, **more)
            if report.state is State.DONE:
                break
            resumed = checkpoint.plan
        assert same(findings(report), expected, layout, RESUMED)

    interrupt()


def test_what_the_first_attempt_read_is_not_read_again(tables: Tables) -> None:
    rows: Rows = [(key, "a", 1) for key in range(60)]
    tables.fill("source", rows)
    tables.fill("target", damage(rows, [("change", 3, (0, "b", 1)), ("change", 57, (0, "b", 1))]))
    whole = Interrupted(1000)
    assert tables.perform(whole, prescan=True, **LAYOUTS["range"]).verdict is Verdict.MISMATCH
    kinds = [kind for kind, _ in whole.read]
    first, again = kinds.count("stretches"), kinds.count("summaries")
    assert kinds == ["stretches"] * first + ["summaries"] * again
    assert 0 < again < first, "of each side the two ends of the table"
    stopped = Interrupted(first)
    assert tables.perform(stopped, prescan=True, **LAYOUTS["range"]).state is not State.DONE
    stopped.after, stopped.read = 1000, []
    report = tables.perform(stopped, stopped.plan, prescan=True, **LAYOUTS["range"])
    assert report.verdict is Verdict.MISMATCH
    assert [kind for kind, _ in stopped.read] == ["summaries"] * again


def test_damage_between_two_attempts_is_no_match(tables: Tables) -> None:
    """Equal stretches stay as they were read; those that were not read yet are read as they are by now."""
    rows: Rows = [(key, "a", 1) for key in range(60)]
    tables.fill("source", rows)
    tables.fill("target", rows)
    for stop, layout in itertools.product((0, 3), ("range", "hash")):
        tables.fill("target", rows)
        checkpoint = Interrupted(stop)
        tables.perform(checkpoint, prescan=True, **LAYOUTS[layout])
        tables.fill("target", damage(rows, [("change", 59, (0, "b", 1))]))
        checkpoint.after = 1000
        report = tables.perform(checkpoint, checkpoint.plan, prescan=True, **LAYOUTS[layout])
        assert report.verdict is Verdict.MISMATCH, (stop, layout)
        assert report.differences is not None and [one.key for one in report.differences.named] == [{"id": "59"}]


def test_a_prescan_that_the_scan_contradicts_is_no_match(tables: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    rows: Rows = [(key, "a", 1) for key in range(60)]
    tables.fill("source", rows)
    tables.fill("target", rows)

    def without_a_row(plan: Plan) -> Plan:
        found = deciding.plan_of_stretches(plan)
        return replace(found, sides={**found.sides, "target": replace(found.sides["target"], where="id <> 30")})

    monkeypatch.setattr(running, "plan_of_stretches", without_a_row)
    for layout in ("range", "hash"):
        report = tables.perform(prescan=True, **LAYOUTS[layout])
        assert report.verdict is Verdict.UNKNOWN and report.exit_code == 3, layout
        assert "1 part of the table differed in the pre-scan, and all their partitions were equal" in report.reasons[-1]
