"""What the OpenAPI document says, against what the service does: requests made up from the document, with tokens of every scope."""

from __future__ import annotations

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
from auditor.api import create_app, live
from auditor.store import Store, open_store, tokens
from auditor.store.tokens import INCLUDED, SCOPES, Scope
from tests.api.conftest import configuration

FEW = settings(
    max_examples=3,
    deadline=None,
    derandomize=True,
    database=None,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=list(HealthCheck),
)
"""What the normal run has time for; --slow looks further."""

LEAST = settings(FEW, max_examples=2, stateful_step_count=4)
MANY = settings(FEW, max_examples=150, derandomize=False)


class Later:
    """The service that the module's fixture makes; until then one that has nothing but its document."""

    app: Any = create_app(config.checked({"connections": {}, "audits": {}}), cast(Store, None), workers=None)

    async def __call__(self, scope: Scope_, receive: Receive, send: Send) -> None:
        await self.app(scope, receive, send)


later = Later()
schema = schemathesis.openapi.from_asgi("/api/v1/openapi.json", later)


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[FastAPI, Store]]:
    """A service whose runs and audits requests may change; nobody carries its runs out."""
    settings = configuration(tmp_path_factory.mktemp("asked"), max_body=1 << 20)
    assert settings.store
    store = open_store(settings.store.url)
    for name in ("orders", "same"):
        service.run_audit(settings, name, store=store)
    later.app = create_app(settings, store)
    yield later.app, store
    store.close()


@pytest.fixture(scope="module")
def secrets(asked: tuple[FastAPI, Store]) -> dict[Scope, str]:
    """A token of every scope."""
    return {scope: tokens.create(asked[1], name=scope, scope=scope) for scope in SCOPES}


@pytest.fixture(autouse=True)
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody listens for long to a run that never goes on."""
    monkeypatch.setattr(live, "LONGEST", 0.05)
    monkeypatch.setattr(live, "PERIOD", 0.01)


MEANT = (
    "POST /api/v1/compare",
    "POST /api/v1/audits",
    "PUT /api/v1/audits/{name}",
    "POST /api/v1/audits/{name}/runs",
    "POST /api/v1/runs",
    "POST /api/v1/runs/{run}/repairs",
)
"""What can be wrong in what it says while its form is as documented: tables that are not there, keys that were used otherwise."""


def widest(case: schemathesis.Case[Any], secrets: dict[Scope, str]) -> str:
    """The token that may do most, of those that may do this: no scope includes all."""
    return secrets["repair" if case.operation.definition.raw.get("x-scope") == "repair" else "define"]


def ask(case: schemathesis.Case[Any], secret: str, *, refused: bool = False) -> None:
    """Send a request and judge the answer; where the token's scope is too small, every answer but 403 is a fault."""
    left_out: list[Any] = [positive_data_acceptance] if refused or case.operation.label in MEANT else []
    answer = case.call_and_validate(headers={"Authorization": f"Bearer {secret}"}, excluded_checks=left_out)
    sent = answer.request.headers.get("Authorization") == f"Bearer {secret}"  # some requests are made without, on purpose
    if refused and sent and case.method == case.operation.method.upper():
        assert answer.status_code == 403


@schema.parametrize()
@FEW
def test_with_the_widest_scope(case: schemathesis.Case[Any], secrets: dict[Scope, str]) -> None:
    ask(case, widest(case, secrets))


@schema.parametrize()
@LEAST
def test_with_every_other_scope(case: schemathesis.Case[Any], secrets: dict[Scope, str]) -> None:
    needed = case.operation.definition.raw.get("x-scope")
    for scope in SCOPES:
        if secrets[scope] != widest(case, secrets):
            ask(case, secrets[scope], refused=needed is not None and needed not in INCLUDED[scope])


@pytest.mark.slow
@schema.parametrize()
@MANY
def test_at_length(case: schemathesis.Case[Any], secrets: dict[Scope, str]) -> None:
    ask(case, widest(case, secrets))


Life: Any = schema.as_state_machine()


def test_one_request_after_the_other(secrets: dict[Scope, str]) -> None:
    class Steps(Life):  # type: ignore[misc]
        """What one answer names, the next request asks for."""

        def get_call_kwargs(self, case: schemathesis.Case[Any]) -> dict[str, Any]:
            return {"headers": {"Authorization": f"Bearer {widest(case, secrets)}"}}

        def validate_response(self, response: Any, case: schemathesis.Case[Any], **more: Any) -> None:
            case.validate_response(response, excluded_checks=[positive_data_acceptance])

    run_state_machine_as_test(Steps, settings=LEAST)
