"""Write the reference of ``auditor.yaml`` as Markdown, from the models in ``auditor.config``: keys, types, defaults and sentences.

A key's sentence is the text below its field in the model's class, so that a setting is declared and documented in one place.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, BeforeValidator
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from auditor.config import AuditGroup, DialectSql, PerSide, Settings
from auditor.config._audit import ZoneBySide
from auditor.config._base import check_timezone, parse_duration, parse_share, parse_size

WITHIN_TEXT = (PerSide, DialectSql, ZoneBySide)
"""Models that the row of their key describes; they have no section of their own."""

NOT_WRITTEN = {(Settings, "groups"), (AuditGroup, "template")}
"""Fields that are filled while a configuration is read, and never written."""

WORDS: dict[Any, str] = {str: "text", bool: "`true` or `false`", int: "whole number", float: "number"}
VALIDATED: dict[Any, str] = {
    parse_duration: "duration: `90s`, `15m`, `2h`, `7d`",
    parse_share: "share: `5%` or `0.05`",
    parse_size: "size: `64MB`, `1GiB`",
    check_timezone: "time zone: `Europe/Berlin`",
}
UNITS = ((86400, "d"), (3600, "h"), (60, "m"), (1, "s"))


@dataclass(frozen=True)
class Section:
    """The settings of one model: where they are written, and the fields."""

    model: type[BaseModel]
    places: tuple[str, ...]
    """Paths of keys such as ``connections: NAME: limits:``; NAME stands for a name of the user's own."""

    @property
    def anchor(self) -> str:
        """The anchor of its heading, unless another section has it already."""
        return "-".join(self.places[0].lower().replace(":", "").replace("(", "").replace(")", "").split()) or "top"


def reference() -> str:
    """Return the reference as Markdown: a heading and a table for each model."""
    all_sections = sections()
    seen, anchors = Counter[str](), dict[type[BaseModel], str]()
    for section in all_sections:  # a target of a pipeline is settings of a database's, or of a broker's
        seen[section.anchor] += 1
        anchors[section.model] = f"{section.anchor}-{seen[section.anchor]}" if seen[section.anchor] > 1 else section.anchor
    return "\n".join(line for section in all_sections for line in _section(section, anchors))


def sections() -> list[Section]:
    """Return a section for each model that a configuration can contain, in the order of a configuration."""
    places: dict[type[BaseModel], list[str]] = {}

    def visit(model: type[BaseModel], place: str) -> None:
        places.setdefault(model, []).append(place)
        if len(places[model]) > 1:
            return
        for name, field in written_fields(model):
            for inner, below in _models(field.annotation):
                if inner not in WITHIN_TEXT:
                    visit(inner, f"{place} {name}:{below}".strip())
        if model is Settings:
            visit(AuditGroup, "audits: NAME (of many tables):")

    visit(Settings, "")
    return [Section(model, tuple(where)) for model, where in places.items()]


def written_fields(model: type[BaseModel]) -> Iterator[tuple[str, FieldInfo]]:
    """Yield the fields that a configuration can contain, by the names that it has for them."""
    for name, field in model.model_fields.items():
        if (model, name) not in NOT_WRITTEN:
            yield field.alias or name, field


def sentences(model: type[BaseModel]) -> dict[str, str]:
    """Return the sentence of each key of a model that has one: the text below its field, or its description."""
    texts: dict[str, str] = {}
    for declared in reversed([one for one in model.__mro__ if issubclass(one, BaseModel) and one is not BaseModel]):
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(declared))).body
        assert isinstance(tree, ast.ClassDef)
        for statement, following in zip(tree.body, tree.body[1:], strict=False):
            match statement, following:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                    texts[name] = text
    described = {name: field.description or texts.get(name, "") for name, field in model.model_fields.items()}
    return {model.model_fields[name].alias or name: _plain(text) for name, text in described.items() if text}


def _section(section: Section, anchors: dict[type[BaseModel], str]) -> Iterator[str]:
    description = _plain((section.model.__doc__ or "").strip())
    if not section.places[0]:
        yield from ("## All settings", "", description, "")
    else:
        yield from (f"### `{section.places[0]}` {{ #{anchors[section.model]} }}", "", description, "")
    if len(section.places) > 1:
        yield from ("Also under " + ", ".join(f"`{place}`" for place in section.places[1:]) + ".", "")
    yield from ("| key | value | default | meaning |", "|---|---|---|---|")
    meanings = sentences(section.model)
    for name, field in written_fields(section.model):
        value = _value(field.annotation, tuple(field.metadata), anchors)
        yield f"| `{name}` | {value} | {_default(field)} | {meanings.get(name, '')} |"
    yield ""


def _plain(text: str) -> str:
    """Return a docstring as one line of Markdown that a table can hold."""
    return " ".join(text.split()).replace("``", "`").replace("|", "\\|")


def _models(annotation: Any, below: str = "") -> Iterator[tuple[type[BaseModel], str]]:
    """Yield the models in a type, with what stands between the key and them: a name, in a mapping."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation, below
    elif get_origin(annotation) is dict:
        yield from _models(get_args(annotation)[1], f"{below} NAME:")
    else:
        for inner in get_args(annotation):
            yield from _models(inner, below)


def _value(annotation: Any, metadata: tuple[Any, ...], anchors: dict[type[BaseModel], str]) -> str:
    """Return in words what may be written."""
    for item in metadata:
        if (words := VALIDATED.get(getattr(item, "func", None))) is not None:
            return words
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _value(inner[0], inner[1:], anchors)
    if origin in (Union, UnionType):
        return " or ".join(dict.fromkeys(_value(annotation, metadata, anchors) for annotation in inner if annotation is not NoneType))
    if origin is Literal:
        return ", ".join(f"`{choice}`" for choice in inner)
    if origin is tuple:
        return f"list of: {_value(inner[0], (), anchors)}"
    if origin is dict:
        return f"name: {_value(inner[1], (), anchors)}"
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return _model_value(annotation, metadata, anchors)
    return WORDS.get(annotation, "date and time") + _bounds(metadata)


def _model_value(model: type[BaseModel], metadata: tuple[Any, ...], anchors: dict[type[BaseModel], str]) -> str:
    if model in WITHIN_TEXT:
        return f"`{{{', '.join(f'{name}: ...' for name in model.model_fields)}}}`"
    short = {"_from_number": "number or ", "_from_cron": "cron expression or "}
    lead = next((short[item.func.__name__] for item in metadata if isinstance(item, BeforeValidator) and item.func.__name__ in short), "")
    return f"{lead}[settings](#{anchors[model]})"


def _bounds(metadata: tuple[Any, ...]) -> str:
    ends = {name: getattr(item, name) for item in metadata for name in ("ge", "gt", "le", "lt") if getattr(item, name, None) is not None}
    low = f"from {ends['ge']:,}" if "ge" in ends else f"above {ends['gt']:,}" if "gt" in ends else ""
    high = f"to {ends['le']:,}" if "le" in ends else f"below {ends['lt']:,}" if "lt" in ends else ""
    return f", {low} {high}".rstrip() if low or high else ""


def _default(field: FieldInfo) -> str:
    value = field.default
    if value is PydanticUndefined:
        return "required"
    if value is None or isinstance(value, BaseModel) or value in ((), {}):
        return ""
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, float) and any(getattr(item, "func", None) is parse_duration for item in field.metadata):
        return f"`{_duration(value)}`"
    if isinstance(value, tuple):
        return "`[" + ", ".join(map(str, value)) + "]`"
    return f"`{value:,}`" if isinstance(value, int) else f"`{value:g}`" if isinstance(value, float) else f"`{value}`"


def _duration(seconds: float) -> str:
    for unit, letter in UNITS:
        if seconds and seconds % unit == 0:
            return f"{seconds / unit:g}{letter}"
    return f"{seconds:g}s"
