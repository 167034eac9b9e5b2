"""The command line: parses arguments, calls the service, and prints the result as text or JSON with an exit code.

Modules are imported only when needed, so that ``auditor --help`` is fast.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Sequence
from types import FrameType

from auditor.cli._parser import METHODS, parser

__all__ = ["GC_THRESHOLD", "METHODS", "SWITCH_INTERVAL", "console_main", "main", "parser"]

GC_THRESHOLD = 10_000
"""Allocations between collections of the youngest generation: modules, and each page of runs, allocate thousands of objects."""

SWITCH_INTERVAL = 0.0005
"""Thread switch interval in seconds: a thread whose server has answered goes on although another one computes. With Python's default of
5 ms, the list of audits took 75 ms beside a computing thread, because a request switches threads about a dozen times, and 19 ms with
this."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code."""
    commands = parser()
    options, rest = commands.parse_known_args(arguments)
    if rest and hasattr(options, "tables") and not any(text.startswith("-") for text in rest):
        options.tables += rest  # argparse takes no further tables once an option came between them
    elif rest:
        commands.error(f"unrecognized arguments: {' '.join(rest)}")
    from auditor.errors import AuditorError

    try:
        code: int = options.command(options)
    except AuditorError as error:
        print(f"auditor: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("auditor: interrupted", file=sys.stderr)
        return 3
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 3
    return code


def console_main() -> None:
    """Entry point of the installed command; SIGTERM cancels a run as Ctrl-C does."""

    def interrupt(_signal: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)
    gc.set_threshold(GC_THRESHOLD, 20, 20)
    sys.setswitchinterval(SWITCH_INTERVAL)
    code = main()
    gc.freeze()  # else the interpreter looks through all objects once more before it ends
    sys.exit(code)
