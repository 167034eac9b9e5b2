"""The demonstration: load the flights, damage the target, audit, and set what was found beside what was done."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from auditor import service
from auditor.config import Settings
from auditor.demo import damage, flights, load
from auditor.errors import ConfigError
from auditor.link import Watcher
from auditor.model import Differences, Report
from dialects import Place

AUDIT = "flights"
SOURCE, TARGET = "auditor_demo_flights", "auditor_demo_flights_copy"


@dataclass(frozen=True, slots=True)
class Shown:
    """The report of the audit, and what to show below it: the faults and the SQL."""

    report: Report
    damages: list[damage.Damage]
    settings: Settings

    @property
    def epilogue(self) -> RenderableType:
        """What was done to the target beside what the audit found, and the statement that one side ran."""
        sql = service.sql(self.settings, AUDIT, ("source",))["source"]
        return Group(
            Text("\nWhat was done to the target, and what of it the audit named\n", "bold"),
            _faults(self),
            Text("\nWhat the source was asked (auditor sql prints it for your console)\n", "bold"),
            Text(sql),
        )


def run(source: str | None, target: str | None, directory: Path, rows: int | None, watch: Watcher) -> Shown:
    """Load both sides, audit them, and return what was found. Raises errors of the tree.

    Without URLs both sides are DuckDB files in ``directory``; with only one given, ConfigError.
    """
    if (source is None) != (target is None):
        raise ConfigError("give both --source and --target, or neither")
    directory.mkdir(parents=True, exist_ok=True)
    source = source or f"duckdb:///{directory}/source.duckdb"
    target = target or f"duckdb:///{directory}/target.duckdb"
    whole = flights.load(rows)
    damaged, damages = damage.damage(whole)
    places = (load.load_table(source, SOURCE, whole, flights.SCHEMA), load.load_table(target, TARGET, damaged, flights.SCHEMA, None))
    settings = _settings((source, target), places)
    return Shown(service.run_audit(settings, AUDIT, watch), damages, settings)


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


def _faults(shown: Shown) -> RenderableType:
    table = Table(box=None, padding=(0, 2), header_style="dim")
    for name in ("  fault", "what", "rows", "named by the audit"):
        table.add_column(name, justify="right" if name == "rows" else "left")
    for one in shown.damages:
        table.add_row(f"  {one.name}", one.what, f"{len(one.keys):,}", _named(one, shown.report.differences))
    return table


def _named(one: damage.Damage, differences: Differences | None) -> str:
    """How many of a fault's rows the audit named, each as what it is."""
    if differences is None:
        return "nothing was named"
    kind = {"missing": "missing", "changed": "changed", "duplicated": "extra"}[one.kind]
    named = {difference.key_number for difference in differences.named if difference.kind == kind}
    spans = [(span.first, span.last) for span in differences.ranges if span.kind == kind]
    within = [key for key in one.keys if any(first is not None and last is not None and first <= key <= last for first, last in spans)]
    found = len(named.intersection(one.keys).union(within))
    how = " as a range" if within else ""
    return f"all{how}" if found == len(one.keys) else f"{found:,} of {len(one.keys):,}"
