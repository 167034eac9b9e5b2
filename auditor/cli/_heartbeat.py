"""The command ``auditor heartbeat``: run."""

from __future__ import annotations

import argparse
import signal
import sys
from threading import Event

from auditor import config, telemetry
from auditor.errors import ConfigError
from auditor.pipeline import heartbeat as heartbeats


def heartbeat(options: argparse.Namespace) -> int:
    """Write heartbeats until a signal."""
    try:
        every = config.parse_duration(options.every)
    except (ValueError, OverflowError) as error:
        raise ConfigError(f"--every: {error}") from None
    if every <= 0:
        raise ConfigError("--every: write the time between two heartbeats, as 5s; it cannot be 0")
    stop = Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    configured = config.load(config.find_file(options.config))
    telemetry.configure_logging("console" if sys.stderr.isatty() else "json", "info", config.find_secrets(configured))
    written = heartbeats.run(configured, options.connection, every, stop)
    print(f"{written:,} heartbeats were written into {options.connection}", file=sys.stderr)
    return 0
