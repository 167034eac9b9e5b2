"""``auditor completion``: a script that lets a shell complete commands, options and their values, made from the parser itself."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from auditor.cli._parser import parser

BASH = """\
# bash: eval "$(auditor completion bash)" in ~/.bashrc
_auditor() {{
    local word="${{COMP_WORDS[COMP_CWORD]}}" before="${{COMP_WORDS[COMP_CWORD-1]}}" command="" words="" index
    for ((index = 1; index < COMP_CWORD; index++)); do
        case "${{COMP_WORDS[index]}}" in -*) ;; *) command="${{COMP_WORDS[index]}}"; break ;; esac
    done
    case "$command $before" in
{values}
    *)
        case "$command" in
{commands}
        esac ;;
    esac
    COMPREPLY=($(compgen -W "$words" -- "$word"))
}}
complete -o default -F _auditor auditor
"""

ZSH = """\
# zsh: eval "$(auditor completion zsh)" in ~/.zshrc, after compinit
autoload -U +X bashcompinit && bashcompinit
"""


def completion(options: argparse.Namespace) -> int:
    """Print the script for a shell."""
    print(script(parser(), options.shell), end="")
    return 0


def script(parser: argparse.ArgumentParser, shell: str) -> str:
    """Return the script that completes the parser's commands in ``bash``, ``zsh`` or ``fish``. File names are completed as well."""
    commands = _commands(parser)
    if shell == "fish":
        return "\n".join(["# fish: auditor completion fish | source, in config.fish", *_fish(parser, commands), ""])
    values = [
        f'    "{name} {option}") words="{" ".join(choices)}" ;;'
        for name, command in commands.items()
        for action in command._actions
        if action.choices and not isinstance(action, argparse._SubParsersAction)
        for option in action.option_strings
        for choices in [map(str, action.choices)]
    ]
    words = [f'        {name}) words="{" ".join(_words(command))}" ;;' for name, command in commands.items()]
    words.append(f'        *) words="{" ".join([*commands, *_options(parser)])}" ;;')
    text = BASH.format(values="\n".join(values), commands="\n".join(words))
    return text if shell == "bash" else ZSH + text.partition("\n")[2]


def _commands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """Return the parsers of the commands, or of a command's actions, by name."""
    return next((dict(action.choices) for action in parser._actions if isinstance(action, argparse._SubParsersAction)), {})


def _options(parser: argparse.ArgumentParser) -> list[str]:
    return [option for action in parser._actions for option in action.option_strings]


def _words(command: argparse.ArgumentParser) -> list[str]:
    """Return what may follow a command: its actions with their options, or fixed values, and its own options."""
    actions = _commands(command)
    fixed = [str(choice) for action in command._actions if not action.option_strings and action.choices for choice in action.choices]
    below = [option for action in actions.values() for option in _options(action)]
    return list(dict.fromkeys([*fixed, *_options(command), *below]))


def _fish(parser: argparse.ArgumentParser, commands: dict[str, argparse.ArgumentParser]) -> Iterator[str]:
    names = " ".join(commands)
    choices = next(action for action in parser._actions if isinstance(action, argparse._SubParsersAction))._choices_actions
    for choice in choices:
        help = str(choice.help).replace("'", "\\'")
        yield f"complete -c auditor -n 'not __fish_seen_subcommand_from {names}' -a {choice.dest} -d '{help}'"
    for name, command in commands.items():
        condition = f"-n '__fish_seen_subcommand_from {name}'"
        for word in _words(command):
            kind = f"-l {word[2:]}" if word.startswith("--") else f"-s {word[1:]}" if word.startswith("-") else f"-a {word}"
            yield f"complete -c auditor {condition} {kind}"
