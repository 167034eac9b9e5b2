"""Background work: what is waited for after failures."""

from __future__ import annotations

from auditor.background import Backoff


def test_waits_double_up_to_the_longest_and_begin_again_after_a_success() -> None:
    backoff = Backoff(0.5, 3.0)
    assert [backoff.fail() for _ in range(5)] == [0.5, 1.0, 2.0, 3.0, 3.0]
    assert backoff.failures == 5
    backoff.succeed()
    assert backoff.failures == 0 and [backoff.fail(), backoff.fail()] == [0.5, 1.0]
