"""What a search of another server's log finds of a transaction, and which gaps follow from it."""

from __future__ import annotations

from typing import Any

import pytest

from auditor.errors import FailoverRefused, LogRefused
from auditor.pipeline import failover
from auditor.pipeline.binlog import whole_log
from auditor.pipeline.binlog.log_connection import Source
from auditor.pipeline.binlog.ranges import Mark
from auditor.pipeline.binlog.selection import Selection
from auditor.pipeline.binlog.whole_log import GlobalId, Logged, Search, search_log
from auditor.pipeline.events import Place

A, B = "aaaaaaaa-0000-0000-0000-000000000000", "bbbbbbbb-0000-0000-0000-000000000000"
NEW = Source("mysql://h/shop", "new")


def search(monkeypatch: pytest.MonkeyPatch, wanted: str, own: str, ids: list[str | None], **known: int) -> Search:
    """Search a log of transactions that each have rows of shop.orders."""
    tables = frozenset({("shop", "orders")})
    log = [Logged(one, Place("binlog.000001", 100 * n), tables) for n, one in enumerate(ids, 1)]
    monkeypatch.setattr(whole_log, "logged_transactions", lambda source: iter(log))
    return search_log(NEW, GlobalId.parse(wanted), own, Selection(["orders"], "shop"), known)


@pytest.mark.parametrize(
    ("text", "server", "sequence", "number"),
    [(f"{A}:7", A, A, 7), (f"{A}:nightly:8", A, f"{A}:nightly", 8), ("3-12-9", "12", "3", 9)],
)
def test_global_ids_are_parsed(text: str, server: str, sequence: str, number: int) -> None:
    assert GlobalId.parse(text) == GlobalId(text, server, sequence, number)


IN_ORDER = "connection new: {} are in another order than in the old server's log"
OWN = f"connection new: it wrote {B}:1 itself, before binlog.000001:200, with rows of shop.orders"
DOMAINS = "connection new: the log has several domains (0, 7), which have no common order"
LOST = (
    "connection new: transaction {}, which was read last, at binlog.000009:4, is missing in the log: it never arrived there, or is purged;"
)


@pytest.mark.parametrize(
    ("wanted", "own", "ids", "known", "place", "gaps"),
    [
        (f"{A}:2", B, [f"{A}:1", f"{A}:2", f"{A}:3", f"{B}:1"], {}, 200, []),
        (f"{A}:2", B, [f"{A}:1", f"{A}:3", f"{A}:2"], {}, 300, [IN_ORDER.format(f"{A}:3")]),
        (f"{A}:3", B, [f"{A}:3", f"{A}:2"], {}, 100, [IN_ORDER.format(f"{A}:2")]),
        (f"{A}:2", B, [f"{B}:1", f"{A}:2"], {}, 200, [OWN]),
        (f"{A}:2", B, [f"{B}:1", f"{A}:2"], {B: 1}, 200, []),
        ("0-1-2", "2", ["0-1-1", "0-1-2", "0-2-3"], {}, 200, []),
        ("0-1-2", "2", ["0-1-2", "7-1-1"], {}, 100, [DOMAINS]),
        (f"{A}:2", B, [f"{A}:1"], {}, None, [LOST.format(f"{A}:2") + " all tables may differ"]),
    ],
)
def test_gaps(
    monkeypatch: pytest.MonkeyPatch, wanted: str, own: str, ids: list[str | None], known: dict[str, int], place: int | None, gaps: list[str]
) -> None:
    found = search(monkeypatch, wanted, own, ids, **known)
    assert (found.place and found.place.offset) == place
    assert failover.find_gaps(GlobalId.parse(wanted), found, Mark(Place("binlog.000009", 4)), "new", False) == gaps


def test_a_log_without_global_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(LogRefused, match=r"binlog.000001:200: a transaction has no global id; switch them on"):
        search(monkeypatch, f"{A}:1", B, [f"{A}:1", None])


@pytest.mark.parametrize(
    ("offset", "sentence"),
    [
        (None, "the pipeline has read nothing yet; name the new connection under source: and start it"),
        (
            {"epoch": 0, "file": "b.000001", "position": 4, "gtid": ""},
            "no global id is known of the last transaction before b.000001:4, and no heartbeat; switch",
        ),
        (
            {"epoch": 0, "file": "b.000001", "position": 4, "gtid": "0-1-1", "prepared": {"61.62.1": "b.000001:4:9"}},
            "1 XA transactions were prepared on the old server and not decided before b.000001:4; reset the pipeline",
        ),
    ],
)
def test_offsets_that_lead_nowhere(offset: Any, sentence: str) -> None:
    with pytest.raises(FailoverRefused, match=sentence):
        failover.last_read(offset)
