"""Into which files the parts of a table go that one COPY loads."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from auditor.pipeline.merge import load_files
from auditor.pipeline.merge.load_files import EXPANSION, LEAST_FILE, MOST_FILE, count_files, pack, part_files

MIB = 1 << 20


def tasks(*sizes: int) -> list[Any]:
    return [SimpleNamespace(part=SimpleNamespace(bytes=size, rows=size)) for size in sizes]


@pytest.mark.parametrize(
    ("size", "slices", "files"),
    [
        (0, 4, 1),
        (MIB, 4, 1),
        (3 * MIB + 5, 4, 3),
        (4 * MIB, 4, 4),
        (200 * MIB, 4, 4),
        (257 * MIB, 4, 8),
        (1 << 30, 16, 16),
        (10 << 30, 16, 160),
        (5 * MIB, 1, 1),
    ],
)
def test_files_are_a_multiple_of_the_slices_once_each_has_a_mebibyte(size: int, slices: int, files: int) -> None:
    assert count_files(size, slices, LEAST_FILE) == files


@given(st.lists(st.integers(0, 40 * MIB), min_size=1, max_size=60), st.integers(1, 40))
@example([5, 0], 1)
def test_each_part_is_in_one_file_or_is_cut_into_several(sizes: list[int], slices: int) -> None:
    found = part_files(tasks(*sizes), "folder", slices)
    assert sorted(task.part.bytes for files in found for task in files.loads) == sorted(sizes)
    names = [name for files in found for name in files.names]
    total, count = sum(sizes) * EXPANSION, len(names)
    assert len(set(names)) == count == count_files(max(EXPANSION, total), slices, LEAST_FILE)
    assert count % slices == 0 or total < slices * LEAST_FILE
    assert all(len(files.names) == 1 or len(files.loads) == 1 for files in found), "only a part by itself is cut"
    largest = max(sum(task.part.bytes for task in files.loads) / len(files.names) for files in found) * EXPANSION
    assert largest <= 2 * max(total / count, 1) and total / count <= MOST_FILE


@given(st.lists(st.integers(0, 100)), st.integers(1, 9))
def test_packing_loses_nothing(sizes: list[int], count: int) -> None:
    packed = pack(sizes, count, int)
    assert sorted(size for some in packed for size in some) == sorted(sizes)
    assert len(packed) <= count


@given(st.lists(st.integers(0, 7), max_size=9), st.integers(1, 9), st.integers(1, 6))
def test_rows_are_taken_once_and_in_order(lengths: list[int], share: int, takes: int) -> None:
    starts = [sum(lengths[:number]) for number in range(len(lengths))]
    rows = load_files._Rows(pa.table({"n": range(start, start + length)}) for start, length in zip(starts, lengths, strict=True))
    taken = [[n for one in rows.take(share) for n in one["n"].to_pylist()] for _ in range(takes)]
    assert all(len(some) <= share for some in taken)
    taken.append([n for one in rows.take(None) for n in one["n"].to_pylist()])
    assert [n for some in taken for n in some] == list(range(sum(lengths))) and not rows.are_left()
