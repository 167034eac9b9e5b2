"""Measure costs, compare with other tools, print the tables, and write RESULTS.md with its plots."""

from __future__ import annotations

import argparse
import datetime as dt
import itertools
import shlex
import signal
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks import (
    alarm,
    capture,
    copies,
    cost,
    data,
    duel,
    files,
    in_flight,
    live,
    load,
    measurements,
    primary,
    process,
    ratios,
    refreshing,
    repairing,
    road,
    shuffled,
    start,
    stream,
    tables,
    topics,
    writes,
)
from benchmarks.auditor_tool import Auditor, AuditorWithoutPrescan
from benchmarks.replica import TableChecksum
from benchmarks.results import Results
from benchmarks.rivals import DATA_DIFF, RELADIFF, RELADIFF_2, DataValidation, Pair, TableSync, Tool
from benchmarks.servers import Servers, open_servers
from tests.servers.process import Unavailable

PARTS = (
    "cost",
    "ratios",
    "duel",
    "growth",
    "load",
    "stream",
    "road",
    "capture",
    "topics",
    "tables",
    "refresh",
    "live",
    "shuffled",
    "writes",
    "files",
    "primary",
    "alarm",
    "in_flight",
    "repair",
    "start",
)
PAIRS = ("mysql-postgres", "mariadb-postgres", "mysql-redshift", "mariadb-redshift", "mariadb-replica")
DIRECTORY = Path(__file__).parent


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmarks; returns 1 if the auditor or its service failed or returned a wrong result."""
    options = parser().parse_args(arguments)
    output = Path(options.output) if options.output else None if options.quick else DIRECTORY
    rows = options.rows or (20_000 if options.quick else 1_000_000)
    sizes = sizes_of(rows, options)
    repeat = options.repeat or (1 if options.quick else 5)
    parts = options.only or list(PARTS)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(3))  # runs the finally clauses: write the measurements, stop the servers
    when = dt.datetime.now(dt.UTC).strftime("%Y-%m-%d %H:%M UTC")
    command = shlex.join(["python", "-m", "benchmarks", *(sys.argv[1:] if arguments is None else arguments)])
    measured = describe_sizes({part: sizes[part] for part in parts})
    results = Results(
        process.describe_machine(), calls=[f"{when}, {process.load_average()}: `{command}`; {measured}, up to {repeat} runs each"]
    )
    tools = _available_tools(options.tools, results) if {"duel", "growth"} & set(parts) else []
    results.tools = {tool.name: tool.description for tool in tools}
    with tempfile.TemporaryDirectory(prefix="auditor-bench-") as scratch, open_servers() as servers:
        directory = Path(scratch)
        directory.chmod(0o755)
        try:
            if "cost" in parts:
                for engine in options.engines or cost.ENGINES:
                    results.costs.append(cost.measure(servers, engine, rows, directory, repeat))
            if "ratios" in parts:
                for engine in options.engines or cost.ENGINES:
                    results.ratios += ratios.measure(servers, engine, sizes["ratios"][0], directory, repeat)
            if "duel" in parts:
                for size, pair in itertools.product(dict.fromkeys(sizes["duel"]), options.pairs):
                    scenarios = options.scenarios or (duel.SCENARIOS_OF_SMALL_TABLES if size < rows else ())
                    _run_comparison(results, servers, pair, size, repeat, scenarios, directory, tools)
            if "growth" in parts:
                _run_growth(results, servers, options.pairs[0], sizes["growth"], repeat, directory, tools)
            if "load" in parts:
                _run_load(results, servers, options.pairs[0], rows, repeat, directory, 3.0 if options.quick else load.SECONDS)
            if "stream" in parts:
                results.streams += [
                    stream.measure(servers, engine, sizes["stream"][0], repeat) for engine in _chosen(stream.ENGINES, options)
                ]
            if "road" in parts:
                for engine in _chosen(road.ENGINES, options):
                    results.roads += road.measure(servers, engine, rows, options.scenarios)
            if "capture" in parts:
                for engine in _chosen(capture.ENGINES, options):
                    results.captures += capture.measure(servers, engine, rows, options.scenarios)
            if "topics" in parts:
                results.roads += topics.measure(servers, rows, options.scenarios)
            if "tables" in parts:
                for engine in _chosen(tables.ENGINES, options):
                    seconds = 5.0 if options.quick else tables.SECONDS
                    results.tables += tables.measure(servers, engine, options.scenarios, seconds, options.targets)
            if "refresh" in parts:
                for engine in _chosen(refreshing.ENGINES, options):
                    results.refreshes += refreshing.measure(servers, engine, options.scenarios, options.full)
            if "live" in parts:
                for pair in live.PAIRS:
                    if not options.engines or pair.partition("-")[0] in options.engines:
                        results.lives.append(live.measure(servers, pair, rows, repeat))
            if "shuffled" in parts:
                results.shuffled += shuffled.measure(rows, directory)
            if "writes" in parts:
                for pair in writes.PAIRS:
                    for each in writes.measure(servers, pair, rows, repeat, options.scenarios):
                        results.writes.append(each)
            if "files" in parts:
                results.files += files.measure(rows, directory)
            if "primary" in parts:
                for engine in _chosen(primary.ENGINES, options):
                    seconds = primary.SECONDS / (10 if options.quick else 1)
                    results.primaries.append(primary.measure(servers, engine, rows, repeat, directory, seconds))
            if "alarm" in parts:
                results.alarms.append(alarm.measure(servers, rows, repeat, directory))
            if "in_flight" in parts:
                results.in_flight += in_flight.measure(servers, repeat)
            if "start" in parts:
                results.starts += start.measure(servers, repeat, directory)
            if "repair" in parts:
                _run_repair(results, servers, sizes["repair"], rows, repeat, options.scenarios)
        finally:
            results.servers = servers.versions()
            _write(results, output)
    wrong = any(load_result.errors for load_result in results.loads)
    wrong |= any(not cost.is_right for cost in results.shuffled)
    wrong |= any(not cost.same for cost in results.writes)
    wrong |= any(not cost.is_right for cost in results.files)
    wrong |= any(each.errors for each in results.primaries)
    wrong |= any(each.false for each in results.in_flight if each.way == "history")
    wrong |= any(copy.why or copy.verdict not in ("match", "") for copy in results.copies if copy.road in copies.OURS)
    wrong |= any(repair.why or repair.wrong for repair in results.repaired if repair.tool == repairing.OURS)
    wrong |= any(each.why for each in results.starts if each.tool == Auditor.name)
    return int(wrong or any(row.tool == Auditor.name and (row.why or "WRONG" in row.verdict) for row in [*results.duels, *results.growth]))


def sizes_of(rows: int, options: argparse.Namespace) -> dict[str, tuple[int, ...]]:
    """Return of how many rows the tables are that each part measures, where ``rows`` are asked for."""
    larger = (rows * 10,) if options.full else ()
    special = {
        "ratios": (options.rows or min(rows, ratios.ROWS),),
        "duel": (rows, *larger, *(size for size in duel.SMALL_TABLES if size < rows and not options.rows)),
        "growth": (rows // 10, rows, *larger),
        "start": (start.ROWS,),
        "stream": (min(rows, stream.MAX_ROWS),),
        "repair": (min(rows, repairing.ROWS), rows // 10, *larger, rows),
    }
    return {part: special.get(part, (rows,)) for part in PARTS}


def describe_sizes(sizes: Mapping[str, Sequence[int]]) -> str:
    """Return how many rows were measured, by part where parts differ."""
    said = {part: " and ".join(f"{rows:,}" for rows in dict.fromkeys(counts)) for part, counts in sizes.items()}
    by_size = {rows: [part for part in said if said[part] == rows] for rows in said.values()}
    return ", ".join(f"{rows} rows" + (f" ({', '.join(parts)})" if len(by_size) > 1 else "") for rows, parts in by_size.items())


def _chosen(engines: Sequence[str], options: argparse.Namespace) -> list[str]:
    return [engine for engine in engines if not options.engines or engine in options.engines]


def _write(results: Results, output: Path | None) -> None:
    print(results.markdown())
    if output:
        output.mkdir(parents=True, exist_ok=True)
        merged = measurements.merge(results, output)
        measurements.write(merged, output)
        merged.write(output)
        print(f"wrote {output}/RESULTS.md", file=sys.stderr)


def _available_tools(names: Sequence[str] | None, results: Results) -> list[Tool]:
    ours = Auditor(), AuditorWithoutPrescan()
    tools: list[Tool] = [*ours, RELADIFF, RELADIFF_2, DATA_DIFF, DataValidation(), TableSync(), TableChecksum()]
    return duel.install_tools([tool for tool in tools if not names or any(tool.name.startswith(name) for name in names)], results.missing)


def _run_comparison(
    results: Results, servers: Servers, pair: str, rows: int, repeat: int, wanted: Sequence[str], directory: Path, tools: Sequence[Tool]
) -> None:
    source, target = pair.split("-")
    try:
        with duel.open_test_bed(servers, (source, target), directory) as test_bed:
            supported = _supported_tools(tools, (source, target), results.missing)
            for damage in data.damages(rows):
                if not wanted or any(word in damage.name for word in wanted):
                    results.duels += test_bed.compare(damage, rows, supported, repeat=repeat)
    except Unavailable as reason:
        results.missing[pair] = str(reason)


def _supported_tools(tools: Sequence[Tool], pair: Pair, missing: dict[str, str]) -> list[Tool]:
    """Return the tools that support a pair; ``missing`` gets the reason for each of the others."""
    reasons = {tool.name: tool.unsupported_reason(pair) for tool in tools}
    missing.update({f"{name}, {' to '.join(pair)}": reason for name, reason in reasons.items() if reason})
    return [tool for tool in tools if not reasons[tool.name]]


def _run_growth(
    results: Results, servers: Servers, pair: str, sizes: Sequence[int], repeat: int, directory: Path, tools: Sequence[Tool]
) -> None:
    source, target = pair.split("-")
    compared = [tool for tool in tools if tool.name in (Auditor.name, RELADIFF.name)]
    try:
        with duel.open_test_bed(servers, (source, target), directory) as test_bed:
            for size in sizes:
                damage = data.damages(size)[1]
                results.growth += test_bed.compare(damage, size, compared, repeat=repeat)
    except Unavailable as reason:
        results.missing["growth"] = str(reason)


def _run_load(results: Results, servers: Servers, pair: str, rows: int, repeat: int, directory: Path, seconds: float) -> None:
    source, target = pair.split("-")
    try:
        for store in load.STORES:
            results.loads += load.measure(servers, (source, target), store, rows, directory, repeat, seconds)
    except Unavailable as reason:
        results.missing["load"] = str(reason)


def _run_repair(results: Results, servers: Servers, sizes: Sequence[int], rows: int, repeat: int, words: Sequence[str]) -> None:
    """Measure patches, copies of ``rows`` rows, and the memory of copies of as many as the other sizes say."""
    chosen = {name for name in ("patches", "copies", "memory") if not words or any(word in name for word in words)}
    if "patches" in chosen:
        for repaired in repairing.measure(servers, sizes[0], repeat):
            results.repaired += repaired
    counts = [size for size in dict.fromkeys(sizes[1:]) if ("copies" if size == rows else "memory") in chosen]
    for copied in copies.measure(servers, rows, min(repeat, 3), counts):
        results.copies += copied


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--rows", type=int, metavar="N", help="rows per table (default: 1,000,000; 20,000 with --quick)")
    parser.add_argument("--only", action="append", choices=PARTS, help="run only this part; may be repeated (default: all parts)")
    parser.add_argument("--quick", action="store_true", help="small tables and one run each, to check that everything works")
    parser.add_argument(
        "--full",
        action="store_true",
        help="in parts duel, growth and repair, also measure ten times the rows, in part refresh also 2,000 tables",
    )
    parser.add_argument("--repeat", type=int, metavar="N", help="runs per measurement (default: 5, of runs above 10 s 3; 1 with --quick)")
    parser.add_argument("--pairs", nargs="+", choices=PAIRS, default=["mysql-postgres", "mariadb-redshift", "mariadb-replica"],
                        help="source-target pairs of part duel; growth and load use the first (default: %(default)s)")  # fmt: skip
    parser.add_argument(
        "--scenarios",
        nargs="+",
        default=[],
        metavar="WORD",
        help="only scenarios whose name contains one of these words; targets in part road; in part repair of patches, copies and memory",
    )
    parser.add_argument(
        "--targets", nargs="+", choices=tuple(tables.READERS), default=list(tables.READERS), help="only these targets in part tables"
    )
    parser.add_argument("--tools", nargs="+", metavar="NAME", help="only tools whose name starts with one of these")
    parser.add_argument(
        "--engines", nargs="+", choices=cost.ENGINES, help="only these engines in parts cost, ratios, stream, road and live (default: all)"
    )
    parser.add_argument(
        "--output",
        metavar="DIR",
        help="directory of RESULTS.md, which is merged with earlier measurements there (default: benchmarks/; none with --quick)",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
