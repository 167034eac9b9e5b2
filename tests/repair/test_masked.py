"""Masked columns in the journal of a patch: left out, or encrypted with a key, by which the patch is undone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cryptography.fernet import Fernet

from auditor.config import Settings
from auditor.errors import PatchRefused
from auditor.service import patches
from auditor.service.scrub import scrub
from auditor.store import patches as stored
from auditor.store._patch_schema import patch_batches
from tests.live import LiveEngine
from tests.repair import small

KEY, OTHER = Fernet.generate_key().decode(), Fernet.generate_key().decode()
SOURCE = ("CREATE TABLE s (id INTEGER PRIMARY KEY, name VARCHAR, card VARCHAR)", "INSERT INTO s VALUES (1, 'a', '4711'), (2, 'b', '0815')")
TARGET = ("CREATE TABLE t (id INTEGER PRIMARY KEY, name VARCHAR, card VARCHAR)", "INSERT INTO t VALUES (2, 'b', '9999'), (3, 'c', NULL)")


@pytest.fixture
def both(tmp_path: Path) -> small.Small:
    """A changed, a missing and an extra row, with a masked column, and a key for the journal."""
    engine = LiveEngine("duckdb", "duckdb", f"duckdb:///{tmp_path}/both.duckdb")
    made = small.make(tmp_path, engine, SOURCE, TARGET, source=engine, columns={"override": {"card": {"mask": True}}})
    made.settings = with_key(made.settings, KEY)
    return made


def with_key(settings: Settings, key: str | None) -> Settings:
    return settings.model_copy(update={"keep": settings.keep.model_copy(update={"journal_key": key})})


def test_a_masked_column_is_encrypted_and_undone_with_the_key(both: small.Small) -> None:
    before = both.rows()
    patched = both.apply().patched
    rows = [row for batch in stored.list_batches(both.store, patched.patch) for row in batch.rows or ()]
    assert {row["kind"] for row in rows} == {"missing", "changed", "extra"}
    journal = json.dumps(rows)
    assert not any(value in journal for value in ("4711", "0815", "9999")) and "sealed" in journal and KEY not in journal
    assert all(one["texts"][2] is None for row in rows for one in (row["old"], row["new"]) if one)
    undone = patches.undo_patch(both.settings, both.store, patched.patch).patched
    assert undone.counts == {"inserted": 1, "updated": 1, "deleted": 1} and both.rows() == before
    patches.undo_patch(both.settings, both.store, undone.patch)
    assert [row[2] for row in both.rows()] == ["4711", "0815"], "an undo is encrypted too, and is undone"


@pytest.mark.parametrize(
    ("key", "says"),
    [(OTHER, "encrypted with another key than keep: journal_key"), (None, "journal_key, or patch again")],
    ids=["another", "none"],
)
def test_another_key_or_none_is_a_sentence_and_nothing_is_written(key: str | None, says: str, both: small.Small) -> None:
    patched = both.apply().patched
    after = both.rows()
    with pytest.raises(PatchRefused, match=says):
        patches.undo_patch(with_key(both.settings, key), both.store, patched.patch)
    assert both.rows() == after
    assert [one.patch for one in stored.list_patches(both.store, stored.get_patch(both.store, patched.patch).run)] == [patched.patch]


def test_an_encrypted_row_that_somebody_changed_is_refused(both: small.Small) -> None:
    patched = both.apply().patched
    (batch,) = stored.list_batches(both.store, patched.patch)
    rows = batch.rows or []
    changed = next(row for row in rows if row["kind"] == "changed")
    changed["old"]["sealed"] = changed["new"]["sealed"]
    stored.write_batch(both.store, patched.patch, batch.number, "applied", rows)
    with pytest.raises(PatchRefused, match=f"the journal of patch {patched.patch} was changed since it was written"):
        patches.undo_patch(both.settings, both.store, patched.patch)


def test_scrub_drops_encrypted_rows(both: small.Small) -> None:
    patched = both.apply().patched
    scrub(both.settings, both.store)
    with both.store.reading() as connection:
        assert [row.body for row in connection.execute(patch_batches.select())] == [None]
    with pytest.raises(PatchRefused, match="its journal has not all rows"):
        patches.undo_patch(both.settings, both.store, patched.patch)


def test_what_is_no_key_is_refused_by_the_configuration(both: small.Small) -> None:
    with pytest.raises(ValueError, match="this is no key; make one with: python -c") as refused:
        Settings.model_validate({"connections": {}, "audits": {}, "keep": {"journal_key": "secret"}})
    assert "secret" not in str(refused.value)
