"""The command bootstrap: print the plan of a copy of a target's table, or of a range of its keys, or carry it out."""

from __future__ import annotations

import argparse
import datetime as dt
import sys
from typing import TYPE_CHECKING

from auditor import config
from auditor.bootstrap import use_cases
from auditor.cli._ending import stopped_by_signals
from auditor.cli._output import current_user, print_reports, settings_and_store, worst_exit_code
from auditor.cli._progress import watching
from auditor.errors import AuditorError, ConfigError, StatementCancelled, StoreError
from auditor.escaping import shell_word
from auditor.service.patches import describe_counts

if TYPE_CHECKING:
    from auditor.bootstrap.use_cases import BootstrapResult, Followed, Spreading
    from auditor.config import Settings
    from auditor.store import Store

DIFFERS = 1
"""Exit code of a bootstrap after which rows that changed meanwhile were not all patched."""

NO_VERDICT = 3
"""The exit code of a run without a verdict: the copied rows were not audited again."""


def bootstrap(options: argparse.Namespace) -> int:
    """Print the plan of a bootstrap, or of dropping what earlier ones left; carry it out with --apply."""
    if bool(options.audit) == options.due:
        raise ConfigError("name either an audit, or --due for those whose bootstrap is due")
    if options.due and (options.keys or options.replica or options.partitions):
        raise ConfigError("--due copies whole tables from their sources; leave --keys, --partitions and --from out")
    if options.drop_old and (options.keys or options.replica or options.partitions):
        raise ConfigError("--drop-old drops what all bootstraps of the audit left; leave --keys, --partitions and --from out")
    with (
        settings_and_store(options) as (configured, store),
        watching(options.quiet) as watch,
        stopped_by_signals("stopping; the same command continues from here") as stopped,
    ):
        followed = use_cases.Followed(current_user(), stopped, watch, print)
        spreading = use_cases.Spreading(config.find_file(options.config), options.spark)
        if options.due and not options.apply:
            return _plan_due(configured, store, followed, spreading)
        if options.due:
            return _run_due(configured, store, followed, spreading)
        if options.drop_old:
            find = use_cases.drop_left if options.apply else use_cases.find_left
            left = find(configured, store, options.audit, followed)
            print(f"{'dropped' if options.apply else 'would drop'} {', '.join(left)}" if left else "there is nothing to drop")
            if left and not options.apply:
                print(f"to drop it: auditor bootstrap {shell_word(options.audit)} --drop-old --apply")
            return 0
        asked = (configured, store, options.audit, options.keys, options.replica, options.partitions, followed, spreading)
        if not options.apply:
            print(use_cases.plan_bootstrap(*asked))
            spark = " --spark" if options.spark else ""
            print(f"to write it: {use_cases.command(options.audit, options.keys or {}, options.replica, options.partitions)}{spark}")
            return 0
        result = use_cases.run_bootstrap(*asked)
    return _print_result(result)


def _plan_due(configured: Settings, store: Store, followed: Followed, spreading: Spreading) -> int:
    """Print the plans of the bootstraps that are due; none is claimed. Return the exit code of the worst."""
    codes: list[int] = []
    due = use_cases.find_due(configured, store, dt.datetime.now(dt.UTC))
    for name in due:
        try:
            print(use_cases.plan_bootstrap(configured, store, name, followed=followed, spreading=spreading))
        except AuditorError as error:  # the others are due all the same
            print(f"auditor: {name}: {error}", file=sys.stderr)
            codes.append(error.exit_code)
    print("to write what is due: auditor bootstrap --due --apply" if due else "no bootstrap is due")
    return worst_exit_code(codes)


def _run_due(configured: Settings, store: Store, followed: Followed, spreading: Spreading) -> int:
    """Carry out the bootstraps that are due, one after another, and return the exit code of the worst."""
    codes: list[int] = []
    for name in use_cases.claim_due(configured, store, dt.datetime.now(dt.UTC), "bootstrap --due"):
        try:
            codes.append(_print_result(use_cases.run_bootstrap(configured, store, name, followed=followed, spreading=spreading)))
        except (StoreError, StatementCancelled):
            raise
        except AuditorError as error:  # the others are due all the same
            print(f"{name}: {error}", file=sys.stderr)
            codes.append(error.exit_code)
    return worst_exit_code(codes)


def _print_result(result: BootstrapResult) -> int:
    print(f"bootstrap {result.bootstrap}: {result.rows:,} rows were copied and swapped in; the replaced ones are in {result.old}")
    if result.patched:
        print(f"what changed meanwhile: {describe_counts(result.patched)}")
    if result.not_settled:
        print(result.not_settled)
    if result.after is None:
        return NO_VERDICT
    code = print_reports([result.after], argparse.Namespace(format="text", verbose=False))
    return code or (DIFFERS if result.not_settled else 0)
