"""How a pipeline that reads topics is shown: by the API, on pages, and by commands."""

from __future__ import annotations

import pytest

from auditor.api import create_app
from auditor.cli import main
from auditor.pipeline.watch import Watch
from auditor.service import pipelines as service
from auditor.store import pipelines, tokens
from tests.api.conftest import make_client
from tests.pipeline.read_topics.conftest import MakeRoad
from tests.pipeline.read_topics.topics import PIPELINE, TopicRoad, Topics, plain

pytestmark = pytest.mark.kafka


@pytest.fixture
def behind(topics: Topics, make_road: MakeRoad) -> TopicRoad:
    """A road of which four messages are loaded, three are not read, and one stops its table."""
    topic = topics.make("shop.orders", partitions=2)
    road = make_road(plain(topics, "shop.orders", id="bigint"))
    topics.send(topic, *(({"id": number}, {"id": number}) for number in range(4)), partition=0)
    topics.send(topic, ({"id": 9}, b"no JSON"), partition=0)
    road.load()
    topics.send(topic, *(({"id": number}, {"id": number}) for number in range(20, 23)), partition=1)
    pipelines.set_progress(road.store, PIPELINE, Watch(road.store, road.settings, PIPELINE).check())
    return road


def test_the_api_and_pages(behind: TopicRoad, topics: Topics) -> None:
    secret = tokens.create_token(behind.store, name="ops", scope="pipeline")
    client = make_client(create_app(behind.settings, behind.store), headers={"Authorization": f"Bearer {secret}"})
    found = client.get(f"/api/v1/pipelines/{PIPELINE}").raise_for_status().json()
    topic = topics.name("shop.orders")
    assert (found["lag_messages"], found["lag_bytes"]) == (3, None)
    assert found["partitions"] == [{"topic": topic, "partition": 1, "offset": 0, "end": 3}]
    assert [(one["table"], one["place"]) for one in found["stopped"]] == [("shop.orders", f"{topic}:0:4")]
    for path in ("/pipelines", f"/pipelines/{PIPELINE}", f"/pipelines/{PIPELINE}/table?target=wh&table=shop.orders"):
        assert client.get(path).raise_for_status().text
    page = " ".join(client.get(f"/pipelines/{PIPELINE}").text.split())
    assert "3 messages" in page and "message 5" in page and "kafka: shop.orders" in page
    assert client.post(f"/api/v1/pipelines/{PIPELINE}/refreshes", json={}).status_code in (400, 422)


def test_commands(behind: TopicRoad, topics: Topics, capsys: pytest.CaptureFixture[str]) -> None:
    def run(*words: str) -> tuple[int, str]:
        code = main(["pipeline", *words, "--config", str(behind.config_file)])
        captured = capsys.readouterr()
        return code, captured.out + captured.err

    topic = topics.name("shop.orders")
    _, shown = run("status", PIPELINE)
    assert f"3 messages, 3 of {topic}:1" in " ".join(shown.split())
    for words in (["refresh", PIPELINE], ["failover", PIPELINE, "--to", "warehouse"], ["init", PIPELINE]):
        code, said = run(*words)
        assert code and "needs a database as the source, and this pipeline reads topics of the broker kafka" in " ".join(said.split())
    code, said = run("skip", PIPELINE, "--table", "shop.orders", "--position", f"{topic}:0:4", "--reason", "of the test")
    assert code == 0, said
    behind.load()
    assert len(behind.rows("orders")) == 7
    assert service.describe_reset(behind.settings, behind.store, PIPELINE)[1] == "the position in the change stream of kafka"
