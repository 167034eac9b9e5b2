"""Brokers, and targets that are topics, as auditor.yaml has them."""

from __future__ import annotations

from typing import Any

import pytest

from auditor.config import find_secrets, validate_settings
from auditor.errors import ConfigError


def configured(cluster: dict[str, Any] | None = None, **target: Any) -> dict[str, Any]:
    return {
        "connections": {"shop": {"url": "mysql://reader@localhost/shop"}},
        "brokers": {"events": {"servers": ["broker1:9092"], **(cluster or {})}},
        "audits": {},
        "pipelines": {
            "shop": {
                "source": {"connection": "shop", "tables": ["*"]},
                "staging": {"path": "/staged"},
                "targets": {"topics": {"broker": "events", **target}},
            }
        },
    }


def test_topics_have_names_that_kafka_takes() -> None:
    chosen = validate_settings(configured(tables={"orders": {"name": "sales"}})).pipelines["shop"].topic_targets["topics"]
    assert chosen.topic_of("shop", "topics", "crm.customers") == "shop.crm.customers"
    assert chosen.topic_of("shop", "topics", "crm.Größe & Zahl") == "shop.crm.Gr__e___Zahl"
    assert chosen.topic_of("shop", "topics", "crm.orders") == "sales"
    assert chosen.own_topic("positions", "shop", "topics") == "auditor.positions.shop.topics"
    assert chosen.own_topic("transactions", "shop", "topics") is None


@pytest.mark.parametrize(
    ("broker", "target", "sentence"),
    [
        ({}, {"broker": "event"}, "pipelines.shop.targets.topics.broker: there is no broker 'event'; did you mean 'events'?"),
        ({}, {"topic": "all"}, "all tables would have one topic; write {table} in it"),
        ({}, {"topic": "{schema}.{table}"}, "topic: {schema} stands for nothing"),
        ({}, {"positions": "at.{table}"}, "positions: {table} stands for nothing"),
        ({}, {"cleanup": "compact", "retention": "7d"}, "retention: nothing is deleted after a time with cleanup: compact"),
        ({}, {"settings": {"retention.ms": "1"}}, "settings: write retention beside it instead of retention.ms"),
        ({}, {"schema": "shop"}, "pipelines.shop.targets.topics.schema: unknown setting 'schema'"),
        ({}, {"messages": {"format": "xml"}}, "pipelines.shop.targets.topics.messages.format: write one of"),
        ({"servers": "broker1"}, {}, "'broker1' is no broker; write its host and port"),
        ({"properties": {"group.id": "mine"}}, {}, "properties: group.id is set by the auditor"),
        ({"properties": {"auto.offset.reset": "latest"}}, {}, "properties: auto.offset.reset is set by the auditor"),
        ({"registry": {"url": "https://me:secret@registry"}}, {}, "brokers.events.registry.url"),
    ],
)
def test_what_is_wrong_is_said_where_it_stands(broker: dict[str, Any], target: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError) as refused:
        validate_settings(configured(broker, **target))
    assert sentence in str(refused.value)


def test_secrets_of_brokers_are_known_and_not_shown() -> None:
    properties = {
        "sasl.username": "me",
        "sasl.password": "hidden-1",
        "ssl.key.password": "hidden-2",
        "enable.ssl.certificate.verification": True,
    }
    broker = {"properties": properties, "registry": {"url": "https://registry", "user": "me", "password": "hidden-3"}}
    settings = validate_settings(configured(broker))
    assert {"hidden-1", "hidden-2", "hidden-3"} <= set(find_secrets(settings))
    assert "hidden" not in repr(settings)
    assert settings.brokers["events"].properties["enable.ssl.certificate.verification"] == "true"


@pytest.mark.parametrize(
    ("broker", "is_verified"),
    [
        ({}, False),
        ({"servers": "127.0.0.1:9092, localhost:9093"}, True),
        ({"properties": {"security.protocol": "SASL_SSL"}}, True),
        ({"properties": {"security.protocol": "SASL_PLAINTEXT"}}, False),
        ({"properties": {"security.protocol": "SSL", "enable.ssl.certificate.verification": False}}, False),
        ({"servers": "localhost:9092", "registry": {"url": "http://registry:8081"}}, False),
        ({"servers": "localhost:9092", "registry": {"url": "http://localhost:8081"}}, True),
    ],
)
def test_brokers_on_other_machines_are_verified_where_that_is_asked_for(broker: dict[str, Any], is_verified: bool) -> None:
    values = configured(broker)
    values["connections"] = {"shop": values["connections"]["shop"], "require_tls": "verified"}
    if is_verified:
        validate_settings(values)
    else:
        with pytest.raises(ConfigError, match="not verified, so that anybody between could read along"):
            validate_settings(values)
