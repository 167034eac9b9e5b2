"""Tokens, events and audits of the API, on every database."""

from __future__ import annotations

import datetime as dt
import time
from pathlib import Path

import pytest

from auditor.errors import ConfigError, Unauthorised, UnknownAudit
from auditor.store import Store, defined, events, open_store, tokens
from auditor.store._schema import tokens as table
from tests.store.samples import T0, new_audit

DAY = dt.timedelta(days=1)


def test_a_token_is_known_by_its_secret(store: Store) -> None:
    name = new_audit()
    secret = tokens.create(store, name=name, scope="run", expires=dt.datetime.now(dt.UTC) + DAY)
    assert secret.startswith("aud_") and len(secret) > 40
    token = tokens.check(store, secret)
    assert (token.name, token.scope, token.revoked, token.last_used) == (name, "run", None, None) and tokens.any_valid(store)
    used = tokens.check(store, secret).last_used
    assert used and tokens.check(store, secret).last_used == used  # at most once a minute
    for wrong in ("", "aud_", secret[:-1], secret + "x", secret.upper(), "\ud800", "ü" * 10_000):
        with pytest.raises(Unauthorised, match=r"^there is no such token, or it has expired, or was revoked$"):
            tokens.check(store, wrong)


def test_a_token_that_was_valid_a_moment_ago_is_none_once_its_time_has_come(store: Store) -> None:
    secret = tokens.create(store, name=new_audit(), scope="read", expires=dt.datetime.now(dt.UTC) + dt.timedelta(seconds=1.5))
    assert tokens.check(store, secret).scope == "read"
    time.sleep(2)
    with pytest.raises(Unauthorised):  # the statement is made once, and the clock in it read each time
        tokens.check(store, secret)


def test_a_token_expires_and_its_name_is_free_again(store: Store) -> None:
    name, now = new_audit(), dt.datetime.now(dt.UTC)
    first = tokens.create(store, name=name, scope="read", expires=now + DAY)
    with pytest.raises(ConfigError, match="already"):
        tokens.create(store, name=name, scope="read")
    store.write(lambda c: c.execute(table.update().where(table.c.name == name).values(expires=now - DAY)) and None)
    with pytest.raises(Unauthorised):
        tokens.check(store, first)
    second = tokens.create(store, name=name, scope="define")
    assert tokens.check(store, second).scope == "define"
    with pytest.raises(ConfigError, match="expired already"):
        tokens.create(store, name=new_audit(), scope="read", expires=now - DAY)


def test_a_token_is_revoked_at_once(store: Store) -> None:
    name = new_audit()
    secret = tokens.create(store, name=name, scope="repair")
    assert tokens.revoke(store, name).revoked
    with pytest.raises(Unauthorised):
        tokens.check(store, secret)
    with pytest.raises(ConfigError, match="there is no token"):
        tokens.revoke(store, name)
    tokens.create(store, name=name, scope="read")
    assert [one.revoked is None for one in tokens.listed(store) if one.name == name] == [True, False]


@pytest.mark.parametrize(
    ("scope", "allowed"),
    [("read", {"read"}), ("run", {"read", "run"}), ("define", {"read", "run", "define"}), ("repair", {"read", "run", "repair"})],
)
def test_what_a_scope_allows(scope: tokens.Scope, allowed: set[tokens.Scope]) -> None:
    token = tokens.Token("a", scope, T0, None, None, None)
    assert {one for one in tokens.SCOPES if token.allows(one)} == allowed


@pytest.mark.parametrize("name", ["", "a\nb", "x" * 101])
def test_names_that_no_token_has(store: Store, name: str) -> None:
    with pytest.raises(ConfigError, match="printable"):
        tokens.create(store, name=name, scope="read")


def test_no_secret_is_in_the_file(tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path}/store.db")
    assert not tokens.any_valid(store)
    secret = tokens.create(store, name="a", scope="read")
    tokens.check(store, secret)
    store.close()
    kept = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert b"auditor_tokens" in kept and secret.encode() not in kept and secret.removeprefix("aud_").encode() not in kept


def test_a_session_alone_lets_nobody_in(file_store: Store) -> None:
    tokens.create(file_store, name="ops", scope="read")
    tokens.create(file_store, name=f"{tokens.SESSION}12 34", scope="read", expires=dt.datetime.now(dt.UTC) + DAY)
    assert tokens.any_valid(file_store)
    tokens.revoke(file_store, "ops")
    assert not tokens.any_valid(file_store)


def test_events_are_listed_by_pages(store: Store) -> None:
    subject = new_audit()
    for number in range(5):
        events.note(store, who="ä", what="run requested", subject=subject, detail={"n": number})
    events.note(store, who="", what="login refused", subject="\0\ud800")
    mine = [one for one in events.listed(store) if one.subject == subject]
    assert [one.detail["n"] for one in mine] == [4, 3, 2, 1, 0] and mine[0].who == "ä" and mine[0].at.tzinfo
    page = events.listed(store, limit=2, before=mine[1].number)
    assert [one.detail["n"] for one in page] == [2, 1]


def test_audits_of_the_api(store: Store) -> None:
    name = new_audit()
    defined.keep(store, name, {"key": ["id"]}, "me")
    defined.keep(store, name, {"key": ["ü"]}, "me")
    assert defined.all(store)[name] == {"key": ["ü"]}
    defined.drop(store, name)
    assert name not in defined.all(store)
    with pytest.raises(UnknownAudit):
        defined.drop(store, name)
