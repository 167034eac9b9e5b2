"""Whether what a refresh wrote into a log is staged."""

from __future__ import annotations

from typing import Any

import pytest

from auditor.pipeline.staged_refreshes import is_staged

END = ["binlog.000007", 400, "server a"]


@pytest.mark.parametrize(
    ("offset", "staged"),
    [
        ({"file": "binlog.000007", "position": 400, "server": "server a"}, True),
        ({"file": "binlog.000008", "position": 4, "server": "server a"}, True),
        ({"file": "binlog.000007", "position": 399, "server": "server a"}, False),
        ({"file": "binlog.000099", "position": 400, "server": "server b"}, False),
        (None, False),
    ],
    ids=["at its end", "in a later file", "before its end", "in another server's log", "nothing staged"],
)
def test_rows_are_staged_once_the_offset_has_passed_them_in_the_same_log(offset: Any, staged: bool) -> None:
    assert is_staged({"end": END}, offset) is staged
    assert not is_staged({}, offset), "a refresh that is not done"


BACK = {"file": "binlog.000009", "position": 4, "server": "server a", "epoch": 2}
"""The stream has failed over to server b and back."""


@pytest.mark.parametrize(
    ("end", "left", "staged"),
    [
        ([*END, 0], ["server a", "binlog.000007", 400], True),
        ([*END, 0], ["server a", "binlog.000007", 399], False),
        ([*END, 0], ["server b", "binlog.000008", 4], False),
        (["binlog.000009", 4, "server a", 2], ["server a", "binlog.000007", 4], True),
        (["binlog.000009", 5, "server a", 2], ["server a", "binlog.000009", 5], False),
    ],
    ids=["it was read so far", "it was not", "another server was read", "it is read so far now", "not yet, but by an earlier epoch"],
)
def test_after_a_failover_what_counts_is_how_far_the_log_of_its_epoch_was_read(end: Any, left: Any, staged: bool) -> None:
    assert is_staged({"end": end}, BACK | {"left": {"0": left, "1": ["server b", "binlog.000050", 4]}}) is staged
