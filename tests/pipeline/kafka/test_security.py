"""Who signs in at a broker, by which mechanism, over TLS, and what an account may not do."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from cryptography.hazmat.primitives import serialization

from auditor.config import Broker
from auditor.errors import BrokerDenied, BrokerError, BrokerUnreachable
from auditor.pipeline.kafka.broker import open_admin, translated
from auditor.pipeline.kafka.source_check import check_source_topics
from auditor.pipeline.kafka.target_check import check_topics
from tests.certificates import Authority
from tests.pipeline.kafka.test_publisher import ORDERS, order
from tests.pipeline.kafka.topic_road import PIPELINE, TARGET, Made, TopicRoad
from tests.pipeline.read_topics.topics import TopicRoad as ReadRoad
from tests.pipeline.read_topics.topics import Topics, plain
from tests.pipeline_events import announce, batch, insert
from tests.servers import kafka
from tests.servers.process import Unavailable, free_port

pytestmark = pytest.mark.kafka

JAAS = "org.apache.kafka.common.security"


@dataclass(frozen=True)
class Secured:
    """A broker that lets nobody in who does not sign in, over TLS."""

    broker: kafka.Broker
    port: int
    authority: Path

    def settings(self, **properties: str) -> Mapping[str, object]:
        """What auditor.yaml says of it."""
        given = {"security.protocol": "SASL_SSL", "ssl.ca.location": str(self.authority)}
        given |= {name.replace("__", "."): value for name, value in properties.items()}
        return {"servers": f"localhost:{self.port}", "timeout": "5s", "properties": given}


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    folder, port = tmp_path_factory.mktemp("secured"), free_port()
    authority, pair = Authority("the broker's authority"), folder / "broker.pem"
    signed = authority.sign("localhost")
    key = serialization.load_pem_private_key(signed.key, None)
    plain = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    pair.write_bytes(plain + signed.certificate)
    more = f"""\
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SECURE:SASL_SSL
listeners=PLAINTEXT://127.0.0.1:{{port}},CONTROLLER://127.0.0.1:{{controller}},SECURE://127.0.0.1:{port}
advertised.listeners=PLAINTEXT://127.0.0.1:{{port}},SECURE://localhost:{port}
sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-512,OAUTHBEARER
listener.name.secure.sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-512,OAUTHBEARER
listener.name.secure.plain.sasl.jaas.config={JAAS}.plain.PlainLoginModule required user_writer="plain-secret" user_nobody="no-rights";
listener.name.secure.scram-sha-512.sasl.jaas.config={JAAS}.scram.ScramLoginModule required;
listener.name.secure.oauthbearer.sasl.jaas.config={JAAS}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="broker";
ssl.keystore.type=PEM
ssl.keystore.location={pair}
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS;User:writer
"""
    try:
        broker = kafka.start_private(folder, more)
    except Unavailable as reason:
        pytest.skip(f"kafka: {reason}")
    admin = AdminClient({"bootstrap.servers": broker.server, "log_level": 0})
    change = UserScramCredentialUpsertion("writer", ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096), b"scram-secret")
    for answer in admin.alter_user_scram_credentials([change]).values():
        answer.result(10)
    yield Secured(broker, port, authority.write(folder / "authority.pem"))
    broker.stop()


MECHANISMS = {
    "plain": {"sasl__mechanism": "PLAIN", "sasl__username": "writer", "sasl__password": "plain-secret"},
    "scram": {"sasl__mechanism": "SCRAM-SHA-512", "sasl__username": "writer", "sasl__password": "scram-secret"},
    "oauth": {
        "sasl__mechanism": "OAUTHBEARER",
        "enable__sasl__oauthbearer__unsecure__jwt": "true",
        "sasl__oauthbearer__config": "principal=writer",
    },
}


@pytest.fixture
def signed(secured: Secured, tmp_path: Path, empty_store: Path, request: pytest.FixtureRequest) -> Iterator[TopicRoad]:
    making = Made(tmp_path, "", "", empty_store, cluster=secured.settings(**MECHANISMS[request.param]))
    yield making.road()
    for road in making.roads:
        road.close()


@pytest.mark.quick_for("plain", "oauth")
@pytest.mark.parametrize("signed", MECHANISMS, indirect=True)
def test_a_pipeline_publishes_as_who_signs_in(signed: TopicRoad, secured: Secured) -> None:
    signed.server = secured.broker.server
    signed.stage(batch(announce(ORDERS, 10), insert(ORDERS, 10, order(1, "pen"))))
    publisher = signed.publisher()
    assert publisher.publish_all() == 1, publisher._reports
    assert signed.values()[0]["after"] == {"id": 1, "item": "pen"}
    assert not [one for one in check_topics(signed.settings, PIPELINE, TARGET, [ORDERS]) if one[0] == "error"]


@pytest.mark.slow
def test_what_is_wrong_with_who_signs_in_is_said(secured: Secured, tmp_path: Path) -> None:
    def ask(properties: Mapping[str, str]) -> None:
        broker = Broker.model_validate(secured.settings(**properties))
        with translated("the cluster"):
            open_admin(broker).list_topics(timeout=5)

    with pytest.raises((BrokerDenied, BrokerUnreachable)):
        ask({**MECHANISMS["plain"], "sasl__password": "wrong"})
    with pytest.raises((BrokerDenied, BrokerUnreachable)):
        ask({**MECHANISMS["plain"], "ssl__ca__location": str(Authority("another").write(tmp_path / "ca.pem"))})


def test_an_account_without_rights_is_told_which_it_lacks(secured: Secured, tmp_path: Path, empty_store: Path) -> None:
    nobody = {**MECHANISMS["plain"], "sasl__username": "nobody", "sasl__password": "no-rights"}
    making = Made(tmp_path, "", "", empty_store, cluster=secured.settings(**nobody))
    road = making.road()
    try:
        road.stage(batch(announce(ORDERS, 10), insert(ORDERS, 10, order(1, "pen"))))
        with pytest.raises(BrokerError, match="AUTHORIZATION_FAILED"):
            road.publisher()._publish()
        said = [sentence for severity, sentence in check_topics(road.settings, PIPELINE, TARGET, [ORDERS]) if severity == "error"]
        assert said and "AUTHORIZATION_FAILED" in said[0]
    finally:
        road.close()


NOBODY = {**MECHANISMS["plain"], "sasl__username": "nobody", "sasl__password": "no-rights"}


@pytest.fixture
def read_by_nobody(secured: Secured, tmp_path: Path, empty_store: Path) -> Iterator[Callable[..., ReadRoad]]:
    """Makes a pipeline from a topic with one message, with an account that may do to it what is granted."""
    topics = Topics(secured.broker.server)
    topic = topics.make("shop.orders")
    topics.send(topic, ({"id": 1}, {"id": 1}))
    made: list[ReadRoad] = []

    def make(*granted: str, group: bool = False) -> ReadRoad:
        asked = [binding(ResourceType.TOPIC, topic, one) for one in granted]
        asked += [binding(ResourceType.GROUP, f"auditor.{topics.prefix}", "READ")] if group else []
        for answer in topics.admin.create_acls(asked).values() if asked else ():
            answer.result(10)
        settings = secured.settings(**NOBODY)
        seen = Topics(str(settings["servers"]), topics.prefix)
        brokers = f", timeout: 5s, properties: {json.dumps(settings['properties'])}"
        url = f"duckdb:///{tmp_path}/warehouse.duckdb"
        seen.admin = topics.admin
        made.append(ReadRoad(tmp_path, seen, url, empty_store, plain(topics, "shop.orders", id="bigint"), brokers=brokers))
        return made[-1]

    yield make
    for road in made:
        road.close()
    topics.close()


def binding(kind: ResourceType, name: str, operation: str) -> AclBinding:
    """What is granted to that account."""
    allowed = AclOperation[operation], AclPermissionType.ALLOW
    return AclBinding(kind, name, ResourcePatternType.LITERAL, "User:nobody", "*", *allowed)


def errors_of(road: ReadRoad) -> list[str]:
    """What the check of a source says of it."""
    return [f"{subject}: {sentence}" for severity, subject, sentence in check_source_topics(road.settings, "shop") if severity == "error"]


def test_a_topic_that_the_account_may_not_see_is_named(read_by_nobody: Callable[..., ReadRoad]) -> None:
    road = read_by_nobody()
    topic = road.topics.name("shop.orders")
    with pytest.raises(BrokerDenied, match=f"{topic}.*TOPIC_AUTHORIZATION_FAILED"):
        road.stage()
    [said] = errors_of(road)
    assert topic in said and "TOPIC_AUTHORIZATION_FAILED" in said


def test_a_topic_that_the_account_may_not_read_is_named(read_by_nobody: Callable[..., ReadRoad]) -> None:
    road = read_by_nobody("DESCRIBE", group=True)
    topic = road.topics.name("shop.orders")
    with pytest.raises(BrokerDenied, match=f"{topic}.*TOPIC_AUTHORIZATION_FAILED"):
        road.stage()
    assert f"topic {topic}: the account may not read it; grant READ on the topic" in errors_of(road)


def test_a_group_that_the_account_may_not_use_is_named(read_by_nobody: Callable[..., ReadRoad]) -> None:
    road = read_by_nobody("READ", "DESCRIBE")
    with suppress(BrokerDenied):  # which comes if the client hears of the group before it has read all
        road.stage()
    [said] = errors_of(road)
    assert said.startswith(f"group auditor.{road.topics.prefix}: the account may not use it; grant READ")


def test_an_account_that_may_read_and_nothing_else_reads(read_by_nobody: Callable[..., ReadRoad]) -> None:
    road = read_by_nobody("READ", "DESCRIBE", group=True)
    road.load()
    assert road.rows("orders") == [(1,)] and not errors_of(road)
    [warning] = [sentence for severity, _, sentence in check_source_topics(road.settings, "shop") if severity == "warning"]
    assert "grant DESCRIBE_CONFIGS" in warning
    assert road.topics.committed(road.group) == road.read_up_to()
