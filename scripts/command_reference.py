"""Write the reference of commands as Markdown, from the parser of the command line."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from auditor.cli import parser

HIDDEN = ("-h", "--help")


def reference() -> str:
    """Return the reference as Markdown: a heading and a table of options for each command."""
    return "\n".join(line for name, command, summary in commands(parser(), "auditor") for line in _section(name, command, summary))


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


def _section(name: str, command: argparse.ArgumentParser, summary: str) -> Iterator[str]:
    more = (command.description or "").removeprefix(f"{summary}.").strip()
    text = f"{summary[:1].upper()}{summary[1:]}. {more}"
    yield from (f"## `{name}`", "", _escaped(text).strip(), "", "| argument | meaning |", "|---|---|")
    for action in command._actions:
        if not set(action.option_strings) & set(HIDDEN):
            yield f"| {_written(action)} | {_escaped(_help(command, action))} |"
    yield ""


def _written(action: argparse.Action) -> str:
    """Return an option as it is written, with what follows it."""
    value = action.metavar or (",".join(str(choice) for choice in action.choices) if action.choices else action.dest)
    words = "" if action.nargs == 0 else str(value)
    return ", ".join(f"`{option} {words}`".replace(" `", "`") for option in action.option_strings) or f"`{words}`"


def _help(command: argparse.ArgumentParser, action: argparse.Action) -> str:
    text = (action.help or "") % {**vars(action), "prog": command.prog}
    choices = f": {', '.join(f'`{choice}`' for choice in action.choices)}" if action.choices and action.metavar else ""
    return f"{text}{choices}"


def _escaped(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")
