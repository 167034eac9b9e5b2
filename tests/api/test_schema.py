"""The service conforms to its OpenAPI document: requests generated from the document, with tokens of every scope."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
import schemathesis
from fastapi import FastAPI
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test
from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance

from auditor import service
from auditor.api import authentication, create_app
from auditor.api.middleware import RateLimit
from auditor.api_models.access import Scope
from auditor.store import Store, open_store, tokens
from auditor.store.tokens import GRANTED_BY, SCOPES
from tests.api.conftest import make_settings
from tests.durations import SetDurations

LEAST = settings(
    max_examples=2,
    stateful_step_count=4,
    deadline=None,
    derandomize=True,
    database=None,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=list(HealthCheck),
)
EDGES = settings(LEAST, phases=(Phase.explicit,))
"""The dozens of edge cases of each operation, without the requests that are generated at random, of which --slow sends many."""

GENERATED = settings(LEAST, phases=(Phase.generate,))
"""A few requests that are generated at random, without the edge cases."""

MANY = settings(LEAST, max_examples=150, derandomize=False)


@pytest.fixture(scope="module")
def running_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[FastAPI, Store]]:
    """A service and its store, which requests may change; its pending runs are not executed."""
    settings = make_settings(tmp_path_factory.mktemp("schema"), max_body=1 << 20, allowed_hosts=["testserver"])
    assert settings.store
    store = open_store(settings.store.url)
    for name in ("orders", "same"):
        service.run_audit(settings, name, store=store)
    yield create_app(settings, store), store
    store.close()


@pytest.fixture(scope="module")
def document(running_service: tuple[FastAPI, Store], request: pytest.FixtureRequest) -> Any:
    """The service's document. Only the worker that runs these tests makes requests of it, which takes seconds.

    Without --slow each path is tried with two of the methods that it has not: the router refuses all alike.
    """
    methods = {} if request.config.getoption("--slow") else {"unexpected-methods": ["DELETE", "TRACE"]}
    config = schemathesis.Config.from_dict({"phases": {"coverage": methods}})
    return schemathesis.openapi.from_asgi("/api/v1/openapi.json", running_service[0], config=config)


schema = schemathesis.pytest.from_fixture("document")


@pytest.fixture(autouse=True)
def named_node(request: pytest.FixtureRequest) -> None:
    """Give a test its id by the name under which Schemathesis asks for it, which pytest has no more since 9.2."""
    vars(request.node).setdefault("_nodeid", request.node.nodeid)


@pytest.fixture(scope="module")
def secrets(running_service: tuple[FastAPI, Store]) -> dict[Scope, str]:
    """A token of every scope."""
    return {scope: tokens.create_token(running_service[1], name=scope, scope=scope) for scope in SCOPES}


@pytest.fixture(autouse=True)
def short_event_streams(set_durations: SetDurations) -> None:
    """End event streams quickly, because the pending runs never make progress."""
    set_durations(event_stream=0.05, event_poll=0.01)


@pytest.fixture(autouse=True)
def many_guesses(monkeypatch: pytest.MonkeyPatch, reset_rate_limits: None) -> None:
    """Allow more wrong tokens than are generated: they must be answered as such, not by 429."""
    monkeypatch.setattr(authentication, "wrong_tokens", RateLimit(1_000_000))


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
    "POST /api/v1/pipelines/{pipeline}/refreshes",
    "GET /api/v1/audits/{name}/bootstrap-plan",
    "GET /api/v1/costs",
    "PUT /api/v1/audits/{name}/acknowledgement",
)
"""Operations that may reject a request that matches its schema: its tables may not exist, its idempotency key may be used already, its
range of keys may end before it begins, its day may be to come, and its time over."""


def widest_token(case: schemathesis.Case[Any], secrets: dict[Scope, str]) -> str:
    """Return the token with the widest scope that allows this operation; no scope includes all others."""
    needed = case.operation.definition.raw.get("x-scope")
    return secrets["apply" if needed in ("repair", "apply") else "pipeline" if needed == "pipeline" else "define"]


def send_and_validate(case: schemathesis.Case[Any], secret: str, *, refused: bool = False, excluded: Sequence[Any] = ()) -> None:
    """Send a request and validate the response. With ``refused`` the token's scope is insufficient, so the response must be 403."""
    depends = [positive_data_acceptance] if refused or case.operation.label in CONTENT_DEPENDENT else []
    answer = case.call_and_validate(headers={"Authorization": f"Bearer {secret}"}, excluded_checks=[*depends, *excluded])
    sent = answer.request.headers.get("Authorization") == f"Bearer {secret}"  # some generated requests omit the token on purpose
    if refused and sent and case.method == case.operation.method.upper():
        assert answer.status_code == 403


SOME = (
    r"^(GET /api/v1/(runs|runs/\{run\}|runs/\{run\}/differences|events)|DELETE /api/v1/audits/\{name\}|POST /api/v1/runs/\{run\}/repairs)$"
)
"""Operations of each shape: lists with filters and pages, one thing by its name, one that deletes, and one with a body."""


@schema.include(name_regex=SOME).parametrize()
@EDGES
def test_responses_of_some_operations_conform(case: schemathesis.Case[Any], secrets: dict[Scope, str]) -> None:
    send_and_validate(case, widest_token(case, secrets))


@schema.exclude(name_regex=SOME).parametrize()
@GENERATED
def test_some_responses_of_the_other_operations_conform(case: schemathesis.Case[Any], secrets: dict[Scope, str]) -> None:
    send_and_validate(case, widest_token(case, secrets))


@pytest.mark.slow
@schema.parametrize()
@EDGES
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


def send_with_other_scopes(case: schemathesis.Case[Any], secrets: dict[Scope, str]) -> None:
    """Send a request with other scopes than the widest, and validate the responses.

    Whether wrong requests are rejected is validated with the widest scope alone. Here Schemathesis takes it for one wrong thing of several
    that a request was made without a token, and does not know that it is sent with one.
    """
    needed = case.operation.definition.raw.get("x-scope")
    for scope in other_scopes(case, secrets):
        refused = needed is not None and needed not in GRANTED_BY[scope]
        send_and_validate(case, secrets[scope], refused=refused, excluded=[negative_data_rejection])


@pytest.mark.slow
@schema.parametrize()
@GENERATED
def test_responses_with_every_other_scope_conform(case: schemathesis.Case[Any], secrets: dict[Scope, str]) -> None:
    send_with_other_scopes(case, secrets)


@pytest.mark.slow  # whether a scope suffices is decided before a request's content is looked at
@schema.parametrize()
@LEAST
def test_responses_to_edge_cases_with_every_other_scope_conform(case: schemathesis.Case[Any], secrets: dict[Scope, str]) -> None:
    send_with_other_scopes(case, secrets)


@pytest.mark.slow
@schema.parametrize()
@MANY
def test_responses_to_many_requests_conform(case: schemathesis.Case[Any], secrets: dict[Scope, str]) -> None:
    send_and_validate(case, widest_token(case, secrets))


def test_sequences_of_linked_requests_conform(document: Any, secrets: dict[Scope, str]) -> None:
    class Steps(document.as_state_machine()):  # type: ignore[misc]
        """Uses values of earlier responses in later requests."""

        def get_call_kwargs(self, case: schemathesis.Case[Any]) -> dict[str, Any]:
            return {"headers": {"Authorization": f"Bearer {widest_token(case, secrets)}"}}

        def validate_response(self, response: Any, case: schemathesis.Case[Any], **more: Any) -> None:
            case.validate_response(response, excluded_checks=[positive_data_acceptance])

    run_state_machine_as_test(Steps, settings=LEAST)
