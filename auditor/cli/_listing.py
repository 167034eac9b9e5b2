"""The command that lists audits with what they stand at."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from auditor.cli._output import console, print_json, settings_and_store
from auditor.errors import UnknownAudit

if TYPE_CHECKING:
    from auditor.shapes.audit_status import ListedAudit


def ls(options: argparse.Namespace) -> int:
    """List audits, from the configuration and the store alone: no database is asked."""
    from auditor.config import select_audits
    from auditor.report import listing
    from auditor.service import audits, segment_audits
    from auditor.store import run_lifecycle

    with settings_and_store(options) as (configured, store):
        run_lifecycle.recover_runs(store)
        overviews = audits.overview(configured, store, trends=False)
        of_segments = segment_audits.list_listed(configured, store)
    names = [*(overview.name for overview in overviews), *(segment_audit.audit for segment_audit in of_segments)]
    wanted = select_audits(names, options.audits) if options.audits else names
    if unknown := [name for name in wanted if name not in names]:
        raise UnknownAudit(f"there is no audit {unknown[0]!r} (audits here: {', '.join(sorted(names)) or 'none'})")
    rows = [
        listing.listed(overview.name, overview.source, overview.target, overview.standing, overview.next_due, overview.paused)
        for overview in overviews
        if overview.name in wanted
    ]
    rows += [segment_audit for segment_audit in of_segments if segment_audit.audit in wanted]
    return print_audits(rows, options)


def print_audits(rows: list[ListedAudit], options: argparse.Namespace) -> int:
    """Print a list of audits in the format that the options name."""
    from auditor.report import listing

    if options.format == "json":
        print_json(rows)
    else:
        console().print(listing.table(rows))
    return 0
