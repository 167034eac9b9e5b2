"""Engines are found by entry points; one that is broken is named, and keeps no other from being used."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint, entry_points

import pytest

import dialects
from auditor.errors import BadUrl, EngineBroken

Install = Callable[[str, str], None]


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Add an entry point of another distribution, for the test alone."""
    real = list(entry_points(group=dialects.GROUP))
    dialects.installed_dialects.cache_clear()

    def add(name: str, value: str) -> None:
        real.append(EntryPoint(name, value, dialects.GROUP))
        monkeypatch.setattr(dialects, "entry_points", lambda group: real)

    yield add
    dialects.installed_dialects.cache_clear()
    dialects.get.cache_clear()


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("no_such_package:Engine", "No module named 'no_such_package'"),
        ("dialects:Nothing", "has no attribute 'Nothing'"),
        ("dialects:Kind", "not a subclass of dialects.Dialect"),
        ("dialects:Dialect", "abstract"),
    ],
)
def test_a_broken_engine_is_named_and_the_others_work(install: Install, value: str, why: str) -> None:
    install("aaa", value)
    with pytest.raises(EngineBroken, match=rf"the engine 'aaa' \({value}\) cannot be loaded: .*{why}.*; repair its package"):
        dialects.get("aaa")
    assert dialects.by_scheme("mariadb").name == "mysql"
    assert "aaa" in dialects.names()
    assert [one.name for one in dialects.working()] == [name for name in dialects.names() if name != "aaa"]
    with pytest.raises(EngineBroken, match="the engine 'aaa'"):
        dialects.by_scheme("sqlite")


def test_two_engines_of_one_name_are_refused_and_the_same_one_twice_is_not(install: Install) -> None:
    install("duckdb", "dialects.duckdb.dialect:DuckDB")
    assert dialects.by_scheme("duckdb").name == "duckdb"
    dialects.get.cache_clear()
    dialects.installed_dialects.cache_clear()
    install("duckdb", "theirs:DuckDB")
    several = r"several packages bring an engine 'duckdb': dialects\.duckdb\.dialect:DuckDB, theirs:DuckDB; uninstall"
    with pytest.raises(EngineBroken, match=several):
        dialects.get("duckdb")


def test_an_unknown_scheme_lists_the_known_ones() -> None:
    with pytest.raises(BadUrl, match=r"unknown engine in URL oracle://; use one of .*duckdb, .*mariadb, .*mysql, .*postgres, postgresql"):
        dialects.by_scheme("oracle")


def test_an_engine_is_found_without_loading_others() -> None:
    asked = "import sys, dialects; dialects.by_scheme('mariadb'); print(*sorted(one for one in sys.modules if one.startswith('dialects.')))"
    loaded = subprocess.run([sys.executable, "-c", asked], check=True, capture_output=True, text=True).stdout.split()
    assert "dialects.mysql.dialect" in loaded
    assert not {"dialects.delta", "dialects.duckdb.dialect", "dialects.postgres.dialect", "dialects.spark"} & set(loaded)


def test_schemes_that_are_named_otherwise_are_those_of_their_engines() -> None:
    assert {scheme: dialects.by_scheme(scheme).name for scheme in dialects.NAMED_OTHERWISE} == dialects.NAMED_OTHERWISE
