"""Topics as targets of pipelines."""

from __future__ import annotations

import re
from typing import Literal

from pydantic import Field, model_validator

from auditor.config._base import Duration, Strict
from auditor.config._messages import MessageSettings

LONGEST_NAME = 249
"""Characters of a topic's name at most. https://github.com/apache/kafka/blob/4.0/clients/src/main/java/org/apache/kafka/common/internals/Topic.java"""

UNFIT = re.compile(r"[^A-Za-z0-9._-]")
"""What a topic's name cannot have."""

PLACES = ("{pipeline}", "{target}", "{database}", "{table}")
"""What stands in names of topics for the names of the pipeline, the target, and of a table and its database in the source."""


class TopicOfTable(Strict):
    """What is special about the topic of one table."""

    name: str | None = Field(None, min_length=1)
    """Its name; None for what ``topic`` of the target says."""
    partitions: int | None = Field(None, ge=1)
    """How many partitions it has; None for what the target says."""


ALL_DEFAULT = TopicOfTable()


class TopicTarget(Strict):
    """A target of a pipeline that is topics of Kafka: one for each table."""

    broker: str
    """The broker, of those under ``brokers``."""
    topic: str = "{pipeline}.{database}.{table}"
    """The name of a table's topic. What topics' names cannot have is an underscore there."""
    partitions: int = Field(1, ge=1)
    """Partitions of a topic that is made. Of one that exists, they must be as many."""
    replication: int | None = Field(None, ge=1)
    """Copies of each partition of a topic that is made; None for the broker's default."""
    cleanup: Literal["compact", "delete", "compact,delete"] = "compact"
    """What the broker deletes: older messages of a key, or all messages after ``retention``."""
    retention: Duration | None = None
    """Seconds for which messages are kept where ``cleanup`` deletes them; None for the broker's default."""
    messages: MessageSettings = MessageSettings()
    """How rows are written as messages."""
    settings: dict[str, str] = {}
    """Further settings of topics that are made, by Kafka's names: ``max.message.bytes``. Of topics that exist they must be the same."""
    make: bool = True
    """Whether missing topics are made; otherwise a table without a topic stops."""
    schema_changes: str | None = "{pipeline}.schema-changes"
    """The topic of statements that changed tables; None for none."""
    transactions: str | None = None
    """The topic of the source's transactions, with how many messages each has of which table; None for none, and then messages do not say
    of which transaction they are."""
    positions: str = "auditor.positions.{pipeline}.{target}"
    """The topic in which each transaction says how far the topics are."""
    every: Duration = 1.0
    """Seconds between two transactions; 0: as soon as something is staged."""
    max_transaction: int = Field(100_000, ge=1)
    """Messages of a transaction, of which one of the source that has more is an exception: it is one as a whole."""
    timeout: Duration = Field(300.0, ge=10, le=900)
    """Seconds after which the broker ends a transaction that stands open. The broker's ``transaction.max.timeout.ms`` must allow it."""
    tables: dict[str, TopicOfTable] = {}
    """What is special about tables' topics, by the tables' names in the source: ``orders``, or ``shop.orders``."""

    @model_validator(mode="after")
    def _known_places(self) -> TopicTarget:
        for name in ("topic", "schema_changes", "transactions", "positions"):
            text = getattr(self, name)
            allowed = PLACES if name == "topic" else PLACES[:2]
            if unknown := [place for place in re.findall(r"\{[^{}]*\}", text or "") if place not in allowed]:
                raise ValueError(f"{name}: {unknown[0]} stands for nothing; write {', '.join(allowed)}")
        own = [text for text in (self.schema_changes, self.transactions, self.positions) if text]
        if twice := next((text for text in own if own.count(text) > 1), None):
            raise ValueError(f"{twice} is named twice; schema_changes, transactions and positions are different topics")
        if "{table}" not in self.topic:
            raise ValueError("topic: all tables would have one topic; write {table} in it")
        if self.retention is not None and "delete" not in self.cleanup:
            raise ValueError("retention: nothing is deleted after a time with cleanup: compact; use cleanup: compact,delete, or remove it")
        for name in self.settings:
            if name in ("cleanup.policy", "retention.ms"):
                raise ValueError(f"settings: write {'cleanup' if name == 'cleanup.policy' else 'retention'} beside it instead of {name}")
        return self

    def special(self, table: str) -> TopicOfTable:
        """Return what is special about the topic of a table of the source, ``database.table``."""
        return self.tables.get(table) or self.tables.get(table.partition(".")[2]) or ALL_DEFAULT

    def topic_of(self, pipeline: str, target: str, table: str) -> str:
        """Return the name of the topic of a table of the source, ``database.table``."""
        database, _, name = table.partition(".")
        given = self.special(table).name or self.topic
        return fit(given, {"{pipeline}": pipeline, "{target}": target, "{database}": database, "{table}": name})

    def own_topic(self, name: Literal["schema_changes", "transactions", "positions"], pipeline: str, target: str) -> str | None:
        """Return the name of one of the target's own topics; None if it has none."""
        text: str | None = getattr(self, name)
        return None if text is None else fit(text, {"{pipeline}": pipeline, "{target}": target})

    def partitions_of(self, table: str) -> int:
        """Return how many partitions the topic of a table has."""
        return self.special(table).partitions or self.partitions

    @property
    def made_with(self) -> dict[str, str]:
        """The settings of topics that are made."""
        kept = {"retention.ms": str(int(self.retention * 1000))} if self.retention is not None else {}
        return {"cleanup.policy": self.cleanup, **kept, **self.settings}


def fit(text: str, names: dict[str, str]) -> str:
    """Return a topic's name with names in the places that stand for them, each without what topics' names cannot have."""
    return re.sub(r"\{[a-z]+\}", lambda match: UNFIT.sub("_", names.get(match[0], match[0])), text)
