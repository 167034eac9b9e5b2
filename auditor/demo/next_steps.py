"""What the demonstration leaves: the SQL of both sides, a configuration of its audit, and commands that use it."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

import yaml

from auditor import service
from auditor.config import Settings
from auditor.service.definitions import definition


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
