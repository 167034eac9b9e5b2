"""What a URL of ClickHouse means, which errors its server's codes are, and which settings a user may lack."""

from __future__ import annotations

import pytest
from clickhouse_connect.driver.exceptions import DatabaseError, OperationalError

import dialects
from dialects import errors
from dialects.clickhouse import login, settings
from dialects.clickhouse.errors import translate_error
from dialects.clickhouse.settings import PINNED, Setting, to_send


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("clickhouse://u@h:9000/d", "9000 is the port of ClickHouse's native protocol; write that of HTTP, 8123, or 8443 if secure"),
        ("clickhouse://u@h/d?ca_cert=/etc/hostname", "ca_cert has no effect in clear; add secure=true"),
        ("clickhouse://u@h/d?secure=true&ca_cert=/no/such", "there is no such file"),
        ("clickhouse://u@h/d?secure=true&client_cert_key=/etc/hostname", "add client_cert=FILE"),
        ("clickhouse://u@h/d?secur=true", "unknown option secur; did you mean secure"),
        ("clickhouse://u@h/d?verify=false", "unknown option verify"),
        ("clickhouse://u@h/d?access_mode=all", "use read_only or read_write"),
    ],
)
def test_an_option_without_effect_is_an_error_before_anything_is_sent(url: str, problem: str) -> None:
    with pytest.raises(errors.BadUrl, match=problem):
        login.check(dialects.parse_url(url))


def test_urls_of_one_database_have_one_identifier() -> None:
    same = ["clickhouse://a:b@h:8443/default?secure=true", "clickhouse://h?secure=true"]
    assert {dialects.database_id(url) for url in same} == {"clickhouse://h:8443/default"}
    assert dialects.database_id("clickhouse://h/shop") == "clickhouse://h:8123/shop"
    addresses = dialects.get("clickhouse").addresses
    assert [addresses.verifies_server(dialects.parse_url(url)) for url in ("clickhouse://h/d?secure=true", "clickhouse://h/d")] == [
        True,
        False,
    ]


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (60, errors.NoSuchObject), (159, errors.StatementTimeout), (394, errors.StatementCancelled), (516, errors.AccessDenied),
        (164, errors.AccessDenied), (202, errors.Unreachable), (241, errors.StatementRefused),
    ],
)  # fmt: skip
def test_the_servers_codes_are_errors_of_the_tree(code: int, kind: type[errors.AuditorError]) -> None:
    text = f"Received ClickHouse exception, code: {code}, server response: Code: {code}. DB::Exception: It (a, b) failed."
    found = translate_error(DatabaseError(f"{text} (SOME_NAME) (version 26.9.2.1 (official build)) (for url http://h:8123)", code=code))
    assert type(found) is kind
    assert str(found) == f"It (a, b) failed. (SOME_NAME) (ClickHouse error {code})"


def test_an_error_without_a_code_is_one_of_the_connection() -> None:
    assert type(translate_error(OperationalError("no route"), "clickhouse://h/d")) is errors.Unreachable
    assert type(translate_error(OperationalError("reset"))) is errors.ConnectionLost
    assert translate_error(ValueError("ours")) is None


def test_settings_that_a_user_must_not_change_need_their_value() -> None:
    known = {name: Setting(value, is_locked=False) for name, value in PINNED.items()} | {"readonly": Setting("2", is_locked=True)}
    assert to_send("url", PINNED, known) == PINNED
    known["final"] = Setting("0", is_locked=True)
    with pytest.raises(errors.SessionNotKept, match="final is 0, not 1"):
        to_send("url", PINNED, known)
    all_right = {name: Setting(value, is_locked=True) for name, value in PINNED.items()} | {"readonly": Setting("1", is_locked=True)}
    assert to_send("url", PINNED, all_right) == {}


def test_what_is_not_pinned_on_some_versions_is_named() -> None:
    assert {*PINNED} > settings.OF_SOME_VERSIONS
    assert {*settings.UNCUT} <= {*PINNED}
    assert not {*settings.UNCUT} & settings.OF_SOME_VERSIONS
