"""What patches and their undos refuse of runs, journals and selections, each with its sentence and nothing written."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest
from sqlalchemy import update

from auditor.cli import main
from auditor.config import Audit
from auditor.errors import AuditorError, PatchFailed, PatchRefused, RefreshRefused, RunOutdated
from auditor.points import armed
from auditor.repair.keys import Selection
from auditor.service import patch_through, patches
from auditor.store import patches as stored
from auditor.store import patches as stored_requests
from auditor.store.patches import patch_batches
from auditor.store.patches import patches as patch_table
from auditor.store.schema import runs as run_table
from tests import tables
from tests.live import LiveEngine
from tests.repair import small
from tests.repair.small import Small

SOURCE = ("CREATE TABLE s (id INTEGER PRIMARY KEY, name VARCHAR)", "INSERT INTO s VALUES (1, 'a'), (2, 'b'), (3, 'c')")
TARGET = ("CREATE TABLE t (id INTEGER PRIMARY KEY, name VARCHAR)", "INSERT INTO t VALUES (1, 'a'), (2, 'x'), (4, 'd')")


@pytest.fixture
def duck(tmp_path: Path) -> Small:
    """Two tables of one DuckDB file, which differ in three rows."""
    engine = LiveEngine("duckdb", "duckdb", f"duckdb:///{tmp_path}/both.duckdb")
    return small.make(tmp_path, engine, SOURCE, TARGET, source=engine)


def redefine(both: Small, **changed: object) -> None:
    """Change the definition of the audit."""
    definition = both.settings.audits["small"].model_dump(by_alias=True, exclude_unset=True)
    audit = Audit.model_validate({**definition, **changed})
    both.settings = both.settings.model_copy(update={"audits": {"small": audit}})


def refused(both: Small, run: str, kind: type[AuditorError] = PatchRefused, selection: Selection = small.EVERYTHING) -> str:
    """Return the sentence with which a patch of a run is refused, after a check that nothing was written."""
    before = both.rows()
    with pytest.raises(kind) as found:
        patches.apply_patch(both.settings, both.store, run, selection)
    assert both.rows() == before and stored.list_patches(both.store, run) == []
    return str(found.value)


def test_a_run_that_did_not_name_all_rows_is_refused(duck: Small) -> None:
    redefine(duck, limits={"max_differences": 1})
    run = duck.run().run
    says = "2 more rows differ than could be listed: a patch would leave the target half repaired; copy the table again"
    assert says in refused(duck, run)
    proposed = patches.propose(duck.settings, duck.store, run, small.EVERYTHING, who="a person")
    with pytest.raises(PatchRefused, match=f"patch {proposed.patch} cannot be applied: 2 more rows differ than could"):
        patches.request_apply(duck.settings, duck.store, proposed.patch, rows=1, who="a person", idempotency="once")


def test_a_run_that_has_not_ended_is_refused(duck: Small) -> None:
    run = duck.run().run
    duck.store.write(lambda connection: connection.execute(update(run_table).values(ended=None, state="running")) and None)
    assert f"run {run} has not ended; wait for it, or start another one" in refused(duck, run)


def test_a_run_of_a_dump_is_refused(duck: Small) -> None:
    run = duck.run().run
    redefine(duck, via={"connection": "b", "table": "dump"})
    says = "compares a dump, which is older than its source; audit the source itself, and patch from that"
    assert says in refused(duck, run)


def test_keys_are_selected_only_of_one_integer_column(tmp_path: Path) -> None:
    engine = LiveEngine("duckdb", "duckdb", f"duckdb:///{tmp_path}/both.duckdb")
    texts = [[statement.replace("id INTEGER", "id VARCHAR") for statement in side] for side in (SOURCE, TARGET)]
    both = small.make(tmp_path, engine, texts[0], texts[1], source=engine)
    says = "--keys needs a key of one integer column; leave it out"
    assert says in refused(both, both.run().run, selection=Selection(first=1, last=2))


def test_files_are_refused(tmp_path: Path) -> None:
    engine = LiveEngine("duckdb", "duckdb", f"duckdb:///{tmp_path}/both.duckdb")
    both = small.make(tmp_path, engine, SOURCE, TARGET, source=engine)
    both.on_target(f"COPY t TO '{tmp_path}/t.parquet' (FORMAT parquet)")
    redefine(both, target={"connection": "b", "table": f"{tmp_path}/t.parquet", "format": "parquet"})
    assert "is files, which cannot be patched row by row; copy it again" in refused(both, both.run().run)


def test_an_undo_of_a_patch_that_is_at_work_is_refused(duck: Small) -> None:
    told: list[str] = []

    def undo() -> None:
        (patch,) = stored.list_patches(duck.store, run)
        with pytest.raises(PatchRefused) as found:
            patches.undo_patch(duck.settings, duck.store, patch.patch)
        told.append(str(found.value))
        with pytest.raises(PatchRefused) as found:
            patches.apply_patch(duck.settings, duck.store, run, small.EVERYTHING)
        told.append(str(found.value))

    run = duck.run().run
    with armed("patch.prepared", undo, nth=1):
        patched = patches.apply_patch(duck.settings, duck.store, run, small.EVERYTHING).patched
    assert told[0] == f"patch {patched.patch} is at work; wait for its end"
    assert told[1].startswith(f"patch {patched.patch} of this table is at work (process ") and told[1].endswith("; wait for its end")
    assert duck.rows() == [(1, "a"), (2, "b"), (3, "c")]


def test_a_target_that_is_not_the_one_that_was_patched_is_refused(duck: Small, tmp_path: Path) -> None:
    """Neither another table of its name, nor one of another name, is undone."""
    patched, done = duck.settings, duck.apply().patched.patch
    elsewhere = LiveEngine("duckdb", "duckdb", f"duckdb:///{tmp_path}/elsewhere.duckdb")
    tables.execute(elsewhere, *TARGET)
    connection = type(patched.connections["b"]).model_validate({"url": elsewhere.url, "write": {"url": elsewhere.url}})
    duck.settings = patched.model_copy(update={"connections": {**patched.connections, "b": connection}})
    with pytest.raises(PatchRefused, match=f"patch {done} is of another table than .*main.t"):
        patches.undo_patch(duck.settings, duck.store, done)
    assert len(tables.query(elsewhere, "SELECT * FROM t")) == 3
    duck.settings = patched
    duck.on_target("CREATE TABLE other (id INTEGER PRIMARY KEY, name VARCHAR)", "INSERT INTO other VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    redefine(duck, target={"connection": "b", "table": "other"})
    with pytest.raises(RunOutdated, match=r'the target of small is "main"."other" by now, and run .* is of "main"."t"; run small again'):
        patches.undo_patch(duck.settings, duck.store, done)
    assert duck.rows() == [(1, "a"), (2, "b"), (3, "c")] and stored.get_patch(duck.store, done).state == "done"


def test_an_undo_without_its_rows_is_refused(duck: Small) -> None:
    patch = duck.apply().patched.patch
    duck.store.write(lambda connection: connection.execute(update(patch_batches).values(body=None)) and None)
    with pytest.raises(PatchRefused, match=f"the rows of patch {patch} were dropped from the journal, so that it cannot be undone"):
        patches.undo_patch(duck.settings, duck.store, patch)
    assert duck.rows() == [(1, "a"), (2, "b"), (3, "c")]


def test_a_patch_of_the_command_line_has_no_script(duck: Small) -> None:
    patch = duck.apply().patched.patch
    with pytest.raises(PatchRefused, match="has no script: it was not proposed over HTTP, or its rows were dropped"):
        patches.get_script(duck.store, stored.get_patch(duck.store, patch))


def test_a_claimed_patch_that_another_process_settled_is_not_begun(duck: Small) -> None:
    proposed = patches.propose(duck.settings, duck.store, duck.run().run, small.EVERYTHING, who="a person")
    patches.request_apply(duck.settings, duck.store, proposed.patch, rows=3, who="a person", idempotency="once")
    claimed = stored_requests.claim_patch(duck.store)
    assert claimed
    duck.store.write(lambda connection: connection.execute(update(patch_table).values(state="failed")) and None)
    before = duck.rows()
    with pytest.raises(PatchRefused, match=r"is no longer at work \(failed\); look at it again"):
        patches.apply_claimed(duck.settings, duck.store, claimed, patches.NOBODY)
    assert duck.rows() == before


def test_what_cannot_be_sent_is_refused(duck: Small, tmp_path: Path) -> None:
    run = duck.run().run
    about = (duck.settings, duck.store, run)
    with pytest.raises(RefreshRefused, match=r"no pipeline carries s of a into t; write --apply"):
        patch_through.send_refresh(*about, small.EVERYTHING)
    with pytest.raises(PatchFailed, match=r"the command cannot be run: .*nowhere"):
        patch_through.send_lines(*about, small.EVERYTHING, f"{tmp_path}/nowhere")
    with pytest.raises(PatchFailed, match="the command ended with 1, after 3 changes were handed to it; audit again"):
        patch_through.send_lines(*about, small.EVERYTHING, "false")
    redefine(duck, columns={"override": {"name": {"mask": True}}})
    masked = duck.run().run
    with pytest.raises(PatchRefused, match="'name' is masked, and a masked column is never printed; write --through refresh or --apply"):
        list(patch_through.print_changes(duck.settings, duck.store, masked, small.EVERYTHING))


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["patch", "orders", "--through", "refresh", "--format", "csv"], "--format prints a patch, and --output belongs to --through file"),
        (["patch", "orders", "--through", "refresh", "--output", "f"], "--format prints a patch, and --output belongs to --through file"),
        (["patch", "orders", "--through", "command"], "--command and --through command belong together: write both, or neither"),
        (["patch", "orders", "--through", "file", "--command", "cat"], "--command and --through command belong together"),
        (["bootstrap", "--due", "--keys", "1..2"], "--due copies whole tables from their sources; leave --keys, --partitions and --from"),
        (["bootstrap", "orders", "--drop-old", "--from", "shop"], "--drop-old drops what all bootstraps of the audit left; leave --keys"),
    ],
)
def test_options_that_do_not_fit_are_refused(
    arguments: list[str], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("AUDITOR_CONFIG", raising=False)
    duckdb.connect("shop.duckdb").close()
    Path("auditor.yaml").write_text(
        'connections: {shop: {url: "duckdb:///shop.duckdb"}}\n'
        "audits: {orders: {source: {connection: shop, table: a}, target: {connection: shop, table: b}}}\n"
    )
    assert main([*arguments, "--quiet"]) == 2
    assert says in capsys.readouterr().err
