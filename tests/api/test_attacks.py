"""Attacks: SQL injection, path traversal, large bodies, forged headers, and secrets in responses and logs."""

from __future__ import annotations

import base64
import hmac
import io
import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from pathlib import Path
from typing import Any

import duckdb
import pytest

from auditor import telemetry
from auditor.api import middleware
from auditor.config import find_secrets
from auditor.errors import Unauthorised
from auditor.service.workers import Workers
from auditor.store import tokens
from tests.api.conftest import PASSWORD, SECRET_VALUE, Service, TemporaryService

SQL = (
    "x'; DROP TABLE orders; --",
    'orders" ; DROP TABLE orders --',
    "orders; DELETE FROM orders",
    "1 OR 1=1",
    "orders UNION SELECT * FROM same",
)
PLACES = (
    "/etc/passwd",
    "../../etc/passwd",
    "..\\..\\secret",
    "file:///etc/passwd",
    "x.parquet",
    "s3://bucket/key",
    "orders.csv",
    "http://a/b",
)
NAMES = (
    "%2e%2e%2f..",
    "%2e%2e",
    "..%2f..%2fetc%2fpasswd",
    "a%00b",
    "a%0d%0aSet-Cookie:%20x=1",
    "%ff%fe",
    "x" * 3000,
    "${AUDITOR_SECRET}",
    "{{7*7}}",
)


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """The service under attack."""
    with TemporaryService(tmp_path_factory.mktemp("attacked"), max_body=1 << 18) as found:
        yield found


def tables_are_unchanged(own: Service) -> bool:
    """Return whether the tables are unchanged."""
    database = own.settings.connections["shop"].url.removeprefix("duckdb:///")
    with duckdb.connect(database, read_only=True) as connection:
        return connection.execute("SELECT (SELECT count(*) FROM orders), (SELECT count(*) FROM same)").fetchall() == [(2000, 2000)]


@pytest.mark.parametrize("text", [*SQL, *PLACES])
def test_definition_rejects_sql_and_paths(own: Service, text: str) -> None:
    client = own.client("define")
    good: dict[str, Any] = {
        "source": {"connection": "shop", "table": "orders"},
        "target": {"connection": "warehouse", "table": "orders"},
        "key": ["id"],
    }
    for change in (
        {"source": {"connection": "shop", "table": text}},
        {"target": {"connection": text, "table": "orders"}},
        {"key": [text]},
        {"columns": {"include": ["id", text]}},
        {"where": text},
        {"columns": {"override": {"name": {"expr": text, "kind": "text"}}}},
        {"source": {"connection": "shop", "table": "orders", "format": "csv"}},
        {"via": {"connection": "shop", "table": text}},
    ):
        found = client.put("/api/v1/audits/attack", json={**good, **change})
        assert found.status_code == 422, (change, found.text)
    assert client.put(f"/api/v1/audits/{'attack' * 30}", json=good).status_code == 422
    assert client.get("/api/v1/audits/attack").status_code == 404
    assert tables_are_unchanged(own)


@pytest.mark.parametrize("text", SQL)
def test_sql_in_parameters_is_not_executed(own: Service, text: str) -> None:
    client = own.client("define")
    responses = [
        client.get("/api/v1/runs", params={"audit": text}),
        client.get("/api/v1/runs", params={"state": text}),
        client.get(f"/api/v1/runs/{own.runs['orders']}/differences", params={"kind": text}),
        client.get("/api/v1/audits/orders/sql", params={"method": text}),
        client.post("/api/v1/audits/orders/runs", json={"method": text}),
        client.post("/api/v1/audits/orders/runs", json={"t": text}),
        client.get("/api/v1/audits", headers={"If-None-Match": text}),
    ]
    assert all(answer.status_code in (200, 404, 422) for answer in responses)
    requested = client.post("/api/v1/audits/same/runs", json={"reason": text}, headers={"Idempotency-Key": text.replace(" ", "")})
    assert requested.status_code == 202
    run = client.get(requested.headers["location"]).json()
    assert run["reason"] == text
    client.post(f"/api/v1/runs/{run['run']}/cancel")
    assert tables_are_unchanged(own)


@pytest.mark.parametrize("name", NAMES)
def test_names_and_ids_do_not_escape_their_route(own: Service, name: str) -> None:
    client = own.client("define")
    for path in (
        f"/api/v1/audits/{name}",
        f"/api/v1/audits/{name}/runs",
        f"/api/v1/runs/{name}",
        f"/api/v1/runs/{name}/report",
        f"/static/{name}",
    ):
        found = client.get(path)
        assert found.status_code in (303, 307, 400, 401, 404, 422), (path, found.status_code, found.text)
        assert "set-cookie" not in found.headers
        assert "root:" not in found.text
        assert "49" not in found.json()["detail"] if path.startswith("/api") else True


def test_forged_cursor_is_rejected(own: Service) -> None:
    client = own.client("define")
    values: list[Any] = [
        ["runs", "' OR 1=1"],
        ["runs", "\x00"],
        ["partitions", 10**30],
        ["partitions", -1],
        ["differences", True],
        ["x"],
        {},
        [[]],
        "x",
    ]
    for value in values:
        cursor = base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")
        for path in ("/api/v1/runs", f"/api/v1/runs/{own.runs['orders']}/partitions", f"/api/v1/runs/{own.runs['orders']}/differences"):
            assert client.get(path, params={"cursor": cursor}).status_code == 404, value
    for cursor in ("%00", "a b", "\u00e9", "x" * 5000, "=", "[" * 300):
        assert client.get("/api/v1/runs", params={"cursor": cursor}).status_code in (404, 422)


def test_large_body_is_rejected(own: Service) -> None:
    client = own.client("define")
    large = b" " * (own.settings.service.max_body + 1)

    def chunks() -> Iterator[bytes]:
        for _ in range(100):
            yield b" " * 65536

    for content in (large, chunks()):
        found = client.post("/api/v1/audits/orders/runs", content=content, headers={"Content-Type": "application/json"})
        assert found.status_code == 413, found.text
        assert found.headers["content-type"] == "application/problem+json"
    files = {"source": ("s.csv", large), "target": ("t.csv", b"x")}
    assert client.post("/api/v1/compare", files=files).status_code == 413
    assert own.client().post("/api/v1/compare", files=files).status_code == 401  # without reading the body


def test_malformed_body_is_rejected(own: Service) -> None:
    client = own.client("define")
    for body in (
        b"\xff\xfe",
        b"[" * 20_000,
        b'{"t": 1e999}',
        b'{"reason": "\\ud800"}',
        b'{"t": NaN}',
        b"null",
        b'"x"',
        b'{"reason": "a\\u0000b"}',
    ):
        found = client.post("/api/v1/audits/orders/runs", content=body, headers={"Content-Type": "application/json"})
        assert found.status_code in (202, 400, 409, 422), (body, found.text)
    malformed = client.post("/api/v1/compare", content=b"--x\r\nnonsense", headers={"Content-Type": "multipart/form-data; boundary=x"})
    assert malformed.status_code in (400, 422)
    assert client.post("/api/v1/compare", files={"source": ("a.parquet", b"PAR1"), "target": ("b.parquet", b"x")}).status_code == 422


DRAWN = b"partition_id | row_count\n" + b"-" * 4000 + b"x\n"
"""A header, and below it what is nearly the rule of a drawn table."""

BODIES = [
    b"[" * 100_000, b'[{"partition_id": ' + b"9" * 5000 + b"}]", b'[{"a": 1e999}]', b"a" * 200_000, b"\x00", DRAWN, b"SET\n" * 20_000,
]  # fmt: skip


@pytest.mark.parametrize("body", BODIES)
def test_malformed_uploaded_result_is_rejected(own: Service, body: bytes) -> None:
    for files in (("s.json", body), ("t.csv", b"x")), (("s.csv", b"x"), ("t.json", body)):
        found = own.client("read").post("/api/v1/compare", files=dict(zip(("source", "target"), files, strict=True)))
        assert (found.status_code, found.json()["type"]) == (422, "urn:auditor:problem:ResultError")


@pytest.mark.parametrize("number", [-(10**30), -1, 2**53, 2**63, 10**30])
def test_out_of_range_difference_number_causes_no_internal_error(own: Service, number: int) -> None:
    for more in ("", "/live"):
        found = own.client("read").get(f"/runs/{own.runs['orders']}{more}", params={"after": str(number)})
        assert found.status_code in (200, 404, 422), found.text


def test_uploaded_parquet_is_not_decompressed(own: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Parquet file of one megabyte can decompress to more rows than fit into memory."""
    monkeypatch.setattr("pyarrow.parquet.read_table", lambda *_: pytest.fail("the Parquet file was decompressed"))
    for name in ("a.parquet", "a.csv.PARQUET"):
        found = own.client("read").post("/api/v1/compare", files={"source": ("s.csv", b"x"), "target": (name, b"PAR1")})
        assert found.status_code == 422
        assert "the target's file is Parquet" in found.json()["detail"]


def test_header_injection_is_rejected(own: Service) -> None:
    client = own.client("define")
    for key in ("a\\r\\nX: y", "a b", "\u00e9", "x" * 201):
        found = client.post("/api/v1/audits/orders/runs", headers={b"Idempotency-Key": key.encode("latin-1")})
        assert found.status_code == 422
    for answer in (
        client.get("/api/v1/audits/a%0d%0aX-Evil:%20y"),
        client.get("/audits/a%0d%0aX-Evil:%20y"),
        client.get("/login?back=%0d%0aX-Evil:y"),
    ):
        assert "x-evil" not in answer.headers


def test_secrets_are_compared_in_constant_time(own: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[bool] = []
    compare = hmac.compare_digest

    def recording_compare(known: str, given: str) -> bool:
        compared.append(len(known) == len(given))
        return compare(known, given)

    monkeypatch.setattr(hmac, "compare_digest", recording_compare)
    tokens.verify_token(own.store, own.tokens["read"])
    with pytest.raises(Unauthorised):
        tokens.verify_token(own.store, "aud_unknown")
    assert compared == [True, True]


def test_every_response_has_the_security_headers(own: Service) -> None:
    for scheme in ("http", "https"):
        client = own.client("read", base_url=f"{scheme}://localhost")
        for path in ("/healthz", "/api/v1/audits", "/api/v1/nothing", "/login", "/nothing"):
            headers = client.get(path).headers
            assert headers["content-security-policy"] == middleware.CSP
            assert headers["x-content-type-options"] == "nosniff"
            assert "server" not in headers
            assert ("strict-transport-security" in headers) is (scheme == "https")
            assert "access-control-allow-origin" not in headers


@contextmanager
def capture_log(own: Service, level: str) -> Iterator[io.StringIO]:
    """Yield what is logged within the block, formatted and redacted as by the service."""
    log_output = io.StringIO()
    root = logging.getLogger()
    before, level_before = list(root.handlers), root.level
    with redirect_stderr(log_output):
        telemetry.configure_logging("json", level, find_secrets(own.settings))
        try:
            yield log_output
        finally:
            for handler in set(root.handlers) - set(before):
                root.removeHandler(handler)
            root.setLevel(level_before)


@pytest.mark.quick_for("debug")
@pytest.mark.parametrize("level", ["info", "debug"])
def test_responses_and_logs_contain_no_secrets(own: Service, level: str, tmp_path: Path) -> None:
    responses: list[str] = []
    client = own.client("define")
    with capture_log(own, level) as log_output:
        workers = Workers(own.settings, own.store, 1)
        workers.start()
        places = [client.post(f"/api/v1/audits/{name}/runs").headers.get("location") for name in ("orders", "away")]
        assert None not in places
        paths = [
            "/api/v1/audits",
            "/api/v1/audits/away",
            "/api/v1/audits/away/plan",
            "/api/v1/audits/orders/sql",
            "/api/v1/events",
            "/metrics",
        ]
        for place in places:
            responses.append(client.get(f"{place}/events").text)
            responses += [client.get(f"{place}{more}").text for more in ("", "/report?format=html", "/partitions")]
        workers.stop(10)
        responses += [client.get(path).text for path in paths]
        for wrong in ("aud_" + "w" * 43, own.tokens["read"] + "x"):
            responses.append(own.client().get(f"/api/v1/audits?token={wrong}", headers={"Authorization": f"Bearer {wrong}"}).text)
        logging.getLogger("somewhere").warning("%s at postgresql://u:%s@h/x with %s", PASSWORD, "other-password", own.tokens["run"])
        try:
            raise ValueError(f"invalid value {SECRET_VALUE}")
        except ValueError:
            logging.getLogger("somewhere").exception("failed")
    lines = log_output.getvalue()
    answers = "".join(responses)
    for secret in (PASSWORD, *own.tokens.values(), "w" * 43, "other-password"):
        assert secret not in lines
        assert secret not in answers
    assert SECRET_VALUE not in lines
    records = [json.loads(line) for line in lines.splitlines()]
    assert any(line.get("path") == "/api/v1/audits" and line["status"] == 401 for line in records)
    assert all("token=" not in json.dumps(line) for line in records)
    assert any(line.get("error") == "ValueError" for line in records)
