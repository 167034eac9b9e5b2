"""The commands incidents and acknowledge: what does not match, since when, and who took it on."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from auditor.cli._output import console, current_user, print_json, settings_and_store
from auditor.errors import ConfigError
from auditor.escaping import visible

if TYPE_CHECKING:
    from auditor.api_models.incident import Incident


def incidents(options: argparse.Namespace) -> int:
    """List incidents, newest first."""
    from auditor.service.incidents import check_name
    from auditor.store import incidents as stored

    with settings_and_store(options) as (configured, store):
        listed = stored.list_incidents(store, audit=options.audit, limit=options.limit)
        if options.audit and not listed:
            check_name(configured, store, options.audit)
    return print_incidents(listed, options)


def acknowledge(options: argparse.Namespace) -> int:
    """Acknowledge or mute an audit's open incident, or withdraw that."""
    from auditor.service import incidents as service

    asked = read_options(options)
    with settings_and_store(options) as (configured, store):
        if asked is None:
            incident = service.withdraw(configured, store, options.audit, by=current_user())
        else:
            incident = service.acknowledge(configured, store, options.audit, by=current_user(), **asked)
    return print_incident(incident, options)


def read_options(options: argparse.Namespace) -> dict[str, Any] | None:
    """Return the acknowledgement that the options ask for; None if they withdraw one. Raises ConfigError."""
    if options.withdraw:
        if options.why or options.mute or options.until or options.known:
            raise ConfigError("--withdraw cannot be combined with --why, --mute, --until or --known")
        return None
    if not options.why:
        raise ConfigError("say why: --why REASON")
    return {
        "why": options.why,
        "muted": options.mute,
        "until": options.until,
        "differences": "known" if options.known else "all",
    }


def print_incident(incident: Incident, options: argparse.Namespace) -> int:
    """Print an incident in the format that the options name."""
    if options.format == "json":
        print_json(incident)
    else:
        print(f"{visible(incident.audit)}: incident {incident.number} is {describe(incident)}")
    return 0


def print_incidents(listed: Sequence[Incident], options: argparse.Namespace) -> int:
    """Print incidents in the format that the options name."""
    if options.format == "json":
        print_json(list(listed))
        return 0
    from rich.table import Table
    from rich.text import Text

    table = Table("incident", "audit", "severity", "opened", "closed", "state", box=None, header_style="bold")
    for incident in listed:
        moments = [f"{at:%Y-%m-%d %H:%M}" if at else "" for at in (incident.opened, incident.closed)]
        table.add_row(str(incident.number), Text(visible(incident.audit)), incident.severity, *moments, Text(describe(incident)))
    console().print(table)
    return 0


def describe(incident: Incident) -> str:
    """Return an incident's state, with who acknowledged it, why, for which differences, and until when."""
    held = incident.acknowledgement
    if held is None:
        return incident.state
    how = "muted" if held.muted else "acknowledged"
    state = incident.state if incident.state == how else f"{incident.state}, {how}"
    until = f" until {held.until:%Y-%m-%d %H:%M} UTC" if held.until else ""
    known = ", known differences alone" if held.differences == "known" else ""
    return f"{state} by {visible(held.by)}{until}{known}: {visible(held.why)}"
