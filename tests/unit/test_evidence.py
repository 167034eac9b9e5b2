"""Evidence of runs: what is in it and what is not, what verification notices, and what a changed store is found out by."""

from __future__ import annotations

import datetime as dt
import hashlib
import hmac
import json
import random
import re
import shlex
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import duckdb
import pytest
import yaml

from auditor import config, service
from auditor.cli import main
from auditor.config import Settings
from auditor.errors import ConfigError, EvidenceBroken, NoEvidence
from auditor.history import evidence as checks
from auditor.model import Report
from auditor.service import evidence, notify, workers
from auditor.service.channels import Message
from auditor.service.scrub import scrub
from auditor.store import Store, open_store, pruning, run_lifecycle, runs
from auditor.store import evidence as chains
from tests import documents
from tests.store.samples import FAILED, make_chunk

SECRET = "hidden-value"
PARTS = ("definition", "schema", "report", "partition_map", "differences")
"""What is stored of a run beside its row."""
FLIPS = 400
"""Bits that are flipped of a file, beside all of its first lines."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with two tables that differ, a configuration with evidence, and its key."""
    monkeypatch.chdir(tmp_path)
    with duckdb.connect("tables.duckdb") as connection:
        connection.execute(f"CREATE TABLE a AS SELECT 700000 + i AS id, '{SECRET}' || i AS v FROM range(100) t(i)")
        connection.execute("CREATE TABLE b AS SELECT * FROM a WHERE id <> 700017")
        connection.execute("UPDATE b SET v = 'other' WHERE id = 700023")
        connection.execute("CREATE TABLE people AS SELECT 'person-' || i AS email, i AS n FROM range(40) t(i)")
        connection.execute("CREATE TABLE copied AS SELECT * FROM people WHERE n <> 7")
    write_configuration(tmp_path)
    assert main(["evidence", "--new-key", "--quiet"]) == 0
    return tmp_path


def write_configuration(folder: Path, **more: Any) -> None:
    url = f"duckdb:///{folder}/tables.duckdb"
    here = {side: {"connection": "here", "table": table} for side, table in (("source", "a"), ("target", "b"))}
    people = {side: {"connection": "masked", "table": table} for side, table in (("source", "people"), ("target", "copied"))}
    value = {
        "connections": {"here": {"url": url, "write": {"url": url}}, "masked": {"url": url, "mask": ["*.email"]}},
        "store": {"url": f"sqlite:///{folder}/store.db"},
        "audits": {"orders": {**here, "key": ["id"]}, "people": {**people, "key": ["email"]}},
        "evidence": {"key": "evidence.pem", **more},
    }
    (folder / "auditor.yaml").write_text(json.dumps(value), encoding="utf-8")


@pytest.fixture
def settings(folder: Path) -> Settings:
    return config.load(folder / "auditor.yaml")


@pytest.fixture
def store(folder: Path) -> Iterator[Store]:
    opened = open_store(f"sqlite:///{folder}/store.db")
    yield opened
    opened.close()


Run = Callable[..., Report]


@pytest.fixture
def run(settings: Settings, store: Store) -> Run:
    """Returns a function that runs an audit, and returns its report."""
    return lambda audit="orders", **more: service.run_audit(settings, audit, store=store, **more)


def file_of(store: Store, run: str, **more: Any) -> bytes:
    return evidence.evidence_file(store, evidence.find_link(Settings(connections={}, audits={}), store, run), **more)


def payload_of(store: Store, run: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(file_of(store, run))["links"][0]["payload"]
    return found


def files(folder: Path, store: Store, *ids: str) -> list[str]:
    """Write the evidence of runs, and return the paths."""
    for number, one in enumerate(ids):
        (folder / f"{number}.json").write_bytes(file_of(store, one))
    return [str(folder / f"{number}.json") for number in range(len(ids))]


def problems(settings: Settings, store: Store, audit: str = "orders") -> list[str]:
    return evidence.find_problems(settings, store, audit)


# what is in it


def test_it_says_what_was_compared_and_found(run: Run, store: Store, settings: Settings) -> None:
    report = run()
    said = payload_of(store, report.run)
    assert (said["verdict"], said["state"], said["counts"]["missing"], said["counts"]["changed"]) == ("mismatch", "done", 1, 1)
    assert said["definition"]["source"] == {"connection": "here", "table": "a"} and said["definition"]["key"] == ["id"]
    assert [(one["name"], one["key"], one["masked"]) for one in said["columns"]] == [("id", True, False), ("v", False, False)]
    assert said["versions"]["auditor"] and said["versions"]["canonical"] and said["versions"]["source"].startswith("DuckDB")
    assert said["summaries"]["chunks"] == 2 and said["snapshots"]["kind"] == "whole"
    for one in said["statements"]:
        assert one["sql"].startswith("SELECT") and one["digest"] == hashlib.sha256(one["sql"].encode()).hexdigest()
    assert [one["side"] for one in said["statements"]] == ["source", "target"]
    assert problems(settings, store) == []


def test_rows_are_keyed_digests_alone(run: Run, store: Store) -> None:
    report = run(reason="asked for by somebody@example.org")
    data = file_of(store, report.run)
    for hidden in (SECRET, "700017", "700023", "700,0", "somebody"):
        assert hidden.encode() not in data
    link = chains.get_head(store, "orders")
    assert link and link.row_key
    (missing,) = (one for one in payload_of(store, report.run)["differences"] if one["kind"] == "missing")
    assert missing["key"] == hmac.new(link.row_key, b'key\0{"id":"700017"}', hashlib.sha256).hexdigest()
    other = run()
    digests = {one["key"] for at in (report.run, other.run) for one in payload_of(store, at)["differences"]}
    assert len(digests) == 4, "each run has a key of its own, so that runs cannot be joined by their rows"


def test_files_stay_small_enough_to_be_verified(run: Run, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chains, "MAX_DIFFERENCES", 1)
    said = payload_of(store, run().run)
    assert (len(said["differences"]), said["differences_not_listed"]) == (1, 1)


def test_masked_columns_stay_masked(run: Run, store: Store, settings: Settings) -> None:
    report = run("people")
    data = file_of(store, report.run)
    assert b"person-" not in data and b"***" not in data
    assert payload_of(store, report.run)["counts"]["missing"] == 1
    assert scrub(settings, store) == 1
    assert problems(settings, store, "people") == [] and [one.payload is None for one in chains.list_links(store, "people")] == [
        True,
        False,
    ]


def test_limits_of_a_slice_are_keyed_digests(run: Run, store: Store) -> None:
    report = run(overrides={"keys": {"from": 700017, "to": 700017}})
    said = payload_of(store, report.run)
    assert b"700017" not in file_of(store, report.run)
    assert set(said["other_settings"]) == {"keys"} and all(one["sql"] is None for one in said["statements"])


@pytest.mark.parametrize("key", ["id", "name"])
def test_stretches_of_a_pre_scan_name_no_key(key: str, run: Run, store: Store, folder: Path) -> None:
    with duckdb.connect("tables.duckdb") as connection:
        rows = "SELECT 7000000 + i AS id, 'name-' || (1000000 + i) AS name, i AS n FROM range(30000) r(i)"
        connection.execute(f"CREATE TABLE big AS {rows}; CREATE TABLE same AS FROM big; ALTER TABLE big ADD PRIMARY KEY ({key})")
        connection.execute(f"ALTER TABLE same ADD PRIMARY KEY ({key})")
    value = json.loads((folder / "auditor.yaml").read_text())
    sides = {side: {"connection": "here", "table": table} for side, table in (("source", "big"), ("target", "same"))}
    value["audits"]["big"] = {**sides, "key": [key], "prescan": True}
    (folder / "auditor.yaml").write_text(json.dumps(value))
    report = service.run_audit(config.load(folder / "auditor.yaml"), "big", store=store)
    assert report.plan and report.plan.prescan and report.plan.prescan.used
    said = payload_of(store, report.run)
    assert [one["side"] for one in said["statements"]] == [f"{side}{of}" for side in ("source", "target") for of in ("", " (stretches)")]
    assert {one["sql"] is None for one in said["statements"]} == {bool(report.plan.prescan.cuts)}
    assert not re.search(rb"name-1|(?<![0-9a-f])70[0-2][0-9]{4}(?![0-9a-f])", file_of(store, report.run))


def test_erased_keys_leave_what_is_said_in_clear(run: Run, store: Store, settings: Settings, folder: Path) -> None:
    report = run()
    before = file_of(store, report.run)
    assert main(["evidence", report.run[:12], "--erase-row-keys"]) == 0
    assert file_of(store, report.run) == before and problems(settings, store) == []
    assert main(["evidence", report.run[:12], "--row-key"]) == NoEvidence.exit_code
    change(folder, "UPDATE auditor_runs SET verdict = 'match'")
    assert problems(settings, store) == [f"run {report.run[:12]} of orders was changed in the store since its evidence was signed: verdict"]


# what verification notices


def broken(data: bytes, keys: frozenset[str] = frozenset()) -> str:
    """Return how a file is not whole; empty if it is."""
    try:
        checks.verify_bytes(data, keys)
    except EvidenceBroken as error:
        return str(error)
    return ""


def test_flipped_bits_are_noticed(run: Run, store: Store) -> None:
    data = file_of(store, run().run)
    assert not broken(data)
    chosen = random.Random(0).sample(range(8 * len(data)), FLIPS)
    for bit in {*range(8 * 400), *range(8 * (len(data) - 200), 8 * len(data)), *chosen}:
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        assert broken(bytes(flipped)), f"bit {bit} of byte {bytes(flipped)[bit // 8 - 20 : bit // 8 + 20]!r}"


def test_every_changed_field_is_noticed(run: Run, store: Store) -> None:
    whole = json.loads(file_of(store, run().run))
    assert not broken(checks.write_file(whole["links"]))
    count = 0
    for path in leaves(whole["links"]):
        changed = json.loads(json.dumps(whole["links"]))
        at = changed
        for part in path[:-1]:
            at = at[part]
        value = at[path[-1]]
        at[path[-1]] = not value if isinstance(value, bool) else value + 1 if isinstance(value, int) else "0" * 64 if value else "x"
        assert broken(checks.write_file(changed)), path
        del at[path[-1]]
        assert broken(checks.write_file(changed)), path
        count += 1
    assert count > 80


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of each value in a value that is neither an object nor a list."""
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
    if parts is None:
        yield path
        return
    for name, one in parts:
        yield from leaves(one, (*path, name))


def test_a_file_signed_by_another_key_is_noticed_with_the_pinned_key(run: Run, store: Store, folder: Path, settings: Settings) -> None:
    own, other = evidence.get_key(settings), checks.create_key(folder / "other.pem")
    entry = json.loads(file_of(store, run().run))["links"][0]
    entry["payload"]["verdict"] = "match"
    entry["link"] |= {"payload": checks.digest_of(entry["payload"]), "key": other.public}
    entry["signature"] = other.sign(entry["link"])
    (folder / "forged.json").write_bytes(checks.write_file([entry]))
    (folder / "public.pem").write_text(own.public_pem)
    assert main(["verify", "forged.json"]) == 0, "without a key, any is accepted and named"
    for key in ("public.pem", own.public):
        assert main(["verify", "forged.json", "--key", key]) == EvidenceBroken.exit_code
        assert main(["verify", *files(folder, store, "orders"), "--key", key]) == 0


def test_removed_swapped_and_branched_links_are_noticed(run: Run, store: Store, folder: Path, settings: Settings) -> None:
    ids = [run().run for _ in range(4)]
    paths = files(folder, store, *ids)
    (chain,) = checks.verify_files(reversed(paths)).chains
    assert (chain.first, chain.last, chain.broken) == (1, 4, ())
    assert checks.verify_files([paths[0], paths[1], paths[3]]).chains[0].broken == (
        "link 3 is missing, so nothing shows that link 4 follows link 2",
    )
    whole = json.loads(file_of(store, ids[-1], whole_chain=True))["links"]
    assert not broken(checks.write_file(whole))
    assert "not in order" in broken(checks.write_file([whole[1], whole[0], *whole[2:]]))
    key = evidence.get_key(settings)
    branch = {**whole[2]["link"], "at": "2026-01-01T00:00:00+00:00"}
    (folder / "branch.json").write_bytes(checks.write_file([{"link": branch, "signature": key.sign(branch), "payload": None}]))
    assert "the chain branches: link 3" in checks.verify_files([*paths, "branch.json"]).chains[0].broken[0]
    found = checks.verify_files([paths[0], paths[1], "branch.json", paths[3]]).chains[0].broken
    assert found == ("link 4 does not follow link 3: it names another one before it",)


def test_a_published_head_must_be_among_the_links(run: Run, store: Store, folder: Path) -> None:
    run()
    head = chains.get_head(store, "orders")
    assert head
    paths = files(folder, store, "orders")
    assert main(["verify", *paths, "--head", f"sha256:{head.digest}", "--head", head.digest]) == 0
    assert main(["verify", *paths, "--head", "sha256:" + "0" * 64]) == EvidenceBroken.exit_code


HOSTILE = {
    "empty": b"",
    "no JSON": b"\x00\xff\xfe",
    "text": b'"auditor evidence 1"',
    "list": b"[]",
    "deep": b"[" * 200_000,
    "deep objects": b'{"format":"auditor evidence 1","links":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "number": b"1" * 100_000,
    "NaN": b'{"format": NaN, "links": []}',
    "fraction": b'{"format": 1.5, "links": []}',
    "no links": b'{"format": "auditor evidence 1", "links": []}',
    "newer": b'{"format": "auditor evidence 2", "links": []}',
    "twice": b'{"format": "auditor evidence 1", "format": "auditor evidence 1", "links": []}',
    "surrogate": b'{"format": "\\ud800", "links": []}',
    "terminal": b'{"format": "auditor evidence 1", "\\u001b[2J": 1, "links": []}',
    "wrong types": b'{"format": "auditor evidence 1", "links": {"link": 1}}',
}


@pytest.mark.parametrize("what", HOSTILE)
def test_hostile_files_are_refused(what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "file.json"
    path.write_bytes(HOSTILE[what])
    assert main(["verify", str(path)]) == EvidenceBroken.exit_code
    found = capsys.readouterr()
    assert "NOT WHOLE" in found.out and "\x1b" not in found.out and not found.err
    assert len(found.out) < 600


@pytest.mark.parametrize("value", ["", 7, None, [], {}, "0" * 63, "G" * 64, "\U0010ffff", -1])
@pytest.mark.parametrize("field", ["audit", "number", "run", "at", "payload", "previous", "key", "format"])
def test_signed_nonsense_is_refused(field: str, value: Any, tmp_path: Path) -> None:
    """A link of wrong types is refused even if its signature is right."""
    key = checks.create_key(tmp_path / "key.pem")
    link = {"format": "auditor evidence 1", "audit": "a", "number": 1, "run": "r", "at": "t", "payload": "0" * 64, "previous": None}
    link |= {"key": key.public}
    accepted = value == link[field] or (field in ("audit", "run", "at") and isinstance(value, str)) or (field == "number" and value == 7)
    link[field] = value
    found = broken(checks.write_file([{"link": link, "signature": key.sign(link), "payload": None}]))
    assert bool(found) != accepted or (field == "number" and "names no link before it" in found)


def test_files_of_any_size_and_kind_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "MAX_FILE", 1000)
    (tmp_path / "big").write_bytes(b" " * 1001)
    for path in ("big", "missing", ".", "\0"):
        assert main(["verify", str(tmp_path / path)]) == EvidenceBroken.exit_code


def test_verification_needs_neither_configuration_nor_store(
    run: Run, store: Store, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run()
    (path,) = files(folder, store, "orders")
    for name in ("auditor.yaml", "store.db", "evidence.pem", "tables.duckdb"):
        (folder / name).unlink()
    capsys.readouterr()
    assert main(["verify", path, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["whole"] and not found["pinned"] and found["files"][0]["links"][0]["verdict"] == "mismatch"


# the canonical form


def test_canonical_form_is_that_of_rfc_8785() -> None:
    # The example of section 3.2.3, whose keys are in the order of UTF-16 code units, and texts of section 3.2.2.2.
    keys = {
        "\u20ac": "Euro Sign",
        "\r": "Carriage Return",
        "\ufb33": "Hebrew",
        "1": "One",
        "\U0001f600": "Emoji",
        "\x80": "Control",
        "ö": "o",
    }
    order = [json.loads(part.split(":")[0]) for part in checks.canonical_json(keys).decode()[1:-1].split(",")]
    assert order == ["\r", "1", "\x80", "ö", "\u20ac", "\U0001f600", "\ufb33"]
    assert checks.canonical_json({"s": '\u20ac$\x0f\nA\'B"\\\\"/\x7f'}) == '{"s":"\u20ac$\\u000f\\nA\'B\\"\\\\\\\\\\"/\x7f"}'.encode()
    plain = checks.to_plain({"a": 0.1, "b": 2**53 + 1, "c": [True, None, "\ud800x"], 1: float("nan")})
    assert plain == {"a": "0.1", "b": "9007199254740993", "c": [True, None, "\ufffdx"], "1": "nan"}


# the key


def test_key_is_private_and_never_overwritten(folder: Path, settings: Settings, capsys: pytest.CaptureFixture[str]) -> None:
    key = folder / "evidence.pem"
    assert key.stat().st_mode & 0o777 == 0o600
    before = key.read_bytes()
    assert main(["evidence", "--new-key"]) == ConfigError.exit_code and key.read_bytes() == before
    capsys.readouterr()
    assert main(["evidence", "--public-key"]) == 0
    assert checks.read_public_key(evidence.get_key(settings).public) == evidence.get_key(settings).public
    (folder / "public.pem").write_text(capsys.readouterr().out)
    assert checks.read_public_key("public.pem") == evidence.get_key(settings).public


@pytest.mark.parametrize("damage", ["missing", "readable", "no key", "public key", "empty"])
def test_without_its_key_no_run_begins(damage: str, folder: Path, run: Run, store: Store, settings: Settings) -> None:
    key = folder / "evidence.pem"
    match damage:
        case "missing":
            key.unlink()
        case "readable":
            key.chmod(0o644)
        case "public key":
            key.write_text(evidence.get_key(settings).public_pem)
        case _:
            key.write_text("" if damage == "empty" else "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n")
    with pytest.raises(ConfigError, match="evidence: key:"):
        run()
    assert runs.list_runs(store) == []
    assert main(["check"]) == ConfigError.exit_code


def test_a_key_that_is_lost_meanwhile_loses_no_run(folder: Path, run: Run, store: Store, settings: Settings) -> None:
    run()
    key = folder / "evidence.pem"

    def lose(_: object) -> None:
        with suppress(FileNotFoundError):  # both sides report their progress, and one of them is first
            key.rename(folder / "away.pem")

    lost = run(on_progress=lose)
    assert any("this run has no evidence" in note for note in lost.notes) and runs.get_run(store, lost.run).state == "done"
    (folder / "away.pem").rename(key)
    assert problems(settings, store) == [f"run {lost.run[:12]} of orders is done, and has no evidence"]
    with pytest.raises(NoEvidence, match="its key was missing"):
        evidence.find_link(settings, store, lost.run)


# a changed store


def change(folder: Path, *statements: str) -> None:
    """Change the store as somebody with a client of its database does."""
    connection = sqlite3.connect(folder / "store.db")
    with connection:
        for statement in statements:
            connection.execute(statement)
    connection.close()


@contextmanager
def changed(folder: Path, *statements: str) -> Iterator[None]:
    """Change the store for the block."""
    with closing(sqlite3.connect(folder / "store.db")) as connection, closing(sqlite3.connect(":memory:")) as before:
        connection.backup(before)
        change(folder, "PRAGMA foreign_keys = ON", *statements)
        yield
        before.backup(connection)


CHANGES = {
    "UPDATE auditor_runs SET verdict = 'match'": "verdict",
    "UPDATE auditor_runs SET exit_code = 0": "exit_code",
    "UPDATE auditor_runs SET missing = 0, changed = 0": "changed, missing",
    "UPDATE auditor_runs SET score = 1.0": "score",
    "UPDATE auditor_runs SET ended = '2026-01-01 00:00:00.000000'": "ended",
    "UPDATE auditor_runs SET reasons = '[]'": "reasons",
    "UPDATE auditor_runs SET overrides = '{ }'": "overrides",
    "UPDATE auditor_audit_versions SET definition = '{}'": "definition",
    "UPDATE auditor_schemas SET columns = '{}'": "schema",
    "DELETE FROM auditor_differences": "differences",
    "UPDATE auditor_differences SET state = 'unsettled' WHERE number = 1": "differences",
    "UPDATE auditor_run_documents SET body = x'00' WHERE kind = 'partition_map'": "partition_map",
    "UPDATE auditor_run_documents SET body = 'text' WHERE kind = 'report'": "report",
    "DELETE FROM auditor_run_documents WHERE kind = 'report'": "report",
    "UPDATE auditor_evidence SET row_key = 'text'": ", ".join(sorted([*chains.SEALED_COLUMNS, *PARTS])),
}


def test_a_changed_run_is_found(run: Run, store: Store, settings: Settings, folder: Path) -> None:
    report = run()
    about = f"run {report.run[:12]} of orders was changed in the store since its evidence was signed"
    for statement, parts in CHANGES.items():
        with changed(folder, statement):
            assert problems(settings, store) == [f"{about}: {parts}"], statement
    assert problems(settings, store) == []


def test_every_column_of_an_ended_run_is_sealed_or_does_not_matter() -> None:
    from auditor.store.schema import runs as table

    of_its_life = {"number", "progress", "resumable", "cancel_requested", "running_audit"}
    assert {column.name for column in table.columns} == {*chains.SEALED_COLUMNS, *of_its_life}


def test_a_file_on_standard_output_is_the_same(run: Run, store: Store, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    report = run()
    capsysbinary.readouterr()
    assert main(["evidence", report.run]) == 0
    assert capsysbinary.readouterr().out == file_of(store, report.run)


def test_a_changed_run_is_said_by_commands(run: Run, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = run()
    assert main(["check"]) == 0
    assert main(["evidence", report.run[:12], "-o", "before.json"]) == 0
    change(folder, "UPDATE auditor_runs SET verdict = 'match', exit_code = 0")
    for command in (
        ["evidence", "orders", "-o", "after.json"],
        ["evidence", report.run, "-o", "after.json"],
        ["check"],
        ["check", "orders"],
    ):
        capsys.readouterr()
        assert main(command) == EvidenceBroken.exit_code
        assert "was changed in the store since its evidence was signed: exit_code, verdict" in capsys.readouterr().err
    assert main(["check", "people"]) == 0
    assert (folder / "after.json").read_bytes() == (folder / "before.json").read_bytes(), "what was signed is still there"


BREAKS = {
    "UPDATE auditor_evidence SET signature = replace(signature, '0', '1') WHERE number = 2": "its signature is not that",
    "UPDATE auditor_evidence SET link = CAST(replace(link, 'orders', 'others') AS BLOB) WHERE number = 2": "its signature is not that",
    "UPDATE auditor_evidence SET link = 'text' WHERE number = 2": "link 2 .* it is no link any more",
    "UPDATE auditor_evidence SET payload = x'00' WHERE number = 2": "has another digest than",
    "UPDATE auditor_evidence SET link = x'7b7d' WHERE number = 2": "link 2 .* it is no link any more",
    "DELETE FROM auditor_evidence WHERE number = 2": "link 2 of orders was removed",
    "UPDATE auditor_evidence SET number = number + 10 WHERE number > 1": "link 2 of orders was removed",
    "UPDATE auditor_evidence SET number = CASE number WHEN 1 THEN -2 ELSE -1 END WHERE number < 3": "stands in the place of",
    "UPDATE auditor_evidence SET payload = (SELECT payload FROM auditor_evidence WHERE number = 1)": "has another digest than",
    "DELETE FROM auditor_evidence WHERE number = 3": "is done, and has no evidence",
    "UPDATE auditor_evidence SET payload = NULL, row_key = NULL WHERE number = 2": "is done, and has no evidence",
    "DELETE FROM auditor_runs WHERE number = 2": "was removed from the store, and not by auditor prune",
}


def test_a_changed_chain_is_found(run: Run, store: Store, settings: Settings, folder: Path) -> None:
    for _ in range(3):
        run()
    for statement, said in BREAKS.items():
        more = ["UPDATE auditor_evidence SET number = -number WHERE number < 0"] if "CASE" in statement else []
        with changed(folder, statement, *more):
            found = "\n".join(problems(settings, store))
            assert re.search(said, found), f"{statement}: {found}"
    assert problems(settings, store) == []


def test_a_chain_signed_anew_by_another_key_is_found(run: Run, store: Store, settings: Settings, folder: Path) -> None:
    run()
    former = evidence.get_key(settings).public
    (folder / "evidence.pem").unlink()
    assert main(["evidence", "--new-key", "--quiet"]) == 0
    run()
    assert [f"signed by the key {former}" in problem for problem in problems(settings, store)] == [True]
    write_configuration(folder, former=[former])
    assert problems(config.load(folder / "auditor.yaml"), store) == []


# runs that go, and runs that go on


def test_deleted_runs_leave_tombstones(run: Run, store: Store, settings: Settings, folder: Path) -> None:
    ids = [run().run for _ in range(4)]
    before = str(folder / "before.json")
    Path(before).write_bytes(file_of(store, ids[0]))
    assert pruning.prune(store, runs=1, days=None, now=dt.datetime.now(dt.UTC)).runs == 3
    links = chains.list_links(store, "orders")
    assert [(link.number, link.payload is None, link.row_key is None) for link in links] == [(n, n < 4, n < 4) for n in range(1, 5)]
    assert problems(settings, store) == []
    run()
    assert problems(settings, store) == []
    (folder / "chain.json").write_bytes(file_of(store, "orders", whole_chain=True))
    found = checks.verify_files([before, *files(folder, store, *ids), str(folder / "chain.json")])
    assert found.is_whole and (found.chains[0].first, found.chains[0].last) == (1, 5)
    assert main(["evidence", ids[1][:12], "-o", "gone.json"]) == 0 and main(["verify", "gone.json", before]) == 0


def test_a_run_that_goes_on_has_a_link_for_each_end(run: Run, store: Store, settings: Settings) -> None:
    run()
    seal = evidence.get_seal(settings)
    ids = ["a" * 32, "b" * 32]
    for identity in ids:
        run_lifecycle.start_run(store, run=identity, audit="orders", definition={}, method="exact")
        run_lifecycle.save_plan(store, identity, plan=b"plan", schema={})
        run_lifecycle.save_chunk(store, identity, make_chunk())
        run_lifecycle.finish_run(store, identity, FAILED, seal)
    run_lifecycle.resume_run(store, ids[0])
    assert problems(settings, store) == []
    run_lifecycle.finish_run(store, ids[0], FAILED, seal)
    links = chains.list_links(store, "orders")
    assert [link.run for link in links[1:]] == [*ids, ids[0]] and [link.payload is None for link in links] == [False, True, False, False]
    assert problems(settings, store) == []


def test_runs_that_others_ended_are_linked_before_the_next(run: Run, store: Store, settings: Settings, folder: Path) -> None:
    """A run whose process died gets no link when it is found dead, and one before that of the next run."""
    run()
    run_lifecycle.start_run(store, run="c" * 32, audit="orders", definition={}, method="exact")
    change(folder, "UPDATE auditor_leases SET host = 'another', until = '2026-01-01 00:00:00.000000' WHERE kind = 'run'")
    assert run_lifecycle.recover_runs(store).failed == ["c" * 32]
    last = run().run
    assert [link.run for link in chains.list_links(store, "orders")][1:] == ["c" * 32, last]
    assert payload_of(store, "c" * 32)["state"] == "failed" and problems(settings, store) == []


def test_runs_of_the_queue_are_sealed_however_they_end(store: Store, settings: Settings) -> None:
    workers.request_run(settings, store, "orders")
    assert main(["run", "--due", "--quiet"]) == 1
    workers.request_run(settings, store, "orders")
    with duckdb.connect("tables.duckdb") as connection:
        connection.execute("DROP TABLE a")
    assert main(["run", "--due", "--quiet"]) == 2
    found = [json.loads(link.payload or b"{}") for link in chains.list_links(store, "orders")]
    assert [(one["state"], one["verdict"]) for one in found] == [("done", "mismatch"), ("failed", "unknown")]
    assert problems(settings, store) == []


def test_it_is_served(run: Run, store: Store, settings: Settings, folder: Path) -> None:
    report = run()
    assert evidence.intact_file(settings, store, report.run) == file_of(store, report.run)
    with pytest.raises(NoEvidence):
        evidence.intact_file(settings.model_copy(update={"evidence": None}), store, report.run)
    change(folder, "UPDATE auditor_runs SET verdict = 'match'")
    with pytest.raises(EvidenceBroken, match="signed: verdict"):
        evidence.intact_file(settings, store, report.run)


# where heads go


def test_heads_are_rows_of_the_target(folder: Path, store: Store) -> None:
    write_configuration(folder, publish=["target"])
    settings = config.load(folder / "auditor.yaml")
    for _ in range(2):
        service.run_audit(settings, "orders", store=store)
    with duckdb.connect("tables.duckdb") as connection:
        rows = connection.execute("SELECT audit, number, head FROM main.auditor_evidence_heads ORDER BY number").fetchall()
    assert rows == [("orders", link.number, link.digest) for link in chains.list_links(store, "orders")]
    report = service.run_audit(settings, "people", store=store)
    assert [note for note in report.notes if "the head of the evidence was not published (target)" in note and "may only read" in note]


def test_heads_are_in_messages(folder: Path, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[Message] = []
    monkeypatch.setattr(notify, "send", lambda _name, _channel, message: sent.append(message))
    for publish in ([], ["messages"]):
        write_configuration(folder, publish=publish)
        value = json.loads((folder / "auditor.yaml").read_text())
        value["notify"] = {"channels": {"ops": {"url": "json://localhost", "on": ["mismatch", "digest"]}}, "repeat_after": "0s"}
        (folder / "auditor.yaml").write_text(json.dumps(value))
        assert main(["run", "orders", "--quiet"]) == 1 and main(["notify", "digest"]) == 0
        head = chains.get_head(store, "orders")
        assert head and len(sent) == 2
        for message in sent:
            assert [line for line in message.lines if head.digest in line] == (
                [line for line in message.lines if line.endswith(f"evidence: link {head.number}, sha256:{head.digest}")] if publish else []
            )
            assert any("sha256:" in line for line in message.lines) == bool(publish)
        sent.clear()


@pytest.mark.parametrize("place", ["mail", "s3://", "s3://Bucket!", "https://example.org"])
def test_places_are_checked(place: str, folder: Path) -> None:
    write_configuration(folder, publish=[place])
    with pytest.raises(ConfigError, match="is no place for heads of chains"):
        config.load(folder / "auditor.yaml")


# the page


def test_the_page_is_executed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The commands of docs/evidence.md, in order, and its verification without the auditor."""
    page = documents.ROOT / "docs" / "evidence.md"
    monkeypatch.chdir(tmp_path)
    for name, rows in (("shop", 20), ("warehouse", 19)):
        with duckdb.connect(f"{name}.duckdb") as connection:
            connection.execute(f"CREATE TABLE orders AS SELECT i AS id, 'größer' AS v FROM range({rows}) t(i)")
    written, every = documents.blocks(page, "yaml")
    (tmp_path / "auditor.yaml").write_text(written, encoding="utf-8")
    assert config.validate_settings({"connections": {}, "audits": {}, **yaml.safe_load(every)}).evidence
    codes = []
    for block in documents.blocks(page, "console"):
        for command, _ in documents.sessions(block):
            words, _, file = command.partition(" > ")
            codes.append(main(shlex.split(words)[1:]))
            if file:
                Path(file).write_text(capsys.readouterr().out, encoding="utf-8")
    assert codes == [0, 1, 0, 0, 0, 0, 0, 0]
    capsys.readouterr()
    (code,) = documents.blocks(page, "python")
    exec(code, {})
    assert capsys.readouterr().out.startswith("orders 1 mismatch signed by ")
    Path("evidence.json").write_text(Path("evidence.json").read_text().replace('"mismatch"', '"match"'))
    with pytest.raises(AssertionError):
        exec(code, {})
