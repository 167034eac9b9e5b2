"""Change a configuration file, which keeps its comments and its layout: add audits, name another source of a pipeline."""

from __future__ import annotations

import os
import tempfile
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from auditor.config._load import load
from auditor.errors import ConfigError
from auditor.escaping import yaml_scalar, yaml_text


def add_audits(path: Path, audits: Mapping[str, Any]) -> list[str]:
    """Write those audits into a configuration file that it has none of that name of, and return their names.

    The file is replaced at once, and only by one that can be loaded. Raises ConfigError.
    """
    text, root = _read(path)
    there = _value_of(root, "audits")
    known = {str(key.value) for key, _ in there.value} if isinstance(there, yaml.MappingNode) else set()
    added = {name: audit for name, audit in audits.items() if name not in known}
    if added:
        _replace(path, _with(text, there, added, path), "add the audits by hand")
    return list(added)


def set_source(path: Path, pipeline: str, connection: str) -> None:
    """Let a pipeline in a configuration file read from another connection. Raises ConfigError."""
    text, node = _read(path)
    for key in ("pipelines", pipeline, "source", "connection"):
        node = _value_of(node, key)
    if not isinstance(node, yaml.ScalarNode):
        raise ConfigError(f"{path} names no connection under pipelines: {pipeline}: source; write there: connection: {connection}")
    if node.value != connection:
        name = yaml_scalar(connection)
        changed = text[: node.start_mark.index] + name + text[node.end_mark.index :]
        _replace(path, changed, f"write there, under pipelines: {pipeline}: source, connection: {connection}")


def _read(path: Path) -> tuple[str, yaml.Node | None]:
    try:
        text = path.read_text(encoding="utf-8")
        return text, yaml.compose(text, Loader=yaml.SafeLoader)
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigError(f"{path} cannot be read: {' '.join(str(error).split())}") from None


def _value_of(root: yaml.Node | None, key: str) -> yaml.Node | None:
    pairs = root.value if isinstance(root, yaml.MappingNode) else []
    return next((value for name, value in pairs if name.value == key), None)


def _with(text: str, there: yaml.Node | None, added: Mapping[str, Any], path: Path) -> str:
    """Return the text with more audits: before the first one that is there, or in a section of their own. Raises ConfigError."""
    body = yaml_text(dict(added), default_flow_style=None, width=120)
    if there is None:
        return f"{text.rstrip()}\n\naudits:\n{textwrap.indent(body, '  ')}"
    start = there.start_mark
    if isinstance(there, yaml.MappingNode) and there.value and not there.flow_style:
        line = start.index - start.column
        return text[:line] + textwrap.indent(body, " " * start.column) + text[line:]
    if there.value:
        raise ConfigError(f"{path}:{start.line + 1}: audits: is written within braces; write it in lines, and then run this again")
    end = there.end_mark.index if isinstance(there, yaml.MappingNode) else start.index
    rest = text[end:]
    return f"{text[: start.index].rstrip()}\n{textwrap.indent(body, '  ')}{rest.lstrip() if rest.strip() else ''}"


def _replace(path: Path, text: str, by_hand: str) -> None:
    real = path.resolve()
    try:
        number, name = tempfile.mkstemp(dir=real.parent, prefix=f".{real.name}.", suffix=".yaml")
        try:
            with os.fdopen(number, "w", encoding="utf-8") as handle:
                handle.write(text)
            load(Path(name))
            Path(name).chmod(real.stat().st_mode & 0o7777)
            Path(name).replace(real)
        finally:
            Path(name).unlink(missing_ok=True)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}; {by_hand}") from None
