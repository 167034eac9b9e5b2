"""Chains of evidence on every database: what is read back is what was sealed, whatever changed is found, and tombstones stay."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from auditor import config
from auditor.config import Settings
from auditor.model import State, Verdict
from auditor.service import evidence
from auditor.store import Store, pruning, queue, run_lifecycle
from auditor.store import evidence as chains
from auditor.store.evidence import evidence as links_table
from auditor.store.schema import differences, run_documents
from auditor.store.schema import runs as runs_table
from tests.store.samples import DONE, FAILED, make_chunk, new_audit_name, start_run

NUMBERS = {"score": 0.1 + 0.2, "lower": 1 / 3, "upper": 2 / 3, "published": 5e-324, "coverage": 1.0, "seconds": 1e-7}


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """A configuration with evidence and nothing else."""
    found = config.validate_settings({"connections": {}, "audits": {}, "evidence": {"key": str(tmp_path / "key.pem")}})
    evidence.make_key(found)
    return found


def add_run(store: Store, audit: str, settings: Settings, outcome: run_lifecycle.Outcome = DONE, **more: object) -> str:
    """Store a sealed run with chunks and a plan, and return its id."""
    run = start_run(store, audit, reason="größer 🙂", requested_by="o'brien")
    run_lifecycle.save_plan(store, run, plan=b"plan", schema={"source": [["id", "bigint"]], "target": []})
    for side in ("source", "target"):
        run_lifecycle.save_chunk(store, run, make_chunk(side=side))
    run_lifecycle.finish_run(store, run, replace(outcome, report=b"", **NUMBERS, **more), evidence.get_seal(settings))  # type: ignore[arg-type]
    return run


def test_what_is_read_back_is_what_was_sealed(store: Store, settings: Settings) -> None:
    audit = new_audit_name()
    ids = [add_run(store, audit, settings), add_run(store, audit, settings, FAILED)]
    assert evidence.find_problems(settings, store, audit) == []
    links = chains.list_links(store, audit)
    assert [(link.number, link.run) for link in links] == [(1, ids[0]), (2, ids[1])]
    assert links[1].link.decode().count(links[0].digest) == 1
    assert chains.find_link(store, ids[0][:12]) == links[0] and chains.find_link(store, ids[0][:12].upper()) is None


def test_each_changed_column_is_found(store: Store, settings: Settings) -> None:
    audit = new_audit_name()
    run = add_run(store, audit, settings)
    values = {
        "verdict": Verdict.MATCH, "state": State.FAILED, "exit_code": 0, "method": "counts", "reason": "another", "requested_by": "",
        "seconds": 1.1e-7, "score": 0.3, "lower": 0.0, "upper": 1.0, "published": None, "coverage": 0.5, "source_rows": 1,
        "target_rows": None, "partitions": 1, "unequal": 0, "missing": 0, "extra": 1, "changed": 0, "unsettled": 1, "reasons": [],
        "overrides": {"t": 3},
        "ended": DONE.verified_through, "started": DONE.verified_through, "verified_through": None, "within_threshold": True,
        "within_threshold_through": DONE.verified_through,
    }  # fmt: skip
    assert {*values, "run", "audit", "version", "schema_version"} == set(chains.SEALED_COLUMNS)
    for name, value in values.items():
        before = _read(store, name, run)
        assert before != value, name
        _change(store, sa.update(runs_table).where(runs_table.c.run == run).values({name: value}))
        (problem,) = evidence.find_problems(settings, store, audit)
        assert problem.endswith(f"since its evidence was signed: {name}"), problem
        _change(store, sa.update(runs_table).where(runs_table.c.run == run).values({name: before}))
        assert evidence.find_problems(settings, store, audit) == [], name


def test_changed_documents_and_differences_are_found(store: Store, settings: Settings) -> None:
    audit = new_audit_name()
    run = add_run(store, audit, settings)
    number = sa.select(runs_table.c.number).where(runs_table.c.run == run).scalar_subquery()
    _change(store, sa.update(run_documents).where(run_documents.c.run == number).values(body=b"another"))
    _change(store, sa.delete(differences).where(differences.c.run == number, differences.c.number == 3))
    (problem,) = evidence.find_problems(settings, store, audit)
    assert problem.endswith(": differences, partition_map")


def _read(store: Store, name: str, run: str) -> Any:
    with store.reading() as connection:
        return connection.execute(sa.select(runs_table.c[name]).where(runs_table.c.run == run)).scalar()


def _change(store: Store, statement: sa.Executable) -> None:
    store.write(lambda connection: connection.execute(statement))


def test_tombstones_of_deleted_runs_keep_the_chain(store: Store, settings: Settings) -> None:
    audit = new_audit_name()
    ids = [add_run(store, audit, settings) for _ in range(5)]
    pruning.prune(store, runs=2, days=None, now=dt.datetime.now(dt.UTC))
    links = chains.list_links(store, audit)
    assert [link.run for link in links] == ids
    assert [link.payload is None and link.row_key is None for link in links] == [True, True, True, False, False]
    assert evidence.find_problems(settings, store, audit) == []
    _change(store, sa.delete(links_table).where(links_table.c.run == ids[1]))
    assert f"link 2 of {audit} was removed from the store" in evidence.find_problems(settings, store, audit)


def test_a_run_that_is_requeued_and_cancelled_has_a_link_of_its_own_before_the_next(store: Store, settings: Settings) -> None:
    audit = new_audit_name()
    ids = [add_run(store, audit, settings), add_run(store, audit, settings, FAILED)]
    queue.requeue_run(store, ids[1], 100)
    assert chains.list_links(store, audit)[1].payload is None
    run_lifecycle.request_cancel(store, ids[1])
    assert evidence.find_problems(settings, store, audit) == []
    ids.append(add_run(store, audit, settings))
    assert [link.run for link in chains.list_links(store, audit)] == [*ids[:2], ids[1], ids[2]]
    assert evidence.find_problems(settings, store, audit) == []


def test_erased_keys(store: Store, settings: Settings) -> None:
    audit = new_audit_name()
    ids = [add_run(store, audit, settings) for _ in range(3)]
    assert evidence.erase_row_keys(store, audit, ids[0], by="somebody") == 1
    assert [link.row_key is None for link in chains.list_links(store, audit)] == [True, False, False]
    assert evidence.erase_row_keys(store, audit, None, by="somebody") == 2
    assert evidence.find_problems(settings, store, audit) == []
