"""What a verdict says where a side is a topic: its faults, and what was removed from it."""

from __future__ import annotations

import pytest

from auditor.model import Differences, Side, TopicFault, TopicPartition, TopicSide, Verdict
from auditor.run.topics import judge, notes_of_topics

FAULT = TopicFault(kind="doubled", count=1, sentence="1 message is there twice")
PARTITIONS = (TopicPartition(partition=0, begin=3, end=9, messages=5),)


def topic(*faults: TopicFault, removed: str = "", notes: tuple[str, ...] = ()) -> TopicSide:
    return TopicSide(label="kafka: t", id="x", partitions=PARTITIONS, messages=5, rows=4, faults=faults, removed=removed, notes=notes)


def differences(missing: int = 0, extra: int = 0, changed: int = 0) -> Differences:
    return Differences(missing=missing, extra=extra, changed=changed, exact=True, named=(), ranges=(), partitions={})


def test_a_fault_makes_a_match_a_mismatch_and_leaves_what_is_unknown() -> None:
    topics: dict[Side, TopicSide] = {"target": topic(FAULT)}
    found = judge(Verdict.MATCH, ("no difference",), differences(), topics)
    assert found == (Verdict.MISMATCH, ("target: 1 message is there twice", "rows: no difference"))
    assert judge(Verdict.UNKNOWN, ("why",), None, topics) == (Verdict.UNKNOWN, ("target: 1 message is there twice", "why"))
    assert judge(Verdict.MATCH, ("no difference",), differences(), {"target": topic()}) == (Verdict.MATCH, ("no difference",))


@pytest.mark.parametrize(
    ("side", "found", "verdict"),
    [
        ("target", differences(missing=2), Verdict.UNKNOWN),
        ("target", differences(missing=2, changed=1), Verdict.MISMATCH),
        ("target", differences(extra=2), Verdict.MISMATCH),
        ("source", differences(extra=2), Verdict.UNKNOWN),
        ("source", differences(missing=2), Verdict.MISMATCH),
        ("target", None, Verdict.UNKNOWN),
    ],
)
def test_rows_that_a_topic_lacks_are_not_proved_where_its_beginning_was_removed(
    side: Side, found: Differences | None, verdict: Verdict
) -> None:
    judged, reasons = judge(Verdict.MISMATCH, ("rows differ",), found, {side: topic(removed="messages were removed")})
    assert judged is verdict
    assert ("nothing is proved of them" in reasons[0]) == (verdict is Verdict.UNKNOWN)
    faulty = judge(Verdict.MISMATCH, ("rows differ",), found, {side: topic(FAULT, removed="messages were removed")})
    assert faulty[0] is Verdict.MISMATCH, "a fault is proved by what is there"


def test_what_is_no_fault_is_a_note() -> None:
    assert notes_of_topics({"source": topic(removed="removed", notes=("not checked",))}) == ("source: removed", "source: not checked")
