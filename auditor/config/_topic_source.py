"""Topics as the source of a pipeline."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

import dialects
from auditor.config._base import Size, Strict, is_pattern
from auditor.config._messages import MessageSettings

NOT_NULL = re.compile(r"(?<!\s)\s++not\s++null$", re.IGNORECASE)


class TopicColumns(Strict):
    """Which columns the rows of a topic have, if its messages do not say it."""

    key: tuple[str, ...] = ()
    """The columns of the key of ``columns``."""
    columns: dict[str, str] = {}
    """The columns of JSON messages that come without a schema, in order, each with a type as MySQL writes it, and ``not null`` where it
    never is: ``decimal(12,2)``, ``varchar(40) not null``."""

    @field_validator("columns")
    @classmethod
    def _known_types(cls, columns: dict[str, str]) -> dict[str, str]:
        for name, text in columns.items():
            try:
                kind = dialects.get("mysql").types.kind(NOT_NULL.sub("", text.strip()))
            except ValueError:
                kind = None
            if kind is None:
                raise ValueError(f"{name}: {text!r} is no type; write it as MySQL does: bigint, decimal(12,2), varchar(40), datetime(6)")
        return columns

    @model_validator(mode="after")
    def _key_among_columns(self) -> TopicColumns:
        if self.columns and (missing := [name for name in self.key if name not in self.columns]):
            raise ValueError(f"key: {missing[0]!r} is none of the columns ({', '.join(self.columns)})")
        if bool(self.columns) != bool(self.key):
            raise ValueError("columns and their key: belong together: without columns, schemas beside the messages say both; write both")
        return self

    @property
    def declared(self) -> list[tuple[str, str, bool]]:
        """The declared columns: name, type, and whether it may be NULL."""
        return [
            (name, NOT_NULL.sub("", text.strip()).lower(), not NOT_NULL.search(text.strip()) and name not in self.key)
            for name, text in self.columns.items()
        ]


class ReadTopic(TopicColumns):
    """What a pipeline reads in a topic, or in all topics of a pattern."""

    table: str | None = Field(None, pattern=r"^[^.]+\.[^.]+$")
    """What the pipeline calls its table, ``database.table``; by default the last two words of the topic's name."""
    messages: MessageSettings | None = None
    """How its rows are written; None for what ``messages`` of the source says."""


PLAIN = ReadTopic()


class PublishedBy(Strict):
    """The pipeline of this auditor, perhaps of another configuration, that publishes the topics."""

    pipeline: str
    """Its name."""
    target: str
    """The name of its target that the topics are."""
    positions: str | None = None
    """The topic in which each of its transactions says how far the topics are; by default auditor.positions.PIPELINE.TARGET."""

    schema_changes: str | None = None
    """The topic of statements that changed tables, which says the columns of their messages; by default PIPELINE.schema-changes."""

    @property
    def statements_topic(self) -> str:
        """The name of the topic of statements."""
        return self.schema_changes or f"{self.pipeline}.schema-changes"

    @property
    def positions_topic(self) -> str:
        """The name of that topic."""
        return self.positions or f"auditor.positions.{self.pipeline}.{self.target}"


class TopicSource(Strict):
    """The source of a pipeline that is topics of Kafka, whose messages say what happens to the rows of tables."""

    broker: str
    """The broker, of those under ``brokers``."""
    topics: dict[str, ReadTopic] = Field(min_length=1)
    """Names of topics, or patterns of them (``shop.public.*``), with what is special about them; a list where nothing is."""
    messages: MessageSettings = MessageSettings()
    """How rows are written as messages; settings of what only writers do are of no use here."""
    published_by: PublishedBy | None = None
    """The pipeline that publishes these topics: then a batch ends where one of its transactions does, and targets are at one moment of its
    source."""
    start: Literal["earliest", "latest"] | dt.datetime | dict[str, dict[int, int]] = "earliest"
    """Where the first batch begins: at the first messages that there are, behind the last ones, at a time of messages (with its zone), or
    at the offsets of some partitions (``{topic: {0: 1200}}``; of all others, at the first)."""
    group: str | None = Field(None, min_length=1)
    """The consumer group in which brokers show how far the pipeline is; by default auditor.PIPELINE. Nothing is read from it."""
    max_messages: int = Field(100_000, ge=1)
    """Messages of a batch, at most."""
    max_bytes: Size = Field(64 << 20, ge=1)
    """Bytes of keys and values of a batch from which it ends, as far as the batch before shows how large messages are."""

    @field_validator("topics", mode="before")
    @classmethod
    def _as_mapping(cls, given: Any) -> Any:
        if isinstance(given, str):
            given = [given]
        if isinstance(given, list | tuple):
            return {name: {} for name in given}
        return {name: {} if one is None else one for name, one in given.items()} if isinstance(given, Mapping) else given

    @model_validator(mode="after")
    def _consistent(self) -> TopicSource:
        for name, topic in self.topics.items():
            if is_pattern(name):
                if topic.table is not None:
                    raise ValueError(f"topics: {name}: table: the tables of a pattern are named by its topics; name each topic by itself")
            elif topic.table is None and name.count(".") < 1:
                raise ValueError(f"topics: {name}: its name has no database and table; add table: database.table")
            if is_pattern(name) and topic.columns:
                raise ValueError(f"topics: {name}: columns: they are those of one table; name each topic by itself")
        named = [topic.table.lower() for topic in self.topics.values() if topic.table]
        if twice := next((table for table in named if named.count(table) > 1), None):
            raise ValueError(f"topics: two topics have the table {twice!r}, whose rows would have no order; read them into two tables")
        if isinstance(self.start, dt.datetime) and self.start.tzinfo is None:
            raise ValueError(f"start: {self.start} has no zone; write 2026-01-31T12:00:00Z")
        if isinstance(self.start, dict):
            for name, offsets in self.start.items():
                if self.find(name) is None:
                    raise ValueError(f"start: {name!r} is none of the topics ({', '.join(self.topics)})")
                if any(number < 0 for pair in offsets.items() for number in pair):
                    raise ValueError(f"start: {name}: partitions and offsets are numbers from 0 on")
        if self.published_by and self.start != "earliest":
            raise ValueError("start: topics with published_by are read from their first transaction on; remove start")
        return self

    @property
    def tables(self) -> tuple[str, ...]:
        """The names or patterns of tables, ``database.table``, that the topics have."""
        return tuple(dict.fromkeys(topic.table or table_in(name) for name, topic in self.topics.items()))

    def find(self, topic: str) -> ReadTopic | None:
        """Return what is said of a topic, by its name or else by the first pattern that fits; None if it is not read."""
        found = self.topics.get(topic)
        return found or next((one for pattern, one in self.topics.items() if is_pattern(pattern) and fnmatchcase(topic, pattern)), None)

    def table_of(self, topic: str) -> str:
        """Return what the pipeline calls the table of a topic that it reads."""
        return (self.find(topic) or PLAIN).table or table_in(topic)

    def messages_of(self, topic: str) -> MessageSettings:
        """Return how the rows of a topic are written."""
        return (self.find(topic) or PLAIN).messages or self.messages

    def group_of(self, pipeline: str) -> str:
        """Return the consumer group of a pipeline with this source."""
        return self.group or f"auditor.{pipeline}"


def table_in(topic: str) -> str:
    """Return the table that the name of a topic, or a pattern of names, says: its last two words; of a shorter pattern any."""
    words = topic.split(".")
    if is_pattern(topic) and len(words) < 3:
        return "*.*"
    return ".".join(words[-2:])
