"""Patches over HTTP: proposed with the scope repair, applied and undone with the scope apply, written by a worker."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import httpx2
import pytest

from auditor import config, service
from auditor.api import create_app
from auditor.api_models.access import Scope
from auditor.masking import MASK
from auditor.model import Verdict
from auditor.service import patches as requests
from auditor.store import events, patches, runs
from auditor.store import patches as stored_requests
from tests.api.conftest import SECRET_VALUE, Service, TemporaryService
from tests.api.test_answers import list_all

WANTED = {"delete_extra": True}
KEY = {"Idempotency-Key": "once"}
VERBS = ("INSERT", "UPDATE", "DELETE")


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Service]:
    """A service whose target may be written to, with a run of ``orders`` that named a missing, a changed and an extra row."""
    with writable(tmp_path) as found:
        yield found


@contextmanager
def writable(folder: Path, *, run: bool = True, insecure: bool = False, **write: Any) -> Iterator[Service]:
    prepared = TemporaryService(folder, run=False, insecure=insecure)
    warehouse = prepared.settings.connections["warehouse"]
    written = config.WriteSettings.model_validate({"url": warehouse.url, **write})
    prepared.settings.connections["warehouse"] = warehouse.model_copy(update={"write": written})
    with prepared as found:
        if run:
            found.runs["orders"] = service.run_audit(found.settings, "orders", store=found.store).run
        yield found


def propose(own: Service, wanted: Any = WANTED, run: str = "", **headers: str) -> httpx2.Response:
    return own.client("repair").post(f"/api/v1/runs/{run or own.runs['orders']}/patches", json=wanted, headers=headers)


def apply(own: Service, patch: str, rows: int = 3, action: str = "apply", key: str = "once") -> httpx2.Response:
    return own.client("apply").post(f"/api/v1/patches/{patch}/{action}", json={"rows": rows}, headers={"Idempotency-Key": key})


def work(own: Service) -> int:
    """Do everything that was asked for, as a worker does, and return how many patches that were."""
    done = 0
    while requests.run_next(own.settings, own.store, threading.Event()):
        done += 1
    return done


def get(own: Service, path: str) -> Any:
    answer = own.client("read").get(f"/api/v1{path}")
    assert answer.status_code == 200, answer.text
    return answer.json()


def on_target(own: Service, sql: str) -> list[Any]:
    with duckdb.connect(own.settings.connections["warehouse"].url.removeprefix("duckdb:///")) as database:
        return database.execute(sql).fetchall()


def read_target(own: Service) -> list[Any]:
    return on_target(own, "SELECT * FROM orders ORDER BY id")


def test_a_patch_is_proposed_applied_audited_and_undone(own: Service) -> None:
    before = read_target(own)
    answer = propose(own)
    assert answer.status_code == 201, answer.text
    patch = answer.json()
    assert (patch["state"], patch["rows"], patch["kinds"]) == ("proposed", 3, {"missing": 1, "changed": 1, "extra": 1})
    assert (patch["proposed_by"], patch["cannot_apply"], patch["run"]) == ("the repair token", "", own.runs["orders"])
    assert get(own, answer.headers["location"].removeprefix("/api/v1")) == patch
    rows = get(own, f"/patches/{patch['patch']}/rows")["items"]
    assert {(row["kind"], row["key"]["id"], row["outcome"]) for row in rows} == {
        ("missing", "700", ""),
        ("changed", "1500", ""),
        ("extra", "5000", ""),
    }
    changed = next(row for row in rows if row["kind"] == "changed")
    assert (changed["old"]["name"], changed["new"]["name"], changed["columns"]) == (f"={SECRET_VALUE}", "name 1500", ["name"])
    script = own.client("read").get(f"/api/v1/patches/{patch['patch']}/sql").text
    assert all(row["sql"] in script for row in rows) and "-- 3 rows: 1 to insert, 1 to update, 1 to delete." in script
    assert read_target(own) == before and work(own) == 0, "a proposal writes nothing"

    wanted = apply(own, patch["patch"])
    assert (wanted.status_code, wanted.json()["state"]) == (202, "waiting"), wanted.text
    assert read_target(own) == before, "no request writes"
    assert work(own) == 1
    done = get(own, f"/patches/{patch['patch']}")
    assert (done["state"], done["applied_by"], done["why"], done["not_audited"]) == ("done", "the apply token", "", "")
    assert done["counts"] == {"updated": 1, "inserted": 1, "deleted": 1, "left": 0, "taken back": 0, "equal": 0}
    assert done["progress"] == {"done": 3, "total": 3} and done["undoable"]
    assert {row["outcome"] for row in get(own, f"/patches/{patch['patch']}/rows")["items"]} == {"written"}
    after = runs.get_run(own.store, done["after_run"])
    assert (after.verdict, after.requested_by) == (Verdict.MATCH, "the apply token")
    assert after.reason == f"check after patch {patch['patch'][:12]} of run {own.runs['orders'][:12]}"

    assert [one["patch"] for one in get(own, f"/runs/{after.run}/patches")["items"]] == [patch["patch"]]
    assert get(own, f"/runs/{after.run}/report")["reason"] == after.reason

    undo = apply(own, patch["patch"], action="undo").json()
    assert (undo["undoes"], undo["state"]) == (patch["patch"], "waiting")
    assert work(own) == 1
    assert read_target(own) == before
    assert (get(own, f"/patches/{undo['patch']}")["state"], get(own, f"/patches/{patch['patch']}")["state"]) == ("done", "undone")
    assert get(own, f"/patches/{patch['patch']}")["undone_by"] == undo["patch"]
    written_back = get(own, f"/patches/{undo['patch']}/rows")["items"]
    assert {(row["kind"], row["outcome"]) for row in written_back} == {(kind, "written") for kind in ("missing", "changed", "extra")}
    assert [one["patch"] for one in list_all(own, f"/api/v1/runs/{own.runs['orders']}/patches", 1)] == [patch["patch"], undo["patch"]]
    told = [(one.action, one.actor) for one in reversed(events.list_events(own.store)) if "patch" in one.action or "undo" in one.action]
    by = "the apply token"
    assert told == [
        ("patch proposed", "the repair token"),
        *((what, by) for what in ("patch requested", "patch begun", "patch ended", "undo requested", "undo begun", "undo ended")),
    ]


def test_a_row_is_written_as_it_was_proposed_or_left(own: Service) -> None:
    patch = propose(own).json()["patch"]
    on_target(own, "UPDATE orders SET name = 'newer' WHERE id = 1500")
    with duckdb.connect(own.settings.connections["shop"].url.removeprefix("duckdb:///")) as source:
        source.execute("UPDATE orders SET name = 'another' WHERE id = 700")
    apply(own, patch)
    assert work(own) == 1
    done = get(own, f"/patches/{patch}")
    assert (done["state"], done["counts"]["deleted"], done["counts"]["left"]) == ("done", 1, 2), done
    assert on_target(own, "SELECT name FROM orders WHERE id IN (700, 1500)") == [("newer",)]
    outcomes = {row["key"]["id"]: row["outcome"] for row in get(own, f"/patches/{patch}/rows")["items"]}
    assert outcomes == {"700": "not written", "1500": "not written", "5000": "written"}


def test_a_repeated_request_does_nothing_more(own: Service) -> None:
    first, again = (propose(own, **KEY).json() for _ in range(2))
    assert first == again
    other = propose(own, {"only": "missing"}, **KEY)
    assert (other.status_code, other.json()["detail"]) == (422, "the idempotency key was used for another patch; use a new key")
    assert [apply(own, first["patch"]).status_code for _ in range(2)] == [202, 202]
    assert work(own) == 1
    assert apply(own, first["patch"]).json()["state"] == "done"
    second = propose(own, WANTED).json()
    assert apply(own, second["patch"], 0).status_code == 422, "the key belongs to the first patch"


@pytest.mark.parametrize("action", ["apply", "undo"])
def test_applying_needs_the_scope_the_number_and_a_key(own: Service, action: str) -> None:
    patch = propose(own).json()["patch"]
    before = read_target(own)
    path = f"/api/v1/patches/{patch}/{action}"
    others: list[Scope] = ["read", "run", "define", "repair"]
    for scope in others:
        refused = own.client(scope).post(path, json={"rows": 3}, headers=KEY)
        assert (refused.status_code, "this needs apply" in refused.json()["detail"]) == (403, True)
    assert own.client().post(path, json={"rows": 3}, headers=KEY).status_code == 401
    assert own.client("apply").post(path, json={"rows": 3}).status_code == 422
    for body in ({}, {"rows": "3"}, {"rows": 3, "sql": "x"}, {"rows": -1}, {"rows": 3.0}):
        assert own.client("apply").post(path, json=body, headers=KEY).status_code == 422, body
    assert work(own) == 0 and read_target(own) == before


def test_what_cannot_be_is_refused_with_a_sentence(own: Service) -> None:
    patch = propose(own).json()["patch"]

    def refused(answer: httpx2.Response, status: int, sentence: str) -> None:
        assert answer.status_code == status, answer.text
        assert sentence in answer.json()["detail"]

    refused(apply(own, patch, 4), 409, f"patch {patch} changes 3 rows, not 4; look at its rows, and send their number")
    refused(apply(own, "0" * 32), 404, "there is no patch '00000000000000000000000000000000'")
    refused(apply(own, patch, action="undo"), 409, f"patch {patch} is proposed: it has written nothing that could be undone yet")
    refused(propose(own, run="0" * 32), 404, "there is no run")
    refused(propose(own, {"columns": ["nothing"]}), 409, "the audit compares no column 'nothing'; it compares id, name, amount")
    assert apply(own, patch).status_code == 202 and work(own) == 1
    refused(apply(own, patch, key="again"), 409, f"patch {patch} was applied already (done); propose a new one from the audit's last run")
    refused(
        apply(own, patch, 2, action="undo", key="u"), 409, f"patch {patch} wrote 3 rows, not 2; look at its rows, and send their number"
    )
    first = apply(own, patch, action="undo", key="first").json()["patch"]
    refused(apply(own, patch, action="undo", key="second"), 409, f"patch {patch} is being undone by patch {first}; follow that one")
    refused(apply(own, first, key="third"), 409, f"patch {first} is an undo (waiting)")
    on_target(own, "UPDATE orders SET name = 'newer' WHERE id = 1500")
    assert work(own) == 1
    assert get(own, f"/patches/{first}")["counts"]["left"] == 1, "an undo leaves rows that changed since"
    refused(apply(own, patch, action="undo", key="fourth"), 409, f"patch {patch} was undone already")


def test_a_patch_is_of_the_rows_that_a_filter_selects(own: Service) -> None:
    run = own.runs["orders"]
    found = {item["kind"]: item for item in get(own, f"/runs/{run}/differences")["items"]}
    column = found["changed"]["columns"][0]["name"]
    for kind, verb in (("missing", "INSERT"), ("changed", "UPDATE"), ("extra", "DELETE")):
        key = next(iter(found[kind]["key"].values()))
        patch = propose(own, {**WANTED, "key": key}).json()
        assert patch["rows"] == 1
        sql = own.client("read").get(f"/api/v1/patches/{patch['patch']}/sql").text
        assert [line.split()[0] for line in sql.splitlines() if line.split()[:1] and line.split()[0] in VERBS] == [verb]
    of_column = propose(own, {**WANTED, "column": column}).json()
    assert (of_column["rows"], propose(own, {**WANTED, "key": "no such key"}).json()["rows"]) == (1, 0)
    assert [row["kind"] for row in get(own, f"/patches/{of_column['patch']}/rows")["items"]] == ["changed"]
    answer = propose(own, {"column": "nothing"})
    assert answer.status_code == 409 and "the audit compares no column 'nothing'" in answer.json()["detail"]
    key = next(iter(found["extra"]["key"].values()))
    page = own.client("repair").get(f"/runs/{run}", params={"key": key}).text
    form = page[page.index(f'action="/runs/{run}/patches"') :]
    form = form[: form.index("</form>")]
    fields = dict(re.findall(r'name="(\w+)" value="([^"]*)"', form))
    assert "SQL of these" in form and (fields["key"], fields["delete_extra"]) == (key, "true")
    sent = own.client("repair").post(f"/runs/{run}/patches", data=fields)
    assert sent.status_code in (200, 303), sent.text
    assert get(own, f"/runs/{run}/patches")["items"][-1]["rows"] == 1
    for plain in ({}, {"key": key, "state": "unsettled"}):
        assert "SQL of these" not in own.client("repair").get(f"/runs/{run}", params=plain).text


def test_a_key_of_a_range_is_patched_alone(own: Service) -> None:
    on_target(own, "DELETE FROM orders WHERE id < 1024")
    run = service.run_audit(own.settings, "orders", store=own.store).run
    assert any(item["range"] for item in get(own, f"/runs/{run}/differences")["items"])
    assert [propose(own, {"key": key}, run=run).json()["rows"] for key in ("5", "5.0", "five")] == [1, 0, 0]


def test_a_target_without_write_is_only_proposed_for(tmp_path: Path) -> None:
    with TemporaryService(tmp_path) as reading:
        patch = propose(reading).json()
        assert patch["cannot_apply"] == "the connection 'warehouse' may only read; add write: {url: ...} to it"
        answer = apply(reading, patch["patch"])
        assert (answer.status_code, answer.json()["detail"]) == (
            409,
            f"patch {patch['patch']} cannot be applied: {patch['cannot_apply']}",
        )


def test_more_rows_than_a_patch_may_change_are_refused(tmp_path: Path) -> None:
    with writable(tmp_path, max_rows=2) as small:
        answer = propose(small)
        assert answer.status_code == 409
        assert answer.json()["detail"].startswith("more than 2 rows are to be changed, which is what one patch may change")
        assert propose(small, {**WANTED, "limit": 2}).json()["rows"] == 2
        page = small.client("repair").get(f"/runs/{small.runs['orders']}").text
        assert "3 rows differ, and one patch may change 2 rows: propose a part of them" in page, "before it is proposed"
        assert 'placeholder="all" value="2"' in page


def test_a_patch_of_more_than_its_share_of_a_table_is_refused_when_it_is_proposed(tmp_path: Path) -> None:
    with writable(tmp_path, max_share="0.001%") as small:
        assert "one patch may change" not in small.client("repair").get(f"/runs/{small.runs['orders']}").text
        warehouse = small.settings.connections["warehouse"].url
        assert warehouse.startswith("duckdb:///")
        with duckdb.connect(warehouse.removeprefix("duckdb:///")) as connection:
            connection.execute("UPDATE orders SET name = 'many' WHERE id < 20")
        run = service.run_audit(small.settings, "orders", store=small.store).run
        assert "rows differ, and one patch may change 10 rows" in small.client("repair").get(f"/runs/{run}").text
        answer = propose(small, run=run)
        assert answer.status_code == 409 and "raise max_rows or max_share under write:" in answer.json()["detail"]


def test_an_old_run_is_refused_when_it_is_proposed_and_when_it_is_applied(tmp_path: Path) -> None:
    with writable(tmp_path) as own:
        patch = propose(own).json()["patch"]
        warehouse = own.settings.connections["warehouse"]
        assert warehouse.write
        aged = warehouse.write.model_copy(update={"max_age": 0.0})
        own.settings.connections["warehouse"] = warehouse.model_copy(update={"write": aged})
        for answer in (propose(own), apply(own, patch)):
            assert (answer.status_code, answer.json()["type"]) == (409, "urn:auditor:problem:RunOutdated")
            assert "run orders again" in answer.json()["detail"]


def test_masked_columns_never_leave(tmp_path: Path) -> None:
    with writable(tmp_path, run=False) as masking:
        values = service.definition(masking.settings.audits["orders"])
        values["columns"] = {"override": {"name": {"mask": True}}}
        masking.settings.audits["orders"] = config.validate_audit(values)
        run = service.run_audit(masking.settings, "orders", store=masking.store).run
        answer = propose(masking, run=run)
        assert answer.status_code == 201, answer.text
        patch = answer.json()["patch"]
        rows = masking.client("read").get(f"/api/v1/patches/{patch}/rows")
        changed = next(row for row in rows.json()["items"] if row["kind"] == "changed")
        assert (changed["old"]["name"], changed["new"]["name"], changed["sql"]) == (MASK, MASK, None)
        script = masking.client("read").get(f"/api/v1/patches/{patch}/sql")
        assert (script.status_code, "the column 'name' is masked" in script.json()["detail"]) == (409, True)
        apply(masking, patch)
        assert work(masking) == 1
        done = get(masking, f"/patches/{patch}")
        assert (done["state"], done["undoable"]) == ("done", False)
        undo = apply(masking, patch, action="undo")
        assert undo.status_code == 409 and "its journal has not all rows" in undo.json()["detail"]
        assert SECRET_VALUE not in rows.text + script.text + str(patches.list_batches(masking.store, patch))
        masking.store.close()
        assert not any(SECRET_VALUE.encode() in one.read_bytes() for one in tmp_path.glob("store.db*"))


def test_a_patch_that_cannot_be_written_says_why_and_leaves_the_target(own: Service) -> None:
    patch = propose(own).json()["patch"]
    apply(own, patch)
    on_target(own, "ALTER TABLE orders ALTER amount SET DATA TYPE DECIMAL(12, 2)")
    before = read_target(own)
    assert work(own) == 1
    failed = get(own, f"/patches/{patch}")
    assert failed["state"] == "failed"
    assert failed["why"] == f"the tables' columns changed since run {own.runs['orders']}; run orders again, and patch from that run"
    assert {row["outcome"] for row in get(own, f"/patches/{patch}/rows")["items"]} == {"not written"}
    assert read_target(own) == before


def test_a_patch_whose_process_died_is_settled_and_the_next_one_begins(own: Service) -> None:
    before = read_target(own)
    first, second = (propose(own, {"only": kind}).json()["patch"] for kind in ("missing", "changed"))
    for patch in (first, second):
        assert apply(own, patch, 1, key=patch).status_code == 202
    claimed = stored_requests.claim_patch(own.store)
    assert claimed and claimed.patch == first
    assert work(own) == 0, "the table's patch is at work, so that the other one waits"
    stored_requests.release_patch(own.store, first)  # as if the process had died
    requests.log_settled(own.settings, own.store)
    dead = get(own, f"/patches/{first}")
    assert (dead["state"], dead["why"], read_target(own)) == ("failed", "its process ended before it did", before)
    assert work(own) == 1
    assert get(own, f"/patches/{second}")["counts"]["updated"] == 1


def test_rows_that_were_dropped_are_gone_and_not_applied(own: Service) -> None:
    patch = propose(own).json()["patch"]
    assert patches.drop_rows(own.store, run=own.runs["orders"]) == 1
    gone = own.client("read").get(f"/api/v1/patches/{patch}/rows")
    assert gone.status_code == 409
    assert gone.json()["detail"].startswith(f"the rows of patch {patch} were dropped, as `keep: journal` or a scrub")
    assert own.client("read").get(f"/api/v1/patches/{patch}/sql").status_code == 409
    refused = apply(own, patch)
    assert refused.status_code == 409
    assert refused.json()["detail"] == f"the rows of patch {patch} were dropped from the store; propose it again"


def test_a_stopped_worker_ends_a_patch_after_its_batch(own: Service) -> None:
    patch = propose(own).json()["patch"]
    apply(own, patch)
    stopped = threading.Event()
    stopped.set()
    before = read_target(own)
    assert requests.run_next(own.settings, own.store, stopped)
    ended = get(own, f"/patches/{patch}")
    assert (ended["state"], ended["why"]) == ("done", "it was stopped after a batch; the rows of later ones are as they were")
    assert ended["not_audited"] == "the patched rows were not audited again, as the service was stopped"
    assert read_target(own) == before


def test_without_authentication_nobody_applies(tmp_path: Path) -> None:
    with writable(tmp_path, insecure=True) as open_service:
        with_tokens = replace(open_service, app=create_app(open_service.settings, open_service.store))
        proposer = with_tokens.client("repair")
        patch = proposer.post(f"/api/v1/runs/{open_service.runs['orders']}/patches", json=WANTED).json()["patch"]
        proposed = open_service.client().post(f"/api/v1/runs/{open_service.runs['orders']}/patches", json=WANTED)
        assert proposed.status_code == 403, "people read and run without tokens, and nothing else"
        refused = open_service.client().post(f"/api/v1/patches/{patch}/apply", json={"rows": 3}, headers=KEY)
        assert refused.status_code == 403
        assert "the service was started without tokens" in refused.json()["detail"]


def test_openapi_document_says_what_writes(own: Service) -> None:
    document = own.client("read").get("/api/v1/openapi.json").json()
    description = re.sub(r"\s+", " ", document["info"]["description"])
    assert "writes into a target in one case alone: when a patch is applied or undone" in description
    scopes = {
        path: operations["post"]["x-scope"] for path, operations in document["paths"].items() if "patches" in path and "post" in operations
    }
    assert scopes == {
        "/api/v1/runs/{run}/patches": "repair",
        "/api/v1/patches/{patch}/apply": "apply",
        "/api/v1/patches/{patch}/undo": "apply",
    }
