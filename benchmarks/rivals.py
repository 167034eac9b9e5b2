"""The other tools: how to install and call each, and how to read its result.

Each is installed in its own virtual environment in ``${XDG_CACHE_HOME:-~/.cache}/auditor-bench``, created on demand; a tool that cannot
be installed is listed under "Left out". The pinned versions are those that worked.
"""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import urlsplit

from benchmarks.data import MYSQL_FAMILY, Damage
from benchmarks.process import CompletedCommand
from benchmarks.servers import cache
from benchmarks.shapes import Key
from tests.servers.process import Unavailable

Pair = tuple[str, str]
"""The engines of source and target."""


@dataclass(frozen=True)
class Endpoint:
    """One side of a comparison: the engine, and the URL through the counting proxy."""

    engine: str
    url: str

    @property
    def plain(self) -> str:
        """The URL without options and with a scheme that the other tools support."""
        return self.url.split("?")[0].replace("mariadb://", "mysql://")

    @property
    def port(self) -> str:
        return str(urlsplit(self.url).port)


@dataclass(frozen=True)
class Job:
    """The task of a tool. Only the check of its answer uses the rows in ``damage``."""

    source: Endpoint
    target: Endpoint
    damage: Damage
    rows: int
    directory: Path


@dataclass
class Answer:
    """A tool's result: the keys that it named (None: it names none), the number of rows that it counted, and a note."""

    keys: set[Key] | None = None
    count: int | None = None
    note: str = ""


class Tool:
    """A tool of the comparison; ``description`` describes how it works."""

    name = ""
    description = ""

    def install(self) -> None:
        """Install the tool if it is not installed yet. Raises Unavailable."""

    def unsupported_reason(self, pair: Pair) -> str | None:
        """Return why the tool cannot compare these engines; None if it can."""
        return None

    def set_up(self, job: Job) -> None:
        """Prepare the run; not part of the measured time."""

    def commands(self, job: Job) -> list[list[str]]:
        """Return the commands, which are run and measured one after another."""
        raise NotImplementedError

    def environment(self, job: Job) -> dict[str, str]:
        """Return additional environment variables of the commands."""
        return {}

    def answer(self, job: Job, completed: CompletedCommand) -> Answer:
        """Read the result from the last command. Raises ValueError if the tool failed."""
        raise NotImplementedError

    def tear_down(self, job: Job) -> None:
        """Clean up after the run; not part of the measured time."""


def install_program(name: str, python: str, packages: Sequence[str], program: str) -> Path:
    """Create a virtual environment with the packages if needed, and return the path of ``program`` in it."""
    home = cache() / name
    executable = home / "bin" / program
    stamp = home / ".installed"
    if stamp.exists() and stamp.read_text() == "\n".join(packages):
        return executable
    interpreter = shutil.which(python) or sys.executable
    home.parent.mkdir(parents=True, exist_ok=True)
    for command in ([interpreter, "-m", "venv", str(home)], [str(home / "bin" / "python"), "-m", "pip", "install", "--quiet", *packages]):
        result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=900)
        if result.returncode != 0:
            last = [line for line in result.stderr.splitlines() if "ERROR" in line] or result.stderr.splitlines() or ["no error message"]
            raise Unavailable(f"{name} could not be installed: {last[-1].strip()}")
    if not executable.exists():
        raise Unavailable(f"{name} was installed, but has no program {program}")
    stamp.write_text("\n".join(packages))
    return executable


@dataclass(kw_only=True)
class Reladiff(Tool):
    """reladiff, and its ancestor data-diff: bisection by checksums; segments below a threshold are downloaded from both sides."""

    name: str
    python: str
    packages: tuple[str, ...]
    options: tuple[str, ...] = ()
    columns_not_on_stand_in: tuple[str, ...] = ()
    """Beginnings of the names of columns that are left out on the stand-in for Redshift, where it fails through no fault of the tool's."""
    connections: int = 1
    """Connections a side."""
    description: str = "bisection by checksums; downloads segments below a threshold"
    program: Path = field(default_factory=Path)

    def install(self) -> None:
        command = self.name.split()[0]
        self.program = install_program(command, self.python, self.packages, command)

    def commands(self, job: Job) -> list[list[str]]:
        table = job.damage.shape.table
        left_out = self.columns_not_on_stand_in if job.target.engine == "redshift" else ()
        keys = [part for key in job.damage.shape.key for part in ("-k", key)]
        columns = [part for column in job.damage.shape.columns if not column.startswith(left_out) for part in ("-c", column)]
        ends = [job.source.plain, table, job.target.plain, table]
        return [[str(self.program), *ends, *keys, *columns, "--json", "-j", str(self.connections), *self.options]]

    def environment(self, job: Job) -> dict[str, str]:
        return {"COLUMNS": "100000", "DO_NOT_TRACK": "1"}

    def answer(self, job: Job, completed: CompletedCommand) -> Answer:
        lines = [json.loads(line) for line in completed.out.splitlines() if line.startswith('["')]
        width = len(job.damage.shape.key)
        failed = [line for line in (completed.out + completed.err).splitlines() if re.search(r"ERROR|Error:", line)]
        if failed:  # the exit code is 0 nevertheless
            raise ValueError(re.sub(r"^.*?(ERROR - |Error: )", "", failed[-1]).strip())
        partial = self.columns_not_on_stand_in and job.target.engine == "redshift"
        note = "with values" if lines else ""
        if partial:
            note = f"column {', '.join(self.columns_not_on_stand_in)} not compared"
        return Answer({tuple(row[:width]) for _, row in lines}, note=note)


class DataValidation(Tool):
    """Google's Data Validation Tool: row hashes of both sides, joined in pandas."""

    name = "data-validation"
    description = "downloads key and hash of every row from both sides"

    def install(self) -> None:
        self.program = install_program("dvt", "python3.11", ("google-pso-data-validator==8.10.1",), "data-validation")

    def unsupported_reason(self, pair: Pair) -> str | None:
        if pair[0] in ("mariadb", "replica"):
            return "it does not support MariaDB: DECIMAL values are wrong, and differences are missed"
        if pair[1] == "redshift":
            return "its Redshift SQL formats decimals in a way that the stand-in does not support"
        return None

    def set_up(self, job: Job) -> None:
        home = job.directory / "connections"
        home.mkdir(exist_ok=True)
        kinds = {"mysql": ("MySQL", "root", ""), "postgres": ("Postgres", "audit", "audit")}
        for side, end in (("source", job.source), ("target", job.target)):
            kind, user, password = kinds[end.engine]
            known = {"source_type": kind, "secret_manager_type": None, "secret_manager_project_id": None, "host": "127.0.0.1"}
            known |= {"port": end.port, "user": user, "password": password, "database": "audit"}
            (home / f"{side}.connection.json").write_text(json.dumps(known))

    def environment(self, job: Job) -> dict[str, str]:
        return {"PSO_DV_CONN_HOME": str(job.directory / "connections")}

    def commands(self, job: Job) -> list[list[str]]:
        shape = job.damage.shape
        tables = f"audit.{shape.table}=public.{shape.table}"
        options = ["--primary-keys", ",".join(shape.key), "--hash", ",".join(shape.columns), "--filter-status", "fail", "--format", "csv"]
        return [[str(self.program), "validate", "row", "-sc", "source", "-tc", "target", "-tbls", tables, *options]]

    def answer(self, job: Job, completed: CompletedCommand) -> Answer:
        start = completed.out.find("validation_name,")
        if completed.code != 0 or (start < 0 and completed.out.strip()):
            raise ValueError(completed.error_message)
        rows = csv.DictReader(io.StringIO(completed.out[start:])) if start >= 0 else []
        groups = [json.loads(row["group_by_columns"]) for row in rows if row["validation_status"] == "fail"]
        return Answer({tuple(str(group[key]) for key in job.damage.shape.key) for group in groups})


def statement_keys(out: str, key: Sequence[str]) -> set[Key]:
    """Return the keys in the statements that pt-table-sync prints."""
    keys: set[Key] = set()
    for line in out.splitlines():
        if line.startswith(("UPDATE", "DELETE")):
            where = line[line.rindex(" WHERE ") :]
            keys.add(tuple(_first_group(rf"`{name}`='?([^' ]+)'?", where) for name in key))
        elif line.startswith(("INSERT", "REPLACE")):
            names = _first_group(r"\(([^)]*)\) VALUES", line).replace("`", "").split(", ")
            values = next(csv.reader([_first_group(r"VALUES \((.*?)\) */\*", line)], quotechar="'", skipinitialspace=True))
            row = dict(zip(names, values, strict=True))
            keys.add(tuple(row[name] for name in key))
    return keys


def _first_group(pattern: str, text: str) -> str:
    match = re.search(pattern, text)
    if not match:
        raise ValueError(f"cannot parse a printed statement: {text[:80]}")
    return match.group(1)


class TableSync(Tool):
    """pt-table-sync without replication: compares checksums of chunks, then of rows."""

    name = "pt-table-sync"
    description = "prints the statements that repair the target; MySQL and MariaDB only"

    def install(self) -> None:
        if not shutil.which(self.name):
            raise Unavailable("not installed; install it with: apt-get install percona-toolkit")

    def unsupported_reason(self, pair: Pair) -> str | None:
        if not {*pair} <= {*MYSQL_FAMILY}:
            return "it supports only MySQL and MariaDB"
        return None

    def commands(self, job: Job) -> list[list[str]]:
        ends = [f"h=127.0.0.1,P={end.port},u=root,D=audit,t={job.damage.shape.table}" for end in (job.source, job.target)]
        unchecked = ["--no-check-slave", "--no-check-triggers", "--no-check-child-tables"]
        return [[self.name, "--print", *unchecked, "--chunk-size=10000", *ends]]

    def answer(self, job: Job, completed: CompletedCommand) -> Answer:
        if completed.code not in (0, 2):  # 2: differences found
            raise ValueError(completed.error_message)
        return Answer(statement_keys(completed.out, job.damage.shape.key))


RELADIFF = Reladiff(
    name="reladiff",
    python="python3.11",
    packages=("reladiff[mysql,postgresql]==0.6.0",),
    columns_not_on_stand_in=("created",),
)
RELADIFF_2 = replace(RELADIFF, name="reladiff -j 2", connections=2, description="reladiff with two connections a side")
DATA_DIFF = Reladiff(
    name="data-diff",
    python="python3.11",
    packages=("data-diff==0.11.2", "dbt-core<1.10", "pydantic<2", "mysql-connector-python", "psycopg2-binary", "setuptools<81"),
    options=("--no-tracking",),
    description="reladiff's archived ancestor",
)
