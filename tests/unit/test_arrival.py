"""Whether what a bootstrap wrote into a log is staged."""

from __future__ import annotations

from typing import Any

import pytest

from auditor.pipeline.bootstrap.arrival import _is_staged

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
    assert _is_staged({"end": END}, offset) is staged
    assert not _is_staged({}, offset), "a bootstrap that is not done"
