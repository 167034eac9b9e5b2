"""Small files of batches are joined at ticks of the stream: as many files for any number of tables, and the same after a replay."""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from auditor.config import Pipeline
from auditor.errors import PartDamaged, StagingFull
from auditor.model import Part
from auditor.pipeline import joining, part_writer
from auditor.pipeline.folders import Folder, LocalFolder
from auditor.pipeline.joining import Joining
from auditor.pipeline.part_deletion import PartDeleter, make_room
from auditor.pipeline.part_writer import copy_parts, write_parts
from auditor.pipeline.staged_parts import read_part, sweep
from auditor.store import Store, open_store, parts, pipelines
from tests.durations import SetDurations
from tests.pipeline_events import T0, announce, batch, insert, table


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with closing(open_store(f"sqlite:///{tmp_path}/auditor.db")) as opened:
        yield opened


def stage(store: Store, root: Path | Folder, tables: int, seconds: Sequence[float], name: str = "p") -> None:
    """Stage a batch at each of these seconds, as one task does, with a row of each table in one transaction."""
    folder = LocalFolder(root) if isinstance(root, Path) else root
    for second in seconds:
        position = 10 * round(1000 * second) + 10
        batches = []
        for number in range(tables):
            schema = table(f"t{number}", id="bigint", item="varchar(64) null")
            text = hashlib.sha256(f"{second} {number}".encode()).hexdigest()
            events = insert(schema, position, [str(position), text])
            batches.append(batch(announce(schema, position), [{**one, "time": T0 + dt.timedelta(seconds=second)} for one in events]))
        listed = [one.part for one in write_parts(folder, batches) if one.part.rows]
        parts.record_batch(store, name, listed, {}, None)


def every(step: float, begin: float, end: float) -> list[float]:
    return [begin + step * number for number in range(round((end - begin) / step))]


def all_parts(store: Store, name: str = "p") -> list[Part]:
    return parts.list_parts_behind(store, name, 0, 1_000_000)


def rows(store: Store, root: Folder) -> list[Any]:
    """All events, read by the manifest."""
    return [(part.table, row) for part in all_parts(store) for some in read_part(root, part, 0) for row in some["after"].to_pylist()]


def names(root: Path) -> set[str]:
    return {f"batches/{path.name}" for path in root.glob("batches/*")}


def pipeline_of(root: Path, **staging: Any) -> Pipeline:
    return Pipeline.model_validate(
        {
            "source": {"connection": "source", "tables": ["*"]},
            "staging": {"path": str(root), **staging},
            "targets": {"t": {"connection": "t", "schema": "s"}},
        }
    )


def merged(store: Store, position: int, *tables: int) -> None:
    news = {f"shop.t{number}": pipelines.MergeNews(position, "merged") for number in tables}
    pipelines.report_merges(store, "p", "t", news)


@pytest.mark.quick_for("3")
@pytest.mark.parametrize("tables", [3, 60])
def test_a_minute_is_one_file_whatever_the_number_of_tables(store: Store, tmp_path: Path, set_durations: SetDurations, tables: int) -> None:
    set_durations(part_reader=0.0)
    root = tmp_path / "staging"
    joiner = Joining(store, "p", LocalFolder(root))
    for minute in range(4):
        stage(store, root, tables, every(10, 60 * minute, 60 * (minute + 1)))
        joiner.join()
    joiner.join()
    assert len(names(root)) == 3 + 6, "a file for each minute that is over, and those of the last one"
    assert names(root) == parts.list_paths(store, "p") and len(all_parts(store)) == 24 * tables
    before = names(root)
    assert joiner.join() == 0 and names(root) == before, "nothing is copied twice"


def test_parts_are_the_same_in_joined_files(store: Store, tmp_path: Path, set_durations: SetDurations) -> None:
    """They are read before, meanwhile, by who listed them before, and afterwards."""
    root = LocalFolder(tmp_path / "staging")
    stage(store, root, 3, every(10, 0, 130))
    before, listed = rows(store, root), all_parts(store)
    joiner = Joining(store, "p", root)
    assert joiner.join() == 12
    assert [row for part in listed for some in read_part(root, part, 0) for row in some["after"].to_pylist()] == [row for _, row in before]
    assert rows(store, root) == before
    kept = ("table", "first", "last", "rows", "bytes", "schema_id", "time", "checksum")
    assert [[getattr(one, name) for name in kept] for one in all_parts(store)] == [[getattr(one, name) for name in kept] for one in listed]
    joiner.emptied.delete()
    assert len(names(root.path)) == 12 + 2 + 1, "who reads in the old files may end"
    set_durations(part_reader=0.0)
    joiner.emptied.delete()
    assert len(names(root.path)) == 2 + 1 and rows(store, root) == before


def test_a_replay_joins_the_same(store: Store, tmp_path: Path) -> None:
    """Whenever it is looked, and whatever a page of the manifest holds."""
    found = []
    for number, turns in enumerate((1, 7)):
        name, root = f"p{number}", LocalFolder(tmp_path / str(number))
        seconds = every(7, 0, 400)
        joiner = Joining(store, name, root)
        for turn in range(turns):
            stage(store, root, 4, seconds[turn::turns] if turns == 1 else seconds[turn * 9 : (turn + 1) * 9], name)
            joiner.join()
        found.append([(part.path, part.blocks) for part in all_parts(store, name)])
    assert found[0] == found[1] and len({path for path, _ in found[0]}) < 20


def test_a_page_of_the_manifest_that_ends_within_a_minute(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joining, "PARTS_AT_ONCE", 10)
    root = LocalFolder(tmp_path / "staging")
    stage(store, root, 4, every(10, 0, 190))
    before = rows(store, root)
    Joining(store, "p", root).join()
    assert rows(store, root) == before and len(parts.list_paths(store, "p")) < 14
    stage(store, root, 12, [200, 210])
    Joining(store, "p", root).join()


def test_a_file_has_a_bound_and_large_ones_stay(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = LocalFolder(tmp_path / "staging")
    stage(store, root, 3, every(1, 0, 61))
    size = max(part.bytes for part in all_parts(store)) * 3
    monkeypatch.setattr(joining, "FILE_BYTES", 10 * size + 100)
    assert Joining(store, "p", root).join() == 60
    assert len(parts.list_paths(store, "p")) == 6 + 1
    monkeypatch.setattr(joining, "SMALL_BYTES", size // 2)
    stage(store, root, 3, every(1, 70, 130))
    assert Joining(store, "p", root).join() == 0


class Killed(BaseException):
    """Ends a pass as a kill does."""


@pytest.mark.parametrize("step", ["copy", "finish", "list", "listed", "delete"])
def test_what_is_killed_leaves_files_that_are_swept(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, set_durations: SetDurations, step: str
) -> None:
    set_durations(part_reader=0.0)
    root = LocalFolder(tmp_path / "staging")
    stage(store, root, 3, every(10, 0, 190))
    before = rows(store, root)

    def killed(*_: Any) -> Any:
        raise Killed

    def listed(*given: Any) -> None:
        plain(*given)
        raise Killed

    plain = parts.replace_files
    with monkeypatch.context() as patch:
        if step == "copy":
            found = iter(range(5))
            write = part_writer.EventFile.write
            patch.setattr(part_writer.EventFile, "write", lambda *given: killed() if next(found, None) is None else write(*given))
        elif step == "finish":
            patch.setattr(part_writer.EventFile, "finish", killed)
        elif step == "delete":
            patch.setattr(LocalFolder, "delete", killed)
        else:
            patch.setattr(joining, "LISTED_AT_ONCE", 2)  # some parts are listed in the new file, and others are not
            patch.setattr(parts, "replace_files", killed if step == "list" else listed)
        with pytest.raises(Killed):
            joiner = Joining(store, "p", root)
            joiner.join()
            joiner.join()
    assert rows(store, root) == before
    sweep(root, parts.list_paths(store, "p"))
    assert names(root.path) == parts.list_paths(store, "p") and rows(store, root) == before
    joiner = Joining(store, "p", root)
    joiner.join()
    joiner.join()
    assert len(names(root.path)) == 3 + 1 and rows(store, root) == before


def test_damaged_parts_stay_where_they_are(
    store: Store, tmp_path: Path, caplog: pytest.LogCaptureFixture, set_durations: SetDurations
) -> None:
    """One is edited, one file is missing, and one is truncated; they are joined by no later pass, and can be staged again."""
    set_durations(part_reader=0.0)
    root = LocalFolder(tmp_path / "staging")
    stage(store, root, 3, every(10, 0, 70))
    paths = sorted(names(root.path))
    edited, missing, truncated = (root.path / path for path in paths[:3])
    [hit] = [part for part in all_parts(store) if part.path == paths[0] and part.table == "shop.t1"]
    content = bytearray(edited.read_bytes())
    content[hit.blocks[0][0] + hit.blocks[0][1] - 20] ^= 1
    edited.write_bytes(content)
    missing.unlink()
    truncated.write_bytes(truncated.read_bytes()[: -hit.blocks[0][1]])
    joiner = Joining(store, "p", root)
    assert joiner.join() == 3
    assert f"5 parts in {', '.join(paths[:3])} are damaged or missing, and stay until they are restaged" in caplog.text
    joiner.join()
    left = [(part.table, part.path) for part in all_parts(store) if part.path in paths[:3]]
    assert sorted(left) == sorted([("shop.t1", paths[0]), *((f"shop.t{n}", paths[1]) for n in range(3)), ("shop.t2", paths[2])])
    assert edited.exists() and truncated.exists()
    with pytest.raises(PartDamaged):
        list(read_part(root, hit, 0))


def test_a_part_that_was_moved_meanwhile_is_not_moved_back(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = LocalFolder(tmp_path / "staging")
    stage(store, root, 2, every(10, 0, 70))
    plain, chosen = parts.replace_files, all_parts(store)[0]

    def replace_files(*given: Any) -> None:
        plain(store, "p", copy_parts(root, [chosen], "restaged", root))
        plain(*given)

    monkeypatch.setattr(parts, "replace_files", replace_files)
    Joining(store, "p", root).join()
    assert [part.table for part in all_parts(store) if part.path == "batches/restaged.1.arrows"] == [chosen.table]


def test_parts_that_are_deleted_meanwhile_leave_no_file(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, set_durations: SetDurations
) -> None:
    set_durations(part_reader=0.0)
    root = LocalFolder(tmp_path / "staging")
    stage(store, root, 2, every(10, 0, 70))
    plain = parts.replace_files

    def replace_files(*given: Any) -> None:
        merged(store, 10_000_000, 0, 1)
        PartDeleter(store, "p", root).prune(pipeline_of(root.path), 0)
        plain(*given)

    joiner = Joining(store, "p", root)
    with monkeypatch.context() as patch:
        patch.setattr(parts, "replace_files", replace_files)
        joiner.join()
    joiner.join()
    assert not all_parts(store) and not names(root.path)


def test_expired_parts_of_joined_files(store: Store, tmp_path: Path, set_durations: SetDurations) -> None:
    """What one table still needs of many joined files is copied into one; what is young only, stays until it expires."""
    set_durations(part_reader=0.0)
    root = LocalFolder(tmp_path / "staging")
    pipeline = pipeline_of(root.path)
    stage(store, root, 10, every(10, 0, 190))
    joiner, deleter = Joining(store, "p", root), PartDeleter(store, "p", root)
    joiner.join()
    joiner.join()
    assert len(names(root.path)) == 4
    merged(store, 10_000_000, *range(9))
    assert deleter.prune(pipeline, 0) == 9 * 19
    [kept] = parts.list_paths(store, "p")
    deleter.prune(pipeline, 0)
    assert names(root.path) == {kept} and len(rows(store, root)) == 19
    tables = parts.list_tables(store, "p")
    assert {tables[f"shop.t{n}"].pruned_through for n in range(9)} == {1_800_010} and tables["shop.t9"].pruned_through == 0
    merged(store, 10_000_000, 9)
    assert deleter.prune(pipeline, 0) == 19 and not names(root.path)


def test_what_expires_soon_is_not_copied(store: Store, tmp_path: Path) -> None:
    root = LocalFolder(tmp_path / "staging")
    stage(store, root, 2, every(10, 0, 130))
    Joining(store, "p", root).join()
    before = parts.list_paths(store, "p")
    size = parts.totals(all_parts(store))[1]
    merged(store, 10_000_000, 0, 1)
    assert make_room(store, "p", pipeline_of(root.path, budget=round(size * 0.7)), root) == 8, "of the first six batches, all but some"
    assert parts.list_paths(store, "p") == before


def test_a_full_disk_loses_nothing(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = LocalFolder(tmp_path / "staging")
    stage(store, root, 2, every(10, 0, 70))
    before = rows(store, root), names(root.path)

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(part_writer.EventFile, "_write", full)
    with pytest.raises(StagingFull, match="free some space there"):
        Joining(store, "p", root).join()
    assert (rows(store, root), names(root.path)) == before
