"""The command patch: print a patch, apply it, undo one, or hand its rows to what delivers to the target."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from auditor.cli._ending import stopped_by_signals
from auditor.cli._output import current_user, print_reports, printing_failures, settings_and_store, write_pieces
from auditor.cli._progress import watching
from auditor.errors import ConfigError
from auditor.escaping import shell_word
from auditor.repair.keys import Selection
from auditor.service import patches
from auditor.service.patches import Followed, describe_counts
from auditor.store.patches import NOT_UNDOABLE, get_patch

if TYPE_CHECKING:
    from auditor.config import Settings
    from auditor.repair.keys import Selection
    from auditor.service.patches import PatchResult
    from auditor.store import Store


LEFT = 1
"""Exit code of a patch after which rows still differ, that was stopped before its end, or whose rows were sent and have not all arrived."""

NO_FORMAT = "--format and --output print a patch; leave them out with --apply, --dry-run and --undo"

NO_VERDICT = 3
"""The exit code of a run without a verdict: nothing proves what the rows are that were written or sent."""


def patch(options: argparse.Namespace) -> int:
    """Print the patch of a run, apply it, or undo one."""
    if bool(options.run) == bool(options.undo):
        raise ConfigError("name either a run or audit to patch from, or with --undo the patch to undo")
    if options.dry_run and (options.undo or options.through):
        raise ConfigError("--dry-run executes a patch and rolls it back; leave it out with --undo and --through")
    if options.through:
        return _send(options, _selection(options))
    if options.undo and not options.apply:
        return _print_undo(options)
    if options.apply or options.dry_run:
        return _write(options)
    return _print(options)


def _print(options: argparse.Namespace) -> int:
    with settings_and_store(options) as (configured, store), watching(options.quiet) as watch:
        pieces = patches.print_patch(
            configured, store, options.run, _selection(options), options.format or "sql", accepted=options.accept, on_progress=watch
        )
        return write_pieces(pieces, options)


def _print_undo(options: argparse.Namespace) -> int:
    if options.format or options.output:
        raise ConfigError(NO_FORMAT)
    with settings_and_store(options) as (configured, store):
        for line in patches.describe_undo(configured, store, options.undo):
            print(line)
    print(f"to write it: auditor patch --undo {options.undo} --apply")
    return 0


def _write(options: argparse.Namespace) -> int:
    if options.format or options.output:
        raise ConfigError(NO_FORMAT)
    with (
        settings_and_store(options) as (configured, store),
        watching(options.quiet) as watch,
        stopped_by_signals("stopping after this batch; once more to interrupt it") as stopped,
    ):
        followed = patches.Followed(current_user(), tuple(options.accept), stopped, watch)
        if options.undo:
            result = patches.undo_patch(configured, store, options.undo, followed)
        else:
            result = patches.apply_patch(configured, store, options.run, _selection(options), followed, dry_run=options.dry_run)
        with printing_failures() as print_failures:
            print_failures(_notify(configured, store, result))
        is_undoable = bool(result.patched.patch) and get_patch(store, result.patched.patch).undoable
        audit = get_patch(store, result.patched.patch).audit if result.patched.patch else ""
    _print_result(result, options, audit, is_undoable)
    code = print_reports([result.after], argparse.Namespace(format="text", verbose=False)) if result.after else 0
    code = NO_VERDICT if result.not_audited else code
    if options.undo and code != NO_VERDICT:
        code = 0  # an undo brings back rows that differ
    return code or (LEFT if result.patched.stopped else 0)


def _notify(configured: Settings, store: Store, result: PatchResult) -> list[str]:
    """Notify the channels about a patch that was written; return a sentence for each failure."""
    from auditor.service.notify import notify_patch

    if not result.patched.patch:
        return []
    patch, counts = get_patch(store, result.patched.patch), describe_counts(result.patched.counts)
    return notify_patch(configured, store, patch, counts)


def _print_result(result: PatchResult, options: argparse.Namespace, audit: str, is_undoable: bool) -> None:
    for sentence in result.settled:
        print(sentence)
    counts = describe_counts(result.patched.counts)
    if options.dry_run:
        print(f"dry run: {counts}, and rolled back; numbers that sequences and AUTO_INCREMENT gave out are not given back")
        return
    what = f"undone by patch {result.patched.patch}" if options.undo else f"patch {result.patched.patch}"
    print(f"{what}: {counts}" if result.patched.patch else f"nothing to patch: {counts}")
    if result.patched.stopped:
        print("it was stopped after a batch; the rows of later ones are as they were: run it again to continue")
    if result.not_audited:
        print(f"{result.not_audited}; run: auditor run {shell_word(audit)}")
    if result.patched.patch and not is_undoable:
        print(f"it cannot be undone: {NOT_UNDOABLE}")
    elif result.patched.patch and not options.undo:
        print(f"to take it back: auditor patch --undo {result.patched.patch[:12]} --apply")


def _selection(options: argparse.Namespace) -> Selection:
    ends = options.keys or {}
    return Selection(
        only=options.only,
        first=ends.get("from"),
        last=ends.get("to"),
        columns=tuple(options.columns),
        limit=options.limit,
        delete_extra=options.delete_extra,
    )


def _send(options: argparse.Namespace, selection: Selection) -> int:
    """Send the rows of a run's differences, wait until they have arrived, and audit them again; without --apply print what would be sent.

    With --through file they are only written.
    """
    from auditor.service import patch_through

    if options.format or (options.output and options.through != "file"):
        raise ConfigError("--format prints a patch, and --output belongs to --through file; leave them out")
    if options.apply and options.through == "file":
        raise ConfigError("--through file writes a file for another program to read, and nothing else; leave --apply out")
    if bool(options.receiver) != (options.through == "command"):
        raise ConfigError("--command and --through command belong together: write both, or neither")
    with (
        settings_and_store(options) as (configured, store),
        watching(options.quiet) as watch,
        stopped_by_signals("stopping; what was sent goes its way") as stopped,
    ):
        followed = Followed(current_user(), tuple(options.accept), stopped, watch)
        patch_args = (configured, store, options.run, selection)
        if options.through == "refresh" and not options.apply:
            print(patch_through.plan_refresh(*patch_args, followed))
            return 0
        if options.through == "command" and not options.apply:
            code = write_pieces(patch_through.print_changes(*patch_args, followed), options)
            _say(f"nothing was handed to {options.receiver}; add --apply to do so", options)
            return code
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
        return NO_VERDICT
    return LEFT if sent.lacking else 0


def _say(sentence: str, options: argparse.Namespace) -> None:
    if not options.quiet:
        print(sentence, file=sys.stderr)
