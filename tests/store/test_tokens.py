"""Tokens, events and audits of the API, on every database."""

from __future__ import annotations

import datetime as dt
import time
from pathlib import Path

import pytest

from auditor.api_models.access import Scope
from auditor.errors import ConfigError, Unauthorised, UnknownAudit
from auditor.store import Store, audit_state, events, open_store, tokens
from auditor.store.tokens import tokens as table
from tests.store.samples import T0, new_audit_name

DAY = dt.timedelta(days=1)


def test_token_is_verified_by_its_secret(store: Store) -> None:
    name = new_audit_name()
    secret = tokens.create_token(store, name=name, scope="run", expires=dt.datetime.now(dt.UTC) + DAY)
    assert secret.startswith("aud_") and len(secret) > 40
    token = tokens.verify_token(store, secret)
    assert (token.name, token.scope, token.revoked, token.last_used) == (name, "run", None, None) and tokens.has_valid_token(store)
    used = tokens.verify_token(store, secret).last_used
    assert used and tokens.verify_token(store, secret).last_used == used  # at most once a minute
    for wrong in ("", "aud_", secret[:-1], secret + "x", secret.upper(), "\ud800", "ü" * 10_000):
        with pytest.raises(Unauthorised, match=r"^the token is unknown, expired or revoked; create one with: auditor token create$"):
            tokens.verify_token(store, wrong)


@pytest.mark.quick_for("sqlite")
def test_expiry_is_checked_on_every_call(store: Store) -> None:
    name = new_audit_name()
    secret = tokens.create_token(store, name=name, scope="read", expires=dt.datetime.now(dt.UTC) + DAY)
    assert tokens.verify_token(store, secret).scope == "read"
    soon = dt.datetime.now(dt.UTC) + dt.timedelta(seconds=0.5)
    store.write(lambda c: c.execute(table.update().where(table.c.name == name).values(expires=soon)) and None)
    time.sleep(0.6)
    with pytest.raises(Unauthorised):  # the statement is built once, but reads the clock on every execution
        tokens.verify_token(store, secret)


def test_name_of_an_expired_token_can_be_reused(store: Store) -> None:
    name, now = new_audit_name(), dt.datetime.now(dt.UTC)
    first = tokens.create_token(store, name=name, scope="read", expires=now + DAY)
    with pytest.raises(ConfigError, match="already exists"):
        tokens.create_token(store, name=name, scope="read")
    store.write(lambda c: c.execute(table.update().where(table.c.name == name).values(expires=now - DAY)) and None)
    with pytest.raises(Unauthorised):
        tokens.verify_token(store, first)
    second = tokens.create_token(store, name=name, scope="define")
    assert tokens.verify_token(store, second).scope == "define"
    with pytest.raises(ConfigError, match="is in the past"):
        tokens.create_token(store, name=new_audit_name(), scope="read", expires=now - DAY)


def test_revoked_token_is_invalid_immediately(store: Store) -> None:
    name = new_audit_name()
    secret = tokens.create_token(store, name=name, scope="repair")
    assert tokens.revoke_token(store, name).revoked
    with pytest.raises(Unauthorised):
        tokens.verify_token(store, secret)
    with pytest.raises(ConfigError, match="there is no token"):
        tokens.revoke_token(store, name)
    tokens.create_token(store, name=name, scope="read")
    assert [one.revoked is None for one in tokens.list_tokens(store) if one.name == name] == [True, False]


@pytest.mark.parametrize(
    ("scope", "allowed"),
    [
        ("read", {"read"}),
        ("run", {"read", "run"}),
        ("define", {"read", "run", "define"}),
        ("repair", {"read", "run", "repair"}),
        ("admin", set(tokens.SCOPES)),
    ],
)
def test_scopes_include_others(scope: Scope, allowed: set[Scope]) -> None:
    token = tokens.Token("a", scope, T0, None, None, None)
    assert {one for one in tokens.SCOPES if token.allows(one)} == allowed


@pytest.mark.parametrize("name", ["", "a\nb", "x" * 101])
def test_invalid_names_are_rejected(store: Store, name: str) -> None:
    with pytest.raises(ConfigError, match="printable"):
        tokens.create_token(store, name=name, scope="read")


def test_secrets_are_not_in_the_file(tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path}/store.db")
    assert not tokens.has_valid_token(store)
    secret = tokens.create_token(store, name="a", scope="read")
    tokens.verify_token(store, secret)
    store.close()
    content = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert b"auditor_tokens" in content and secret.encode() not in content and secret.removeprefix("aud_").encode() not in content


def test_sessions_do_not_count_as_valid_tokens(file_store: Store) -> None:
    tokens.create_token(file_store, name="ops", scope="read")
    tokens.create_token(file_store, name=f"{tokens.SESSION_PREFIX}12 34", scope="read", expires=dt.datetime.now(dt.UTC) + DAY)
    assert tokens.has_valid_token(file_store)
    tokens.revoke_token(file_store, "ops")
    assert not tokens.has_valid_token(file_store)


def test_events_are_listed_by_page(store: Store) -> None:
    subject = new_audit_name()
    for number in range(5):
        events.record_event(store, actor="ä", action="run requested", subject=subject, detail={"n": number})
    events.record_event(store, actor="", action="login refused", subject="\0\ud800")
    mine = [one for one in events.list_events(store) if one.subject == subject]
    assert [one.detail["n"] for one in mine] == [4, 3, 2, 1, 0] and mine[0].actor == "ä" and mine[0].at.tzinfo
    page = events.list_events(store, limit=2, before=mine[1].number)
    assert [one.detail["n"] for one in page] == [2, 1]


def test_definitions_are_saved_and_deleted(store: Store) -> None:
    name = new_audit_name()
    audit_state.save_definition(store, name, {"key": ["id"]}, "me")
    audit_state.save_definition(store, name, {"key": ["ü"]}, "me")
    assert audit_state.list_definitions(store)[name] == {"key": ["ü"]}
    audit_state.delete_definition(store, name)
    assert name not in audit_state.list_definitions(store)
    with pytest.raises(UnknownAudit):
        audit_state.delete_definition(store, name)
