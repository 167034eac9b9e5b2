"""Part start: what a command costs of which little but its start is work, beside the interpreter's own and other tools'.

The tables have 1,000 rows, as most tables have few. CPU time is that of the command's process and its descendants, and not the servers'.
"""

from __future__ import annotations

import shlex
import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import duckdb
import yaml

from benchmarks import data, duel, process
from benchmarks.auditor_tool import ROOT, Auditor
from benchmarks.rivals import RELADIFF, Endpoint, Job, install_program
from benchmarks.servers import Servers
from tests.servers import mysql, postgres
from tests.servers.process import Unavailable

PAIR = ("mariadb", "postgres")
ROWS = 1000
AUDITS = 200
"""Audits of the configuration that is listed and checked."""

COPIES = [f"copy_{number:03}" for number in range(AUDITS)]
"""Tables that one command compares, and another tool by a command each."""

DRIVERS = "import pymysql, psycopg2"
"""What a run between these two servers cannot do without."""

OTHERS = {"dbt": ("dbt-core<2", "dbt-postgres<2")}
"""Packages of other tools of data engineers whose start is measured, by program."""


@dataclass(frozen=True)
class Start:
    """The median of a command's runs, in seconds and bytes; ``why`` has the reason if it could not run."""

    tool: str
    command: str
    cpu: float | None = None
    seconds: float | None = None
    memory: int = 0
    why: str = ""


@dataclass(frozen=True)
class _Command:
    tool: str
    what: str
    line: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)
    codes: tuple[int, ...] = (0,)
    repeats: bool = True
    """Whether it is repeated as often as asked for; else it is measured once, after it has run once: it takes a minute or more."""


def measure(servers: Servers, repeat: int, directory: Path) -> Iterator[Start]:
    """Measure all commands in turns, and yield one median each."""
    damage = data.damages(ROWS)[0]
    urls = [servers[engine].url for engine in PAIR]
    table = data.make_file(directory, damage.shape, ROWS)
    home = directory / "start"
    home.mkdir()
    for engine, url in zip(PAIR, urls, strict=True):
        data.load(engine, url, damage.shape, table)
    _copy(urls, damage.shape.table)
    try:
        job = Job(Endpoint(PAIR[0], urls[0]), Endpoint(PAIR[1], urls[1]), damage, ROWS, home)
        commands = [*_own(job), *_python()]
        for command in (_reladiff(job), *map(_version, OTHERS)):
            if isinstance(command, Start):
                yield command
            else:
                commands.append(command)
                if command.tool == RELADIFF.name:
                    commands.append(_for_each_copy(command, damage.shape.table))
        runs: dict[int, list[process.CompletedCommand]] = {number: [] for number in range(len(commands))}
        for turn in range(repeat + 1):  # the first one, which is not counted, makes the store and warms the files
            for number, command in enumerate(commands):
                if turn > 1 and not command.repeats:
                    continue
                done = process.run(command.line, environment=command.environment, cwd=home)
                if turn:
                    runs[number].append(done)
        for number, command in enumerate(commands):
            yield _median(command, runs[number])
    finally:
        for engine, url in zip(PAIR, urls, strict=True):
            data.drop(engine, url, damage.shape)
        _drop_copies(urls)


def _copy(urls: Sequence[str], table: str) -> None:
    """Copy the table on both sides, with its key, as often as one command compares it."""
    _drop_copies(urls)
    with mysql.connect(urls[0]) as connection, connection.cursor() as cursor:
        for name in COPIES:
            cursor.execute(f"CREATE TABLE {name} LIKE {table}")
            cursor.execute(f"INSERT INTO {name} SELECT * FROM {table}")
    with closing(postgres.connect(urls[1])) as target, target.cursor() as cursor:
        for name in COPIES:
            cursor.execute(f"CREATE TABLE {name} (LIKE {table} INCLUDING ALL)")
            cursor.execute(f"INSERT INTO {name} SELECT * FROM {table}")


def _drop_copies(urls: Sequence[str]) -> None:
    with mysql.connect(urls[0]) as connection, connection.cursor() as cursor:
        cursor.execute(f"DROP TABLE IF EXISTS {', '.join(COPIES)}")
    with closing(postgres.connect(urls[1])) as target, target.cursor() as cursor:
        cursor.execute(f"DROP TABLE IF EXISTS {', '.join(COPIES)}")


def _own(job: Job) -> Iterator[_Command]:
    """Yield the auditor's commands; what they say is checked by their exit code, which is 0 for a match alone."""
    Auditor().set_up(job)
    _write_many(job.directory)
    _write_copies(job)
    environment = {"PYTHONPATH": str(ROOT)}
    table = job.damage.shape.table
    lines = {
        "--version": ["--version"],
        f"run, {ROWS:,} rows, stored": ["run", "duel", "--quiet"],
        f"run, {ROWS:,} rows, not stored": ["run", "duel", "--quiet", "--no-store"],
        f"diff, {ROWS:,} rows": ["diff", "--quiet", job.source.url, table, job.target.url, table],
        f"ls, {AUDITS} audits": ["ls", "--config", "many.yaml"],
        "check, 1 audit": ["check"],
        f"check, {AUDITS} audits in DuckDB": ["check", "--config", "many.yaml"],
    }
    for what, line in lines.items():
        yield _Command(Auditor.name, what, [sys.executable, "-m", "auditor", *line], environment)
    line = [sys.executable, "-m", "auditor", "run", "--all", "--quiet", "--config", "copies.yaml"]
    yield _Command(Auditor.name, f"run --all, {len(COPIES)} tables of {ROWS:,} rows, stored", line, environment, repeats=False)


def _write_copies(job: Job) -> None:
    """Write a configuration of an audit for each copy of the table."""
    sides = {"source": job.source, "target": job.target}
    audits = {name: {**{side: {"connection": side, "table": name} for side in sides}, "key": list(job.damage.shape.key)} for name in COPIES}
    connections = {side: {"url": end.url} for side, end in sides.items()}
    configuration = {"connections": connections, "store": {"url": "sqlite:///copies.db"}, "audits": audits}
    (job.directory / "copies.yaml").write_text(yaml.safe_dump(configuration))


def _write_many(directory: Path) -> None:
    """Write a configuration of many audits, with their tables in two files."""
    names = [f"t{number:03}" for number in range(AUDITS)]
    for side in ("here", "there"):
        with duckdb.connect(str(directory / f"{side}.duckdb")) as connection:
            for name in names:
                connection.execute(f"CREATE TABLE {name} AS SELECT i AS id, 'value ' || i AS v FROM range({ROWS}) r(i)")
    audits = {name: {"source": {"connection": "here", "table": name}, "target": {"connection": "there", "table": name}} for name in names}
    configuration = {
        "connections": {side: {"url": f"duckdb:///{directory}/{side}.duckdb"} for side in ("here", "there")},
        "store": {"url": "sqlite:///many.db"},
        "audits": {name: {**audit, "key": ["id"]} for name, audit in audits.items()},
    }
    (directory / "many.yaml").write_text(yaml.safe_dump(configuration))


def _python() -> Iterator[_Command]:
    for what, code in (("-c pass", "pass"), (f"-c '{DRIVERS}'", DRIVERS)):
        yield _Command("python", what, [sys.executable, "-c", code])


def _reladiff(job: Job) -> _Command | Start:
    """Return reladiff's command on the same two tables; why not, if it cannot be installed, or answers wrongly."""
    what = f"{ROWS:,} rows"
    try:
        RELADIFF.install()
        [line] = RELADIFF.commands(job)
        verdict = duel.verdict_of(RELADIFF.answer(job, process.run(line, environment=RELADIFF.environment(job))), set())
    except (Unavailable, OSError, ValueError) as reason:
        return Start(RELADIFF.name, what, why=str(reason))
    return _Command(RELADIFF.name, what, line, RELADIFF.environment(job)) if verdict == "right" else Start(RELADIFF.name, what, why=verdict)


def _for_each_copy(command: _Command, table: str) -> _Command:
    """Return a shell's loop of another tool's command over the copies of the table."""
    lines = (shlex.join(name if word == table else word for word in command.line) for name in COPIES)
    what = f"{len(COPIES)} tables of {ROWS:,} rows, a command each"
    return _Command(command.tool, what, ["sh", "-c", "\n".join(["set -e", *lines])], command.environment, repeats=False)


def _version(program: str) -> _Command | Start:
    try:
        path = install_program(program, "python3.11", OTHERS[program], program)
    except (Unavailable, OSError) as reason:
        return Start(program, "--version", why=str(reason))
    return _Command(program, "--version", [str(path), "--version"], {"DO_NOT_TRACK": "1"})


def _median(command: _Command, runs: Sequence[process.CompletedCommand]) -> Start:
    failed = next((run for run in runs if run.timed_out or run.code not in command.codes), None)
    if failed:
        return Start(command.tool, command.what, why=f"FAILED: {failed.error_message[:160]}")
    return Start(
        command.tool,
        command.what,
        statistics.median(run.cpu for run in runs),
        statistics.median(run.seconds for run in runs),
        int(statistics.median(run.memory for run in runs)),
    )
