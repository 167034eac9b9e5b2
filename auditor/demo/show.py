"""The demonstration: load the flights, damage the target, audit it, compare the findings with the damage, and leave files to go on with."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import yaml
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from auditor import service
from auditor.config import Settings
from auditor.connections.reader import OnProgress
from auditor.demo import flights, load
from auditor.demo.damage import Damage, apply_faults
from auditor.errors import ConfigError
from auditor.model import Differences, Report
from auditor.service.definitions import definition
from dialects import Place

AUDIT = "flights"
SOURCE, TARGET = "auditor_demo_flights", "auditor_demo_flights_copy"


@dataclass(frozen=True, slots=True)
class DemoResult:
    """The report of the audit, the damage done to the target, the settings used, and where to go from here."""

    report: Report
    damages: list[Damage]
    settings: Settings
    files: list[Path]
    """The SQL of both sides, and a configuration of the same audit."""
    commands: list[str]
    """What to try next."""

    @property
    def preface(self) -> RenderableType:
        """What is printed above the report: each fault with the rows that the audit found."""
        return Group(Text("Faults in the target, and the rows that the audit found\n", "bold"), _faults(self), Text())

    @property
    def epilogue(self) -> RenderableType:
        """What is printed below the report: the files that were written, and commands to try next."""
        files = ", ".join(map(str, self.files))
        return Group(Text(f"\n  wrote {files}\n"), Text("Try next:", "bold"), *(Text(f"  {command}") for command in self.commands))


def run(source: str | None, target: str | None, directory: Path, rows: int | None, watch: OnProgress) -> DemoResult:
    """Load both sides, audit them, and return the result.

    Without URLs both sides are DuckDB files in ``directory``. Raises ConfigError if only one URL is given, and other AuditorErrors.
    """
    if (source is None) != (target is None):
        raise ConfigError("--source and --target must be given together; give both or neither")
    directory.mkdir(parents=True, exist_ok=True)
    source = source or f"duckdb:///{directory}/source.duckdb"
    target = target or f"duckdb:///{directory}/target.duckdb"
    original = flights.load(rows)
    damaged, damages = apply_faults(original)
    places = (load.load_table(source, SOURCE, original, flights.SCHEMA), load.load_table(target, TARGET, damaged, flights.SCHEMA, None))
    settings = _settings((source, target), places)
    report = service.run_audit(settings, AUDIT, watch)
    files = write_files(settings, AUDIT, directory)
    return DemoResult(report, damages, settings, files, commands(AUDIT, files[-1]))


def _settings(urls: tuple[str, str], places: tuple[Place, Place]) -> Settings:
    sides = ("source", "target")
    return Settings.model_validate(
        {
            "connections": {side: {"url": url} for side, url in zip(sides, urls, strict=True)},
            "audits": {
                AUDIT: {
                    **{side: {"connection": side, "table": str(place)} for side, place in zip(sides, places, strict=True)},
                    "key": ("id",),
                }
            },
        }
    )


def _faults(result: DemoResult) -> RenderableType:
    table = Table(box=None, padding=(0, 2), header_style="dim")
    for name in ("  fault", "what", "rows", "found by the audit"):
        table.add_column(name, justify="right" if name == "rows" else "left")
    for damage in result.damages:
        table.add_row(f"  {damage.name}", damage.what, f"{len(damage.keys):,}", _named_rows(damage, result.report.differences))
    return table


def _named_rows(damage: Damage, differences: Differences | None) -> str:
    """Say how many rows of a fault the audit named with the right kind."""
    if differences is None:
        return "nothing was named"
    kind = {"missing": "missing", "changed": "changed", "duplicated": "extra"}[damage.kind]
    named = {difference.key_number for difference in differences.named if difference.kind == kind}
    spans = [(span.first, span.last) for span in differences.ranges if span.kind == kind]
    within = [key for key in damage.keys if any(first is not None and last is not None and first <= key <= last for first, last in spans)]
    count = len(named.intersection(damage.keys).union(within))
    how = " as a range" if within else ""
    return f"all{how}" if count == len(damage.keys) else f"{count:,} of {len(damage.keys):,}"


def write_files(settings: Settings, audit: str, directory: Path) -> list[Path]:
    """Write ``source.sql``, ``target.sql`` and ``auditor.yaml``, and return their paths.

    A password in a URL is replaced by a variable, never written. What stands there from an earlier demonstration is replaced.
    """
    files = []
    for side, script in service.sql(settings, audit).items():
        files.append(directory / f"{side}.sql")
        files[-1].write_text(script, encoding="utf-8")
    urls = {side: connection.url for side, connection in settings.connections.items()}
    values = {
        "connections": {side: {"url": _without_password(url, f"{side.upper()}_PASSWORD")} for side, url in urls.items()},
        "audits": {audit: definition(settings.audit(audit))},
    }
    files.append(directory / "auditor.yaml")
    files[-1].write_text(_HEAD.format(needs=_needs(urls)) + yaml.safe_dump(values, sort_keys=False), encoding="utf-8")
    return files


_HEAD = """\
# The audit of the demonstration. {needs}Start a configuration of your own with: auditor init
"""


def _needs(urls: Mapping[str, str]) -> str:
    """Return a sentence on the variables that have to be set; empty if none do."""
    names = [f"{side.upper()}_PASSWORD" for side, url in urls.items() if urlsplit(url).password]
    return f"Set {' and '.join(names)} first. " if names else ""


def _without_password(url: str, variable: str) -> str:
    password = urlsplit(url).password
    return url.replace(f":{password}@", f":${{{variable}}}@", 1) if password else url


def commands(audit: str, configuration: Path) -> list[str]:
    """Return commands that work as they stand, in the directory from which the demonstration was started."""
    called = sys.argv[0] if Path(sys.argv[0]).name == "auditor" else "python -m auditor"  # make demo calls what no PATH leads to
    program = "auditor" if shutil.which("auditor") else called
    more = f"--config {configuration}"
    return [
        f"{program} run {audit} {more}        # the same audit again, and this time it is stored",
        f"{program} differences {audit} {more} --output {configuration.with_name('differences.csv')}",
        f"{program} report --run {audit} {more} --format html --output {configuration.with_name('report.html')}",
    ]
