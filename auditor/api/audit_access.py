"""Which audits a caller limited to some of them reaches: one table, by the path of a route, for the API and the pages.

What is not in the table is refused, so that a new route is closed to limited callers until it is said here what they see of it. An audit
outside their patterns, and all that belongs to it, answers as one that does not exist.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase

from auditor.api.middleware import ENCODED_SLASH
from auditor.errors import Forbidden, UnknownAudit, UnknownBootstrap, UnknownPatch, UnknownRepair, UnknownRun
from auditor.store import Store, bootstraps, patches, repairs, runs

FILTERED = frozenset(
    {
        *("/api/v1/audits", "/api/v1/runs", "/api/v1/incidents", "/api/v1/schedules", "/api/v1/days/{day}/report", "/api/v1/costs"),
        *("/", "/runs", "/schedules", "/day", "/day/{date}.{format}"),
    }
)
"""Lists that show a limited caller no other audits: their handlers ask for the caller's settings, or pass the names on."""

ABOUT_NONE = frozenset({"/logout", "/theme", "/about", "/docs"})
"""Pages without audits."""

DEFINING = frozenset(
    {("POST", "/api/v1/audits"), ("PUT", "/api/v1/audits/{name}"), ("DELETE", "/api/v1/audits/{name}"), ("POST", "/api/v1/runs")}
)
"""What defines audits, of any table of the connections: never for limited callers."""


def matches(audit: str, patterns: Sequence[str]) -> bool:
    """Return whether a caller limited to these patterns may see an audit; without patterns all."""
    return not patterns or any(fnmatchcase(audit, pattern) for pattern in patterns)


def check(store: Store, method: str, route: str, values: Mapping[str, str], patterns: Sequence[str]) -> None:
    """Check that a limited caller may use a route, whose parameters have these ``values``.

    Raises Forbidden for routes that show more than single audits, and what an unknown name raises for audits that are not theirs.
    """
    if not patterns or route in ABOUT_NONE:
        return
    if (method, route) not in DEFINING:
        if method == "GET" and route in FILTERED:
            return
        for begin, find in _OWNERS.items():
            if route.removeprefix("/api/v1").startswith((f"{begin}}}", f"{begin}:path}}")):
                _check_each(store, route, values, patterns, find)
                return
    raise Forbidden(f"this caller is limited to the audits {', '.join(patterns)}, and this shows or changes more than these")


Find = Callable[[Store, Mapping[str, str]], str]
"""Returns the audit that the parameters of a route lead to."""


def _check_each(store: Store, route: str, values: Mapping[str, str], patterns: Sequence[str], find: Find) -> None:
    """Check the audit that a route's first parameter leads to, and that of a patch below a run."""
    audits = [find(store, values)]
    if "{patch}" in route and find is not _of_patch:
        audits.append(_of_patch(store, values))
    for audit in audits:
        if not matches(audit, patterns):
            raise _UNKNOWN[find](next(iter(values.values())))


def _of_name(_: Store, values: Mapping[str, str]) -> str:
    return values.get("name", values.get("audit", "")).replace(ENCODED_SLASH, "/")


def _of_run(store: Store, values: Mapping[str, str]) -> str:
    try:
        return runs.get_run(store, values["run"]).audit
    except UnknownRun:  # its text may name runs of others, which begin alike
        raise runs.unknown_run(values["run"]) from None


def _of_patch(store: Store, values: Mapping[str, str]) -> str:
    try:
        return patches.get_patch(store, values["patch"]).audit
    except UnknownPatch:
        raise _unknown_patch(values["patch"]) from None


def _of_repair(store: Store, values: Mapping[str, str]) -> str:
    return repairs.get_repair(store, values["repair"]).audit


def _of_bootstrap(store: Store, values: Mapping[str, str]) -> str:
    try:
        return bootstraps.get_bootstrap(store, values["bootstrap"]).audit
    except UnknownBootstrap:
        raise _unknown_bootstrap(values["bootstrap"]) from None


_OWNERS: Mapping[str, Find] = {
    "/audits/{name": _of_name,
    "/segments/{name": _of_name,
    "/segments/{audit": _of_name,
    "/runs/{run": _of_run,
    "/patches/{patch": _of_patch,
    "/repairs/{repair": _of_repair,
    "/bootstraps/{bootstrap": _of_bootstrap,
}
"""How a route's first parameter leads to the audit that all below it is about, by the beginning of its path."""


def _unknown_audit(name: str) -> UnknownAudit:
    return UnknownAudit(f"there is no audit {name.replace(ENCODED_SLASH, '/')!r}")


def _unknown_patch(patch: str) -> UnknownPatch:
    return UnknownPatch(f"there is no patch {patch!r}")


def _unknown_repair(repair: str) -> UnknownRepair:
    return UnknownRepair(f"there is no repair {repair!r}")


def _unknown_bootstrap(bootstrap: str) -> UnknownBootstrap:
    return UnknownBootstrap(f"there is no bootstrap {bootstrap!r}")


_UNKNOWN: Mapping[Find, Callable[[str], Exception]] = {
    _of_name: _unknown_audit,
    _of_run: runs.unknown_run,
    _of_patch: _unknown_patch,
    _of_repair: _unknown_repair,
    _of_bootstrap: _unknown_bootstrap,
}
