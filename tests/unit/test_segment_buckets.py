"""Digests of events by bucket: they do not depend on the order of events or on how these are cut, add up, and name what differs."""

from __future__ import annotations

import hashlib
import random
from functools import reduce
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditor.errors import SegmentFailed
from auditor.pipeline.segments.buckets import Bucketed, find_buckets, sums_of
from auditor.pipeline.segments.event_text import TEXTS, choose_versions
from auditor.summary.bucket_sums import BUCKETS, BucketSums, SegmentSums, bucket_of, find_unequal
from tests.pipeline_events import absent, batch, delete, event, insert, table, update

ORDERS = table(id="bigint", tenant_id="varchar(40) null")

values = st.sampled_from([None, "", "|2", "|", "7", "07", "é", "ada", "bob"])
kinds = st.sampled_from(["insert", "update", "delete", "absent"])
drawn = st.lists(st.tuples(kinds, values, values), max_size=40)
Drawn = list[tuple[str, str | None, str | None]]


def events_of(found: Drawn) -> list[dict[str, object]]:
    made: list[dict[str, object]] = []
    for number, (kind, old, new) in enumerate(found, 1):
        before, after = [str(number), old], [str(number), new]
        match kind:
            case "insert":
                made += insert(ORDERS, number, after)
            case "update":
                made += update(ORDERS, number, (before, after))
            case "delete":
                made += delete(ORDERS, number, before)
            case _:
                made += absent(ORDERS, number, [str(number), None])
    return made


def images_of(kind: str, old: str | None, new: str | None) -> set[str | None]:
    """The values of an event's rows."""
    return {"insert": {new}, "update": {old, new}, "delete": {old}}.get(kind, {None})


def sums(events: list[dict[str, object]], start: int = 0, end: int | None = None) -> BucketSums:
    found = batch(events)[start:end]
    return sums_of(TEXTS[1](found), *find_buckets(found, Bucketed("item", 1)))


def stored(events: list[dict[str, object]], by: str = "tenant_id", version: int = 1) -> bytes:
    return SegmentSums(by, {version: sums(events)}).encode()


def reference(found: Drawn) -> list[tuple[int, int, int]]:
    """The sums by Python's integers, one event after the other."""
    total = [(0, 0, 0)] * BUCKETS
    events = events_of(found)
    texts = TEXTS[1](batch(events)).to_pylist() if events else []
    for (kind, old, new), text in zip(found, texts, strict=True):
        digest = hashlib.sha256(text).digest()
        words = [int.from_bytes(digest[at : at + 8], "big") for at in (0, 8)]
        for bucket in {bucket_of(value) for value in images_of(kind, old, new)}:
            count, *before = total[bucket]
            total[bucket] = (count + 1, (before[0] + words[0]) % 2**64, (before[1] + words[1]) % 2**64)
    return total


@given(drawn)
def test_sums_are_those_of_the_definition(found: Drawn) -> None:
    got = sums(events_of(found))
    assert [(int(count), *map(int, words)) for count, words in zip(got.events, got.words, strict=True)] == reference(found)


@given(drawn, st.randoms(use_true_random=False), st.lists(st.integers(0, 40), max_size=5))
def test_neither_order_nor_cuts_matter(found: Drawn, chance: random.Random, cuts: list[int]) -> None:
    events = events_of(found)
    whole = sums(events)
    places = [0, *sorted(cuts), len(events)]
    pieces = [sums(events, start, end) for start, end in pairwise(places)]
    chance.shuffle(events)
    shuffled = sums(events)
    assert whole.find_unequal(shuffled) == whole.find_unequal(reduce(BucketSums.__add__, pieces)) == ()
    chance.shuffle(pieces)
    assert find_unequal([stored(events)], [SegmentSums("tenant_id", {1: piece}).encode() for piece in pieces]) == ("tenant_id", ())


@given(drawn.filter(bool), st.data())
def test_a_lost_event_makes_its_own_buckets_unequal_and_no_others(found: Drawn, data: st.DataObject) -> None:
    lost = data.draw(st.integers(0, len(found) - 1))
    kind, old, new = found[lost]
    events = events_of(found)
    expected = tuple(sorted({bucket_of(value) for value in images_of(kind, old, new)}))
    assert find_unequal([stored(events)], [stored([*events[:lost], *events[lost + 1 :]])]) == ("tenant_id", expected)


@given(drawn)
def test_what_is_stored_is_read_again_and_has_only_buckets_with_events(found: Drawn) -> None:
    events = events_of(found)
    written = stored(events)
    read = SegmentSums.decode(written)
    assert read and read.by == "tenant_id" and read.sums[1].find_unequal(sums(events)) == ()
    assert len(written) == 3 + len("tenant_id") + 4 + 25 * int(np.count_nonzero(sums(events).events)) <= 6500


def test_null_is_a_value_of_its_own_and_all_buckets_are_used() -> None:
    assert len({bucket_of(value) for value in (None, "", "NULL", "|2", "|02")}) == 5
    assert bucket_of("7") == hashlib.sha256(b"7").digest()[0], "the same for every writer"
    assert {bucket_of(str(number)) for number in range(3000)} == set(range(BUCKETS))


def test_an_event_without_any_value_counts_as_null() -> None:
    bounds = [event(ORDERS, "bounds", 1, 0, [], []), event(ORDERS, "bounds", 2, 0, None, None)]
    got = sums(bounds)
    assert (got.events[bucket_of(None)], got.events.sum()) == (2, 2)


def test_what_cannot_be_compared_is_not_called_equal() -> None:
    events = insert(ORDERS, 1, ["1", "ada"])
    known = stored(events)
    for other in (b"", stored(events, by="region"), stored(events, version=2), SegmentSums("tenant_id", {}).encode()):
        assert find_unequal([known], [other]) is None
    both = SegmentSums("tenant_id", {1: sums(events), 2: sums([])}).encode()
    assert find_unequal([known], [both]) == ("tenant_id", ())
    assert find_unequal([known], []) == ("tenant_id", (bucket_of("ada"),)) and find_unequal([b""], []) is None
    for damaged in (known[:-1], known[:2], known + b"\0", b"\7" + known[1:]):
        with pytest.raises(SegmentFailed, match="the digests by bucket of a segment"):
            SegmentSums.decode(damaged)


def test_versions_are_chosen_by_what_the_other_writers_make(monkeypatch: pytest.MonkeyPatch) -> None:
    assert choose_versions([]) == choose_versions([None]) == choose_versions([[1]]) == (1,)
    monkeypatch.setitem(TEXTS, 2, TEXTS[1])
    assert choose_versions([]) == choose_versions([[1, 2]]) == choose_versions([[2, 3]]) == (2,)
    assert choose_versions([None]) == choose_versions([[1]]) == choose_versions([[1, 2], [1]]) == (2, 1)
    monkeypatch.setitem(TEXTS, 3, TEXTS[1])
    assert choose_versions([None]) == choose_versions([[1, 2]]) == (3, 2) and choose_versions([[1]]) == (3, 1)
    assert choose_versions([[9]]) == (3,), "they have none in common, which the comparison says"
