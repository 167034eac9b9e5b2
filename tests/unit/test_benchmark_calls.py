"""RESULTS.md says of each call of the benchmarks how many rows were measured, which is not always what was asked for."""

from __future__ import annotations

import pytest

from benchmarks.__main__ import describe_sizes, parser, sizes_of


@pytest.mark.parametrize(
    ("arguments", "rows", "says"),
    [
        ((), 1_000_000, "1,000,000 rows"),
        (("--only", "stream"), 1_000_000, "100,000 rows"),
        (("--only", "ratios", "--rows", "500000"), 500_000, "500,000 rows"),
        (("--only", "ratios", "--quick"), 20_000, "20,000 rows"),
        (("--only", "growth", "--full"), 1_000_000, "100,000 and 1,000,000 and 10,000,000 rows"),
        (
            ("--only", "duel", "--only", "ratios", "--only", "load"),
            1_000_000,
            "1,000,000 and 1,000 and 10,000 and 200,000 rows (duel), 300,000 rows (ratios), 1,000,000 rows (load)",
        ),
        (("--only", "duel", "--rows", "300000"), 300_000, "300,000 rows"),
        (("--only", "repair"), 1_000_000, "100,000 and 1,000,000 rows"),
    ],
    ids=["the default", "at most so many", "asked for", "quick", "several sizes", "several parts", "no smaller tables", "two measurements"],
)
def test_a_call_says_how_many_rows_were_measured(arguments: tuple[str, ...], rows: int, says: str) -> None:
    options = parser().parse_args(arguments)
    sizes = sizes_of(rows, options)
    assert describe_sizes({part: sizes[part] for part in options.only or ["cost"]}) == says
