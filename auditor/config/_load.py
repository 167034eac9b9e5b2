"""Reading ``auditor.yaml``: values with their lines, variables filled in, and every mistake told with what to write instead."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import yaml
from pydantic import ValidationError

from auditor.config._audit import Audit
from auditor.config._base import Strict, closest
from auditor.config._section import Ranges
from auditor.config._settings import Settings, Store
from auditor.errors import ConfigError

DEFAULT_FILE = "auditor.yaml"
STORE_FILE = "auditor.db"

Model = TypeVar("Model", bound=Strict)


def find(given: str | None, environment: Mapping[str, str] = os.environ) -> Path:
    """The configuration file: ``given``, else ``$AUDITOR_CONFIG``, else ``auditor.yaml`` here. Raises ConfigError."""
    path = Path(given or environment.get("AUDITOR_CONFIG") or DEFAULT_FILE)
    if not path.is_file():
        raise ConfigError(f"there is no {path}; write one with: auditor init")
    return path


def load(path: Path, environment: Mapping[str, str] = os.environ) -> Settings:
    """Read and check a configuration file. Raises ConfigError that names every mistake with its line."""
    lines: list[str] = []
    try:
        lines = (text := path.read_text(encoding="utf-8")).splitlines()
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        reader = _Reader(path, environment)
        values = reader.value(node, ()) if node else {}
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line if error.problem_mark else 0
        hint = "; between braces, write what holds ${...} in quotes" if "${" in "".join(lines[line : line + 1]) else ""
        raise ConfigError(f"{path}:{line + 1}: not YAML: {error.problem}{hint}") from None
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigError(f"{path} cannot be read: {' '.join(str(error).split())}") from None
    if reader.mistakes:
        raise ConfigError("\n".join(reader.mistakes))
    settings = _checked(values or {}, reader.located)
    if settings.store is None:
        settings = settings.model_copy(update={"store": Store(url=f"sqlite:///{path.resolve().parent / STORE_FILE}")})
    return settings


def checked(values: Mapping[str, Any]) -> Settings:
    """A configuration that was written in Python and not in a file. Raises ConfigError that names every mistake."""
    return _checked(values, lambda where, sentence: f"{'.'.join(str(part) for part in where)}: {sentence}")


def checked_audit(values: Mapping[str, Any]) -> Audit:
    """One audit that was written in Python. Raises ConfigError that names every mistake."""
    return _validated(Audit, values)


def checked_ranges(values: Mapping[str, Any]) -> Ranges:
    """What a run is asked to look at alone. Raises ConfigError that names every mistake."""
    return _validated(Ranges, values)


def _validated(model: type[Model], values: Mapping[str, Any]) -> Model:
    try:
        return model.model_validate(values)
    except ValidationError as error:
        told = [f"{'.'.join(str(part) for part in mistake['loc'])}: {_sentence(mistake)}" for mistake in error.errors()]
        raise ConfigError("\n".join(told)) from None


def _checked(values: Mapping[str, Any], located: Callable[[tuple[str | int, ...], str], str]) -> Settings:
    try:
        return Settings.model_validate(values)
    except ValidationError as error:
        told: list[str] = []
        for mistake in error.errors():
            unknown = mistake["type"] == "unknown_connection"
            places = mistake["ctx"]["unknown"] if unknown else [(mistake["loc"], _sentence(mistake))]
            told += [located(where, sentence) for where, sentence in places]
        raise ConfigError("\n".join(told)) from None


class _Reader:
    """Turns YAML nodes into plain values, remembering each one's line and filling in variables."""

    def __init__(self, path: Path, environment: Mapping[str, str]) -> None:
        self.path = path
        self.environment = environment
        self.lines: dict[tuple[str | int, ...], int] = {}
        self.mistakes: list[str] = []

    def value(self, node: yaml.Node, where: tuple[str | int, ...]) -> Any:
        self.lines[where] = node.start_mark.line + 1
        if isinstance(node, yaml.MappingNode):
            mapping: dict[str, Any] = {}
            for key_node, value_node in node.value:
                key = str(key_node.value)
                if key in mapping:
                    self.mistakes.append(f"{self.path}:{key_node.start_mark.line + 1}: {key!r} is written twice")
                mapping[key] = self.value(value_node, (*where, key))
                self.lines[(*where, key)] = key_node.start_mark.line + 1
            return mapping
        if isinstance(node, yaml.SequenceNode):
            return [self.value(item, (*where, index)) for index, item in enumerate(node.value)]
        if node.tag == "tag:yaml.org,2002:str":
            return self._filled(str(node.value), where)
        try:
            return yaml.SafeLoader("").construct_object(node)
        except ValueError as error:  # 2024-13-45 looks like a date
            self.mistakes.append(f"{self.path}:{self.lines[where]}: {node.value!r}: {error}; write it in quotes")
            return None

    def _filled(self, text: str, where: tuple[str | int, ...]) -> str:
        whole = re.fullmatch(r"\$\{[^}]+\}", text)

        def variable(match: re.Match[str]) -> str:
            found = self._variable(match.group(1), where)
            return quote(found, safe="") if where[-1:] == ("url",) and not whole else found

        return re.sub(r"\$\{([^}]+)\}", variable, text)

    def _variable(self, name: str, where: tuple[str | int, ...]) -> str:
        if name.startswith("file:"):
            try:
                return Path(name.removeprefix("file:")).read_text(encoding="utf-8").removesuffix("\n")
            except (OSError, UnicodeDecodeError) as error:
                why = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
                self.mistakes.append(f"{self.path}:{self.lines[where]}: ${{{name}}}: {why}")
                return ""
        if name not in self.environment:
            self.mistakes.append(f"{self.path}:{self.lines[where]}: the environment variable {name} is not set")
        return self.environment.get(name, "")

    def located(self, where: tuple[str | int, ...], sentence: str) -> str:
        """A sentence with its file, line and setting in front."""
        known = where
        while known and known not in self.lines:
            known = known[:-1]
        dotted = ".".join(str(part) for part in where)
        return f"{self.path}:{self.lines.get(known, 1)}: {dotted}{': ' if dotted else ''}{sentence}"


def _sentence(mistake: Any) -> str:
    last = str(mistake["loc"][-1]) if mistake["loc"] else ""
    match mistake["type"]:
        case "missing":
            return "this is missing"
        case "extra_forbidden":
            return f"there is no setting {last!r} here{_instead(last)}"
        case "literal_error":
            return f"write one of {mistake['ctx']['expected']}"
        case "model_type":
            return f"write settings here: {{{': ..., '.join(_MODELS[mistake['ctx']['class_name']].model_fields)}: ...}}"
        case "dict_type":
            return "write names with their settings here: {name: ...}"
        case "tuple_type":
            return "write a list here: [...]"
        case "string_type":
            return "write text here, in quotes"
        case "bool_type" | "bool_parsing":
            return "write true or false"
        case "float_parsing" | "float_type":
            return "write a number"
        case "int_type" | "int_parsing" | "int_from_float":
            return "write a whole number"
        case _:
            return str(mistake["msg"]).removeprefix("Value error, ").replace("Input should", "this should")


_MODELS: dict[str, type[Strict]] = {model.__name__: model for model in Strict.__subclasses__()}
_PLACES = {
    "Connection": "a connection",
    "Guest": "a connection's limits:",
    "PauseWhen": "a connection's limits: pause_when:",
    "TableRef": "source: or target:",
    "Columns": "columns:",
    "Override": "columns: override: a column:",
    "Partition": "partition:",
    "Limits": "an audit's limits:",
    "Settle": "settle:",
    "Recheck": "recheck:",
    "Rolling": "rolling:",
    "Counts": "counts:",
    "Audit": "an audit",
    "Settings": "the top",
}


def _instead(name: str) -> str:
    """Where a setting that is written in the wrong place belongs, or what it was perhaps meant to be."""
    if homes := [place for model, place in _PLACES.items() if model in _MODELS and name in _MODELS[model].model_fields]:
        return f"; it belongs in {' or '.join(homes)}"
    return closest(name, {field for model in _MODELS.values() for field in model.model_fields})
