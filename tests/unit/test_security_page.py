"""The table of what was tried in docs/security.md holds the counts of the tests themselves."""

from __future__ import annotations

from pathlib import Path

from auditor.api_models.access import LIMITABLE
from auditor.store.tokens import SCOPES
from tests import hostile_texts
from tests.api import test_access, test_attacks, test_connections, test_limited_callers
from tests.engines import test_encrypted_connections, test_foreign_files, test_masked_origins
from tests.pipeline import test_attacks as pipeline_attacks
from tests.unit import test_escaping, test_hostile_server, test_linear

PAGE = Path(__file__).parents[2] / "docs" / "security.md"
BORDER = "<!-- tried -->"
HEAD = ["| what was tried | how often |", "|---|--:|"]


def count_tests(module: object) -> int:
    return sum(name.startswith("test_") for name in vars(module))


def tried() -> list[str]:
    """Return a line for each kind of attack, with how many were tried."""
    callers = len(SCOPES) + 2
    readers = sum(len(pieces) for _, pieces in test_linear.READERS.values())
    routes = len(test_access.ROUTES)
    changed = len(pipeline_attacks.CHANGED_PARTS) + len(pipeline_attacks.FORGED_PARTS) + len(pipeline_attacks.OPEN_FOLDERS)
    asked = len(test_attacks.SQL) * 2 + len(test_attacks.PLACES) + len(test_attacks.NAMES) + len(test_attacks.BODIES)
    named = (1 + len(pipeline_attacks.NAMES) + len(pipeline_attacks.COLUMNS)) * len(pipeline_attacks.ROADS)
    forged = len(pipeline_attacks.TAMPERED) * 2 + len(pipeline_attacks.ANSWERS) + pipeline_attacks.FUZZED * 2 + len(pipeline_attacks.BOMBS)
    kinds = [
        (
            "a route, form or page, called without a token, with a wrong one, one of each scope, or one of another team",
            routes * (callers + len(LIMITABLE)) + len(test_access.FORMS) * len(SCOPES) + len(test_limited_callers.page_routes()),
        ),
        ("hostile, malformed and slow requests to the API", asked + count_tests(test_connections)),
        (
            "hostile texts and names, in each language that they are written in (SQL, shell, HTML, ...)",
            len(hostile_texts.TEXTS) * len(test_escaping.LANGUAGES) + len(test_escaping.BREAKS),
        ),
        ("growing inputs of regular expressions and readers of text", len(test_linear.known()) + readers),
        (
            "wrong certificates, proxies that deny TLS, hostile servers, DuckDB files that read others",
            count_tests(test_encrypted_connections) + count_tests(test_hostile_server) + count_tests(test_foreign_files),
        ),
        ("ways around a mask, and to the server's own tables", count_tests(test_masked_origins)),
        ("hostile names and values of rows that a pipeline carries", named + pipeline_attacks.VALUES),
        ("forged or random bytes in a pipeline's log and files, full disks", forged + changed + len(pipeline_attacks.FULL_DISKS)),
    ]
    return [f"| {what} | {count:,} |" for what, count in kinds]


def test_the_page_counts_what_is_tried() -> None:
    shown = [line for line in PAGE.read_text(encoding="utf-8").split(BORDER)[1].split("\n") if line.startswith("|")]
    expected = [*HEAD, *tried()]
    assert shown == expected, "\n".join(["docs/security.md should hold:", *expected])
