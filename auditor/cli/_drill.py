"""The command drill: damage a row of a canary table, and show whether it is found, reported and mended."""

from __future__ import annotations

import argparse

from auditor.cli._output import current_user, print_json, settings_and_store
from auditor.escaping import visible
from auditor.service import drill as drills

FAILED = 1
"""Exit code of a drill in which a step failed."""


def drill(options: argparse.Namespace) -> int:
    """Hold a drill beside an audit's tables; 0 if every step passed."""
    with settings_and_store(options) as (configured, store):
        held = drills.drill(configured, store, options.audit, who=current_user())
    if options.format == "json":
        print_json(held)
        return 0 if held.passed else FAILED
    seconds = {step.name: step.seconds for step in held.steps}
    times = ", ".join(f"{name} in {seconds[name]:.1f} s" for name in ("found", "reported", "mended") if name in seconds)
    print(f"drill of {held.audit}: " + (f"passed; the damage was {times}" if held.passed else f"FAILED: {held.failed_at}"))
    for step in held.steps:
        detail = "\n".join(map(visible, step.detail.split("\n")))  # lines of statements to run
        print(f"  {step.seconds:6.2f} s  {step.name:<9} {'' if step.passed else 'FAILED: '}{detail}")
    return 0 if held.passed else FAILED
