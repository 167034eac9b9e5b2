"""Topics as sides of audits, in the configuration: what is taken, and what is refused, with what to write instead."""

from __future__ import annotations

from typing import Any

import pytest

from auditor.config import Settings, TopicRef, validate_settings
from auditor.errors import ConfigError
from auditor.history.fingerprint import hash_settings
from auditor.service import definitions

TABLE = {"connection": "shop", "table": "orders"}
TOPIC = {"broker": "kafka", "topic": "shop.shop.orders"}


def settings(connection: str = "shop", **audit: Any) -> Settings:
    return validate_settings(
        {
            "connections": {connection: {"url": "mysql://reader@localhost/shop"}},
            "brokers": {"kafka": {"servers": "localhost:9092"}},
            "audits": {"orders": {"source": {**TABLE, "connection": connection}, "target": TOPIC, **audit}},
        }
    )


def test_a_side_is_a_topic_and_says_where_a_run_reads_it() -> None:
    audit = settings().audits["orders"]
    assert isinstance(audit.target, TopicRef) and audit.topics == {"target": audit.target}
    assert (audit.target.label, audit.target.connection, audit.target.place.parts) == (
        "kafka: shop.shop.orders",
        "kafka",
        ("shop.shop.orders",),
    )
    assert definitions.definition(audit) == {"source": TABLE, "target": TOPIC}
    both = settings(source={**TOPIC, "topic": "other"}).audits["orders"]
    assert [*both.topics] == ["source", "target"]


@pytest.mark.parametrize(
    ("audit", "sentence"),
    [
        ({"target": {**TOPIC, "broker": "kafak"}}, "audits.orders.target.broker: there is no broker 'kafak'; did you mean 'kafka'?"),
        ({"target": {**TOPIC, "table": "orders"}}, "audits.orders.target.table: unknown setting 'table'"),
        ({"target": {"broker": "kafka"}}, "audits.orders.target.topic: this setting is required; add it"),
        ({"target": {**TOPIC, "columns": {"id": "int"}}}, "columns and their key: belong together"),
        ({"target": {**TOPIC, "columns": {"id": "many"}, "key": ["id"]}}, "'many' is no type"),
        (
            {"target": {**TOPIC, "columns": {"id": "int"}, "key": ["id"], "published_by": {"pipeline": "shop", "target": "events"}}},
            "columns and published_by both say which columns there are; remove one of them",
        ),
        (
            {"target": {**TOPIC, "messages": {"format": "avro"}}},
            "format: avro needs a registry; add registry: {url: ...} to the broker kafka",
        ),
        ({"recheck": {"times": 1}}, "recheck and a topic cannot be combined: the topic is read once"),
        ({"align": "pipeline"}, "audits.orders.align: no pipeline carries orders of shop into"),
        ({"source": TOPIC, "target": TABLE, "align": "pipeline"}, "align needs a source in whose log a snapshot has a place"),
        ({"summaries": "live"}, "summaries: live and a topic cannot be combined"),
        ({"rolling": {"per_run": "5%"}}, "rolling and a topic cannot be combined"),
        ({"settle": {"column": "changed", "heartbeat": {}}}, "settle: heartbeat and a topic cannot be combined"),
        ({"source": [TABLE, {**TABLE, "table": "more"}]}, "a source of several shards and a topic cannot be combined"),
        ({"source": TOPIC}, "source and target are the same topic"),
        ({"connection": "kafka"}, "brokers.kafka: a connection has this name, too, and audit orders reads both by their names; rename one"),
    ],
)
def test_what_a_topic_cannot_be_is_refused(audit: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError) as refused:
        settings(**audit)
    assert sentence in str(refused.value)


def test_a_group_has_no_topics() -> None:
    values = {
        "connections": {"shop": {"url": "mysql://reader@localhost/shop"}},
        "brokers": {"kafka": {"servers": "localhost:9092"}},
        "audits": {"all": {"tables": ["*"], "source": {"connection": "shop"}, "target": {"broker": "kafka"}}},
    }
    with pytest.raises(ConfigError, match=r"tables and a topic cannot be combined; write an audit for each topic"):
        validate_settings(values)


THROUGH = {**TOPIC, "group": "sink"}


def through(**audit: Any) -> Settings:
    return settings(**{"target": {"connection": "shop", "table": "copy"}, "through": THROUGH, **audit})


def test_an_audit_names_the_topic_between_its_tables() -> None:
    audit = through().audits["orders"]
    assert audit.through and (audit.through.label, audit.through.group, audit.topics) == ("kafka: shop.shop.orders", "sink", {})
    assert definitions.definition(audit)["through"] == THROUGH
    without = through(through=None).audits["orders"]
    hashes = {hash_settings(definitions.definition(one)) for one in (audit, without)}
    assert len(hashes) == 1, "runs compare the same, whether or not the topic is named"


@pytest.mark.parametrize(
    ("audit", "sentence"),
    [
        ({"through": {**THROUGH, "broker": "kafak"}}, "audits.orders.through.broker: there is no broker 'kafak'; did you mean 'kafka'?"),
        ({"through": {**THROUGH, "messages": {"format": "avro"}}}, "audits.orders.through.messages: format: avro needs a registry"),
        ({"through": {"broker": "kafka"}}, "audits.orders.through.topic: this setting is required; add it"),
        ({"target": TOPIC}, "through and a topic as a side cannot be combined: rows are traced from one table into another"),
        ({"source": [TABLE, {**TABLE, "table": "more"}]}, "through and a source of several shards cannot be combined"),
        ({"via": {"connection": "shop", "table": "dump"}}, "through and via cannot be combined"),
    ],
)
def test_what_cannot_be_between_two_tables_is_refused(audit: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError) as refused:
        through(**audit)
    assert sentence in str(refused.value)


def test_a_group_has_no_topic_between_its_tables() -> None:
    group = {"tables": ["*"], "source": {"connection": "shop"}, "target": {"connection": "shop"}, "through": TOPIC}
    values = {"connections": {"shop": {"url": "mysql://reader@localhost/shop"}}, "brokers": {"kafka": {"servers": "localhost:9092"}}}
    with pytest.raises(ConfigError, match=r"tables and through cannot be combined; a topic is of one table"):
        validate_settings({**values, "audits": {"all": group}})
