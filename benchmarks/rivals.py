"""The other tools: how each is installed, called, and what it answered.

Each lives in an environment of its own below ``${XDG_CACHE_HOME:-~/.cache}/auditor-bench``, made on demand; one that cannot be
installed is left out by name. Versions and pins are those that were found to work.
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
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from benchmarks.data import MYSQL_FAMILY, VALUES, Damage, Key
from benchmarks.process import Ran
from benchmarks.servers import cache
from tests.servers._process import Unavailable

Pair = tuple[str, str]
"""The engines of source and target."""


@dataclass(frozen=True)
class End:
    """One side of a comparison: the engine and the URL through the wire."""

    engine: str
    url: str

    @property
    def plain(self) -> str:
        """The URL without its options, and with the scheme that the rivals know."""
        return self.url.split("?")[0].replace("mariadb://", "mysql://")

    @property
    def port(self) -> str:
        return str(urlsplit(self.url).port)


@dataclass(frozen=True)
class Job:
    """What a tool is asked: two ends, the damage (whose answer only the judge uses), connections a side, a scratch directory."""

    source: End
    target: End
    damage: Damage
    rows: int
    directory: Path
    threads: int = 1


@dataclass
class Answer:
    """What a tool said: the keys that it named; where it names only some or none, how many rows it counted; what else it told."""

    keys: set[Key] | None = None
    count: int | None = None
    note: str = ""


class Tool:
    """A tool of the duel."""

    name = ""
    about = ""

    def prepare(self) -> None:
        """Install it where it is not yet. Raises Unavailable."""

    def refuses(self, pair: Pair, threads: int) -> str | None:
        """Why it cannot be asked about these engines, over this many connections a side; None if it can."""
        return None

    def before(self, job: Job) -> None:
        """What has to be set up and is no part of the measured time."""

    def commands(self, job: Job) -> list[list[str]]:
        """The commands, measured one after another."""
        raise NotImplementedError

    def environment(self, job: Job) -> dict[str, str]:
        """Environment variables of the commands."""
        return {}

    def answer(self, job: Job, ran: Ran) -> Answer:
        """What it answered, from its last command. Raises ValueError when it failed."""
        raise NotImplementedError

    def after(self, job: Job) -> None:
        """What has to be ended when all is measured."""


def _environment(name: str, python: str, packages: Sequence[str], program: str) -> Path:
    """A virtual environment with these packages; the program in it."""
    home = cache() / name
    found = home / "bin" / program
    done = home / ".installed"
    if done.exists() and done.read_text() == "\n".join(packages):
        return found
    interpreter = shutil.which(python) or sys.executable
    home.parent.mkdir(parents=True, exist_ok=True)
    for command in ([interpreter, "-m", "venv", str(home)], [str(home / "bin" / "python"), "-m", "pip", "install", "--quiet", *packages]):
        ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=900)
        if ended.returncode != 0:
            last = [line for line in ended.stderr.splitlines() if "ERROR" in line] or ended.stderr.splitlines() or ["it said nothing"]
            raise Unavailable(f"{name} could not be installed: {last[-1].strip()}")
    if not found.exists():
        raise Unavailable(f"{name} was installed, but has no program {program}")
    done.write_text("\n".join(packages))
    return found


@dataclass(kw_only=True)
class Diff(Tool):
    """reladiff, and data-diff, from which it comes: bisection by checksums, text of both sides downloaded below a threshold."""

    name: str
    python: str
    packages: tuple[str, ...]
    options: tuple[str, ...] = ()
    #: Columns that it gets wrong on the stand-in for Redshift through no fault of its own.
    not_on_stand_in: tuple[str, ...] = ()
    about: str = "bisection by checksums; downloads what is below a threshold"
    program: Path = field(default_factory=Path)

    def prepare(self) -> None:
        self.program = _environment(self.name, self.python, self.packages, self.name)

    def commands(self, job: Job) -> list[list[str]]:
        table = job.damage.shape.table
        left_out = self.not_on_stand_in if job.target.engine == "redshift" else ()
        keys = [part for key in job.damage.shape.key for part in ("-k", key)]
        columns = [part for column in VALUES if column not in left_out for part in ("-c", column)]
        ends = [job.source.plain, table, job.target.plain, table]
        return [[str(self.program), *ends, *keys, *columns, "--json", "-j", str(job.threads), *self.options]]

    def environment(self, job: Job) -> dict[str, str]:
        return {"COLUMNS": "100000", "DO_NOT_TRACK": "1"}

    def answer(self, job: Job, ran: Ran) -> Answer:
        lines = [json.loads(line) for line in ran.out.splitlines() if line.startswith('["')]
        width = len(job.damage.shape.key)
        failed = [line for line in (ran.out + ran.err).splitlines() if re.search(r"ERROR|Error:", line)]
        if failed:  # it ends with 0 all the same
            raise ValueError(re.sub(r"^.*?(ERROR - |Error: )", "", failed[-1]).strip())
        partial = self.not_on_stand_in and job.target.engine == "redshift"
        note = "with values" if lines else ""
        if partial:
            note = f"column {', '.join(self.not_on_stand_in)} not compared"
        return Answer({tuple(row[:width]) for _, row in lines}, note=note)


class DataValidation(Tool):
    """Google's data validation tool: row hashes of both sides, joined in pandas."""

    name = "data-validation"
    about = "downloads key and hash of every row of both sides"

    def prepare(self) -> None:
        self.program = _environment("dvt", "python3.11", ("google-pso-data-validator==8.10.1",), "data-validation")

    def refuses(self, pair: Pair, threads: int) -> str | None:
        if pair[0] in ("mariadb", "replica"):
            return "MariaDB is no source that it knows: its DECIMALs come out wrong, and differences are missed"
        if pair[1] == "redshift":
            return "its Redshift SQL formats decimals as the stand-in does not"
        return None if threads == 1 else "it has one connection a side"

    def before(self, job: Job) -> None:
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
        options = ["--primary-keys", ",".join(shape.key), "--hash", ",".join(VALUES), "--filter-status", "fail", "--format", "csv"]
        return [[str(self.program), "validate", "row", "-sc", "source", "-tc", "target", "-tbls", tables, *options]]

    def answer(self, job: Job, ran: Ran) -> Answer:
        start = ran.out.find("validation_name,")
        if ran.code != 0 or (start < 0 and ran.out.strip()):
            raise ValueError(ran.last_words)
        rows = csv.DictReader(io.StringIO(ran.out[start:])) if start >= 0 else []
        groups = [json.loads(row["group_by_columns"]) for row in rows if row["validation_status"] == "fail"]
        return Answer({tuple(str(group[key]) for key in job.damage.shape.key) for group in groups})


def statement_keys(out: str, key: Sequence[str]) -> set[Key]:
    """The keys in the statements that pt-table-sync prints."""
    found: set[Key] = set()
    for line in out.splitlines():
        if line.startswith(("UPDATE", "DELETE")):
            where = line[line.rindex(" WHERE ") :]
            found.add(tuple(_group(rf"`{name}`='?([^' ]+)'?", where) for name in key))
        elif line.startswith(("INSERT", "REPLACE")):
            names = _group(r"\(([^)]*)\) VALUES", line).replace("`", "").split(", ")
            values = next(csv.reader([_group(r"VALUES \((.*?)\) */\*", line)], quotechar="'", skipinitialspace=True))
            row = dict(zip(names, values, strict=True))
            found.add(tuple(row[name] for name in key))
    return found


def _group(pattern: str, text: str) -> str:
    found = re.search(pattern, text)
    if not found:
        raise ValueError(f"it printed a statement of an unknown form: {text[:80]}")
    return found.group(1)


class TableSync(Tool):
    """pt-table-sync on its own: both tables by checksums of chunks, then of rows."""

    name = "pt-table-sync"
    about = "prints the statements that mend the target; MySQL and MariaDB only"

    def prepare(self) -> None:
        if not shutil.which(self.name):
            raise Unavailable("apt-get install percona-toolkit brings it")

    def refuses(self, pair: Pair, threads: int) -> str | None:
        if not {*pair} <= {*MYSQL_FAMILY}:
            return "it knows MySQL and MariaDB only"
        return None if threads == 1 else "it has one connection a side"

    def commands(self, job: Job) -> list[list[str]]:
        ends = [f"h=127.0.0.1,P={end.port},u=root,D=audit,t={job.damage.shape.table}" for end in (job.source, job.target)]
        calm = ["--no-check-slave", "--no-check-triggers", "--no-check-child-tables"]
        return [[self.name, "--print", *calm, "--chunk-size=10000", *ends]]

    def answer(self, job: Job, ran: Ran) -> Answer:
        if ran.code not in (0, 2):  # 2: there were differences
            raise ValueError(ran.last_words)
        return Answer(statement_keys(ran.out, job.damage.shape.key))


RELADIFF = Diff(
    name="reladiff",
    python="python3.11",
    packages=("reladiff[mysql,postgresql]==0.6.0",),
    not_on_stand_in=("created",),
)
DATA_DIFF = Diff(
    name="data-diff",
    python="python3.11",
    packages=("data-diff==0.11.2", "dbt-core<1.10", "pydantic<2", "mysql-connector-python", "psycopg2-binary", "setuptools<81"),
    options=("--no-tracking",),
    about="reladiff's archived ancestor",
)
