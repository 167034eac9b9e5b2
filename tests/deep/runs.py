"""Run audits of random tables on live engines, and hold what they report against the oracle.

A run is a seed, a pair of engines and a number: ``python -m tests.deep --engines mysql-postgres --seed 7 --run 3`` repeats it.
"""

from __future__ import annotations

import random
import re
import traceback
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from auditor import service
from auditor.config import Settings, validate_settings
from auditor.model import Report, Side, State, Verdict
from auditor.report import render
from auditor.service import stored_runs
from auditor.sql.literals import value_literal
from auditor.store import open_store
from dialects import Dialect, Kind
from tests import tables
from tests.deep.features import Features, draw_features
from tests.deep.oracle import Expected, expect
from tests.deep.tables import DAMAGES, Rows, World, draw_world
from tests.live import LiveEngine

RUNS_PER_WORLD = 6
"""Runs with different settings over the same two tables."""

NAME = "deep"

UNCOMPARED = "documents not compared by their values"
"""Why a method that fetches no rows, or whose column is masked, cannot tell whether two documents are only written otherwise."""

UNKNOWN = (
    ("nothing to compare", r"no row|nothing was compared|both tables are empty|no rows|are empty"),
    ("in flight", r"in flight"),
    ("unsettled", r"unsettled"),
    ("undecided", r"could not be decided"),
    (UNCOMPARED, r"JSON documents (?:of .* which|whose values) were not compared"),
)
"""Causes for which a verdict may be unknown, by what the reasons say."""

REFUSED = r"is compared with a time that the target stores outside the years 1 to 9999"
"""Why a run may be refused before it begins: with a filter that one side cannot read as the other does."""


@dataclass(frozen=True)
class Outcome:
    """What became of one run."""

    seed: int
    number: int
    engines: str
    features: Features
    verdict: Verdict | None = None
    wrong: str = ""
    """What is wrong with it; empty for a run that says what the oracle says."""
    cause: str = ""
    """Why its verdict is unknown."""
    read_first: str = ""
    """What a pre-scan read: digests or signatures; empty without one."""

    @property
    def command(self) -> str:
        """Return the command that repeats the run."""
        return f".venv/bin/python -m tests.deep --engines {self.engines} --seed {self.seed} --run {self.number}"


@dataclass
class Tally:
    """What became of many runs."""

    verdicts: Counter[str] = field(default_factory=Counter)
    causes: Counter[str] = field(default_factory=Counter)
    pairs: Counter[tuple[str, str]] = field(default_factory=Counter)
    read_first: Counter[str] = field(default_factory=Counter)
    taken: int = 0
    """Runs over columns whose names are taken from statements of ours."""
    wrong: list[Outcome] = field(default_factory=list)

    def add(self, outcome: Outcome) -> None:
        """Count a run."""
        self.verdicts[outcome.verdict.value if outcome.verdict else "none"] += 1
        if outcome.cause:
            self.causes[outcome.cause] += 1
        if outcome.read_first:
            self.read_first[outcome.read_first] += 1
        self.pairs.update(outcome.features.pairs)
        self.taken += "captured names" in outcome.features.words
        if outcome.wrong:
            self.wrong.append(outcome)

    @property
    def runs(self) -> int:
        """Return how many runs were counted."""
        return sum(self.verdicts.values())

    def __str__(self) -> str:
        """Return the counts, and each wrong run with the command that repeats it."""
        lines = [
            f"{self.runs:,} runs, {self.taken:,} of them with taken names: {dict(self.verdicts)};"
            f" unknown: {dict(self.causes)}; read first: {dict(self.read_first)}"
        ]
        lines += [f"{one.command}\n    {one.wrong}" for one in self.wrong]
        return "\n".join(lines)


class Stage:
    """Two live engines, with the tables of one world at a time."""

    def __init__(self, source: LiveEngine, target: LiveEngine, lake: LiveEngine, directory: Path) -> None:
        self._engines: dict[str, LiveEngine] = {"source": source, "target": target, "lake": lake}
        self._directory = directory
        self._made: set[str] = set()
        self._stores = 0

    @property
    def engines(self) -> tuple[str, str]:
        """Return the names of both engines."""
        return self._engines["source"].name, self._engines["target"].name

    def play(self, seed: int, numbers: Iterator[int] | range) -> Iterator[Outcome]:
        """Run the audits of a seed, and return what became of each."""
        world = draw_world(seed, self.engines)
        self._made.clear()
        for number in numbers:
            chance = random.Random(f"{seed} {self.engines} {number}")
            yield self._play_one(world, number, draw_features(chance, world), chance)

    def audit_plainly(self, world: World) -> tuple[Features, Report]:
        """Return the report of an audit of a world by the method exact, without further settings."""
        features = Features("exact", {"method": "exact", "allow_empty": True})
        self._made.clear()
        self._make(world, features, random.Random(1))
        return features, self._audit(world, features)[0]

    def _play_one(self, world: World, number: int, features: Features, chance: random.Random) -> Outcome:
        outcome = Outcome(world.seed, number, "-".join(self.engines), features)
        try:
            world, rows = self._make(world, features, chance)
            expected = expect(world, features, rows)
            reports = self._audit(world, features)
        except Exception:
            return replace(outcome, wrong=traceback.format_exc(limit=-6))
        report = reports[-1]
        if any(re.search(REFUSED, reason) for one in reports for reason in one.reasons):
            return replace(outcome, verdict=report.verdict, cause="refused")
        wrong = judge_rolling(reports, expected) if features.place == "rolling" else judge(world, features, reports[0], expected)
        cause = cause_of(report) if report.verdict is Verdict.UNKNOWN else ""
        if not wrong and report.verdict is Verdict.UNKNOWN and not cause:
            wrong = "the verdict is unknown, and no known cause is stated"
        if wrong:
            wrong += f"\n    settings {features.settings}, place {features.place}, slice {features.keys or features.times}"
            wrong += f"\n    {describe(world)}"
            wrong += f"\n    {report.state.value}, {report.verdict.value}: {report.reasons}"
        first = report.plan.prescan if report.plan else None
        read_first = ("digests" if first.digest_rows else "signatures") if first and first.used else ""
        return replace(outcome, verdict=report.verdict, wrong=wrong, cause=cause, read_first=read_first)

    def _make(self, world: World, features: Features, chance: random.Random) -> tuple[World, dict[Side, Rows]]:
        """Make the tables that a run reads; return the world of what it compares, and both sides' rows."""
        rows = dict(world.rows)
        if features.place in ("dump", "target"):
            dump = list(rows["source"])
            own = [replace(column, renamed=column.name, pair=(column.pair[0], column.pair[0])) for column in world.columns]
            to_dump = replace(world, columns=tuple(own), engines=(world.engines[0], "duckdb"), order=tuple(range(len(own))))
            if chance.random() < 0.4:
                dump = DAMAGES[chance.choice(sorted(DAMAGES))](chance, to_dump, dump)
            self._create("lake", f"{NAME}_dump", replace(to_dump, is_primary=False, not_null=frozenset()), "target", dump)
            if features.place == "dump":
                self._create_once("source", world)
                return replace(to_dump, rows={"source": rows["source"], "target": dump}), {"source": rows["source"], "target": dump}
            self._create_once("target", world)
            onwards = replace(world, engines=("duckdb", world.engines[1]), rows={"source": dump, "target": rows["target"]})
            return onwards, dict(onwards.rows)
        self._create_once("target", world)
        if features.place == "shards":
            mine: list[Rows] = [[], []]
            for row in rows["source"]:
                mine[chance.random() < 0.5].append(row)
            for number, part in enumerate(mine):
                self._create("source", f"{NAME}_shard_{number}", world, "source", part)
        else:
            self._create_once("source", world)
        return world, rows

    def _create_once(self, side: Side, world: World) -> None:
        if side not in self._made:
            self._create(side, f"{NAME}_{side}", world, side, world.rows[side])
            self._made.add(side)

    def _create(self, where: str, name: str, world: World, side: Side, rows: Rows) -> None:
        """Create a table with one side's types and names, replacing any previous one, and fill it."""
        order = world.order if side == "target" else range(len(world.columns))
        columns = [world.columns[index] for index in order]
        kinds = [column.kind(side) for column in columns]
        with tables.open_writable(self._engines[where]) as session:
            dialect = session.dialect
            required = " NOT NULL" if where != "lake" else ""
            natives = [
                f"{dialect.names.quote(column.name_in(side))} {column.native(side, dialect)}{required if index in world.not_null else ''}"
                for index, column in zip(order, columns, strict=True)
            ]
            if world.is_primary and tables.has_primary_keys(dialect):
                natives.append(
                    f"PRIMARY KEY ({', '.join(dialect.names.quote(column.name_in(side)) for column in world.columns[: world.keys])})"
                )
            session.execute(f"DROP TABLE IF EXISTS {dialect.names.quote(name)}")
            session.execute(f"CREATE TABLE {dialect.names.quote(name)} ({', '.join(natives)})")
            for start in range(0, len(rows), tables.ROWS):
                values = ", ".join(_written(dialect, kinds, [row[index] for index in order]) for row in rows[start : start + tables.ROWS])
                session.execute(f"INSERT INTO {dialect.names.quote(name)} VALUES {values}")

    def _audit(self, world: World, features: Features) -> list[Report]:
        """Run the audit; a rolling one until it has read the whole table."""
        settings, overrides = self._settings(world, features), _overrides(features)
        name = f"{NAME}.{features.place}" if features.place in ("dump", "target") else NAME
        if features.place != "rolling":
            report = service.run_audit(settings, name, overrides=overrides)
            for form in ("text", "json", "markdown"):
                render.run(report, None, form)
            return [report]
        self._stores += 1
        path = self._directory / f"store_{self._stores}.db"
        store = open_store(f"sqlite:///{path}")
        try:
            reports = []
            for _ in range(4):
                reports.append(service.run_audit(settings, name, store=store))
                whole = stored_runs.rolling_table(store, name)
                plan = reports[-1].plan
                is_whole = whole.partitions_read == whole.partitions if whole else not (plan and plan.partition_ranges)
                if reports[-1].state is not State.DONE or is_whole:
                    break
            if whole is not None:
                reports.append(replace(reports[-1], verdict=whole.verdict, reasons=(whole.sentence, *reports[-1].reasons)))
            return reports
        finally:
            store.close()
            path.unlink()

    def _settings(self, world: World, features: Features) -> Settings:
        connections = {name: {"url": engine.url} for name, engine in self._engines.items()}
        key = [column.name for column in world.columns[: world.keys]]
        renamed = {column.name: column.renamed for column in world.columns if column.name != column.renamed}
        source: Any = {"connection": "source", "table": f"{NAME}_source"}
        if features.place == "shards":
            source = [{"connection": "source", "table": f"{NAME}_shard_{number}"} for number in range(2)]
        target = {"connection": "target", "table": f"{NAME}_target", "columns": renamed}
        audit = {"source": source, "target": target, "key": key, **features.settings}
        if features.place in ("dump", "target"):
            audit["via"] = {"connection": "lake", "table": f"{NAME}_dump"}
        if features.place == "rolling":
            audit["rolling"] = {"per_run": "50%"}
        return validate_settings({"connections": connections, "audits": {NAME: audit}})


def _written(dialect: Dialect, kinds: list[Kind], row: list[Any]) -> str:
    return "(" + ", ".join(value_literal(dialect, kind, value) for kind, value in zip(kinds, row, strict=True)) + ")"


def _overrides(features: Features) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if features.keys:
        found["keys"] = {name: key for name, key in zip(("from", "to"), features.keys, strict=True) if key is not None}
    if features.times:
        found["times"] = {name: time.isoformat() for name, time in zip(("from", "to"), features.times, strict=True) if time is not None}
    return found


def describe(world: World) -> str:
    """Return a world's columns, key and damage in a line."""
    columns = [
        f"{one.name} {one.pair[0]}" + (f" ({one.renamed} {one.pair[1]})" if one.pair[0] != one.pair[1] else "") for one in world.columns
    ]
    return f"damage {world.damage}, key of {world.keys}{' (primary)' if world.is_primary else ''} of {', '.join(columns)}"


# What is wrong with a report


def cause_of(report: Report) -> str:
    """Return why a verdict is unknown, as the reasons say; empty for a cause that is not known to be one."""
    said = " ".join(report.reasons)
    return next((cause for cause, pattern in UNKNOWN if re.search(pattern, said)), "")


def judge(world: World, features: Features, report: Report, expected: Expected) -> str:
    """Return what is wrong with the report of a run; empty if nothing is."""
    if report.state is not State.DONE:
        return "the run failed"
    is_told = report.verdict is Verdict.UNKNOWN and (features.method != "exact" or features.masks) and cause_of(report) == UNCOMPARED
    if report.verdict not in expected.allowed and not is_told:
        return f"the verdict is {report.verdict.value}, and has to be {sorted(one.value for one in expected.allowed)}; {_told(expected)}"
    if report.comparison and report.comparison.rows != expected.rows:
        return f"the rows are {report.comparison.rows}, and have to be {expected.rows}"
    found = report.differences
    if is_told or found is None or features.method != "exact" or expected.doubtful or expected.restless:
        return ""
    if found.unsettled and expected.young_there:
        return ""
    counts = {"missing": found.missing, "extra": found.extra, "changed": found.changed}
    if found.undecided and features.masks:  # documents of masked columns are not fetched to be compared by their values
        beyond = [kind for kind, count in counts.items() if count > expected.counts[kind]]
        too_few = sum(counts.values()) + found.undecided < sum(expected.counts[kind] for kind in counts)
        return f"the counts are {counts}, and {found.undecided} undecided; {_told(expected)}" if beyond or too_few else ""
    if not found.exact:
        return f"the differences are not exact: {found}"
    if counts != {kind: expected.counts[kind] for kind in counts}:
        return f"the counts are {counts}; {_told(expected)}"
    masked = any(index in features.masks for index in range(world.keys))
    listed = {"missing": 0, "extra": 0, "changed": 0}
    for one in found.named:
        listed[one.kind] += one.row_count
        key = tuple(one.key.values())
        if not masked and expected.named.get(key) != (one.kind, one.row_count):
            return f"{key} is named as {one.kind}, {one.row_count} rows; {_told(expected)}"
    for span in found.ranges:
        listed[span.kind] += span.rows
    return "" if listed == counts else f"{listed} are listed, and {counts} counted"


def judge_rolling(reports: list[Report], expected: Expected) -> str:
    """Return what is wrong with the runs of a rolling audit, the last of which stands for the whole table; empty if nothing is."""
    *runs, whole = reports
    if any(report.state is not State.DONE for report in reports):
        return "a run failed"
    if any(report.verdict is Verdict.MISMATCH for report in runs) and Verdict.MISMATCH not in expected.allowed:
        return f"a part is a mismatch; {_told(expected)}"
    if not any(expected.rows.values()):
        return "" if whole.verdict is not Verdict.MISMATCH else "an empty table is a mismatch"
    if whole.verdict not in expected.allowed and cause_of(whole) != UNCOMPARED:
        return (
            f"the whole table is {whole.verdict.value} after {len(runs)} runs, and has to be {sorted(expected.allowed)}; {_told(expected)}"
        )
    return ""


def _told(expected: Expected) -> str:
    """Return what the oracle says differs, in few words."""
    named = dict(list(expected.named.items())[:6])
    return f"the oracle says {dict(expected.counts)} of {expected.rows}: {named}, in flight {len(expected.excused)}"


def duckdb_in(directory: Path, name: str) -> LiveEngine:
    """Return a DuckDB file of this name, which need not exist."""
    return LiveEngine("duckdb", "duckdb", f"duckdb:///{directory}/{name}.duckdb")
