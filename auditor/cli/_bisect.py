"""The command bisect: say at which merge a target and its source parted, and who parted them."""

from __future__ import annotations

import argparse

from auditor.api_models.bisection import Bisection
from auditor.cli._output import print_json, settings_and_store
from auditor.escaping import visible
from auditor.report.formatting import moment


def bisect(options: argparse.Namespace) -> int:
    """Print what the ledger of an audit says; 0 if nothing differs, 1 if something does, 3 if it cannot be told."""
    from auditor.service import bisection

    with settings_and_store(options) as (configured, store):
        return print_bisection(bisection.bisect(configured, store, options.audit), options)


def print_bisection(found: Bisection, options: argparse.Namespace) -> int:
    """Print what the ledger of an audit says, in the format that the options name, and return its exit code."""
    if options.format == "json":
        print_json(found)
    else:
        print("\n".join(map(visible, _lines(found))))
    return found.exit_code


def _lines(found: Bisection) -> list[str]:
    lines = [f"{found.answer.upper()}  {found.audit}: {found.sentence}"]
    if found.begins:
        checked = f"{found.checked} ({moment(found.checked_time)})" if found.checked_time else str(found.checked)
        lines.append(f"  ledger    {found.batches:,} merges, from {found.begins} to {found.through}")
        lines.append(f"  last run  read the whole target as of {checked}")
    for parting in found.partings:
        lines.append(f"  {'lasts' if parting.lasts else 'ended'}     {parting.sentence}")
        if parting.batch:
            lines.append(f"            events after {parting.batch.after}, up to {parting.batch.through}")
        if parting.first_event:
            event = parting.first_event
            lines.append(f"            first event: {event.kind} at {moment(event.time)}, transaction {event.gtid or event.place}")
        elif parting.first_event_unknown:
            lines.append(f"            the first event cannot be told, because {parting.first_event_unknown}")
    if found.more:
        lines.append(f"  and {found.more:,} more")
    return lines
