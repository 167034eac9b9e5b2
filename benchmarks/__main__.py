"""``python -m benchmarks``: measures, prints the tables and writes RESULTS.md with its drawings."""

from __future__ import annotations

import argparse
import datetime as dt
import shlex
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks import cost, data, duel, kept, load, process
from benchmarks.ours import Auditor
from benchmarks.replica import TableChecksum
from benchmarks.results import Results
from benchmarks.rivals import DATA_DIFF, RELADIFF, DataValidation, Pair, TableSync, Tool
from benchmarks.servers import Servers, open_servers
from tests.servers._process import Unavailable

PARTS = ("cost", "duel", "growth", "threads", "load")
PAIRS = ("mysql-postgres", "mariadb-postgres", "mysql-redshift", "mariadb-redshift", "mariadb-replica")
HERE = Path(__file__).parent


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmarks; 1 if the auditor or its service gave a wrong answer, or none."""
    options = _parser().parse_args(arguments)
    output = Path(options.output) if options.output else None if options.quick else HERE
    rows = options.rows or (20_000 if options.quick else 1_000_000)
    repeat = options.repeat or (1 if options.quick else 3)
    parts = options.only or list(PARTS)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(3))  # what was measured is written, and the servers are stopped
    when = dt.datetime.now(dt.UTC).strftime("%Y-%m-%d %H:%M UTC")
    called = shlex.join(["python", "-m", "benchmarks", *(sys.argv[1:] if arguments is None else arguments)])
    found = Results(process.machine(), calls=[f"{when}, {process.load()}: `{called}`; {rows:,} rows, up to {repeat} runs each"])
    tools = _chosen(options.tools, found) if set(parts) - {"cost", "load"} else []
    found.tools = {tool.name: tool.about for tool in tools}
    with tempfile.TemporaryDirectory(prefix="auditor-bench-") as scratch, open_servers() as servers:
        directory = Path(scratch)
        directory.chmod(0o755)
        try:
            if "cost" in parts:
                for engine in options.engines or cost.ENGINES:
                    found.costs.append(cost.measure(servers, engine, rows, directory, repeat))
            if "duel" in parts:
                for pair in options.pairs:
                    _duels(found, servers, pair, rows, repeat, options.scenarios, directory, tools)
            if "growth" in parts:
                sizes = (rows // 10, rows, rows * 10) if options.full else (rows // 10, rows)
                _growth(found, servers, options.pairs[0], sizes, repeat, directory, tools)
            if "threads" in parts:
                _threads(found, servers, options.pairs[0], rows, repeat, directory, tools)
            if "load" in parts:
                _loads(found, servers, options.pairs[0], rows, repeat, directory, 3.0 if options.quick else load.SECONDS)
        finally:
            found.servers = servers.versions()
            _written(found, output)
    wrong = any(one.errors for one in found.loads)
    return int(wrong or any(row.tool == Auditor.name and (row.why or "WRONG" in row.verdict) for row in [*found.duels, *found.growth]))


def _written(found: Results, output: Path | None) -> None:
    print(found.markdown())
    if output:
        output.mkdir(parents=True, exist_ok=True)
        every = kept.joined(found, output)
        kept.write(every, output)
        every.write(output)
        print(f"wrote {output}/RESULTS.md", file=sys.stderr)


def _chosen(names: Sequence[str] | None, found: Results) -> list[Tool]:
    every: list[Tool] = [Auditor(), RELADIFF, DATA_DIFF, DataValidation(), TableSync(), TableChecksum()]
    return duel.prepared([tool for tool in every if not names or any(tool.name.startswith(name) for name in names)], found.missing)


def _duels(
    found: Results, servers: Servers, pair: str, rows: int, repeat: int, wanted: Sequence[str], directory: Path, tools: Sequence[Tool]
) -> None:
    source, target = pair.split("-")
    try:
        with duel.arena(servers, (source, target), directory) as arena:
            able = _asked(tools, (source, target), found.missing)
            for damage in data.damages(rows):
                if not wanted or any(word in damage.name for word in wanted):
                    found.duels += arena.duel(damage, rows, able, repeat=repeat)
    except Unavailable as reason:
        found.missing[pair] = str(reason)


def _asked(tools: Sequence[Tool], pair: Pair, missing: dict[str, str]) -> list[Tool]:
    """The tools that can be asked about a pair; why the others cannot goes to ``missing``, once."""
    reasons = {tool.name: tool.refuses(pair, 1) for tool in tools}
    missing.update({f"{name}, {' to '.join(pair)}": reason for name, reason in reasons.items() if reason})
    return [tool for tool in tools if not reasons[tool.name]]


def _growth(found: Results, servers: Servers, pair: str, sizes: Sequence[int], repeat: int, directory: Path, tools: Sequence[Tool]) -> None:
    source, target = pair.split("-")
    rivals = [tool for tool in tools if tool.name in (Auditor.name, RELADIFF.name)]
    try:
        with duel.arena(servers, (source, target), directory) as arena:
            for size in sizes:
                damage = data.damages(size)[1]
                found.growth += arena.duel(damage, size, rivals, repeat=repeat)
    except Unavailable as reason:
        found.missing["growth"] = str(reason)


def _threads(found: Results, servers: Servers, pair: str, rows: int, repeat: int, directory: Path, tools: Sequence[Tool]) -> None:
    source, target = pair.split("-")
    rivals = [tool for tool in tools if tool.name in (Auditor.name, RELADIFF.name, DATA_DIFF.name)]
    try:
        with duel.arena(servers, (source, target), directory) as arena:
            for damage in data.damages(rows)[:3]:
                for threads in (1, 2):
                    found.threads += arena.duel(damage, rows, rivals, repeat=repeat, threads=threads)
    except Unavailable as reason:
        found.missing["threads"] = str(reason)


def _loads(found: Results, servers: Servers, pair: str, rows: int, repeat: int, directory: Path, seconds: float) -> None:
    source, target = pair.split("-")
    try:
        for store in load.STORES:
            found.loads += load.measure(servers, (source, target), store, rows, directory, repeat, seconds)
    except Unavailable as reason:
        found.missing["load"] = str(reason)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--rows", type=int, metavar="N", help="rows of each table (default: 1,000,000; 20,000 with --quick)")
    parser.add_argument("--only", action="append", choices=PARTS, help="one part; may be given several times (default: all)")
    parser.add_argument("--quick", action="store_true", help="small tables, one run each: to see that all works")
    parser.add_argument("--full", action="store_true", help="growth up to ten times the rows")
    parser.add_argument("--repeat", type=int, metavar="N", help="runs of each measurement (default: 3; 1 with --quick)")
    parser.add_argument("--pairs", nargs="+", choices=PAIRS, default=["mysql-postgres", "mariadb-redshift", "mariadb-replica"],
                        help="source-target pairs of the duel; growth, threads and load use the first (default: %(default)s)")  # fmt: skip
    parser.add_argument("--scenarios", nargs="+", default=[], metavar="WORD", help="only scenarios whose name holds one of these")
    parser.add_argument("--tools", nargs="+", metavar="NAME", help="only these tools")
    parser.add_argument("--engines", nargs="+", choices=cost.ENGINES, help="only these engines in part cost")
    parser.add_argument(
        "--output",
        metavar="DIR",
        help="where RESULTS.md goes, beside what was measured before (default: benchmarks/, with --quick nowhere)",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
