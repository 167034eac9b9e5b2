"""Points are listed, each is reached somewhere, and a test that arms one that is not reached fails."""

from __future__ import annotations

import re
import threading
from pathlib import Path

import pytest

import auditor
from auditor.points import POINTS, armed, followed, reach


def test_each_point_is_reached_in_the_code_and_no_other() -> None:
    files = Path(auditor.__file__).parent.rglob("*.py")
    reached = {point for file in files for point in re.findall(r'(?<!def )\breach\("([^"]*)"\)', file.read_text())}
    assert reached == set(POINTS) and len(POINTS) == len(set(POINTS))


def test_an_armed_point_acts_in_every_thread_and_in_its_block_alone() -> None:
    calls: list[str] = []
    with armed("merge.merged", lambda: calls.append("each")), armed("merge.merged", lambda: calls.append("second"), nth=2):
        reach("merge.merged")
        thread = threading.Thread(target=reach, args=("merge.merged",))
        thread.start()
        thread.join()
        reach("merge.commit")
        reach("merge.merged")
    reach("merge.merged")
    assert calls == ["each", "each", "second", "each"]


def test_a_point_that_is_not_known_cannot_be_armed() -> None:
    with pytest.raises(LookupError, match=r"there is no point 'merge\.merge_all'; the points are listed in auditor\.points"):
        armed("merge.merge_all", lambda: None).__enter__()
    with pytest.raises(LookupError, match="no protocol 'merges' has points"):
        followed("merges", print).__enter__()


def test_a_point_that_is_armed_and_not_reached_is_an_error() -> None:
    with pytest.raises(AssertionError, match=r"the point patch\.commit was armed, and not reached$"):
        with armed("patch.commit", lambda: None):
            reach("patch.committed")
    with pytest.raises(AssertionError, match=r"armed, and reached 1 of 2 times; the block ended with ValueError\('other'\)"):
        with armed("patch.commit", lambda: None, nth=2):
            reach("patch.commit")
            raise ValueError("other")


def test_the_error_of_an_action_ends_what_reached_the_point() -> None:
    def fail() -> None:
        raise ValueError("for the test")

    with pytest.raises(ValueError, match="for the test"), armed("tracker.noted", fail):
        reach("tracker.noted")
        raise AssertionError("not reached")


def test_a_protocol_is_followed_by_the_names_of_its_points() -> None:
    names: list[str] = []
    with followed("bootstrap", names.append):
        reach("bootstrap.range")
        reach("patch.begun")
        reach("bootstrap.loaded")
    assert names == ["range", "loaded"]
    with followed("bootstrap", names.append):
        pass
