"""The change sources of pipelines with topics, as the driver of batches takes one."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from auditor.config import Settings
from auditor.pipeline.kafka.offsets import StreamOffset
from auditor.pipeline.kafka.own_topics import OwnTopicStream, first_own_offset
from auditor.pipeline.kafka.topic_cluster import open_cluster
from auditor.pipeline.kafka.topic_stream import TopicStream, first_offset
from auditor.pipeline.source import EVENT_TYPE


class KafkaTopics(DataSource):
    """The change source of a pipeline with topics of others. Options: ``config``, ``pipeline`` and ``start``, the JSON of an offset."""

    @classmethod
    def name(cls) -> str:
        """Return the name that a Spark job calls it by."""
        return "kafka_topics"

    def schema(self) -> StructType:
        """Return the columns of an event."""
        return EVENT_TYPE

    def streamReader(self, schema: StructType) -> TopicStream:  # type: ignore[override]
        """Return the reader of a stream."""
        del schema
        return TopicStream(self.options["config"], self.options["pipeline"])


class OwnTopics(KafkaTopics):
    """The change source of a pipeline with topics that another one publishes, of the same options."""

    @classmethod
    def name(cls) -> str:
        """Return the name that a Spark job calls it by."""
        return "own_topics"

    def streamReader(self, schema: StructType) -> OwnTopicStream:  # type: ignore[override]
        """Return the reader of a stream."""
        del schema
        return OwnTopicStream(self.options["config"], self.options["pipeline"])


def source_and_begin(settings: Settings, pipeline: str) -> tuple[type[KafkaTopics], Callable[[], StreamOffset]]:
    """Return what reads the topics of a pipeline, and what returns where a new one begins. Raises ConfigError."""
    cluster = open_cluster(settings, pipeline)
    if cluster.source.published_by is None:
        return KafkaTopics, partial(first_offset, cluster)
    return OwnTopics, partial(first_own_offset, cluster)
