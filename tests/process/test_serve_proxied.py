"""``auditor serve`` behind a proxy: which senders' X-Forwarded headers are trusted. Each caller uses its own address of 127.0.0.0/8."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest

from auditor import config
from auditor.errors import ConfigError
from tests.programs.serve import Served, serve

pytestmark = pytest.mark.clock

PROXY, STRANGER = "127.0.0.7", "127.0.0.8"
RATE = 20


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A service that trusts two proxy networks, but not its own host."""
    folder = tmp_path_factory.mktemp("proxied")
    store = {"url": f"sqlite:///{folder}/store.db"}
    service = {"proxies": ["127.0.0.7/32", "10.0.0.0/8"], "requests_per_minute": RATE, "workers": 1, "grace": "2s"}
    with serve(folder, {"connections": {}, "audits": {}, "store": store, "service": service}) as service_process:
        yield service_process


def send_request(served: Served, sender: str, method: str = "GET", path: str = "/healthz", body: str = "", **headers: str) -> Any:
    """Send a request from one of this machine's addresses and return the response."""
    connection = http.client.HTTPConnection(urlsplit(served.url).netloc, timeout=60, source_address=(sender, 0))
    try:
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, body or None, sent)
        response = connection.getresponse()
        response.read()
        return response
    finally:
        connection.close()


@pytest.mark.parametrize(("sender", "protocol", "secure"), [(PROXY, "https", True), (PROXY, "http", False), (STRANGER, "https", False)])
def test_forwarded_proto_is_trusted_from_a_known_proxy_only(served: Served, sender: str, protocol: str, secure: bool) -> None:
    form = urlencode({"token": served.token})
    kind = "application/x-www-form-urlencoded"
    response = send_request(
        served, sender, "POST", "/login", form, Content_Type=kind, X_Forwarded_Proto=protocol, X_Forwarded_For="203.0.113.1"
    )
    assert response.status == 303
    cookie = response.headers["Set-Cookie"]
    assert cookie.startswith("auditor_session=") and ("; Secure" in cookie) is secure
    assert ("Strict-Transport-Security" in response.headers) is secure


def test_callers_behind_a_known_proxy_are_rate_limited_separately(served: Served) -> None:
    statuses = {send_request(served, PROXY, X_Forwarded_For=f"203.0.113.{one}").status for one in range(2, 2 * RATE)}
    assert statuses == {200}
    # A caller's own entries precede the address that the proxy appends, and are not trusted.
    forged = [send_request(served, PROXY, X_Forwarded_For=f"198.51.100.{one}, 203.0.113.99").status for one in range(2 * RATE)]
    assert 429 in forged and forged[0] == 200


def test_forwarded_for_is_ignored_from_unknown_senders(served: Served) -> None:
    statuses = [send_request(served, STRANGER, X_Forwarded_For=f"203.0.113.{one}").status for one in range(100, 100 + 2 * RATE)]
    assert 429 in statuses


@pytest.mark.parametrize("wrong", ["*", "proxy.example.org", "10.0.0.1/8", ""])
def test_proxies_must_be_addresses_or_networks(wrong: str) -> None:
    with pytest.raises(ConfigError, match="is not an address or network"):
        config.validate_settings({"connections": {}, "audits": {}, "service": {"proxies": [wrong]}})


def test_only_loopback_is_trusted_by_default() -> None:
    assert config.validate_settings(json.loads('{"connections": {}, "audits": {}}')).service.proxies == ("127.0.0.1", "::1")
