"""Measurements as JSON beside RESULTS.md, so that several calls can measure parts of one document.

The file is ``dataclasses.asdict`` of ``benchmarks.results.Results``; it has no version: change it together with the classes.
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

from benchmarks.alarm import Alarm
from benchmarks.capture import Captured
from benchmarks.copies import Copy
from benchmarks.cost import Cost
from benchmarks.duel import Row
from benchmarks.files import FilesCost
from benchmarks.in_flight import InFlight
from benchmarks.live import LiveCost
from benchmarks.load import Load
from benchmarks.primary import Primary
from benchmarks.ratios import Ratios
from benchmarks.refreshing import Refreshed
from benchmarks.repairing import Repaired
from benchmarks.results import Results
from benchmarks.road import Road
from benchmarks.shuffled import ShuffledCost
from benchmarks.start import Start
from benchmarks.stream import Stream
from benchmarks.tables import Tables
from benchmarks.wire import Traffic
from benchmarks.writes import WritesCost

NAME = "measurements.json"


def merge(results: Results, directory: Path) -> Results:
    """Return ``results`` together with the measurements of earlier calls in ``directory`` that it does not repeat."""
    if not (directory / NAME).exists():
        return results
    before = read(directory)

    def rows(part: str) -> list[Row]:
        return list({_key(row): row for row in (*getattr(before, part), *getattr(results, part))}.values())

    return dataclasses.replace(
        results,
        costs=list({cost.engine: cost for cost in (*before.costs, *results.costs)}.values()),
        ratios=list({(ratio.engine, ratio.key): ratio for ratio in (*before.ratios, *results.ratios)}.values()),
        servers=before.servers | results.servers,
        tools=before.tools | results.tools,
        missing={name: why for name, why in before.missing.items() if name not in results.tools} | results.missing,
        calls=[*before.calls, *results.calls],
        duels=rows("duels"),
        growth=rows("growth"),
        streams=list({stream.engine: stream for stream in (*before.streams, *results.streams)}.values()),
        roads=list({(road.engine, road.targets): road for road in (*before.roads, *results.roads)}.values()),
        captures=list({(one.engine, one.road, one.tool): one for one in (*before.captures, *results.captures)}.values()),
        tables=list({(entry.scenario, entry.target): entry for entry in (*before.tables, *results.tables)}.values()),
        refreshes=list({(entry.engine, entry.tables): entry for entry in (*before.refreshes, *results.refreshes)}.values()),
        lives=list({(cost.pair, cost.rows): cost for cost in (*before.lives, *results.lives)}.values()),
        shuffled=list({(cost.order, cost.rows): cost for cost in (*before.shuffled, *results.shuffled)}.values()),
        writes=list({(cost.pair, cost.scenario, cost.rows): cost for cost in (*before.writes, *results.writes)}.values()),
        files=list({(cost.run, cost.files): cost for cost in (*before.files, *results.files)}.values()),
        alarms=list({entry.rows: entry for entry in (*before.alarms, *results.alarms)}.values()),
        in_flight=results.in_flight or before.in_flight,
        primaries=list({(entry.engine, entry.rows): entry for entry in (*before.primaries, *results.primaries)}.values()),
        starts=list({(entry.tool, entry.command): entry for entry in (*before.starts, *results.starts)}.values()),
        copies=list({(copy.target, copy.road, copy.rows): copy for copy in (*before.copies, *results.copies)}.values()),
        repaired=list({(repair.tool, repair.table): repair for repair in (*before.repaired, *results.repaired)}.values()),
        loads=list({(load.pair, load.rows, load.store, load.pause): load for load in (*before.loads, *results.loads)}.values()),
    )


def read(directory: Path) -> Results:
    """Read the measurements in ``directory``."""
    values: dict[str, Any] = json.loads((directory / NAME).read_text(encoding="utf-8"))
    results = Results(**values)
    results.costs = [Cost(**cost) for cost in values["costs"]]
    results.ratios = [Ratios(**entry) for entry in values.get("ratios", ())]
    results.streams = [Stream(**stream) for stream in values.get("streams", ())]
    results.roads = [Road(**road) for road in values.get("roads", ())]
    results.captures = [Captured(**entry) for entry in values.get("captures", ())]
    results.tables = [Tables(**entry) for entry in values.get("tables", ())]
    results.refreshes = [Refreshed(**entry) for entry in values.get("refreshes", ())]
    results.loads = [Load(**load) for load in values.get("loads", ())]
    results.lives = [LiveCost(**entry) for entry in values.get("lives", ())]
    results.shuffled = [ShuffledCost(**entry) for entry in values.get("shuffled", ())]
    results.writes = [WritesCost(**entry) for entry in values.get("writes", ())]
    results.starts = [Start(**entry) for entry in values.get("starts", ())]
    results.files = [FilesCost(**entry) for entry in values.get("files", ())]
    results.alarms = [Alarm(**entry) for entry in values.get("alarms", ())]
    results.in_flight = [InFlight(**entry) for entry in values.get("in_flight", ())]
    results.primaries = [Primary(**entry) for entry in values.get("primaries", ())]
    results.copies = [Copy(**entry) for entry in values.get("copies", ())]
    results.repaired = [Repaired(**entry) for entry in values.get("repaired", ())]
    for part in ("duels", "growth"):
        setattr(results, part, [Row(**{**row, "wire": Traffic(**row["wire"])}) for row in values[part]])
    return results


def write(results: Results, directory: Path) -> None:
    """Write the measurements to ``directory``."""
    text = json.dumps(dataclasses.asdict(results), indent=1, ensure_ascii=False)
    (directory / NAME).write_text(text + "\n", encoding="utf-8")


def _key(row: Row) -> tuple[object, ...]:
    return (row.pair, row.rows, row.scenario, row.tool)
