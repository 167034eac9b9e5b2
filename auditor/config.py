"""``auditor.yaml`` and the environment, as typed settings, each declared once: here.

A mistake is told with its file and line, and with what to write instead. ``${NAME}`` is an environment variable (an unset one
is an error), ``${file:/path}`` the contents of a file without its last line break. Inside a longer ``url:`` they are
percent-encoded, so that a password may hold any character.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import quote

import yaml
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from auditor import canonical
from auditor.errors import ConfigError, UnknownAudit
from auditor.model import Method
from dialects import Place

DEFAULT_FILE = "auditor.yaml"
_UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}


def seconds(value: Any) -> Any:
    """``90``, ``90s``, ``15m``, ``2h`` as seconds."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)?\s*", str(value))
    if not match:
        raise ValueError(f"{value!r} is no duration; write 90s, 15m or 2h")
    return float(match.group(1)) * _UNITS[match.group(2) or "s"]


Duration = Annotated[float, BeforeValidator(seconds)]


def _known_kind(text: str) -> str:
    canonical.parse_kind(text)
    return text


class _Settings(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


class Connection(_Settings):
    """Where a database is."""

    url: str = Field(repr=False)
    statement_timeout: Duration = 3600.0
    """A statement that runs longer is ended by the server."""
    connections: int = Field(1, ge=1, le=16)
    """Connections that read one table's chunks side by side, where the engine lets them share a snapshot."""


class Per(_Settings):
    """SQL for each side in that side's own dialect."""

    source: str
    target: str


class Written(_Settings):
    """SQL in a dialect that is named."""

    sql: str
    dialect: str


def _sql(value: Any) -> Any:
    """One sentence for whatever is none of the three forms."""
    if isinstance(value, str | Per | Written):
        return value
    forms = ({"source", "target"}, {"sql", "dialect"})
    if isinstance(value, dict) and set(value) in forms and all(isinstance(text, str) for text in value.values()):
        return value
    raise ValueError("write SQL as text in quotes, or {source: ..., target: ...}, or {sql: ..., dialect: ...}")


Sql = Annotated[str | Per | Written, BeforeValidator(_sql)]
"""SQL in the source's dialect, or as ``Per`` or ``Written`` say; it is translated to what a side needs."""


class TableRef(_Settings):
    """A table of a connection, or files by their path, and (of the target) how its columns are called there."""

    connection: str
    table: str
    format: Literal["parquet", "csv", "delta", "iceberg"] | None = None
    version: int | None = None
    timestamp: str | None = None
    columns: dict[str, str] = {}
    """Source's name to this side's name."""

    @property
    def place(self) -> Place:
        """The table's name taken apart at its points; a path if it has a slash or a file's ending, or a format is given."""
        is_path = self.format or "/" in self.table or re.search(r"\.(parquet|csv)(\.gz)?$", self.table)
        if not is_path:
            parts = tuple(part.strip('"`') for part in re.findall(r'"[^"]+"|`[^`]+`|[^.]+', self.table))
            return Place(parts)
        ending = "csv" if re.search(r"\.csv(\.gz)?$", self.table) else "parquet"
        return Place((), self.table, self.format or ending, self.version, self.timestamp)


class Override(_Settings):
    """How one column is compared where the default is not what is wanted."""

    kind: Annotated[str, AfterValidator(_known_kind)] | None = None
    round: int | None = Field(None, ge=0, le=15)
    trim: bool = False
    case: Literal["lower", "upper"] | None = None
    null_as: str | None = None
    mask: bool = False
    """Show only that this column differs, never a value."""
    expr: Sql | None = None

    @model_validator(mode="after")
    def _consistent(self) -> Override:
        if self.expr is not None and self.kind is None:
            raise ValueError("an expr needs its kind beside it, e.g. kind: integer")
        if self.round is not None and self.kind is not None:
            raise ValueError("write either round or kind; round: 2 is kind: rounded(2)")
        return self


class Columns(_Settings):
    """Which columns are compared, by the source's names; all of the source's without this."""

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    override: dict[str, Override] = {}


class Partition(_Settings):
    """How rows are put into partitions; chosen from the key and the row count without this."""

    strategy: Literal["range", "hash", "time"] | None = None
    size: int | None = Field(None, ge=1)
    buckets: int | None = Field(None, ge=1, le=1 << 20)
    column: str | None = None
    unit: Literal["hour", "day", "month"] = "day"
    rows: int = Field(1024, ge=1)
    """Rows a partition should hold."""
    limit: int = Field(65536, ge=1, le=1 << 20)
    """The most partitions there should be."""


class Limits(_Settings):
    """How far the method exact goes to name differences; beyond, it estimates."""

    max_rows_listed: int | None = Field(None, ge=0)
    """Rows fetched of partitions that do not decode; by default 1 % of the table, and at least 100,000."""
    max_differences: int = Field(10_000, ge=0)
    """Differences that are kept by their keys; all are counted."""
    max_seconds: Duration = 600.0
    """Seconds spent on naming differences."""
    value_length: int = Field(200, ge=1)
    """Characters of a value that are shown."""


class Audit(_Settings):
    """The standing definition of an audit."""

    source: TableRef
    target: TableRef
    key: tuple[str, ...] = ()
    columns: Columns = Columns()
    where: Sql | None = None
    method: Literal[Method, "auto"] = "exact"
    """``auto`` chooses between exact and minhash from the differences that the last runs found."""
    k: int | None = Field(None, ge=1, le=256)
    """Minhashes: 16 with the method minhash; none with the method exact, unless asked for here."""
    t: int = Field(3, ge=1, le=16)
    """Differences that the method exact names in one partition."""
    bits: Literal[60, 120] = 60
    """Bits of the row hash that enter the signature of the method exact."""
    salt: str = Field("random", pattern=r"^[0-9A-Za-z]{0,64}$")
    """What the row text begins with under the methods signature and exact: new for every connected run, nothing in SQL for
    consoles (``random``), or these letters and digits."""
    limits: Limits = Limits()
    hash: Literal["sha256", "md5"] = "sha256"
    encoding: Literal["injective", "published"] = "injective"
    partition: Partition = Partition()
    threshold: float = Field(1.0, ge=0, le=1)
    allow_empty: bool = False

    @property
    def algorithm(self) -> Literal["sha256", "md5"]:
        """The row hash: the published encoding implies MD5."""
        return "md5" if self.encoding == "published" else self.hash


class Settings(_Settings):
    """A whole configuration."""

    connections: dict[str, Connection]
    audits: dict[str, Audit]

    @model_validator(mode="after")
    def _connections_exist(self) -> Settings:
        unknown = [
            (("audits", name, side), f"there is no connection {ref.connection!r}{_closest(ref.connection, self.connections)}")
            for name, audit in self.audits.items()
            for side, ref in (("source", audit.source), ("target", audit.target))
            if ref.connection not in self.connections
        ]
        if unknown:
            told = "; ".join(f"{'.'.join(where)}: {sentence}" for where, sentence in unknown)
            raise PydanticCustomError("unknown_connection", "{told}", {"told": told, "unknown": unknown})
        return self

    def audit(self, name: str) -> Audit:
        """The audit of that name. Raises UnknownAudit."""
        if name not in self.audits:
            known = ", ".join(sorted(self.audits)) or "none"
            raise UnknownAudit(f"there is no audit {name!r}{_closest(name, self.audits)} (audits here: {known})")
        return self.audits[name]


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
    return _checked(values or {}, reader.located)


def checked(values: Mapping[str, Any]) -> Settings:
    """A configuration that was written in Python and not in a file. Raises ConfigError that names every mistake."""
    return _checked(values, lambda where, sentence: f"{'.'.join(str(part) for part in where)}: {sentence}")


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
        case "int_type" | "int_parsing" | "int_from_float":
            return "write a whole number"
        case _:
            return str(mistake["msg"]).removeprefix("Value error, ").replace("Input should", "this should")


_MODELS: dict[str, type[_Settings]] = {model.__name__: model for model in _Settings.__subclasses__()}
_PLACES = {
    "Connection": "a connection",
    "TableRef": "source: or target:",
    "Columns": "columns:",
    "Override": "columns: override: a column:",
    "Partition": "partition:",
    "Limits": "limits:",
    "Audit": "an audit",
    "Settings": "the top",
}


def _instead(name: str) -> str:
    """Where a setting that is written in the wrong place belongs, or what it was perhaps meant to be."""
    if homes := [place for model, place in _PLACES.items() if model in _MODELS and name in _MODELS[model].model_fields]:
        return f"; it belongs in {' or '.join(homes)}"
    return _closest(name, {field for model in _MODELS.values() for field in model.model_fields})


def _closest(name: str, known: Any) -> str:
    close = difflib.get_close_matches(name, list(known), 1)
    return f"; did you mean {close[0]!r}?" if close else ""
