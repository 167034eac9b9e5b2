"""The use cases: everything that the command line, the HTTP API and the Python package can do."""

from __future__ import annotations

from auditor.service.chains import audit, combined, expanded
from auditor.service.planning import Checked, check, compare_files, console, plan_name, planned, sql, tables_on_both
from auditor.service.running import cancel, definition, overridden, resume, run_audit, whole

__all__ = [
    "Checked", "audit", "cancel", "check", "combined", "compare_files", "console", "definition", "expanded", "overridden", "plan_name",
    "planned", "resume", "run_audit", "sql", "tables_on_both", "whole",
]  # fmt: skip
