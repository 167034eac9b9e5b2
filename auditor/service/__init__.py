"""The use cases shared by the command line, the HTTP API and the Python package."""

from __future__ import annotations

from auditor.service.definitions import apply_overrides, audit, combined, definition, expand_legs
from auditor.service.planning import CheckResult, check, compare_files, console_script, make_plan, plan_fingerprint, sql
from auditor.service.running import run_audit

__all__ = [
    "CheckResult",
    "apply_overrides",
    "audit",
    "check",
    "combined",
    "compare_files",
    "console_script",
    "definition",
    "expand_legs",
    "make_plan",
    "plan_fingerprint",
    "run_audit",
    "sql",
]
