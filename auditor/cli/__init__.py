"""The command line: parses arguments, calls the service, and prints the result as text or JSON with an exit code.

The table of commands imports a command's module when it is called, so that ``auditor --help`` is fast.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from types import FrameType
from typing import TextIO, cast

from auditor import startup
from auditor.cli._parser import METHODS, parser
from auditor.escaping import VisibleStream

__all__ = ["DEBUG", "METHODS", "console_main", "main", "parser"]

DEBUG = "--debug"
"""The option that every command takes, in any place."""


WRONG_ARGUMENTS = 2
"""Exit code of a command line that says nothing to do: it must not look like a match."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code; one that a signal ended, or whose reader is gone, returns 128 and the signal's number."""
    arguments = sys.argv[1:] if arguments is None else arguments
    with visible_output():
        return _end(arguments)


@contextmanager
def visible_output() -> Iterator[None]:
    """For the block, let nothing that is printed act on a terminal: names, values and messages of servers may hold any character."""
    before = sys.stdout, sys.stderr
    # A process may have been started without one of them.
    sys.stdout, sys.stderr = (cast("TextIO", VisibleStream(stream)) if stream else stream for stream in before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def _end(arguments: Sequence[str]) -> int:
    """Run a command, and turn how it ended into an exit code."""
    try:
        code = _perform(arguments)
        if sys.stdout:
            sys.stdout.flush()  # while a reader that is gone, or a full disk, can still be told from a verdict
    except KeyboardInterrupt as interrupt:
        with suppress(OSError):
            print("auditor: interrupted", file=sys.stderr)
        return 128 + (interrupt.args[0] if interrupt.args else signal.SIGINT)
    except Exception as error:
        from auditor.cli import _ending

        return _ending.report(error, with_traceback=DEBUG in arguments)
    return code


def _perform(arguments: Sequence[str]) -> int:
    commands = parser()
    options, rest = commands.parse_known_args([text for text in arguments if text != DEBUG])
    if rest and hasattr(options, "tables") and not any(text.startswith("-") for text in rest):
        options.tables += rest  # argparse takes no further tables once an option came between them
    elif rest:
        getattr(options, "asked", commands).error(f"unrecognized arguments: {' '.join(rest)}")
    if options.command is None:
        commands.print_help()
        return WRONG_ARGUMENTS
    code: int = options.command(options)
    return code


def console_main() -> None:
    """Entry point of the installed command; SIGTERM cancels a run as Ctrl-C does."""

    def interrupt(number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt(number)

    signal.signal(signal.SIGTERM, interrupt)
    code = main()
    startup.skip_last_collections()
    sys.exit(code)
