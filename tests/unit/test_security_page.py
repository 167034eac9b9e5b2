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
HEAD = ["| what was tried | how often | the test |", "|---|--:|---|"]


def count_tests(module: object) -> int:
    return sum(name.startswith("test_") for name in vars(module))


def tried() -> list[str]:
    """Return a line for each kind of attack, with how many were tried."""
    callers = len(SCOPES) + 2
    readers = sum(len(pieces) for _, pieces in test_linear.READERS.values())
    kinds = [
        ("a route and a caller: no token, a wrong one, one of each scope", len(test_access.ROUTES) * callers, test_access),
        (
            "a route and a caller limited to audits of others, and each page",
            len(test_access.ROUTES) * len(LIMITABLE) + len(test_limited_callers.page_routes()),
            test_limited_callers,
        ),
        ("a form of the pages and a caller", len(test_access.FORMS) * len(SCOPES), test_access),
        (
            "SQL, paths and URLs in place of a name in a definition or a parameter",
            len(test_attacks.SQL) * 2 + len(test_attacks.PLACES),
            test_attacks,
        ),
        ("names and numbers that try to leave their route", len(test_attacks.NAMES), test_attacks),
        ("uploaded results that are malformed", len(test_attacks.BODIES), test_attacks),
        ("slow, silent and many connections", count_tests(test_connections), test_connections),
        ("a hostile text and a language that it is written in", len(hostile_texts.TEXTS) * len(test_escaping.LANGUAGES), test_escaping),
        ("hostile names of tables, columns, values and audits, in all that is printed of them", len(test_escaping.BREAKS), test_escaping),
        ("regular expressions, each with inputs made for it and doubled", len(test_linear.known()), test_linear),
        ("a piece of text, repeated and doubled, and code that reads it", readers, test_linear),
        ("ways to reach a server by TLS that somebody holds up", count_tests(test_encrypted_connections), test_encrypted_connections),
        ("hostile servers: files asked for, rows without end, foreign pickles", count_tests(test_hostile_server), test_hostile_server),
        ("files of DuckDB that try to read others", count_tests(test_foreign_files), test_foreign_files),
        ("ways around a mask, and to the server's own tables", count_tests(test_masked_origins), test_masked_origins),
        (
            "hostile names of databases, tables and columns that a pipeline carries",
            (1 + len(pipeline_attacks.NAMES) + len(pipeline_attacks.COLUMNS)) * len(pipeline_attacks.ROADS),
            pipeline_attacks,
        ),
        (
            "a hostile value and a type of column that a pipeline carries it in",
            pipeline_attacks.VALUES,
            pipeline_attacks,
        ),
        (
            "what a source server, or who stands before it, sends instead of its log",
            len(pipeline_attacks.TAMPERED) * 2 + len(pipeline_attacks.ANSWERS),
            pipeline_attacks,
        ),
        ("logs of which bytes were changed at random, decoded", pipeline_attacks.FUZZED * 2, pipeline_attacks),
        ("a few bytes of a log that stand for many, or for work without end", len(pipeline_attacks.BOMBS), pipeline_attacks),
        (
            "staged parts and their folders that somebody else changed",
            len(pipeline_attacks.CHANGED_PARTS) + len(pipeline_attacks.FORGED_PARTS) + len(pipeline_attacks.OPEN_FOLDERS),
            pipeline_attacks,
        ),
        ("full disks of a pipeline's staging and store", len(pipeline_attacks.FULL_DISKS), pipeline_attacks),
    ]
    return [f"| {what} | {count:,} | `{module.__name__.replace('.', '/')}.py` |" for what, count, module in kinds]


def test_the_page_counts_what_is_tried() -> None:
    shown = [line for line in PAGE.read_text(encoding="utf-8").split(BORDER)[1].split("\n") if line.startswith("|")]
    expected = [*HEAD, *tried()]
    assert shown == expected, "\n".join(["docs/security.md should hold:", *expected])
