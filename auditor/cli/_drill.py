"""The command drill: print what a drill would do, or damage a row of a canary table and show whether it is found, reported and repaired."""

from __future__ import annotations

import argparse

from auditor.cli._output import current_user, print_json, printing_failures, settings_and_store
from auditor.escaping import command, visible
from auditor.service import drill as drills

FAILED = 1
"""Exit code of a drill in which a step failed."""


def drill(options: argparse.Namespace) -> int:
    """Print what a drill beside an audit's tables would do; with --apply hold it: 0 if every step passed."""
    if not options.apply:
        return _print_plan(options)
    with settings_and_store(options) as (configured, store), printing_failures():
        held = drills.drill(configured, store, options.audit, who=current_user())
    if options.format == "json":
        print_json(held)
        return 0 if held.passed else FAILED
    seconds = {step.name: step.seconds for step in held.steps}
    times = ", ".join(f"{name} in {seconds[name]:.1f} s" for name in ("found", "reported", "repaired") if name in seconds)
    print(f"drill of {held.audit}: " + (f"passed; the damage was {times}" if held.passed else f"FAILED: {held.failed_at}"))
    for step in held.steps:
        detail = "\n".join(map(visible, step.detail.split("\n")))  # lines of statements to run
        print(f"  {step.seconds:6.2f} s  {step.name:<9} {'' if step.passed else 'FAILED: '}{detail}")
    return 0 if held.passed else FAILED


def _print_plan(options: argparse.Namespace) -> int:
    with settings_and_store(options) as (configured, store):
        planned = drills.plan_drill(configured, store, options.audit)
    if options.format == "json":
        print_json(planned)
        return 0
    print(f"drill of {visible(planned.audit)}:")
    for step in planned.steps:
        print(f"  {visible(step)}")
    print(f"to hold it: {command('auditor', 'drill', options.audit)} --apply")
    return 0
