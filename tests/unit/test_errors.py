"""Errors that leave a process under the name of their class: each comes back as what it was, and none in silence as another."""

from __future__ import annotations

import io
import json
import pickle
import urllib.error
from collections.abc import Iterator
from email.message import Message

import pytest
from redshift_connector.error import ProgrammingError

from auditor import errors
from auditor.api.errors import PROBLEM_TYPES
from auditor.client.http import OTHER_PROBLEMS, PROBLEM, error_from
from auditor.errors import KIND_BY_NAME, AuditorError, ColumnRefused, PipelineFailed, StagingFailed, UnknownDay, error_named, name_of
from auditor.pipeline.spark import translate
from auditor.pipeline.stage_task import read_entry
from dialects.errors import StatementRefused
from dialects.redshift.session import translate_error as translate_redshift


class RefusedElsewhere(StatementRefused):
    """An error of another distribution's engine."""


def _tree(kind: type[AuditorError]) -> Iterator[type[AuditorError]]:
    yield kind
    for below in kind.__subclasses__():
        yield from _tree(below)


def test_the_whole_tree_is_registered_and_drawn() -> None:
    tree = {kind for kind in _tree(AuditorError) if kind.__module__ in ("auditor.errors", "dialects.errors")}
    assert set(KIND_BY_NAME.values()) == tree
    assert {kind.__name__ for kind in tree} <= set(errors.__all__)
    drawn = (errors.__doc__ or "").split()
    assert [kind.__name__ for kind in tree if kind.__name__ not in drawn] == []


@pytest.mark.parametrize("kind", KIND_BY_NAME.values(), ids=KIND_BY_NAME)
def test_an_error_survives_the_way_between_processes(kind: type[AuditorError]) -> None:
    error = kind("what: and why")
    assert name_of(error) == kind.__name__
    for found in (
        pickle.loads(pickle.dumps(error)),
        error_named(name_of(error), str(error), PipelineFailed),
        translate(RuntimeError(f"Traceback (most recent call last):\n{kind.__module__}.{kind.__qualname__}: {error}\n")),
        _read_from_task(f"{name_of(error)}: {error}"),
        _read_from_service(500, f"{PROBLEM}{name_of(error)}", str(error)),
    ):
        assert type(found) is kind and str(found).startswith("what: and why")


def test_what_an_error_carries_travels_with_it() -> None:
    refused, left = ColumnRefused("a"), StatementRefused("b")
    refused.problems, left.names = ("one", "two"), ("t",)
    assert pickle.loads(pickle.dumps(refused)).problems == ("one", "two")
    assert pickle.loads(pickle.dumps(left)).names == ("t",)


def test_an_error_of_another_package_is_named_by_its_nearest_kind() -> None:
    assert name_of(RefusedElsewhere("no")) == "StatementRefused"


@pytest.mark.parametrize("name", ["Renamed", "UNEXPECTED", "Mapping", "annotations"])
def test_an_unknown_name_is_said(name: str) -> None:
    sentence = f"unknown error {name}: why"
    found = _read_from_task(f"{name}: why")
    assert (type(found), str(found)) == (StagingFailed, sentence)
    found = translate(RuntimeError(f"Traceback (most recent call last):\nauditor.errors.{name}: why\n"))
    assert (type(found), str(found)) == (PipelineFailed, sentence)
    found = _read_from_service(409, f"{PROBLEM}{name}", "why")
    assert (type(found), str(found)) == (errors.AlreadyRunning, sentence)


def test_what_is_no_error_of_the_tree_keeps_its_words() -> None:
    assert {*PROBLEM_TYPES.values(), "InvalidRequest", "InternalError", ""} - KIND_BY_NAME.keys() == OTHER_PROBLEMS
    for kind in (*(f"{PROBLEM}{name}" for name in OTHER_PROBLEMS), "about:blank"):
        assert str(_read_from_service(404, kind, "why")) == "why"
    assert type(_read_from_service(404, f"{PROBLEM}UnknownDay", "why")) is UnknownDay


def _read_from_task(error: str) -> AuditorError:
    with pytest.raises(AuditorError) as found:
        read_entry({"error": error, "part": None})
    return found.value


def _read_from_service(status: int, kind: str, detail: str) -> AuditorError:
    body = io.BytesIO(json.dumps({"type": kind, "detail": detail}).encode())
    return error_from("http://service", urllib.error.HTTPError("http://service", status, "", Message(), body))


@pytest.mark.parametrize(
    ("state", "detail", "shown"),
    [
        ("23514", "Failing row contains (3, long).", "it failed (SQLSTATE 23514)"),
        ("22P02", "Value long is no number.", "it failed (SQLSTATE 22P02)"),
        ("XX000", "table orders", "it failed: table orders (SQLSTATE XX000)"),
    ],
)
def test_a_detail_of_redshift_that_shows_a_row_is_left_out(state: str, detail: str, shown: str) -> None:
    translated = translate_redshift(ProgrammingError({"M": "it failed", "C": state, "D": detail}))
    assert str(translated) == shown
