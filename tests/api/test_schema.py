"""The service conforms to its OpenAPI document: requests generated from the document, with tokens of every scope."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, cast

import pytest
import schemathesis
from fastapi import FastAPI
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test
from schemathesis.specs.openapi.checks import positive_data_acceptance
from starlette.types import Receive, Send
from starlette.types import Scope as Scope_

from auditor import config, service
from auditor.api import create_app, event_stream, sessions
from auditor.api.rate_limit import RateLimit
from auditor.store import Store, open_store, tokens
from auditor.store.tokens import GRANTED_BY, SCOPES, Scope
from tests.api.conftest import make_settings

FEW = settings(
    max_examples=3,
    deadline=None,
    derandomize=True,
    database=None,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=list(HealthCheck),
)
"""Few examples, for the normal run; --slow generates more."""

LEAST = settings(FEW, max_examples=2, stateful_step_count=4)
MANY = settings(FEW, max_examples=150, derandomize=False)


class DeferredApp:
    """Forwards to the service that the module's fixture creates. Until then to one without a store, which only returns its document."""

    app: Any = create_app(config.validate_settings({"connections": {}, "audits": {}}), cast(Store, None), workers=None)

    async def __call__(self, scope: Scope_, receive: Receive, send: Send) -> None:
        await self.app(scope, receive, send)


deferred_app = DeferredApp()
schema = schemathesis.openapi.from_asgi("/api/v1/openapi.json", deferred_app)


@pytest.fixture(scope="module")
def running_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[FastAPI, Store]]:
    """A service and its store, which requests may change; its pending runs are not executed."""
    settings = make_settings(tmp_path_factory.mktemp("schema"), max_body=1 << 20)
    assert settings.store
    store = open_store(settings.store.url)
    for name in ("orders", "same"):
        service.run_audit(settings, name, store=store)
    deferred_app.app = create_app(settings, store)
    yield deferred_app.app, store
    store.close()


@pytest.fixture(scope="module")
def secrets(running_service: tuple[FastAPI, Store]) -> dict[Scope, str]:
    """A token of every scope."""
    return {scope: tokens.create_token(running_service[1], name=scope, scope=scope) for scope in SCOPES}


@pytest.fixture(autouse=True)
def short_event_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    """End event streams quickly, because the pending runs never make progress."""
    monkeypatch.setattr(event_stream, "MAX_DURATION", 0.05)
    monkeypatch.setattr(event_stream, "POLL_INTERVAL", 0.01)


@pytest.fixture(autouse=True)
def many_guesses(monkeypatch: pytest.MonkeyPatch, reset_rate_limits: None) -> None:
    """Allow more wrong tokens than are generated: they must be answered as such, not by 429."""
    monkeypatch.setattr(sessions, "_wrong_tokens", RateLimit(1_000_000))


CONTENT_DEPENDENT = (
    "POST /api/v1/compare",
    "POST /api/v1/audits",
    "PUT /api/v1/audits/{name}",
    "POST /api/v1/audits/{name}/runs",
    "POST /api/v1/runs",
    "POST /api/v1/runs/{run}/repairs",
    "POST /api/v1/runs/{run}/patches",
    "POST /api/v1/patches/{patch}/apply",
    "POST /api/v1/patches/{patch}/undo",
    "POST /api/v1/pipelines/{pipeline}/bootstrap",
    "GET /api/v1/audits/{name}/bootstrap-plan",
)
"""Operations that may reject a request that matches its schema: its tables may not exist, its idempotency key may be used already, its
range of keys may end before it begins."""


def widest_token(case: schemathesis.Case[Any], secrets: dict[Scope, str]) -> str:
    """Return the token with the widest scope that allows this operation; no scope includes all others."""
    return secrets["apply" if case.operation.definition.raw.get("x-scope") in ("repair", "apply") else "define"]


def send_and_validate(case: schemathesis.Case[Any], secret: str, *, refused: bool = False) -> None:
    """Send a request and validate the response. With ``refused`` the token's scope is insufficient, so the response must be 403."""
    excluded: list[Any] = [positive_data_acceptance] if refused or case.operation.label in CONTENT_DEPENDENT else []
    answer = case.call_and_validate(headers={"Authorization": f"Bearer {secret}"}, excluded_checks=excluded)
    sent = answer.request.headers.get("Authorization") == f"Bearer {secret}"  # some generated requests omit the token on purpose
    if refused and sent and case.method == case.operation.method.upper():
        assert answer.status_code == 403


@schema.parametrize()
@FEW
def test_responses_with_the_widest_scope_conform(case: schemathesis.Case[Any], secrets: dict[Scope, str]) -> None:
    send_and_validate(case, widest_token(case, secrets))


others_of: dict[str, Iterator[Scope]] = {}
"""The scopes that the next requests of an operation are sent with, by its label."""


def other_scopes(case: schemathesis.Case[Any], secrets: dict[Scope, str]) -> list[Scope]:
    """Return every scope but the widest for an operation's first request, and one of them in turn for each later one."""
    others = [scope for scope in SCOPES if secrets[scope] != widest_token(case, secrets)]
    if case.operation.label in others_of:
        return [next(others_of[case.operation.label])]
    others_of[case.operation.label] = itertools.cycle(others)
    return others


@schema.parametrize()
@LEAST
def test_responses_with_every_other_scope_conform(case: schemathesis.Case[Any], secrets: dict[Scope, str]) -> None:
    needed = case.operation.definition.raw.get("x-scope")
    for scope in other_scopes(case, secrets):
        send_and_validate(case, secrets[scope], refused=needed is not None and needed not in GRANTED_BY[scope])


@pytest.mark.slow
@schema.parametrize()
@MANY
def test_responses_to_many_requests_conform(case: schemathesis.Case[Any], secrets: dict[Scope, str]) -> None:
    send_and_validate(case, widest_token(case, secrets))


StateMachine: Any = schema.as_state_machine()


def test_sequences_of_linked_requests_conform(secrets: dict[Scope, str]) -> None:
    class Steps(StateMachine):  # type: ignore[misc]
        """Uses values of earlier responses in later requests."""

        def get_call_kwargs(self, case: schemathesis.Case[Any]) -> dict[str, Any]:
            return {"headers": {"Authorization": f"Bearer {widest_token(case, secrets)}"}}

        def validate_response(self, response: Any, case: schemathesis.Case[Any], **more: Any) -> None:
            case.validate_response(response, excluded_checks=[positive_data_acceptance])

    run_state_machine_as_test(Steps, settings=LEAST)
