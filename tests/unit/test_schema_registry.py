"""What a registry answers becomes identifiers, schemas, and errors that say whose they are and whether a retry helps.

The server here only answers as Confluent's API does; whether a real registry takes the schemas is tested with one, where there is one.
"""

from __future__ import annotations

import base64
import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from pydantic import ValidationError

from auditor.config import MessageSettings, RegistrySettings
from auditor.errors import AccessDenied, MessageRefused, RegistryRefused, RegistryUnreachable
from auditor.pipeline.messages.registry import SchemaRegistry

AVRO = MessageSettings(format="avro")
SCHEMA = json.dumps({"type": "record", "name": "Key", "fields": [{"name": "id", "type": "long"}]})


class Answers(ThreadingHTTPServer):
    """Answers by method and path, and what was asked."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answers: dict[tuple[str, str], tuple[int, Any]] = {}
        self.asked: list[tuple[str, str, Any, str | None]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    server: Answers

    def log_message(self, *about: Any) -> None:
        """Write no lines."""

    def _answer(self) -> None:
        size = int(self.headers.get("Content-Length") or 0)
        body, path = json.loads(self.rfile.read(size) or b"null"), self.path.partition("?")[0]
        self.server.asked.append((self.command, path, body, self.headers.get("Authorization")))
        status, answer = self.server.answers.get((self.command, path), (404, {"error_code": 40401, "message": "Subject not found."}))
        content = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = _answer


@pytest.fixture
def server() -> Iterator[Answers]:
    found = Answers()
    thread = threading.Thread(target=found.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield found
    found.shutdown()
    found.server_close()
    thread.join(10)


def registry(server: Answers, **more: str) -> SchemaRegistry:
    return SchemaRegistry(RegistrySettings(url=server.url, **more))


def test_schemas_are_registered_under_the_topic_and_part_with_the_account(server: Answers) -> None:
    server.answers["POST", "/subjects/shop.orders-key/versions"] = 200, {"id": 7}
    register = registry(server, user="me", password="se:cret").registering("shop.orders", AVRO)
    assert register("key", SCHEMA) == 7
    [(_, path, body, account), *_] = server.asked
    assert path == "/subjects/shop.orders-key/versions"
    assert (body["schema"], body["schemaType"]) == (SCHEMA, "AVRO")
    assert account == "Basic " + base64.b64encode(b"me:se:cret").decode()


def test_a_schema_is_fetched_once_and_read_as_connects(server: Answers) -> None:
    server.answers["GET", "/schemas/ids/7"] = 200, {"schema": SCHEMA}
    found = registry(server)
    form, body, schema = found.schema(7)
    assert (form, body["name"], [name for name, _ in schema.fields]) == ("avro", "Key", ["id"])
    found.schema(7)
    assert len(server.asked) == 1
    with pytest.raises(MessageRefused, match="no schema 8"):
        found.schema(8)


def test_a_schema_of_another_kind_is_refused(server: Answers) -> None:
    server.answers["GET", "/schemas/ids/7"] = 200, {"schema": "syntax", "schemaType": "PROTOBUF"}
    with pytest.raises(MessageRefused, match="PROTOBUF; only Avro and JSON"):
        registry(server).schema(7)


@pytest.mark.parametrize("answer", [True, False])
def test_compatibility_is_what_the_registry_says(server: Answers, answer: bool) -> None:
    server.answers["POST", "/compatibility/subjects/t-value/versions/latest"] = 200, {"is_compatible": answer}
    assert registry(server).is_compatible("t-value", SCHEMA, AVRO) is answer


def test_the_first_schema_of_a_subject_is_compatible(server: Answers) -> None:
    assert registry(server).is_compatible("t-value", SCHEMA, AVRO)


@pytest.mark.parametrize(
    ("status", "code", "error"),
    [(409, 409, RegistryRefused), (422, 42201, RegistryRefused), (401, 401, AccessDenied), (403, 403, AccessDenied)],
)
def test_what_the_registry_refuses_says_so(server: Answers, status: int, code: int, error: type[Exception]) -> None:
    server.answers["POST", "/subjects/t-value/versions"] = status, {"error_code": code, "message": "because"}
    with pytest.raises(error, match=f"the schema of t-value: because.*HTTP {status}"):
        registry(server, user="me", password="secret").register("t-value", SCHEMA, AVRO)


def test_a_registry_that_does_not_answer_is_worth_a_retry() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(RegistryUnreachable, match="the schema of t-value") as error:
            SchemaRegistry(RegistrySettings(url=url)).register("t-value", SCHEMA, AVRO)
    assert error.value.retryable


@pytest.mark.parametrize("given", [{"url": "http://me:secret@host"}, {"url": "host:8081"}, {"url": "http://h", "user": "me"}])
def test_settings_of_a_registry_have_both_credentials_and_none_in_the_url(given: dict[str, str]) -> None:
    with pytest.raises(ValidationError) as error:
        RegistrySettings.model_validate(given)
    assert "secret" not in str(error.value)
