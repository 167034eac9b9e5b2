"""``auditor completion``: a script that lets a shell complete commands, options and their values, made from the parser itself.

Names of audits and runs are asked for when they are completed: ``auditor completion audits`` prints them, a line each.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from auditor.cli._parser import parser

NAMED = {"AUDIT": "audits", "RUN": "runs"}
"""What is completed where the parser's help has these words."""

MOST_RUNS = 100
"""Runs whose ids are completed, the newest."""

BASH = """\
# bash: eval "$(auditor completion bash)" in ~/.bashrc
_auditor() {{
    local word="${{COMP_WORDS[COMP_CWORD]}}" before="${{COMP_WORDS[COMP_CWORD-1]}}" command="" words="" named="" index name
    local -a config
    for ((index = 1; index < COMP_CWORD; index++)); do
        case "${{COMP_WORDS[index]}}" in
        --config) config=(--config "${{COMP_WORDS[index+1]}}") ;;
        -*) ;;
        *) [ -n "$command" ] || command="${{COMP_WORDS[index]}}" ;;
        esac
    done
    case "$command $before" in
{values}
    *)
        case "$command" in
{commands}
        esac ;;
    esac
    COMPREPLY=($(compgen -W "$words" -- "$word"))
    # Names are no words of a shell: compgen would carry out what is written in them.
    [ -z "$named" ] || while IFS= read -r name; do
        [[ "$name" == "$word"* ]] && COMPREPLY+=("$(printf %q "$name")")
    done < <(auditor completion "$named" "${{config[@]}}" 2>/dev/null)
}}
complete -o default -F _auditor auditor
"""

ZSH = """\
# zsh: eval "$(auditor completion zsh)" in ~/.zshrc, after compinit
autoload -U +X bashcompinit && bashcompinit
"""


FISH = """\
# fish: auditor completion fish | source, in config.fish
function __auditor_command -d 'Whether a command is the one that was written'
    for word in (commandline -opc)[2..]
        if not string match -q -- '-*' $word
            test $word = $argv[1]
            return
        end
    end
    return 1
end
function __auditor_names -d 'The names of audits or runs in the configuration that was written'
    set -l words (commandline -opc)
    if set -l place (contains -i -- --config $words)
        auditor completion $argv[1] --config $words[(math $place + 1)] 2>/dev/null
    else
        auditor completion $argv[1] 2>/dev/null
    end
end"""


def completion(options: argparse.Namespace) -> int:
    """Print the script for a shell, or the names that it completes."""
    if options.shell in NAMED.values():
        print("".join(f"{name}\n" for name in _names(options) if name.isprintable()), end="")
    elif options.config:
        from auditor.errors import ConfigError  # which loads the dialects

        raise ConfigError("--config is for the names that a script completes; leave it out")
    else:
        print(script(parser(), options.shell), end="")
    return 0


def _names(options: argparse.Namespace) -> list[str]:
    """Return the names of all audits, and to complete a run also the ids of the newest runs; no database is asked."""
    from auditor.cli._output import find_audits, load_settings, open_optional_store

    configured = load_settings(options)
    with open_optional_store(configured) as store:
        names = find_audits(configured, [], store, by_leg=True)[1]
        if options.shell == "audits":
            return [*names, *configured.groups]
        from auditor.store import runs  # which loads the store's library

        return [*names, *(run.run[:12] for run in (runs.list_runs(store, limit=MOST_RUNS) if store else ()))]


def script(parser: argparse.ArgumentParser, shell: str) -> str:
    """Return the script that completes the parser's commands in ``bash``, ``zsh`` or ``fish``. File names are completed as well."""
    commands = _commands(parser)
    if shell == "fish":
        return "\n".join([FISH, *_fish(parser, commands), ""])
    values = [
        f'    "{name} {option}") words="{" ".join(choices)}" ;;'
        for name, command in commands.items()
        for action in command._actions
        if action.choices and not isinstance(action, argparse._SubParsersAction)
        for option in action.option_strings
        for choices in [map(str, action.choices)]
    ]
    values += [
        f'    "{name} {option}") named={named} ;;' for name, command in commands.items() for option, named in _named_options(command)
    ]
    words = [f'        {name}) words="{" ".join(_words(command))}"{_and_names(command)} ;;' for name, command in commands.items()]
    words.append(f'        *) words="{" ".join([*commands, *_options(parser)])}" ;;')
    text = BASH.format(values="\n".join(values), commands="\n".join(words))
    return text if shell == "bash" else ZSH + text.partition("\n")[2]


def _commands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """Return the parsers of the commands, or of a command's actions, by name."""
    return next((dict(action.choices) for action in parser._actions if isinstance(action, argparse._SubParsersAction)), {})


def _options(parser: argparse.ArgumentParser) -> list[str]:
    return [option for action in parser._actions for option in action.option_strings]


def _named_options(command: argparse.ArgumentParser) -> Iterator[tuple[str, str]]:
    """Yield the options of a command whose value is an audit or a run, with what completes it."""
    for action in command._actions:
        for option in action.option_strings if action.metavar in NAMED else ():
            yield option, NAMED[str(action.metavar)]


def _named(command: argparse.ArgumentParser) -> str:
    """Return what completes the arguments of a command, or of its actions; empty if these name neither audits nor runs."""
    actions = [action for each in (command, *_commands(command).values()) for action in each._actions if not action.option_strings]
    return next((NAMED[str(action.metavar)] for action in actions if action.metavar in NAMED), "")


def _and_names(command: argparse.ArgumentParser) -> str:
    named = _named(command)
    return f"; named={named}" if named else ""


def _words(command: argparse.ArgumentParser) -> list[str]:
    """Return what may follow a command: its actions with their options, or fixed values, and its own options."""
    actions = _commands(command)
    fixed = [str(choice) for action in command._actions if not action.option_strings and action.choices for choice in action.choices]
    below = [option for action in actions.values() for option in _options(action)]
    return list(dict.fromkeys([*fixed, *_options(command), *below]))


def _fish(parser: argparse.ArgumentParser, commands: dict[str, argparse.ArgumentParser]) -> Iterator[str]:
    """Yield the lines of the script for fish, which offers an option's values instead of all others, and files where neither is named."""
    choices = next(action for action in parser._actions if isinstance(action, argparse._SubParsersAction))._choices_actions
    for choice in choices:
        yield f"complete -c auditor -n __fish_use_subcommand -f -a {choice.dest} -d {_fish_text(str(choice.help))}"
    for name, command in commands.items():
        line = f"complete -c auditor -n '__auditor_command {name}'"
        values = {
            option: f" -x -a '{' '.join(map(str, action.choices))}'"
            for action in command._actions
            if action.choices and not isinstance(action, argparse._SubParsersAction)
            for option in action.option_strings
        }
        values |= {option: f" -x -a '(__auditor_names {named})'" for option, named in _named_options(command)}
        for word in _words(command):
            kind = f"-l {word[2:]}" if word.startswith("--") else f"-s {word[1:]}" if word.startswith("-") else f"-a {word}"
            yield f"{line} {kind}{values.get(word, '')}"
        if named := _named(command):
            yield f"{line} -f -a '(__auditor_names {named})'"


def _fish_text(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
