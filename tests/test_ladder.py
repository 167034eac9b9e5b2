"""Which methods a run goes through."""

from __future__ import annotations

from typing import Any

import pytest

from auditor import ladder
from auditor.config import Audit
from auditor.model import Method, Verdict


def audit(**more: Any) -> Audit:
    here = {"connection": "x", "table": "t"}
    return Audit.model_validate({"source": here, "target": here, "key": ("id",), **more})


def climbed(wanted: Audit, verdicts: dict[Method, Verdict], ended_runs: int) -> list[Method]:
    """The levels that a run goes through when each ends with that verdict."""
    gone: list[Method] = []
    for level in ladder.levels(wanted):
        gone.append(level)
        if not ladder.goes_up(wanted, level, verdicts[level], ended_runs):
            break
    return gone


LADDER = audit(ladder=["counts", "signature", "exact"])
MATCH, MISMATCH, UNKNOWN = Verdict.MATCH, Verdict.MISMATCH, Verdict.UNKNOWN


@pytest.mark.parametrize(
    ("counts", "signature", "ended_runs", "gone"),
    [
        (MATCH, MATCH, 1, ["counts"]),
        (MISMATCH, MATCH, 1, ["counts", "signature"]),
        (MISMATCH, MISMATCH, 1, ["counts", "signature", "exact"]),
        (UNKNOWN, MISMATCH, 1, ["counts"]),
        (MATCH, MATCH, 0, ["counts", "signature", "exact"]),
        (MATCH, MATCH, 9, ["counts"]),
        (MATCH, MATCH, 10, ["counts", "signature", "exact"]),
        (UNKNOWN, MATCH, 10, ["counts"]),
    ],
)
def test_levels_are_climbed(counts: Verdict, signature: Verdict, ended_runs: int, gone: list[Method]) -> None:
    assert climbed(LADDER, {"counts": counts, "signature": signature, "exact": MISMATCH}, ended_runs) == gone


def test_without_every_only_a_difference_leads_up() -> None:
    wanted = audit(ladder={"levels": ["counts", "exact"], "every": 0})
    assert climbed(wanted, {"counts": MATCH, "exact": MATCH}, 0) == ["counts"]


def test_without_a_ladder_there_is_one_level() -> None:
    assert ladder.levels(audit(method="signature")) == ("signature",)
    assert not ladder.goes_up(audit(method="signature"), "signature", MISMATCH, 0)


def test_auto_is_chosen_by_what_the_last_runs_found() -> None:
    wanted = audit(method="auto")
    assert ladder.levels(wanted) == ("exact",)
    assert ladder.levels(wanted, [0.5] * 4) == ("minhash",)
    assert ladder.levels(wanted, [1e-6] * 4) == ("exact",)
    assert ladder.levels(wanted, [0.5] * 10) == ("exact",)  # every tenth run
    assert ladder.levels(wanted, [0.05] * 4, rows_each=1) == ("exact",)  # a partition of one row decodes whatever differs
