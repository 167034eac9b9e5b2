"""What servers do behind a statement is found before its batch is committed, and the batch is rolled back."""

from __future__ import annotations

from pathlib import Path

import pytest

from auditor.errors import PatchFailed, PatchRefused
from auditor.points import armed
from auditor.repair import apply
from auditor.repair.target_facts import Accepted
from auditor.service import patches
from auditor.service.patches import Followed
from auditor.store import patches as stored
from tests.live import LiveEngine, engine_params
from tests.repair import small

SOURCE = ("CREATE TABLE s (id INTEGER PRIMARY KEY, name VARCHAR)", "INSERT INTO s VALUES (1, 'a'), (2, 'b'), (3, 'c')")
CLEAN = ("DROP TABLE IF EXISTS child", "DROP TABLE IF EXISTS t", "DROP TABLE IF EXISTS beneath")
TABLE = "CREATE TABLE t (id INTEGER PRIMARY KEY, name VARCHAR(20))"
FUNCTION = "CREATE OR REPLACE FUNCTION undone() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN {}; RETURN NULL; END'"
TRIGGER = "CREATE TRIGGER undone AFTER {} ON t FOR EACH ROW EXECUTE FUNCTION undone()"
ACCEPTED: tuple[Accepted, ...] = ("triggers",)


@pytest.mark.quick_for("delete-postgres")
@pytest.mark.parametrize("engine", engine_params("postgres"), indirect=True)
@pytest.mark.parametrize(
    ("rows", "body", "event", "says"),
    [
        ("(2, 'b'), (3, 'c')", "DELETE FROM t WHERE id = NEW.id", "INSERT", "id = 1: the row is not there after its statement"),
        (
            "(1, 'a'), (2, 'b'), (3, 'c'), (4, 'd')", "INSERT INTO t VALUES (OLD.id, OLD.name)", "DELETE",
            "id = 4: the row is still there after its statement",
        ),
    ],
    ids=["insert", "delete"],
)  # fmt: skip
def test_a_trigger_that_takes_a_statement_back_is_found(
    rows: str, body: str, event: str, says: str, engine: LiveEngine, tmp_path: Path
) -> None:
    target = (TABLE, f"INSERT INTO t VALUES {rows}", FUNCTION.format(body), TRIGGER.format(event))
    both = small.make(tmp_path, engine, SOURCE, (*CLEAN, *target))
    before = both.rows()
    with pytest.raises(PatchFailed, match=f"{says}; it was rolled back"):
        both.apply(accepted=ACCEPTED)
    assert both.rows() == before


@pytest.mark.parametrize("engine", engine_params("redshift"), indirect=True)
def test_a_statement_that_hits_several_rows_is_rolled_back(engine: LiveEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where keys are not enforced, a row may arrive twice after it was read; a second attempt reads both, and names the key."""
    target = ("CREATE TABLE t (id INTEGER, name VARCHAR(20))", "INSERT INTO t VALUES (1, 'a'), (2, 'x'), (3, 'c')")
    both = small.make(tmp_path, engine, SOURCE, (*CLEAN, *target))
    run = both.run().run

    def twice() -> None:
        both.on_target("INSERT INTO t VALUES (2, 'x')")

    monkeypatch.setattr(apply, "ATTEMPTS", 1)
    with (
        pytest.raises(PatchFailed, match="id = 2: the update hit 2 rows instead of one; the batch was rolled back"),
        armed("patch.prepared", twice, nth=1),
    ):
        patches.apply_patch(both.settings, both.store, run, small.EVERYTHING)
    assert both.rows() == [(1, "a"), (2, "x"), (2, "x"), (3, "c")]
    (patch,) = stored.list_patches(both.store, run)
    assert patch.state == "failed" and [batch.state for batch in stored.list_batches(both.store, patch.patch)] == ["void"]
    both.on_target("DELETE FROM t WHERE id = 2", "INSERT INTO t VALUES (2, 'x')")
    monkeypatch.setattr(apply, "ATTEMPTS", 3)
    with (
        pytest.raises(PatchRefused, match="the target has several rows of the key id = 2; repair these by hand, then run again"),
        armed("patch.prepared", twice, nth=1),
    ):
        patches.apply_patch(both.settings, both.store, run, small.EVERYTHING)
    assert both.rows() == [(1, "a"), (2, "x"), (2, "x"), (3, "c")]


SIGNAL = "SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'not you'"
REFUSAL = f"CREATE TRIGGER refused BEFORE UPDATE ON t FOR EACH ROW IF NEW.id = 2 THEN {SIGNAL}; END IF"


@pytest.mark.quick_for("mysql")
@pytest.mark.parametrize("engine", engine_params("mysql", "mariadb"), indirect=True)
def test_a_batch_whose_second_statement_is_refused_is_rolled_back(engine: LiveEngine, tmp_path: Path) -> None:
    both = small.make(tmp_path, engine, SOURCE, (*CLEAN, TABLE, "INSERT INTO t VALUES (1, 'x'), (2, 'x'), (3, 'x')", REFUSAL))
    run = both.run().run
    with pytest.raises(PatchFailed, match=r"not you \(MySQL error 1644\)"):
        patches.apply_patch(both.settings, both.store, run, small.EVERYTHING, Followed(accepted=ACCEPTED))
    assert both.rows() == [(1, "x"), (2, "x"), (3, "x")]
    (patch,) = stored.list_patches(both.store, run)
    assert patch.state == "failed" and {batch.state for batch in stored.list_batches(both.store, patch.patch)} == {"void"}
