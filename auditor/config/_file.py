"""The file ``auditor.yaml``: load it (substitute variables, validate, and report every error with its line and what to write instead), and
change it (add audits, name another source of a pipeline), which keeps its comments and its layout.
"""

from __future__ import annotations

import os
import re
import tempfile
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import yaml
from pydantic import ValidationError

from auditor.config._audit import Audit, Columns, Override, Partition, SliceSettings, written_place
from auditor.config._base import Strict, suggest
from auditor.config._broker import Broker
from auditor.config._connection import ConnectionSettings, GuestLimits, PauseWhen
from auditor.config._convention import CONVENTION_FORMS, MarkSettings, OwnConvention
from auditor.config._in_flight import History, Recheck, Settle
from auditor.config._limits import Limits, Rolling
from auditor.config._methods import Counts
from auditor.config._pipeline import (
    SOURCE_FORMS,
    TARGET_FORMS,
    Pipeline,
    PipelineColumns,
    PipelineSource,
    PipelineTarget,
    SegmentAudit,
    Staging,
    Versions,
)
from auditor.config._settings import Settings
from auditor.config._sides import FORMS, QueryRef, TableRef, ThroughTopic, TopicRef
from auditor.config._store import Store
from auditor.config._topic_source import TopicSource
from auditor.config._topics import TopicTarget
from auditor.errors import ConfigError
from auditor.escaping import yaml_scalar, yaml_text

DEFAULT_FILE = "auditor.yaml"

VARIABLE = r"\$\{([^}]+)\}"
"""A variable in a value."""
STORE_FILE = "auditor.db"

Model = TypeVar("Model", bound=Strict)


def find_file(given: str | None, environment: Mapping[str, str] = os.environ) -> Path:
    """Return the configuration file: ``given``, else ``$AUDITOR_CONFIG``, else ``auditor.yaml`` in the current directory.

    Raises ConfigError if it does not exist.
    """
    path = Path(given or environment.get("AUDITOR_CONFIG") or DEFAULT_FILE)
    if not path.is_file():
        raise ConfigError(f"configuration file {path} does not exist; create one with: auditor init")
    return path


def load(path: Path, environment: Mapping[str, str] = os.environ) -> Settings:
    """Load and validate a configuration file. Raises ConfigError, which lists every error with its line."""
    lines: list[str] = []
    try:
        lines = (text := path.read_text(encoding="utf-8")).splitlines()
        node = _compose(text)
        reader = _Reader(path, environment)
        values = reader.value(node, ()) if node else {}
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line if error.problem_mark else 0
        hint = "; within braces, quote values that contain ${...}" if "${" in "".join(lines[line : line + 1]) else ""
        raise ConfigError(f"{path}:{line + 1}: not YAML: {error.problem}{hint}") from None
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigError(f"{path} cannot be read: {' '.join(str(error).split())}") from None
    if reader.errors:
        raise ConfigError("\n".join(reader.errors))
    settings = _validate_settings(values or {}, reader.locate)
    if settings.store is None:
        settings = settings.model_copy(update={"store": Store(url=f"sqlite:///{path.resolve().parent / STORE_FILE}")})
    if settings.evidence:
        key = str(path.resolve().parent / settings.evidence.key)
        settings = settings.model_copy(update={"evidence": settings.evidence.model_copy(update={"key": key})})
    return settings


def validate_settings(values: Mapping[str, Any]) -> Settings:
    """Validate a configuration given as a mapping. Raises ConfigError, which lists every error."""
    return _validate_settings(values, lambda where, sentence: f"{'.'.join(str(part) for part in where)}: {sentence}")


def validate_audit(values: Mapping[str, Any]) -> Audit:
    """Validate the definition of one audit. Raises ConfigError, which lists every error."""
    return _validate(Audit, values)


def validate_slice(values: Mapping[str, Any]) -> SliceSettings:
    """Validate the slice of a run. Raises ConfigError, which lists every error."""
    return _validate(SliceSettings, values)


def _validate(model: type[Model], values: Mapping[str, Any]) -> Model:
    try:
        return model.model_validate(values)
    except ValidationError as error:
        messages = [f"{'.'.join(str(part) for part in _without_forms(details['loc']))}: {_describe(details)}" for details in error.errors()]
        raise ConfigError("\n".join(messages)) from None


def _without_forms(where: tuple[str | int, ...]) -> tuple[str | int, ...]:
    """Return where a setting stands in the configuration, which does not name the form of a source or target."""
    forms = {place + 2: TARGET_FORMS for place, part in enumerate(where) if part == "targets"}  # behind the target's name
    if where[:1] == ("pipelines",) and where[2:3] == ("source",):
        forms[3] = SOURCE_FORMS
    known = (*FORMS, *CONVENTION_FORMS)
    return tuple(part for place, part in enumerate(where) if part not in known and part not in forms.get(place, ()))


def _validate_settings(values: Mapping[str, Any], locate: Callable[[tuple[str | int, ...], str], str]) -> Settings:
    try:
        return Settings.model_validate(values)
    except ValidationError as error:
        messages: list[str] = []
        for details in error.errors():
            unknown = details["type"] == "unknown_connection"
            places = details["ctx"]["unknown"] if unknown else [(_without_forms(details["loc"]), _describe(details))]
            messages += [locate(written_place(where), sentence) for where, sentence in places]
        raise ConfigError("\n".join(messages)) from None


def find_variables(path: Path) -> list[str]:
    """Return the environment variables that a configuration file reads, in their order there. Raises ConfigError."""

    def texts(node: yaml.Node) -> Iterator[str]:
        if isinstance(node, yaml.MappingNode):
            for _, value in node.value:
                yield from texts(value)
        elif isinstance(node, yaml.SequenceNode):
            for item in node.value:
                yield from texts(item)
        elif node.tag == "tag:yaml.org,2002:str":
            yield str(node.value)

    try:
        root = _compose(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from None
    names = re.findall(VARIABLE, "\n".join(texts(root))) if root else []
    return list(dict.fromkeys(name for name in names if not name.startswith("file:")))


def stand_ins(path: Path, names: Iterable[str]) -> dict[str, str]:
    """Return a value for each of these variables with which the file can be read, for what needs no database: a URL, or a number."""
    text = path.read_text(encoding="utf-8")
    return {name: "duckdb:///:memory:" if re.search(rf"url: *[\"']?\$\{{{re.escape(name)}\}}", text) else "1" for name in names}


MOST_BRACKETS = 2_000
"""Brackets up to which libyaml reads a text: not every version limits how deep they are nested."""


def _compose(text: str) -> yaml.Node | None:
    """Return the nodes of a YAML text; None for an empty one. Raises yaml.YAMLError, in the words of the parser in Python.

    libyaml, where PyYAML has it, takes a tenth of the time. What it refuses is read again by the parser in Python.
    """
    if yaml.__with_libyaml__ and text.count("[") + text.count("{") <= MOST_BRACKETS:
        with suppress(yaml.YAMLError):
            return yaml.compose(text, Loader=yaml.CSafeLoader)
    return yaml.compose(text, Loader=yaml.SafeLoader)


class _Reader:
    """Converts YAML nodes to plain values, substitutes variables, and records each value's line."""

    def __init__(self, path: Path, environment: Mapping[str, str]) -> None:
        self.path = path
        self.environment = environment
        self.lines: dict[tuple[str | int, ...], int] = {}
        self.errors: list[str] = []

    def value(self, node: yaml.Node, where: tuple[str | int, ...]) -> Any:
        self.lines[where] = node.start_mark.line + 1
        if isinstance(node, yaml.MappingNode):
            mapping: dict[str, Any] = {}
            for key_node, value_node in node.value:
                key = str(key_node.value)
                if key in mapping:
                    self.errors.append(f"{self.path}:{key_node.start_mark.line + 1}: the key {key!r} occurs twice; remove one")
                mapping[key] = self.value(value_node, (*where, key))
                self.lines[(*where, key)] = key_node.start_mark.line + 1
            return mapping
        if isinstance(node, yaml.SequenceNode):
            return [self.value(item, (*where, index)) for index, item in enumerate(node.value)]
        if node.tag == "tag:yaml.org,2002:str":
            return self._substitute(str(node.value), where)
        try:
            return yaml.SafeLoader("").construct_object(node)
        except ValueError as error:  # 2024-13-45 looks like a date
            self.errors.append(f"{self.path}:{self.lines[where]}: {node.value!r}: {error}; quote it if it is text")
            return None

    def _substitute(self, text: str, where: tuple[str | int, ...]) -> str:
        whole = re.fullmatch(r"\$\{[^}]+\}", text)

        def variable(match: re.Match[str]) -> str:
            value = self._variable(match.group(1), where)
            return quote(value, safe="") if where[-1:] == ("url",) and not whole else value

        return re.sub(VARIABLE, variable, text)

    def _variable(self, name: str, where: tuple[str | int, ...]) -> str:
        if name.startswith("file:"):
            try:
                return Path(name.removeprefix("file:")).read_text(encoding="utf-8").removesuffix("\n")
            except (OSError, UnicodeDecodeError) as error:
                reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
                self.errors.append(f"{self.path}:{self.lines[where]}: ${{{name}}}: {reason}")
                return ""
        if name not in self.environment:
            self.errors.append(f"{self.path}:{self.lines[where]}: the environment variable {name} is not set")
        return self.environment.get(name, "")

    def locate(self, where: tuple[str | int, ...], sentence: str) -> str:
        """Return a sentence preceded by the file, line and setting that it is about."""
        known = where
        while known and known not in self.lines:
            known = known[:-1]
        dotted = ".".join(str(part) for part in where)
        return f"{self.path}:{self.lines.get(known, 1)}: {dotted}{': ' if dotted else ''}{sentence}"


def _describe(details: Any) -> str:
    """Return what is wrong and what to write instead, for one of pydantic's error details."""
    last = str(details["loc"][-1]) if details["loc"] else ""
    match details["type"]:
        case "missing":
            return "this setting is required; add it"
        case "extra_forbidden":
            return f"unknown setting {last!r}{_suggest_place(last)}"
        case "literal_error":
            return f"write one of {details['ctx']['expected']}"
        case "model_type":
            return f"write settings here: {{{': ..., '.join(_MODELS[details['ctx']['class_name']].model_fields)}: ...}}"
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
            return str(details["msg"]).removeprefix("Value error, ").replace("Input should", "this should")


def _list_models(model: type[Strict]) -> Iterator[type[Strict]]:
    for derived in model.__subclasses__():
        yield derived
        yield from _list_models(derived)


_MODELS: dict[str, type[Strict]] = {model.__name__: model for model in _list_models(Strict)}
_PLACES: Mapping[type[Strict], str] = {
    ConnectionSettings: "a connection",
    GuestLimits: "a connection's limits:",
    PauseWhen: "a connection's limits: pause_when:",
    TableRef: "source: or target:",
    QueryRef: "source: or target: with query:",
    TopicRef: "source: or target: with broker:",
    OwnConvention: "convention:",
    MarkSettings: "convention: deleted: or current:",
    ThroughTopic: "through:",
    Columns: "columns:",
    Override: "columns: override: a column:",
    Partition: "partition:",
    Limits: "an audit's limits:",
    Settle: "settle:",
    Recheck: "recheck:",
    History: "an audit's history:",
    Rolling: "rolling:",
    Counts: "counts:",
    PipelineSource: "a pipeline's source:",
    TopicSource: "a pipeline's source: with broker:",
    PipelineColumns: "a pipeline's columns: a table:",
    Staging: "a pipeline's staging:",
    PipelineTarget: "a pipeline's targets: a target:",
    Versions: "a pipeline's history:",
    TopicTarget: "a pipeline's targets: a target with broker:",
    Broker: "a broker",
    Pipeline: "a pipeline",
    SegmentAudit: "a segment audit",
    Audit: "an audit",
    Settings: "the top",
}


def _suggest_place(name: str) -> str:
    """Return the end of an error message: where an unknown setting belongs, or the most similar setting; '' if neither is known."""
    if name == "tables":
        return "; it belongs in an audit, as in audits: {shop: {tables: '*'}}, or in the source of a pipeline"
    if places := [place for model, place in _PLACES.items() if name in model.model_fields]:
        return f"; it belongs in {' or '.join(places)}"
    return suggest(name, {field for model in _MODELS.values() for field in model.model_fields}, most=1)


def add_audits(path: Path, audits: Mapping[str, Any]) -> list[str]:
    """Write those audits into a configuration file that it has none of that name of, and return their names.

    The file is replaced at once, and only by one that can be loaded. Raises ConfigError.
    """
    text, root = _read_nodes(path)
    there = _value_of(root, "audits")
    known = {str(key.value) for key, _ in there.value} if isinstance(there, yaml.MappingNode) else set()
    added = {name: audit for name, audit in audits.items() if name not in known}
    if added:
        _replace(path, _with_audits(text, there, added, path), "add the audits by hand")
    return list(added)


def set_source(path: Path, pipeline: str, connection: str) -> None:
    """Let a pipeline in a configuration file read from another connection. Raises ConfigError."""
    text, node = _read_nodes(path)
    for key in ("pipelines", pipeline, "source", "connection"):
        node = _value_of(node, key)
    if not isinstance(node, yaml.ScalarNode):
        raise ConfigError(f"{path} names no connection under pipelines: {pipeline}: source; write there: connection: {connection}")
    if node.value != connection:
        name = yaml_scalar(connection)
        changed = text[: node.start_mark.index] + name + text[node.end_mark.index :]
        _replace(path, changed, f"write there, under pipelines: {pipeline}: source, connection: {connection}")


def _read_nodes(path: Path) -> tuple[str, yaml.Node | None]:
    try:
        text = path.read_text(encoding="utf-8")
        return text, yaml.compose(text, Loader=yaml.SafeLoader)
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigError(f"{path} cannot be read: {' '.join(str(error).split())}") from None


def _value_of(root: yaml.Node | None, key: str) -> yaml.Node | None:
    pairs = root.value if isinstance(root, yaml.MappingNode) else []
    return next((value for name, value in pairs if name.value == key), None)


def _with_audits(text: str, there: yaml.Node | None, added: Mapping[str, Any], path: Path) -> str:
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
