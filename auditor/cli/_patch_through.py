"""The option --through of the command patch: hand the rows to what delivers to the target."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from auditor.cli._output import current_user, print_reports, settings_and_store, write_pieces
from auditor.cli._progress import watching
from auditor.cli._signals import stopped_by_signals
from auditor.errors import ConfigError
from auditor.escaping import shell_word
from auditor.service import patch_through
from auditor.service.patches import Followed

if TYPE_CHECKING:
    from auditor.repair.keys import Selection

NOT_ARRIVED = 1
"""Exit code where rows were sent, and have not all arrived."""

NOT_AUDITED = 3
"""The exit code where nothing proves that the rows that were sent are right: as that of a run without a verdict."""


def send(options: argparse.Namespace, selection: Selection) -> int:
    """Send the rows of a run's differences, wait until they have arrived, and audit them again; a file is only written."""
    if options.format or (options.output and options.through != "file"):
        raise ConfigError("--format prints a patch, and --output belongs to --through file; leave them out")
    if bool(options.receiver) != (options.through == "command"):
        raise ConfigError("--command and --through command belong together: write both, or neither")
    with (
        settings_and_store(options) as (configured, store),
        watching(options.quiet) as watch,
        stopped_by_signals("stopping; what was sent goes its way") as stopped,
    ):
        followed = Followed(current_user(), tuple(options.accept), stopped, watch)
        patch_args = (configured, store, options.run, selection)
        if options.through == "file":
            more = f"; audit again once its rows have arrived: auditor run {shell_word(options.run)}"
            return write_pieces(patch_through.print_changes(*patch_args, followed), options, more)
        if options.through == "command":
            sent = patch_through.send_lines(*patch_args, options.receiver, followed)
        else:
            sent = patch_through.send_refresh(*patch_args, followed, lambda sentence: _say(f"waiting: {sentence}", options))
    print(sent.how)
    if sent.lacking:
        print(sent.lacking)
    if sent.after:
        return print_reports([sent.after], argparse.Namespace(format="text", verbose=False))
    if sent.not_audited:
        print(f"the rows were sent, and could not be audited again: {sent.not_audited}; run: auditor run {shell_word(options.run)}")
        return NOT_AUDITED
    return NOT_ARRIVED if sent.lacking else 0


def _say(sentence: str, options: argparse.Namespace) -> None:
    if not options.quiet:
        print(sentence, file=sys.stderr)
