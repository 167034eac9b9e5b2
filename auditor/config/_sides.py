"""The sides of audits: a table of a connection or files, a query, a topic, several shards, and the proxy that stands in for a source."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Discriminator, Field, Tag, model_validator

from auditor import conventions
from auditor.config._base import Strict
from auditor.config._convention import ConventionField, OwnConvention
from auditor.config._messages import MessageSettings
from auditor.config._topic_source import PublishedBy, TopicColumns
from auditor.conventions import Convention
from dialects import Place

_QUOTED = r'"(?:[^"]|"")+"|`(?:[^`]|``)+`'
"""A quoted part of a table's name."""


def _unquote(part: str) -> str:
    return part[1:-1].replace(part[0] * 2, part[0]) if re.fullmatch(_QUOTED, part) else part


def table_name(*parts: str) -> str:
    """Return a table's name of these parts, as ``table`` takes it: one with other characters than letters, digits and _ is quoted."""
    return ".".join(part if re.fullmatch(r"\w+", part) else f'"{part.replace(chr(34), chr(34) * 2)}"' for part in parts)


class TableRef(Strict):
    """A table of a connection, or files by their path; for the target also its names of the columns."""

    connection: str
    """The connection's name."""
    table: str
    """The table's name, with its schema if need be, or the path of files."""
    format: Literal["parquet", "csv", "delta", "iceberg"] | None = None
    """The format of the files at a path; by default that of the file's ending, else Parquet."""
    version: int | None = None
    """The version of a Delta or Iceberg table that is read; by default the newest."""
    timestamp: str | None = None
    """The time whose version of a Delta or Iceberg table is read, instead of ``version``."""
    columns: dict[str, str] = {}
    """This side's name of a column, by the source's name."""
    convention: ConventionField | None = None
    """Whose convention says which rows and columns of the table count: a tool's name, or its parts; by default all of them do."""

    @property
    def follows(self) -> Convention | None:
        """The convention that says which rows and columns count; None where all do."""
        if isinstance(self.convention, OwnConvention):
            return self.convention.convention
        return conventions.by_name(self.convention) if self.convention else None

    @property
    def renamed(self) -> dict[str, str]:
        """This side's name of a column, by the source's name."""
        return self.columns

    @property
    def label(self) -> str:
        """The text ``connection: table``."""
        return f"{self.connection}: {self.table}"

    @property
    def place(self) -> Place:
        """The table's name split at its dots, or a path if it has a slash or a file extension, or a format is given.

        A part in double quotes or backticks, doubled inside, may have any character: ``shop."orders/2024"``.
        """
        plain = re.sub(_QUOTED, "", self.table)
        is_path = self.format or "/" in plain or re.search(r"\.(parquet|csv)(\.gz)?$", plain)
        if not is_path:
            parts = tuple(_unquote(part) for part in re.findall(rf"{_QUOTED}|[^.]+", self.table))
            return Place(parts, version=self.version, timestamp=self.timestamp)
        ending = "csv" if re.search(r"\.csv(\.gz)?$", self.table) else "parquet"
        return Place((), self.table, self.format or ending, self.version, self.timestamp)


class QueryRef(Strict):
    """The result of a query, which is read as if it were a table: an aggregate, or an inverted index."""

    connection: str
    """The connection's name."""
    query: str = Field(min_length=1)
    """One SELECT in the dialect of the connection's server, which only reads; the audit's ``key`` says what identifies a row of it."""
    columns: dict[str, str] = {}
    """This side's name of a column, by the source's name; of the target alone."""

    @model_validator(mode="before")
    @classmethod
    def _reads_once(cls, given: Any) -> Any:
        if isinstance(given, Mapping) and (other := next((name for name in ("table", "convention", "format") if name in given), None)):
            raise ValueError(f"{other} and query cannot be combined: a query says itself what is read; remove one of them")
        return given

    @property
    def table(self) -> str:
        """What stands for a table's name."""
        return "a query"

    @property
    def renamed(self) -> dict[str, str]:
        """This side's name of a column, by the source's name."""
        return self.columns

    @property
    def follows(self) -> None:
        """Nothing: all rows of a query count."""

    @property
    def label(self) -> str:
        """The connection, and that it is a query."""
        return f"{self.connection}: a query"

    @property
    def place(self) -> Place:
        """No place: a query is in no catalogue."""
        return Place(())


class TopicRef(TopicColumns):
    """A topic of Kafka as a table: its rows are the latest messages of their keys, up to where it ends when a run begins."""

    broker: str
    """The broker, of those under ``brokers``."""
    topic: str = Field(min_length=1)
    """The topic's name."""
    messages: MessageSettings = MessageSettings()
    """How its rows are written; settings of what only writers do are of no use here."""
    published_by: PublishedBy | None = None
    """The pipeline that publishes the topic, whose topic of statements says the exact types of its columns."""

    @model_validator(mode="after")
    def _columns_once(self) -> TopicRef:
        if self.columns and self.published_by:
            raise ValueError("columns and published_by both say which columns there are; remove one of them")
        return self

    @property
    def connection(self) -> str:
        """What stands for a connection's name: the broker's, which no connection has."""
        return self.broker

    @property
    def table(self) -> str:
        """The name of the table into which a run reads the topic."""
        return table_name(self.topic)

    @property
    def renamed(self) -> dict[str, str]:
        """Nothing: columns have the names that messages have for them."""
        return {}

    @property
    def follows(self) -> None:
        """Nothing: all rows of a topic count."""

    @property
    def label(self) -> str:
        """The text ``broker: topic``."""
        return f"{self.broker}: {self.topic}"

    @property
    def place(self) -> Place:
        """The table into which a run reads the topic."""
        return Place((self.topic,))


class ThroughTopic(TopicRef):
    """The topic of somebody else by which rows come from the source's table into the target's: `auditor trace` asks it for rows."""

    group: str | None = Field(None, min_length=1)
    """The consumer group in which what fills the target commits how far it has read; without it, what was lost behind the topic cannot be
    told from what is on its way."""


SideRef: TypeAlias = TableRef | QueryRef | TopicRef
"""What is read as a side of an audit, or as one shard of it."""


class Proxy(Strict):
    """A proxy: a dump that stands in for the source, and is audited against it itself."""

    connection: str
    """The connection that reads the dump."""
    table: str
    """The dump: a table, or the path of files."""
    format: Literal["parquet", "csv", "delta", "iceberg"] | None = None
    """The format of the files at a path; by default that of the file's ending, else Parquet."""
    as_of: dt.datetime | None = None
    """The time of the data in the dump; by default the time that the dump states, or the modification time of its file."""


FORMS = ("one table", "several shards", "one topic", "one query")
"""The forms of a source, as they stand in the places of pydantic's errors."""


def _form_of_side(value: Any) -> str:
    if isinstance(value, list | tuple):
        return FORMS[1]
    written = value if isinstance(value, Mapping) else {}
    if isinstance(value, TopicRef) or not {"broker", "topic"}.isdisjoint(written):
        return FORMS[2]
    return FORMS[3 if isinstance(value, QueryRef) or "query" in written else 0]


Source = Annotated[
    Annotated[TableRef, Tag(FORMS[0])]
    | Annotated[tuple[TableRef, ...], Field(min_length=2), Tag(FORMS[1])]
    | Annotated[TopicRef, Tag(FORMS[2])]
    | Annotated[QueryRef, Tag(FORMS[3])],
    Discriminator(_form_of_side),
]
"""One table, the tables that together are the source, a topic, or a query."""


def _form_of_target(value: Any) -> str:
    return FORMS[0] if isinstance(value, list | tuple) else _form_of_side(value)


Target = Annotated[
    Annotated[TableRef, Tag(FORMS[0])] | Annotated[TopicRef, Tag(FORMS[2])] | Annotated[QueryRef, Tag(FORMS[3])],
    Discriminator(_form_of_target),
]
"""One table, a topic, or a query."""


def check_shards(shards: Sequence[TableRef]) -> None:
    """Raise ValueError for shards that are the same table, or name columns, which only a target does."""
    labels = [shard.label for shard in shards]
    if twice := next((label for label in labels if labels.count(label) > 1), None):
        raise ValueError(f"the shard {twice} occurs twice, so that its rows would count twice; remove one")
    if any(shard.convention for shard in shards):
        raise ValueError("convention: belongs to one table, and the source has several shards; remove it from them")
    if any(shard.columns for shard in shards):
        raise ValueError("columns: belongs to the target; the shards of a source have the same names of columns")
