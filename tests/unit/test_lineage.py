"""Events of OpenLineage: what a run asserts of its target's table, sent to a receiver that listens here.

tests/integrations/test_openlineage.py reads the same events with OpenLineage's own classes.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import duckdb
import pytest

from auditor.cli import main
from auditor.config import load
from auditor.config._settings import find_secrets
from auditor.durations import durations
from auditor.errors import ConfigError

TOKEN = "k3y-of-the-receiver"


@dataclass
class Receiver:
    """A receiver, what it was sent, and the status that it answers with."""

    url: str
    events: list[dict[str, Any]] = field(default_factory=list)
    tokens: list[str | None] = field(default_factory=list)
    status: int = 201


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            found.events.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            found.tokens.append(self.headers["Authorization"])
            self.send_response(found.status)
            self.send_header("Location", "http://127.0.0.1:1/elsewhere")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    found = Receiver(f"http://127.0.0.1:{server.server_port}/api/v1/lineage")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield found
    server.shutdown()
    thread.join()
    server.server_close()


def configure(folder: Path, receiver: str, **more: Any) -> Path:
    """Write audits of tables that are equal, that differ, and of which one does not exist; the column ``email`` is masked."""
    with duckdb.connect(str(folder / "tables.duckdb")) as connection:
        connection.execute("CREATE TABLE a (id BIGINT PRIMARY KEY, email VARCHAR, v INTEGER)")
        connection.execute("INSERT INTO a SELECT i, 'secret' || i, i FROM range(4000, 4100) t(i)")
        connection.execute("CREATE TABLE same AS SELECT id, email, v AS w FROM a")
        connection.execute("CREATE TABLE other AS SELECT * FROM same; UPDATE other SET email = 'leaked' WHERE id = 4007")
    sides = {name: {"connection": "here", "table": name, "columns": {"v": "w"}} for name in ("same", "other", "absent")}
    common = {"source": {"connection": "here", "table": "a"}, "columns": {"override": {"email": {"mask": True}}}}
    audits: dict[str, Any] = {name: {**common, "target": target} for name, target in sides.items()}
    audits["counted"] = {**audits["same"], "method": "counts"}
    audits["elsewhere"] = {**audits["same"], "target": {**sides["same"], "connection": "there"}}
    lineage = {
        "url": receiver,
        "token": TOKEN,
        "namespace": "shop",
        "datasets": {"here": {"namespace": "duckdb://a", "name": "main.{table}"}},
    }
    value = {
        "connections": {name: {"url": f"duckdb:///{folder}/tables.duckdb"} for name in ("here", "there")},
        "store": {"url": f"sqlite:///{folder}/store.db"},
        "audits": audits,
        "notify": {"openlineage": {**lineage, **more}},
    }
    path = folder / "auditor.yaml"
    path.write_text(json.dumps(value), encoding="utf-8")
    return path


def assertions(event: dict[str, Any]) -> list[tuple[str, bool, str | None]]:
    (dataset,) = event["inputs"]
    found = dataset.get("inputFacets", {}).get("dataQualityAssertions", {}).get("assertions", [])
    return [(one["assertion"], one["success"], one.get("column")) for one in found]


def test_each_run_sends_what_it_asserts_and_no_value(tmp_path: Path, receiver: Receiver) -> None:
    path = str(configure(tmp_path, receiver.url))
    codes = [main(["run", name, "-q", "--config", path]) for name in ("same", "other", "absent", "counted", "elsewhere")]
    assert codes == [0, 1, 2, 0, 0]
    same, other, absent, counted = receiver.events
    assert [one["job"]["name"] for one in receiver.events] == ["same", "other", "absent", "counted"], "elsewhere has no name"
    assert {one["job"]["namespace"] for one in receiver.events} == {"shop"} and set(receiver.tokens) == {f"Bearer {TOKEN}"}
    assert [one["eventType"] for one in receiver.events] == ["COMPLETE", "COMPLETE", "FAIL", "COMPLETE"]
    assert (same["inputs"][0]["namespace"], same["inputs"][0]["name"]) == ("duckdb://a", "main.same")
    columns = [("equal_to_source", True, name) for name in ("id", "email", "w")]
    assert assertions(same) == [("equal_to_source", True, None), *columns]
    assert assertions(other) == [("equal_to_source", False, None), ("equal_to_source", False, "email")]
    assert assertions(absent) == [] and "inputFacets" not in absent["inputs"][0], "a run without a verdict asserts nothing"
    assert assertions(counted) == [("counts_equal_to_source", True, None)]
    text = json.dumps(receiver.events)
    assert "secret" not in text and "leaked" not in text and "4007" not in text.replace(other["run"]["runId"], "")


def test_a_run_with_other_settings_asserts_nothing_of_the_table(tmp_path: Path, receiver: Receiver) -> None:
    assert main(["run", "other", "-q", "--keys", "4010..4020", "--config", str(configure(tmp_path, receiver.url))]) == 0
    assert receiver.events == []


@pytest.mark.parametrize("status", [302, 401, 500])
def test_a_receiver_that_fails_is_said_and_fails_no_run(
    tmp_path: Path, receiver: Receiver, status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    receiver.status = status
    assert main(["run", "same", "-q", "--config", str(configure(tmp_path, receiver.url))]) == 0
    assert f"auditor: openlineage: the service answered with status {status}\n" in capsys.readouterr().err
    assert len(receiver.events) == 1, "no redirect is followed, which could send the token elsewhere"


def test_a_receiver_that_is_not_there_is_said_without_its_url(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = configure(tmp_path, "http://127.0.0.1:1/secret-path")
    with durations.overridden(send_limit=5.0):
        assert main(["run", "same", "-q", "--config", str(path)]) == 0
    said = capsys.readouterr().err
    assert "auditor: openlineage: the service could not be reached or did not answer in time (URLError)" in said
    assert "secret-path" not in said and TOKEN not in said
    assert {TOKEN, "http://127.0.0.1:1/secret-path"} <= set(find_secrets(load(path, {})))


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"datasets": {"her": {"namespace": "x"}}}, "there is no connection 'her'"),
        ({"datasets": {"here": {"namespace": "x", "name": "orders"}}}, "notify.openlineage.datasets.here.name"),
        ({"url": "https://user:word@receiver/"}, "without user and password"),
        ({"datasets": {}}, "notify.openlineage.datasets"),
    ],
)
def test_settings_that_name_no_table_are_refused(tmp_path: Path, more: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        load(configure(tmp_path, "http://receiver/", **more), {})
