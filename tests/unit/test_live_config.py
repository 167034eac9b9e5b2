"""Which audits may have live summaries, and what is said of others; sums that cannot be of rows are never read."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from auditor import config
from auditor.compare.comparator import Aligned
from auditor.errors import ConfigError, LiveSummariesWrong
from auditor.run.live import running_sums
from auditor.run.live.comparison import compare_scan
from auditor.run.live.running_sums import Link
from auditor.summary.arrays import Summaries

GOOD = """\
connections:
  shop: {url: "mysql://reader:r@db/shop"}
  warehouse: {url: "postgresql://reader:r@wh/dwh", write: {url: "postgresql://loader:l@wh/dwh"}}
  lake: {url: "delta:///lake", write: {url: "delta:///lake"}}
audits:
  orders:
    source: {connection: shop, table: orders}
    target: {connection: warehouse, table: live.orders}
    summaries: live
    rescan: 7d
pipelines:
  shop:
    source: {connection: shop, tables: [orders]}
    staging: {path: /var/lib/auditor/shop}
    targets:
      warehouse: {connection: warehouse, schema: live}
      lake: {connection: lake, schema: live}
"""


def load(folder: Path, old: str = "", new: str = "") -> config.Settings:
    assert old in GOOD
    (folder / "auditor.yaml").write_text(GOOD.replace(old, new, 1))
    return config.load(folder / "auditor.yaml", {})


def test_live_summaries_are_aligned(tmp_path: Path) -> None:
    audit = load(tmp_path).audits["orders"]
    assert (audit.summaries, audit.align, audit.rescan) == ("live", "pipeline", 7 * 86400)


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ("method: minhash", "needs sums, which the method minhash does not only use; use exact or signature"),
        ("method: counts", "needs sums, which the method counts does not only use"),
        ("method: auto", "needs sums, which the method auto does not only use"),
        ("k: 16", "summaries: live and k cannot be combined; remove one of them"),
        ("rolling: {per_run: 5%}", "summaries: live and rolling cannot be combined"),
        ("ladder: [counts, exact]", "summaries: live and ladder cannot be combined"),
        ("encoding: published", "summaries: live and encoding: published cannot be combined"),
        ("snapshot: per_chunk", "summaries: live and snapshot: per_chunk cannot be combined"),
        ("partition: {strategy: time, column: at}", "summaries: live and partition: strategy: time cannot be combined"),
        ("settle: {column: at, lag: 5m}", "summaries: live and settle cannot be combined"),
        ("where: {source: 'a = 1', target: 'a = 1'}", "needs a filter that the stream can evaluate"),
        ("columns: {override: {a: {expr: 'UPPER(a)', kind: text}}}", "cannot compute a, which has expr"),
    ],
)
def test_what_sums_cannot_serve_is_refused_by_its_name(more: str, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=sentence.replace("(", r"\(")):
        load(tmp_path, "rescan: 7d", more)


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("summaries: live\n    rescan: 7d", "ledger: true", "ledger belongs to summaries: live; add it, or remove ledger"),
        (
            "summaries: live\n    rescan",
            "rescan",
            "rescan belongs to summaries: live and to files: kept; add one of them, or remove rescan",
        ),
        (
            "table: orders}",
            "table: visits}",
            "carries visits of shop into live.orders; add it to one, or remove summaries: live",
        ),
        (
            "target: {connection: warehouse, table",
            "target: {connection: lake, version: 3, table",
            "and the target is an older one; remove version, or summaries: live",
        ),
        (
            "summaries: live\n    rescan: 7d",
            "summaries: live\n    history: {pipeline: shop}\n    files: kept",
            "files: kept and history cannot be combined; remove one of them",
        ),
        (
            "    staging:",
            "    columns: {orders: {where: \"size = 's'\"}}\n    staging:",
            "carries only rows of orders where size = 's', so its stream cannot keep the summaries of other rows",
        ),
    ],
)
def test_what_the_stream_does_not_tell_is_refused(old: str, new: str, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        load(tmp_path, old, new)
    assert sentence in str(refused.value)


def sums(rows: int, word: int) -> Summaries:
    return running_sums.of(np.array([3]), np.array([rows]), np.array([[word, 1]]), np.array([[word]]))


def test_sums_that_no_rows_have_are_refused() -> None:
    base, about = sums(1, 5), {"epoch": "e", "layout": "range 4", "begin": 10, "place": 20}
    gone, worse, rest = (running_sums.pack(running_sums.minus(one)) for one in (sums(1, 5), sums(2, 5), sums(1, 4)))
    assert len(running_sums.apply(base, [Link("e", "range 4", 10, 20, "", gone)], **about)) == 0  # type: ignore[arg-type]
    words = running_sums.pack(running_sums.minus(running_sums.of(np.array([3]), np.array([1]), np.array([[4, 1]]), np.array([[5]]))))
    powers = running_sums.pack(running_sums.minus(running_sums.of(np.array([3]), np.array([1]), np.array([[5, 1]]), np.array([[4]]))))
    for body in (worse, rest, words, powers):
        with pytest.raises(LiveSummariesWrong, match="sums that no rows have"):
            running_sums.apply(base, [Link("e", "range 4", 10, 20, "", body)], **about)  # type: ignore[arg-type]
    for body in ("?", "AAAA", running_sums.pack(running_sums.of(np.array([3]), np.array([1]), np.array([[1]]), np.array([[1]])))):
        with pytest.raises(LiveSummariesWrong):
            running_sums.apply(base, [Link("e", "range 4", 10, 20, "", body)], **about)  # type: ignore[arg-type]


def test_a_scan_with_rows_that_have_no_text_begins_no_sums() -> None:
    numbers = np.array([1])
    found = replace(running_sums.of(numbers, 2 * numbers, np.ones((1, 2), np.int64), np.zeros((1, 0), np.int64)), hashed=numbers)
    ended: list[LiveSummariesWrong] = []
    live_summaries: Any = SimpleNamespace(note="", give_up=ended.append)
    nothing: Any = None
    compare_scan(nothing, nothing, nothing, live_summaries, cast(Aligned, SimpleNamespace(sides={"source": found})))
    assert len(ended) == 1 and live_summaries.note == str(ended[0]) and "max_allowed_packet" in live_summaries.note
