"""The command ``auditor patch`` as a person uses it, what ``auditor show`` tells afterwards, and how long a patch can be undone."""

from __future__ import annotations

import datetime as dt
import json
import re
from pathlib import Path

import duckdb
import pytest

from auditor.cli import main
from auditor.config import Settings, load
from auditor.errors import QueueFull
from auditor.service import running
from auditor.service.scrub import scrub
from auditor.store import open_store, patches, pruning, runs

CONFIGURATION = """
connections:
  shop: {url: "duckdb:///shop.duckdb"}
  dwh: {url: "duckdb:///dwh.duckdb", write: {url: "duckdb:///dwh.duckdb"}}
audits:
  orders: {source: {connection: shop, table: orders}, target: {connection: dwh, table: orders}}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Path:
    """A configuration whose audit has found a changed, a missing and an extra row."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("AUDITOR_CONFIG", raising=False)
    for name, rows in (("shop", "(1, 'a'), (2, 'b'), (3, 'c')"), ("dwh", "(1, 'a'), (2, 'x'), (4, 'd')")):
        with duckdb.connect(f"{name}.duckdb") as connection:
            connection.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, name VARCHAR)")
            connection.execute(f"INSERT INTO orders VALUES {rows}")
    Path("auditor.yaml").write_text(CONFIGURATION)
    assert main(["run", "orders", "--quiet"]) == 1
    capsys.readouterr()
    return tmp_path


def target() -> list[tuple[int, str]]:
    with duckdb.connect("dwh.duckdb", read_only=True) as connection:
        return connection.execute("SELECT * FROM orders ORDER BY id").fetchall()


def test_a_patch_is_printed_tried_applied_shown_and_undone(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = target()
    assert main(["patch", "orders", "--delete-extra", "--quiet"]) == 0
    assert "-- 3 rows: 1 to insert, 1 to update, 1 to delete." in capsys.readouterr().out
    assert main(["patch", "orders", "--format", "json", "--output", "patch.jsonl", "--quiet"]) == 0
    assert [json.loads(line)["kind"] for line in Path("patch.jsonl").read_text().splitlines()] == ["changed", "missing"]
    assert Path("patch.jsonl").stat().st_mode & 0o777 == 0o600
    assert main(["patch", "orders", "--delete-extra", "--dry-run", "--quiet"]) == 0
    assert capsys.readouterr().out.startswith("dry run: 1 updated, 1 inserted, 1 deleted, and rolled back")
    assert target() == before
    assert main(["patch", "orders", "--delete-extra", "--apply", "--quiet"]) == 0
    told = capsys.readouterr().out
    found = re.match(r"patch ([0-9a-f]{32}): 1 updated, 1 inserted, 1 deleted\nto take it back: auditor patch --undo ", told)
    assert found and "MATCH" in told
    assert target() == [(1, "a"), (2, "b"), (3, "c")]
    show_points_at(found[1], capsys)
    assert main(["patch", "--undo", found[1][:12], "--quiet"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"undo of patch {found[1]}: 3 rows of orders; those that were changed since are left",
        "  id 2: name from b to x", "  id 3: deleted again", "  id 4: inserted again",
        f"to write it: auditor patch --undo {found[1][:12]} --apply",
    ]  # fmt: skip
    assert target() == [(1, "a"), (2, "b"), (3, "c")]
    assert main(["patch", "--undo", found[1][:12], "--apply", "--quiet"]) == 0
    assert capsys.readouterr().out.startswith("undone by patch ")
    assert target() == before


def show_points_at(patch: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The run shows the patch and the run after it, and that one shows the patch."""
    main(["show", "orders"])
    told = " ".join(capsys.readouterr().out.split())
    line = re.search(rf"patch {patch[:12]}, begun on .*, done: 1 updated, 1 inserted, 1 deleted; run (\w{{12}}) checked its rows", told)
    assert line
    main(["show", line[1]])
    assert f"reason check after patch {patch[:12]} of run" in " ".join(capsys.readouterr().out.split())


def test_a_patch_that_cannot_be_undone_says_so(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("auditor.yaml").write_text(CONFIGURATION.replace('"duckdb:///shop.duckdb"}', '"duckdb:///shop.duckdb", mask: [orders.name]}'))
    assert main(["run", "orders", "--quiet"]) == 1
    assert main(["patch", "orders", "--delete-extra", "--apply", "--quiet"]) == 0
    told = capsys.readouterr().out
    assert "it cannot be undone: its journal has not all rows (a masked column without keep: journal_key," in told
    assert "to take it back" not in told


def test_rows_that_nobody_could_audit_again_are_no_success(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise QueueFull("the queue of runs is full")

    before = target()
    monkeypatch.setattr(running, "run_audit", refuse)
    assert main(["patch", "orders", "--delete-extra", "--apply", "--quiet"]) == 3
    told = capsys.readouterr().out
    assert "the patched rows were not audited again: the queue of runs is full; run: auditor run orders" in told
    assert target() == [(1, "a"), (2, "b"), (3, "c")]
    patch = re.match(r"patch ([0-9a-f]{32})", told)
    assert patch and main(["patch", "--undo", patch[1], "--apply", "--quiet"]) == 3
    assert "not audited again: the queue of runs is full; run: auditor run orders" in capsys.readouterr().out
    assert target() == before
    assert main(["bootstrap", "orders", "--apply", "--quiet"]) == 3
    assert "the copied rows were not audited again: the queue of runs is full; run: auditor run orders" in capsys.readouterr().out
    assert target() == [(1, "a"), (2, "b"), (3, "c")]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["patch"], "name either a run or audit to patch from, or with --undo the patch to undo"),
        (["patch", "orders", "--undo", "abc"], "name either a run or audit to patch from, or with --undo the patch to undo"),
        (["patch", "orders", "--apply", "--format", "csv"], "--format and --output print a patch; leave them out with --apply"),
        (["patch", "nothing", "--apply"], "there is no run and no audit that ran called 'nothing'; list the runs with: auditor runs"),
        (["patch", "--undo", "abc", "--dry-run"], "--dry-run executes a patch and rolls it back; leave it out with --undo and --through"),
        (["patch", "orders", "--through", "file", "--apply"], "--through file writes a file for another program to read, and nothing else"),
        (["patch", "--undo", "abc", "--format", "csv"], "--format and --output print a patch; leave them out with --apply"),
        (["patch", "--undo", "abc"], "there is no patch 'abc'; list the patches of a run with: auditor show RUN"),
    ],
)
def test_wrong_orders_are_refused(arguments: list[str], says: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = target()
    assert main([*arguments, "--quiet"]) == 2
    assert says in capsys.readouterr().err
    assert target() == before


@pytest.mark.quick_for("scrubbed")
@pytest.mark.parametrize("how", ["pruned", "scrubbed"])
def test_the_rows_of_a_patch_are_dropped_when_they_are_old_or_masked(how: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["patch", "orders", "--apply", "--quiet"]) == 0
    configured = load(folder / "auditor.yaml")
    store = open_store(f"sqlite:///{folder}/auditor.db")
    (patch,) = (patch for run in runs.list_runs(store) for patch in patches.list_patches(store, run.run))
    assert patch.undoable and all(batch.rows for batch in patches.list_batches(store, patch.patch))
    if how == "pruned":
        now = dt.datetime.now(dt.UTC)
        pruning.prune(store, runs=None, days=None, now=now + dt.timedelta(days=29), journal=configured.keep.journal)
        assert patches.get_patch(store, patch.patch).undoable
        pruning.prune(store, runs=None, days=None, now=now + dt.timedelta(days=31), journal=configured.keep.journal)
    else:
        masked = {"shop": {"url": "duckdb:///shop.duckdb", "mask": ["orders.name"]}, "dwh": {"url": "duckdb:///dwh.duckdb"}}
        audits = {name: audit.model_dump(by_alias=True, exclude_unset=True) for name, audit in configured.audits.items()}
        scrub(Settings.model_validate({"connections": masked, "audits": audits}), store)
    assert not any(batch.rows for batch in patches.list_batches(store, patch.patch))
    store.close()
    capsys.readouterr()
    for more in ([], ["--apply"]):
        assert main(["patch", "--undo", patch.patch, "--quiet", *more]) == 2
        assert "cannot be undone: its journal has not all rows" in capsys.readouterr().err
