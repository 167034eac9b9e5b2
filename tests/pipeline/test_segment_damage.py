"""Damaged files and manifests of segments: the audit reports what is wrong with them, and they are repaired from the other side."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from auditor.model import Verdict
from auditor.service import segment_files
from auditor.store import Store, open_store, segments
from tests.pipeline.two_writers import SIDES, first_file, run, settings_in, stage_all, transactions, verify


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with closing(open_store(f"sqlite:///{tmp_path}/auditor.db")) as opened:
        yield opened


def _rot(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(data)


def _truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-40])


def _edit(path: Path) -> None:
    """Change a value of the second event, as an editor or a notebook would."""
    if path.suffix == ".csv":
        path.write_text(path.read_text().replace("item 5", "item !", 1))
    else:
        read = pq.read_table(path).to_pylist()
        read[1]["after"][1] = "item !"
        pq.write_table(pa.Table.from_pylist(read, schema=pq.read_schema(path)), path)


def _move(path: Path) -> None:
    """Change what no digest holds: a position."""
    if path.suffix == ".csv":
        path.write_text(path.read_text().replace('"80",', '"81",'))
    else:
        read = pq.read_table(path).to_pylist()
        read[-1]["position"] += 1
        pq.write_table(pa.Table.from_pylist(read, schema=pq.read_schema(path)), path)


DAMAGE_TO_FILES: dict[Callable[[Path], None], str] = {
    _rot: "",
    _truncate: "",
    _edit: "does not hold the events that were hashed: it has 4 of 4",
    _move: "has other positions than the manifest says",
    Path.unlink: "is missing; check that",
}


@pytest.mark.parametrize("name", ["eu", pytest.param("shop", marks=pytest.mark.slow)])  # CSV, and Parquet
def test_damaged_files_are_found_and_mended(store: Store, tmp_path: Path, name: str) -> None:
    settings = settings_in(tmp_path, parquet=True)
    for one in SIDES:
        stage_all(settings, store, one, transactions(14))
    damaged = [first_file(settings, store, name, number)[0] for number in range(len(DAMAGE_TO_FILES))]
    for path, damage in zip(damaged, DAMAGE_TO_FILES, strict=True):
        damage(path)
    assert run(settings, store).verdict is Verdict.MATCH, "what was registered is equal"
    found = verify(settings, store)
    for (problem, _), path, sentence in zip(found.problems, damaged, DAMAGE_TO_FILES.values(), strict=True):
        assert problem.side == name and str(path) in problem.sentence and sentence in problem.sentence
    assert any("event 2, at 000000:50 row 1, 0-1-50: column item, after: 'item" in text for _, text in found.problems)
    good = next(one for one in SIDES if one != name)
    mended = segment_files.copy(settings, store, "zones", good, None, by="ada")
    assert len(mended) == len(damaged) and all(one.copied and not one.refused for one in mended)
    assert verify(settings, store).problems == () and run(settings, store).verdict is Verdict.MATCH


def test_a_damaged_segment_in_a_file_of_many_is_mended_alone(store: Store, tmp_path: Path) -> None:
    settings = settings_in(tmp_path)
    for one in SIDES:
        stage_all(settings, store, one, transactions(14))
    path, listed = first_file(settings, store, "shop", 2)
    [(offset, size)] = listed.blocks
    content = path.read_bytes()
    edited = content[offset : offset + size].replace(b"item 5", b"item !", 1)
    path.write_bytes(content[:offset] + edited + content[offset + size :])
    [(problem, text)] = verify(settings, store).problems
    assert problem.sentence.startswith(f"the segment of shop.orders in {path} does not hold the events that were hashed: it has 4 of 4")
    assert "column item, after: 'item !' in shop, 'item 5' in eu" in text
    [mended] = segment_files.copy(settings, store, "zones", "eu", None, by="ada")
    assert mended.replaced == () and mended.copied[0].startswith("segments-copied/"), "the other segments of the file are listed"
    assert verify(settings, store).problems == () and run(settings, store).verdict is Verdict.MATCH
    copied, listed = first_file(settings, store, "shop", 2)
    copied.write_bytes(copied.read_bytes()[:-40])
    assert "is missing" not in verify(settings, store).problems[0][0].sentence
    [mended] = segment_files.copy(settings, store, "zones", "eu", None, by="ada")
    assert mended.replaced == (listed.path,) and verify(settings, store).problems == ()


def test_a_manifest_that_was_edited_is_found(store: Store, tmp_path: Path) -> None:
    settings = settings_in(tmp_path)
    for one in SIDES:
        stage_all(settings, store, one, transactions(12))
    _, listed = first_file(settings, store, "eu")
    bounds = ((listed.first, listed.first_row), (listed.last, listed.last_row))
    segments.replace_listed(store, "eu", "shop.orders", bounds, [replace(listed, sha256="0" * 64)], lambda _: None)
    [(problem, _)] = verify(settings, store).problems
    assert "the manifest lists 4 events with the digest 000000000000" in problem.sentence and problem.sentence.endswith("were registered")
    segments.replace_listed(store, "eu", "shop.orders", bounds, [], lambda _: None)
    [(problem, _)] = verify(settings, store).problems
    assert problem.sentence == "it was registered, and the manifest does not list it any more"


def test_both_sides_damaged_are_not_mended(store: Store, tmp_path: Path) -> None:
    settings = settings_in(tmp_path, parquet=True)
    for one in SIDES:
        stage_all(settings, store, one, transactions(12))
        _truncate(first_file(settings, store, one)[0])
    [found] = segment_files.copy(settings, store, "zones", "shop", None, by="ada")
    assert found.refused.startswith("the segment of shop cannot be copied: ") and not found.copied
