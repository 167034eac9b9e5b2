"""The Python package: what it exports, and that its options are those of an audit in ``auditor.yaml``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import get_type_hints

import duckdb
import pytest

import auditor
from auditor import errors
from auditor.client import Client
from auditor.config import Audit
from auditor.model import Report, Verdict

NOT_IN_PYTHON = {
    "source",
    "target",
    "key",
    "via",
    "schedule",
    "align",
    "summaries",
    "files",
    "rescan",
    "ledger",
    "through",
    "history",
    "owner",
}
"""Settings that are parameters of their own, or need a configuration: other connections, or a service."""


def test_options_are_the_settings_of_an_audit() -> None:
    settings = {field.alias or name for name, field in Audit.model_fields.items()} - NOT_IN_PYTHON
    assert set(get_type_hints(auditor.AuditOptions)) == settings | {"renamed", "convention"}


def test_exports() -> None:
    assert issubclass(auditor.Report, Report)
    assert (auditor.Verdict, auditor.Client, auditor.errors) == (Verdict, Client, errors)
    assert all(getattr(auditor, name) is not None for name in auditor.__all__)
    with pytest.raises(AttributeError, match="'nothing'"):
        auditor.nothing  # noqa: B018


def test_importing_loads_no_driver_and_no_parser() -> None:
    code = "import sys, auditor; print(*(set(sys.modules) & {'duckdb', 'pymysql', 'psycopg2', 'sqlglot', 'pydantic', 'numpy'}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_an_audit_without_a_file(tmp_path: Path) -> None:
    for side, text in (("source", "a"), ("target", "b")):
        with duckdb.connect(str(tmp_path / f"{side}.duckdb")) as connection:
            connection.execute(
                f"CREATE TABLE t AS SELECT i AS id, CASE WHEN i = 7 THEN '{text}' ELSE 'x' END AS {side}_v FROM range(100) r(i)"
            )
    urls = {side: f"duckdb:///{tmp_path}/{side}.duckdb" for side in ("source", "target")}
    report = auditor.audit((urls["source"], "t"), (urls["target"], "t"), key=["id"], renamed={"source_v": "target_v"}, t=2)
    assert report.verdict is auditor.Verdict.MISMATCH
    assert report.differences is not None
    assert [one.key for one in report.differences.named] == [{"id": "7"}]
    with pytest.raises(errors.ConfigError, match="t: "):
        auditor.audit((urls["source"], "t"), (urls["target"], "t"), key=["id"], t=0)
