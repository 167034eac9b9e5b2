"""Every command that changes data of a user's database prints its plan, and writes with --apply alone."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping

from auditor.cli import parser

WITH_APPLY = {
    "bootstrap": "copies rows into the target",
    "drill": "makes a table of its own on both sides, and damages a row of it",
    "forget": "removes a key from the store, and deletes dumps",
    "patch": "writes rows of the target, or hands them to what delivers there",
    "pipeline failover": "continues a pipeline at another server, where a gap can be accepted",
    "pipeline rebuild": "writes a new table, or a file",
    "pipeline refresh": "sends rows through the stream into the targets",
    "segments copy": "replaces files of a stream",
}
"""Commands that change what is not the auditor's own state, or cannot be taken back: what they change. Each has --apply."""

WITHOUT = {
    "certify": "makes a schema of its own on a server that is named for that, and drops it; --dry-run prints what it costs",
    "demo": "loads data of its own into new tables, of databases that are named for that",
    "diff": "only reads",
    "dump": "writes files of the audit's dump, from the source, which it reads",
    "heartbeat run": "writes into the auditor's own table until a signal; is asked for by its name",
    "init": "writes auditor.yaml, if there is none",
    "pipeline check": "only reads; --prove writes a row into the auditor's own table, and says so",
    "pipeline demo": "has servers and databases of its own",
    "pipeline init": "writes audits into auditor.yaml",
    "pipeline run": "replicates until a signal, as it is configured; is asked for by its name",
    "serve": "applies patches that were approved by their number of rows",
    **dict.fromkeys(
        (
            "check",
            "compare",
            "completion",
            "costs",
            "crontab",
            "differences",
            "evidence",
            "history",
            "incidents",
            "ls",
            "partitions",
            "plan",
            "report",
        ),
        "only reads",
    ),
    **dict.fromkeys(("runs", "schema", "selftest", "show", "sql", "trace", "verify", "wait", "bisect"), "only reads"),
    **dict.fromkeys(("pipeline events", "pipeline schemas", "pipeline segments", "pipeline status"), "only reads"),
    **dict.fromkeys(("segments status", "segments verify", "token list"), "only reads"),
    **dict.fromkeys(
        ("acknowledge", "cancel", "notify", "pause", "prune", "resume", "run", "store", "token create", "token revoke", "unpause"),
        "changes the auditor's own state alone",
    ),
    **dict.fromkeys(
        ("pipeline pause", "pipeline reset", "pipeline skip", "pipeline unpause", "segments reset"), "changes the auditor's own state alone"
    ),
}
"""All other commands, and why they need none."""


def leaves(commands: argparse.ArgumentParser, before: str = "") -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Yield each command that has no further ones below it."""
    below = [action for action in commands._actions if isinstance(action, argparse._SubParsersAction)]
    for action in below:
        for name, command in action.choices.items():
            yield from leaves(command, f"{before} {name}".strip())
    if not below:
        yield before, commands


def test_each_command_that_changes_data_has_apply() -> None:
    found: Mapping[str, argparse.ArgumentParser] = dict(leaves(parser()))
    assert set(found) == {*WITH_APPLY, *WITHOUT}
    assert not set(WITH_APPLY) & set(WITHOUT)
    applying = {name for name, command in found.items() if "--apply" in command._option_string_actions}
    assert applying == set(WITH_APPLY)
    assert [found[name]._option_string_actions["--apply"].default for name in WITH_APPLY] == [False] * len(WITH_APPLY)
