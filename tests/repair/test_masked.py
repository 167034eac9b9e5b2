"""Masked columns in the journal of a patch: left out, or encrypted with a key, by which the patch is undone."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest
from cryptography.fernet import Fernet

from auditor import canonical
from auditor.config import Settings
from auditor.errors import PatchRefused
from auditor.repair.journal import unseal
from auditor.service import patches
from auditor.service.scrub import scrub
from auditor.store import patches as stored
from auditor.store import patches as stored_requests
from auditor.store.patches import patch_batches
from tests.live import LiveEngine
from tests.repair import small
from tests.repair.killed import kill

KEY, OTHER = Fernet.generate_key().decode(), Fernet.generate_key().decode()
# The values hold a space, so that they are in no digest and no encrypted text by chance.
SOURCE = (
    "CREATE TABLE s (id INTEGER PRIMARY KEY, name VARCHAR, card VARCHAR)",
    "INSERT INTO s VALUES (1, 'a', '47 11'), (2, 'b', '08 15')",
)
TARGET = ("CREATE TABLE t (id INTEGER PRIMARY KEY, name VARCHAR, card VARCHAR)", "INSERT INTO t VALUES (2, 'b', '99 99'), (3, 'c', NULL)")


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
    assert not any(value in journal for value in ("47 11", "08 15", "99 99")) and "sealed" in journal and KEY not in journal
    assert all(one["texts"][2] is None for row in rows for one in (row["old"], row["new"]) if one)
    undone = patches.undo_patch(both.settings, both.store, patched.patch).patched
    assert undone.counts == {"inserted": 1, "updated": 1, "deleted": 1} and both.rows() == before
    patches.undo_patch(both.settings, both.store, undone.patch)
    assert [row[2] for row in both.rows()] == ["47 11", "08 15"], "an undo is encrypted too, and is undone"


@pytest.mark.quick_for("another")
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


def digests(both: small.Small) -> set[str]:
    """The plain digests of all rows that any of the few values of the masked column makes of those that are shown."""
    values = (None, "47 11", "08 15", "99 99")
    shown = [(str(number), name) for number, name in enumerate("abc", 1)]
    return {canonical.row_hash(canonical.row_text([*row, value])) for row in shown for value in values}


@pytest.mark.quick_for("no key")
@pytest.mark.parametrize("key", [KEY, None], ids=["a key", "no key"])
def test_no_digest_in_the_store_is_one_that_guesses_could_be_tried_against(key: str | None, both: small.Small) -> None:
    both.settings = with_key(both.settings, key)
    proposed = patches.propose(both.settings, both.store, both.run().run, small.EVERYTHING, who="a person").patch
    plan = stored_requests.get_plan(both.store, proposed)
    assert plan and len(plan["rows"]) == 3
    patched = both.apply().patched.patch
    rows = [*plan["rows"], *(row for batch in stored.list_batches(both.store, patched) for row in batch.rows or ())]
    found = [side["digest"] for row in rows for side in (row["old"], row["new"]) if side]
    assert len(found) == 8 and all((digest or "").startswith("hmac:") if key else digest is None for digest in found)
    assert not digests(both) & {text for digest in found if digest for text in (digest, digest.removeprefix("hmac:"))}
    both.store.close()
    kept = b"".join(path.read_bytes() for path in Path(both.store.name.removeprefix("sqlite:///")).parent.glob("store.db*"))
    assert not any(digest.encode() in kept for digest in digests(both))


@pytest.mark.parametrize("key", [KEY, None], ids=["a key", "no key"])
def test_what_was_approved_is_written_as_far_as_it_is_shown(key: str | None, both: small.Small) -> None:
    """With a key a row is left whose masked value changed since it was proposed; without one nobody can know of that."""
    both.settings = with_key(both.settings, key)
    proposed = patches.propose(both.settings, both.store, both.run().run, small.EVERYTHING, who="a person").patch
    about = {"rows": 3, "who": "a person", "idempotency": "once"}
    patches.request_apply(both.settings, both.store, proposed, **about)  # type: ignore[arg-type]
    both.on_source("UPDATE s SET card = '1234' WHERE id = 2")
    both.on_target("UPDATE t SET name = 'other' WHERE id = 3")
    assert patches.run_next(both.settings, both.store, threading.Event())
    detail = stored.get_patch(both.store, proposed).detail
    assert detail["left"] == (2 if key else 1) and detail.get("updated", 0) == (0 if key else 1)
    assert [row[2] for row in both.rows()] == ["47 11", "99 99" if key else "1234", None]


@pytest.mark.quick_for("its key")
@pytest.mark.parametrize("key", [KEY, pytest.param(OTHER, marks=pytest.mark.slow), None], ids=["its key", "another key", "no key"])
def test_a_killed_patch_is_settled_with_and_without_the_key(key: str | None, both: small.Small, tmp_path: Path) -> None:
    """Only with the key it is known which rows are those that were inserted, so that those that the source has deleted are taken back."""
    run = both.run().run
    both.store.close()
    assert kill(both, tmp_path, run=run, step="committed") == -9
    both.on_source("DELETE FROM s WHERE id = 1")
    both.settings = with_key(both.settings, key)
    (told,) = patches.settle_dead(both.settings, both.store)
    (patch,) = stored.list_patches(both.store, run)
    (batch,) = stored.list_batches(both.store, patch.patch)
    assert patch.state == "failed" and batch.state == "applied"
    is_known = key == KEY
    assert ("1 taken back" in told, "1 updated" in told, "1 inserted" in told) == (is_known, True, not is_known)
    assert [row[0] for row in both.rows()] == ([2] if is_known else [1, 2])
    assert ("rows that it inserted were not compared with the source once more" in patch.detail["why"]) is not is_known


def test_a_journal_of_an_earlier_version_is_undone(both: small.Small) -> None:
    """Its digests were not keyed."""
    before, patched = both.rows(), both.apply().patched.patch
    (batch,) = stored.list_batches(both.store, patched)
    rows = batch.rows or []
    for row in rows:
        for side in (row["old"], row["new"]):
            if side:
                side["digest"] = canonical.row_hash(canonical.row_text(list(unseal(side, KEY, patched))))
    stored.write_batch(both.store, patched, batch.number, "applied", rows)
    patches.undo_patch(both.settings, both.store, patched)
    assert both.rows() == before


def test_an_encrypted_row_that_somebody_changed_is_refused(both: small.Small) -> None:
    patched = both.apply().patched
    (batch,) = stored.list_batches(both.store, patched.patch)
    rows = batch.rows or []
    changed = next(row for row in rows if row["kind"] == "changed")
    old, new = changed["old"], changed["new"]
    assert old and new
    old["sealed"] = new["sealed"]
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
