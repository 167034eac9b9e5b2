"""The command line: arguments to the service, its answer to text or JSON, and an exit code.

Nothing is imported before it is needed, so that ``auditor --help`` answers at once.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from types import FrameType

from auditor.cli._parser import METHODS, parser

__all__ = ["METHODS", "console_main", "main", "parser"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code."""
    options = parser().parse_args(arguments)
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
    """The entry point of the installed command; asked to terminate, it ends a run as Ctrl-C does."""

    def terminated(_signal: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, terminated)
    sys.exit(main())
