"""Write the table of scopes as Markdown, from the routes of the HTTP API: `python -m scripts.scope_reference`."""

from __future__ import annotations

from collections.abc import Iterator

from fastapi.routing import APIRoute

from auditor.api import app, routing
from auditor.api_models.access import Scope
from auditor.store.tokens import DESCRIPTIONS, SCOPES


def reference() -> str:
    """Return the table: a line for each scope, with what it permits and the requests that need it."""
    return "\n".join(["| scope | may | needed by |", "|---|---|---|", *map(_line, SCOPES)])


def requests() -> Iterator[tuple[str, str, Scope]]:
    """Yield method, path and scope of each route that needs one."""
    for routes in app.ROUTERS:
        for route in routes.routes:
            if isinstance(route, APIRoute) and (scope := (route.openapi_extra or {}).get("x-scope")):
                yield from ((method, route.path, scope) for method in sorted(route.methods or ()))


def _line(scope: Scope) -> str:
    needing = [(method, path.removeprefix(routing.PREFIX)) for method, path, needed in requests() if needed == scope]
    # Reading is the rule, and is not listed; the comparison of two uploads stores nothing.
    listed = [f"`{method} {path}`" for method, path in needing if scope != "read" or method != "GET"]
    others = ["every `GET` that no other line names"] if scope == "read" else []
    return f"| `{scope}` | {DESCRIPTIONS[scope]} | {', '.join([*others, *listed])} |"


if __name__ == "__main__":
    print(reference())
