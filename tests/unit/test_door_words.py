"""Errors in the words of the door that shows them: commands, requests, or pages."""

from __future__ import annotations

from pathlib import Path

import pytest

from auditor.cli import main
from auditor.door_words import in_commands, in_pages, in_requests
from tests.unit.test_table_groups import define, ran, workdir

__all__ = ["workdir"]

SERVER = "http://localhost:8080"


@pytest.mark.parametrize(
    ("message", "request_words", "page", "command"),
    [
        ("no run 'ab'; list the runs with: auditor runs", "no run 'ab'; list the runs with: GET /api/v1/runs", "no run 'ab'; list the runs",
         f"no run 'ab'; list the runs with: auditor runs --server {SERVER}"),
        ("it is done; start a new run: auditor run shop.t", "it is done; start a new run: POST /api/v1/audits/shop.t/runs",
         "it is done; start a new run", f"it is done; start a new run: auditor run shop.t --server {SERVER}"),
        ("not yet; see: auditor show 12ab", "not yet; see: GET /api/v1/runs/12ab", "not yet",
         f"not yet; see: auditor show 12ab --server {SERVER}"),
        ("begin again: auditor run t --rescan", *3 * ("begin again: auditor run t --rescan",)),
        ("make a key with: auditor evidence --new-key", *3 * ("make a key with: auditor evidence --new-key",)),
        ("leave --keys out", "leave keys out", "leave --keys out", "leave keys out"),
    ],
)  # fmt: skip
def test_a_message_has_the_words_of_its_door(message: str, request_words: str, page: str, command: str) -> None:
    assert (in_requests(message), in_pages(message)) == (request_words, page)
    assert in_commands(request_words, SERVER) == command


NEAR = {
    "show shop.custmers": "there is no run and no audit that ran called 'shop.custmers'; did you mean 'shop.customers'?",
    "differences shop.custmers": "did you mean 'shop.customers'?",
    "partitions shop.custmers": "did you mean 'shop.customers'?",
    "patch shop.custmers": "did you mean 'shop.customers'?",
    "trace shop.custmers": "did you mean 'shop.customers'?",
    "report --run shop.custmers": "did you mean 'shop.customers'?",
    "evidence shop.custmers": "did you mean 'shop.customers'?",
    "show definde": "did you mean 'defined'?",
    "resume shop.custmers": "did you mean 'shop.customers'?",
    "cancel shop.custmers": "did you mean 'shop.customers'?",
    "resume shop.customers": "is done; start a new run: auditor run shop.customers",
    "resume alone": "audit alone has not run yet; run it: auditor run alone",
    "cancel shop": "'shop' is a group of tables",
    "trace alone": "audit alone has not run yet; run it: auditor run alone, or name keys: --key",
    "show alone": "audit alone has not run yet; run it: auditor run alone",
    "evidence shop.customers": "of shop.customers has no evidence: none was configured when it ended",
    "show shop": "'shop' is a group of tables, each of which is an audit of its own; name one of them, such as shop.customers",
    "runs --audit shop": "'shop' is a group of tables",
    "history shop": "'shop' is a group of tables",
    "show ffff": "there is no run and no audit that ran called 'ffff'; list the runs with: auditor runs",
}
"""What is said of names that no run and no audit that ran has."""


def test_an_unknown_run_or_audit_is_answered_with_the_nearest(workdir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    define(workdir)
    assert ran(capsys, "shop.customers")[0] == {"shop.customers": "mismatch"}
    for command, expected in NEAR.items():
        assert main(command.split()) in (2, 3), command
        error = capsys.readouterr().err
        assert expected in error, (command, error)
    assert main(["cancel", "shop.customers"]) == 0
    assert "shop.customers" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("costs shop.t3", "auditor costs: error: unrecognized arguments: shop.t3"),
        ("pipeline status shop more", "auditor pipeline status: error: unrecognized arguments: more"),
        ("report --audit shop.t3", "there is no option --audit; did you mean '--run'?"),
        ("show --run 12", "there is no option --run; write RUN without it"),
        ("report --outptu x", "there is no option --outptu; did you mean '--output'?"),
    ],
)
def test_wrong_arguments_are_answered_by_the_command(capsys: pytest.CaptureFixture[str], command: str, expected: str) -> None:
    with pytest.raises(SystemExit):
        main(command.split())
    assert expected in capsys.readouterr().err
