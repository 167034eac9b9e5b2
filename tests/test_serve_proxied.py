"""``auditor serve`` behind a proxy on another host: what is believed of whom. Each caller has an address of 127.0.0.0/8 for itself."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest

from auditor import config
from auditor.errors import ConfigError
from tests.serve import Served, serve

PROXY, STRANGER = "127.0.0.7", "127.0.0.8"
RATE = 20


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A service that believes one proxy, and not its own host."""
    folder = tmp_path_factory.mktemp("proxied")
    store = {"url": f"sqlite:///{folder}/store.db"}
    service = {"proxies": ["127.0.0.7/32", "10.0.0.0/8"], "rate": RATE, "workers": 1, "grace": "2s"}
    with serve(folder, {"connections": {}, "audits": {}, "store": store, "service": service}) as found:
        yield found


def ask(served: Served, sender: str, method: str = "GET", path: str = "/healthz", body: str = "", **headers: str) -> Any:
    """The answer to a request that comes from one of this machine's addresses."""
    connection = http.client.HTTPConnection(urlsplit(served.url).netloc, timeout=60, source_address=(sender, 0))
    try:
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, body or None, sent)
        answer = connection.getresponse()
        answer.read()
        return answer
    finally:
        connection.close()


@pytest.mark.parametrize(("sender", "protocol", "secure"), [(PROXY, "https", True), (PROXY, "http", False), (STRANGER, "https", False)])
def test_tls_is_what_a_known_proxy_says_it_is(served: Served, sender: str, protocol: str, secure: bool) -> None:
    form = urlencode({"token": served.token})
    kind = "application/x-www-form-urlencoded"
    answer = ask(served, sender, "POST", "/login", form, Content_Type=kind, X_Forwarded_Proto=protocol, X_Forwarded_For="203.0.113.1")
    assert answer.status == 303
    cookie = answer.headers["Set-Cookie"]
    assert cookie.startswith("auditor_session=") and ("; Secure" in cookie) is secure
    assert ("Strict-Transport-Security" in answer.headers) is secure


def test_callers_behind_a_known_proxy_have_a_rate_each(served: Served) -> None:
    statuses = {ask(served, PROXY, X_Forwarded_For=f"203.0.113.{one}").status for one in range(2, 2 * RATE)}
    assert statuses == {200}
    # What a caller writes itself stands before what the proxy adds, and is not believed.
    forged = [ask(served, PROXY, X_Forwarded_For=f"198.51.100.{one}, 203.0.113.99").status for one in range(2 * RATE)]
    assert 429 in forged and forged[0] == 200


def test_nobody_else_is_another_by_saying_so(served: Served) -> None:
    statuses = [ask(served, STRANGER, X_Forwarded_For=f"203.0.113.{one}").status for one in range(100, 100 + 2 * RATE)]
    assert 429 in statuses


@pytest.mark.parametrize("wrong", ["*", "proxy.example.org", "10.0.0.1/8", ""])
def test_only_addresses_and_networks_are_proxies(wrong: str) -> None:
    with pytest.raises(ConfigError, match="no address and no network"):
        config.checked({"connections": {}, "audits": {}, "service": {"proxies": [wrong]}})


def test_this_machine_alone_is_believed_by_itself() -> None:
    assert config.checked(json.loads('{"connections": {}, "audits": {}}')).service.proxies == ("127.0.0.1", "::1")
