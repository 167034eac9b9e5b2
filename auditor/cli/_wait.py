"""The command wait: let the next step of a data pipeline begin only when audits have verified what it reads."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable

from auditor.api_models.audit import Verification
from auditor.cli._output import find_audits, print_json, settings_and_store
from auditor.durations import durations
from auditor.errors import AuditorError
from auditor.escaping import visible

MISMATCH, NOT_VERIFIED = 1, 3
"""Exit codes: an audit found differences; none did, but the time was up before all had verified."""

Ask = Callable[[str], Verification]
"""Returns how far an audit is."""


def wait(options: argparse.Namespace) -> int:
    """Wait until all audits have verified the moment, one has found a mismatch, or the time is up; print how far each is."""
    from auditor.service.verification import verification

    with settings_and_store(options) as (configured, store):
        _, names = find_audits(configured, options.audits, store, by_leg=True)
        return wait_for(names, lambda name: verification(configured, store, name, options.through), options)


def wait_for(names: list[str], ask: Ask, options: argparse.Namespace) -> int:
    """Ask of each audit until all have verified the moment, one has found a mismatch, or the time is up; print how far each is."""
    found: dict[str, Verification] = {}
    said: dict[str, str] = {}
    deadline = answered = time.monotonic()
    deadline += options.timeout
    while True:
        try:
            for name in names:
                if name not in found or found[name].outcome == "waiting":
                    found[name] = ask(name)
            answered = time.monotonic()
        except AuditorError as error:
            if not error.retryable or time.monotonic() - answered > durations().client_outage or time.monotonic() >= deadline:
                raise
            time.sleep(min(durations().verification_poll, max(0.0, deadline - time.monotonic())))
            continue
        outcomes = {found[name].outcome for name in names}
        if "waiting" not in outcomes or "mismatch" in outcomes or time.monotonic() >= deadline:
            break
        for name in names if not options.quiet else ():
            if found[name].outcome == "waiting" and said.get(name) != found[name].sentence:
                said[name] = found[name].sentence
                print(f"auditor: {visible(name)}: waiting: {visible(said[name])}", file=sys.stderr, flush=True)
        time.sleep(min(durations().verification_poll, max(0.0, deadline - time.monotonic())))
    return _print([found[name] for name in names], options)


def _print(found: list[Verification], options: argparse.Namespace) -> int:
    if options.format == "json":
        print_json(found[0] if len(found) == 1 else found)
    else:
        for one in found:
            print(f"{visible(one.audit)}: {'NOT VERIFIED' if one.outcome == 'waiting' else one.outcome.upper()}: {visible(one.sentence)}")
    outcomes = {one.outcome for one in found}
    return MISMATCH if "mismatch" in outcomes else NOT_VERIFIED if "waiting" in outcomes else 0
