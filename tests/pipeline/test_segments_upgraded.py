"""Writers of two releases, of which one hashes another text of events: their segments stay comparable, or it is said that they are not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from auditor.config import Settings
from auditor.model import RegisteredSegment, Verdict
from auditor.pipeline.segments.event_text import TEXTS, first_texts
from auditor.service import segment_audits, segment_files
from auditor.store import Store, open_store, segment_register
from tests.pipeline.test_segments import Events
from tests.pipeline.test_segments_by_value import altered
from tests.pipeline.two_writers import run, settings_in, stage_all, transactions, verify


def second_texts(events: pa.RecordBatch) -> pa.BinaryArray:
    """A text of another length: the database and the table come first."""
    name = pc.binary_join_element_wise(events["database"], events["table"], "|1").cast(pa.binary())
    return pc.binary_join_element_wise(name, first_texts(events), pa.scalar(b"|1"))


@contextmanager
def release(*versions: int) -> Iterator[None]:
    """Be a release that makes these versions of the text."""
    before = dict(TEXTS)
    TEXTS.clear()
    TEXTS.update({version: {1: first_texts, 2: second_texts}[version] for version in versions})
    try:
        yield
    finally:
        TEXTS.clear()
        TEXTS.update(before)


OLD, NEW = (1,), (1, 2)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with closing(open_store(f"sqlite:///{tmp_path}/auditor.db")) as opened:
        yield opened


def write(settings: Settings, store: Store, name: str, versions: Sequence[int], found: Sequence[Events]) -> None:
    """Let a writer of a release stage and cut, as if it had just been started."""
    with release(*versions):
        stage_all(settings, store, name, found)


def entries(store: Store, side: str) -> list[RegisteredSegment]:
    return segment_register.list_entries(store, "zones", "shop.orders", side, with_buckets=True)


def hashed(store: Store, side: str) -> list[tuple[int, ...]]:
    """The versions in which each segment of a side was hashed."""
    return [(one.encoding, *one.older) for one in entries(store, side)]


@pytest.mark.quick_for("eu")
@pytest.mark.parametrize("first", ["shop", "eu"])
def test_segments_are_comparable_through_an_upgrade(store: Store, tmp_path: Path, first: str) -> None:
    """One writer is upgraded, and later the other; each is ahead of the other for a while."""
    settings, found = settings_in(tmp_path, by="item"), transactions(100)
    last = "eu" if first == "shop" else "shop"
    write(settings, store, "shop", OLD, found[:11])
    write(settings, store, "eu", OLD, found[:11])
    write(settings, store, first, NEW, found[11:31])  # ahead, beside a writer of the release before
    write(settings, store, last, OLD, found[11:41])
    write(settings, store, first, NEW, found[31:41])  # behind
    write(settings, store, last, NEW, found[41:61])  # upgraded, and ahead
    write(settings, store, first, NEW, found[41:61])
    write(settings, store, first, NEW, found[61:81])
    write(settings, store, last, NEW, found[61:81])
    assert [one.verdict for side in ("shop", "eu") for one in entries(store, side)] == ["match"] * 2 * 40
    assert hashed(store, first) == [(1,)] * 5 + [(2, 1)] * 15 + [(2,)] * 20
    assert hashed(store, last) == [(1,)] * 20 + [(2,)] * 20, "nothing is hashed twice once both make the newer text"
    with release(*NEW):
        assert run(settings, store).verdict is Verdict.MATCH
        assert (verify(settings, store).problems, verify(settings, store).findings) == ((), ())


def test_the_customer_is_named_across_releases(store: Store, tmp_path: Path) -> None:
    settings = settings_in(tmp_path, by="item")
    write(settings, store, "shop", NEW, transactions(30))
    write(settings, store, "eu", OLD, altered(transactions(30)))
    with release(*NEW):
        report = run(settings, store)
        assert report.reasons[0].endswith("; by item: 'ITEM 5': 1 event differs; 'item 5': 1 event differs")
        [finding] = segment_audits.status(settings, store, "zones").tables[0].findings
        assert finding.buckets and len(finding.buckets) == 2, "by the digests of the text that both hashed"
        [mended] = segment_files.copy(settings, store, "zones", "shop", None, by="ada")
        assert mended.copied and run(settings, store).verdict is Verdict.MATCH
    assert (2, 1) in hashed(store, "eu"), "the copy has the digests of the segment that it is of"


def test_without_a_common_text_it_is_said_so(store: Store, tmp_path: Path) -> None:
    """A writer goes back to the release before, after the other one has ceased to hash for it; so does one of two releases later."""
    settings, found = settings_in(tmp_path, by="item"), transactions(60)
    for name in ("shop", "eu"):
        write(settings, store, name, NEW, found[:11])
    assert set(hashed(store, "eu")) == {(2,)}
    write(settings, store, "shop", NEW, found[11:21])
    write(settings, store, "eu", OLD, found[11:21])
    write(settings, store, "shop", NEW, found[21:41])  # which hashes for it again
    write(settings, store, "eu", OLD, found[21:41])
    with release(*NEW):
        report = run(settings, store)
        assert (report.verdict, report.exit_code) == (Verdict.UNKNOWN, 3)
        assert report.reasons[0] == (
            "shop.orders: 5 segments of both sides were not compared, because no version of the events' text is common to their digests"
            " (shop hashed version 2, eu hashed version 1); compare their events with: auditor segments verify zones; once both writers are"
            " of one release, forget the register with: auditor segments reset zones"
        )
        assert segment_audits.status(settings, store, "zones").tables[0].notes == [report.reasons[0]]
        verdicts = [one.verdict for one in entries(store, "shop")]
        assert verdicts == ["match"] * 5 + ["not comparable"] * 5 + ["match"] * 10
        assert (verify(settings, store).problems, verify(settings, store).findings) == ((), ()), "their events are equal"


def test_events_that_differ_are_found_where_digests_cannot_be_compared(store: Store, tmp_path: Path) -> None:
    settings = settings_in(tmp_path)
    for name in ("shop", "eu"):
        write(settings, store, name, NEW, transactions(4))
    write(settings, store, "shop", NEW, transactions(30)[3:])
    write(settings, store, "eu", OLD, altered(transactions(30))[3:])
    with release(*NEW):
        assert run(settings, store).verdict is Verdict.UNKNOWN
        [(finding, text)] = verify(settings, store).findings
        assert finding.kind == "altered" and "column item, after: 'item 5' in shop, 'ITEM 5' in eu" in text


def test_a_digest_of_a_version_that_is_not_made_any_more_cannot_be_verified(store: Store, tmp_path: Path) -> None:
    settings = settings_in(tmp_path)
    for name in ("shop", "eu"):
        write(settings, store, name, OLD, transactions(12))
    with release(2):
        problems = [problem.sentence for problem, _ in verify(settings, store).problems]
    said = "its digest is of version 1 of the events' text, and this release makes 2; it cannot be verified"
    assert problems == [said] * len(problems) and len(problems) == 10
