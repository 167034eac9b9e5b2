"""Write the reference of commands as Markdown, from the parser of the command line."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Collection, Iterator

from auditor.cli import parser

HIDDEN = ("-h", "--help")
SHARED_BY = 10
"""Commands from which on an option that means the same in each is explained once."""


def reference() -> str:
    """Return the reference as Markdown: the options of many commands, then a heading and a table of its own options for each command."""
    found = list(commands(parser(), "auditor"))
    rows = Counter(row for _, command, _ in found for row in _rows(command) if row.startswith("| `-"))
    shared = [row for row, count in rows.items() if count >= SHARED_BY]
    lines = ["## Options of many commands", "", "| argument | meaning |", "|---|---|", *shared, ""]
    return "\n".join([*lines, *(line for name, command, summary in found for line in _section(name, command, summary, shared))])


def commands(above: argparse.ArgumentParser, name: str) -> Iterator[tuple[str, argparse.ArgumentParser, str]]:
    """Yield each command below a parser that has none below itself: its name, its parser, and its line of help."""
    for action in above._actions:
        if not isinstance(action, argparse._SubParsersAction):
            continue
        summaries = {str(choice.dest): choice.help or "" for choice in action._choices_actions}
        for word, command in action.choices.items():
            if any(isinstance(action, argparse._SubParsersAction) for action in command._actions):
                yield from commands(command, f"{name} {word}")
            else:
                yield f"{name} {word}", command, summaries.get(word, "")


def _section(name: str, command: argparse.ArgumentParser, summary: str, shared: Collection[str]) -> Iterator[str]:
    more = (command.description or "").removeprefix(f"{summary}.").strip()
    text = f"{summary[:1].upper()}{summary[1:]}. {more}"
    yield from (f"## `{name}`", "", _escaped(text).strip(), "")
    rows = list(_rows(command))
    if own := [row for row in rows if row not in shared]:
        yield from ("| argument | meaning |", "|---|---|", *own, "")
    if also := [f"`{row.split('`')[1].split()[0]}`" for row in rows if row in shared]:
        yield from (f"Also {', '.join(also)}.", "")


def _rows(command: argparse.ArgumentParser) -> Iterator[str]:
    """Yield the line of the table for each argument of a command."""
    for action in command._actions:
        if not set(action.option_strings) & set(HIDDEN):
            yield f"| {_written(action)} | {_escaped(_help(command, action))} |"


def _written(action: argparse.Action) -> str:
    """Return an option as it is written, with what follows it."""
    value = action.metavar or (",".join(str(choice) for choice in action.choices) if action.choices else action.dest)
    words = "" if action.nargs == 0 else str(value)
    return ", ".join(f"`{option} {words}`".replace(" `", "`") for option in action.option_strings) or f"`{words}`"


def _help(command: argparse.ArgumentParser, action: argparse.Action) -> str:
    text = (action.help or "") % {**vars(action), "prog": command.prog}
    unsaid = action.choices and action.metavar and not all(str(choice) in text for choice in action.choices)
    return f"{text}: {', '.join(f'`{choice}`' for choice in action.choices or ())}" if unsaid else text


def _escaped(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")
