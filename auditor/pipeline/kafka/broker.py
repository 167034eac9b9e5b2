"""Clients of a Kafka cluster, as the configuration describes it, and its errors as the auditor's own."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from auditor.config import Broker
from auditor.errors import AuditorError, BrokerDenied, BrokerError, BrokerUnreachable, ProducerFenced, TopicRefused
from dialects import extras

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError, Message, Producer
    from confluent_kafka.admin import AdminClient

log = logging.getLogger(__name__)

CLIENT = "auditor"
"""How clients call themselves, in the broker's logs and quotas."""

UNREACHABLE = {
    "_TRANSPORT", "_ALL_BROKERS_DOWN", "_TIMED_OUT", "_RESOLVE", "_TIMED_OUT_QUEUE", "_MSG_TIMED_OUT", "_MAX_POLL_EXCEEDED",
    "REQUEST_TIMED_OUT", "NETWORK_EXCEPTION", "COORDINATOR_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS", "LEADER_NOT_AVAILABLE",
    "NOT_LEADER_FOR_PARTITION", "NOT_ENOUGH_REPLICAS", "BROKER_NOT_AVAILABLE", "NOT_CONTROLLER", "CONCURRENT_TRANSACTIONS",
}  # fmt: skip
"""Errors that pass when the cluster is whole again, by librdkafka's names."""

DENIED = {
    "_AUTHENTICATION", "SASL_AUTHENTICATION_FAILED", "TOPIC_AUTHORIZATION_FAILED", "GROUP_AUTHORIZATION_FAILED",
    "CLUSTER_AUTHORIZATION_FAILED", "TRANSACTIONAL_ID_AUTHORIZATION_FAILED", "UNSUPPORTED_SASL_MECHANISM", "_SSL",
}  # fmt: skip
"""Errors of who signs in, and of what they may do."""

FENCED = {"_FENCED", "INVALID_PRODUCER_EPOCH", "PRODUCER_FENCED", "INVALID_TRANSACTION_STATE", "INVALID_PRODUCER_ID_MAPPING"}
"""Errors of a producer whose transactional id another one took over, or whose transaction the broker has ended."""

REFUSED = {
    "MSG_SIZE_TOO_LARGE": "a message is larger than the topic's max.message.bytes, or the producer's message.max.bytes",
    "UNKNOWN_TOPIC_OR_PART": "there is no such topic, or partition",
    "_UNKNOWN_TOPIC": "there is no such topic",
    "_UNKNOWN_PARTITION": "there is no such partition",
    "INVALID_RECORD": "the broker refuses a message; a compacted topic takes none without a key",
    "POLICY_VIOLATION": "a policy of the cluster refuses it",
    "TOPIC_EXCEPTION": "the cluster takes no topic of this name: it is too long, or differs from another's in points and underscores alone",
}
"""Errors of one topic."""


FETCHING: dict[str, Any] = {
    "fetch.wait.max.ms": 100,
    "fetch.error.backoff.ms": 50,
    "fetch.queue.backoff.ms": 10,  # after so long a full queue of large messages is filled again; the library waits a whole second
}
"""How consumers fetch, unless the broker's properties say otherwise.
https://github.com/confluentinc/librdkafka/blob/master/CONFIGURATION.md"""


def client_settings(broker: Broker) -> dict[str, Any]:
    """Return the properties of any client of a cluster, by librdkafka's names."""
    return {"bootstrap.servers": ",".join(broker.servers), "client.id": CLIENT, "log_level": 2, **broker.properties}


def _hear(error: KafkaError) -> None:
    """Write what a producer says of its connections into the log; what a call fails with, it says itself.

    Without such a callback the library raises a fatal error wherever it calls Python next, in the middle of another callback. Of consumers
    it would keep errors from those who read.
    """
    log.debug("a producer: %s", error, extra={"action": "broker_heard"})


def open_producer(broker: Broker, transactional_id: str, timeout: float, settings: Mapping[str, Any] = {}) -> Producer:
    """Return a producer of transactions that may stand open for ``timeout`` seconds; it has sent nothing yet. Raises BrokerError."""
    extras.require("publishing into topics", "kafka")
    from confluent_kafka import Producer

    milliseconds = int(timeout * 1000)
    with translated("the producer"):
        return Producer(
            {
                "compression.type": "lz4",
                "linger.ms": 20,
                "queue.buffering.max.messages": 1_000_000,
                **client_settings(broker),
                **settings,
                "transactional.id": transactional_id,
                "transaction.timeout.ms": milliseconds,
                "message.timeout.ms": milliseconds,
                "enable.idempotence": True,
                "error_cb": _hear,
                "acks": "all",
            }
        )


def open_consumer(broker: Broker, group: str, settings: Mapping[str, Any] = {}) -> Consumer:
    """Return a consumer of committed messages, which stores no offsets by itself. Raises BrokerError."""
    extras.require("reading topics", "kafka")
    from confluent_kafka import Consumer

    with translated("the consumer"):
        return Consumer(
            {
                **FETCHING,
                **settings,
                **client_settings(broker),
                "group.id": group,
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
                "auto.offset.reset": "error",
                "allow.auto.create.topics": False,
            }
        )


def take(consumer: Consumer, most: int, wait: float) -> list[Message]:
    """Return the messages that have arrived, up to ``most``; if there is none, wait ``wait`` seconds for the first one.

    `Consumer.consume` by itself waits until it has as many, though a topic ends before.
    """
    first = consumer.consume(1, wait)
    return first + consumer.consume(most - 1, 0) if first else first


def open_admin(broker: Broker) -> AdminClient:
    """Return a client that describes and makes topics. Raises BrokerError."""
    extras.require("topics", "kafka")
    from confluent_kafka.admin import AdminClient

    with translated("the cluster"):
        return AdminClient(client_settings(broker))


@contextmanager
def translated(subject: str) -> Iterator[None]:
    """Raise errors of the client's library as BrokerError, about ``subject``.

    A fatal error that the library hears of while it calls Python for messages comes as the cause of a SystemError.
    """
    from confluent_kafka import KafkaException

    try:
        yield
    except KafkaException as error:
        raise error_of(subject, error.args[0]) from error
    except SystemError as error:
        if not isinstance(error.__cause__, KafkaException):
            raise
        raise error_of(subject, error.__cause__.args[0]) from error
    except ValueError as error:  # of a property that librdkafka does not know, or an argument
        raise BrokerError(f"{subject}: {error}") from error


def error_of(subject: str, error: KafkaError) -> AuditorError:
    """Return what the client's library says of a subject as an error of the auditor."""
    name = error.name()
    sentence = f"{subject}: {error.str()}"
    if name in FENCED:
        return ProducerFenced(f"{sentence} ({name})")
    if name in DENIED:
        return BrokerDenied(f"{sentence} ({name})")
    if name in REFUSED:
        return TopicRefused(f"{subject}: {REFUSED[name]} ({name})")
    if name in UNREACHABLE or error.retriable():
        return BrokerUnreachable(f"{sentence} ({name})")
    return BrokerError(f"{sentence} ({name})")
