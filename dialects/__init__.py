"""Database engines: one package each, which states facts and returns pieces of SQL. Decisions are made in ``auditor``.

To add an engine, copy the package of the most similar one. Its module ``dialect`` defines one class that derives from ``Dialect`` (or from
the dialect of the product that the vendor derived its own from), with

* ``name``, ``schemes`` and ``sqlglot_dialect``: the engine's name here, in URLs and in sqlglot;
* the class attributes that differ from the defaults in ``dialects.base.Dialect``;
* its parts, of which each is built of the one before it: ``names``, ``text``, ``numbers``, ``times``, ``canonical`` and ``hashes``, whose
  methods return SQL text, and ``types``, the mapping between native types and canonical kinds. Their classes derive from those of the
  modules of these names here, whose docstrings are their contracts;
* ``addresses``, ``catalogue``, ``server`` and ``writing``: more parts, of classes that derive from those of ``dialects.addresses``,
  ``dialects.base`` and ``dialects.writing``; it has no ``writing`` where pipelines and repairs do not write to it;
* ``files``, of a class that derives from ``dialects.data_files.DataFiles``, where its tables consist of immutable files;
* ``pin_statements`` and ``connect``, which imports the driver only when it is called.

The modules of an engine's package have the same names in each: ``dialect`` (facts, types, ``connect``), ``expressions`` (the SQL),
``session``, ``login``, ``settings``, ``catalogue``, ``server`` (how busy it is, and what statements cost), ``writing`` (all that writes:
facts, how rows are loaded, how tables change) and ``errors``, as far as there is something to say.

Engines are discovered through the entry-point group ``auditor.dialects`` of any installed distribution: ``name = "module:Class"``. The
catalogue queries of an engine are templates in the package that its class names (``TEMPLATES``): ``tables``, ``columns``,
``primary_key``, ``estimate``, and those of the server's load. To run the whole test suite on an engine, add it to the list of
engines under test; an engine of another distribution runs the tests of ``auditor.testing.engine_oracle``. ``docs/engines.md`` shows
a whole engine.
"""

from __future__ import annotations

from contextlib import suppress
from functools import cache
from importlib.metadata import EntryPoint, entry_points

from dialects.base import ColumnBatch, Dialect, Session
from dialects.canonical import Canonical
from dialects.catalogue import Column, HashAlgorithm, Origins, Place, ScanEstimate, ServerTimes, Table, TableName, TimeUnit
from dialects.errors import BadUrl, EngineBroken
from dialects.hashes import Hashes
from dialects.kinds import Kind
from dialects.names import Names
from dialects.numbers import Numbers
from dialects.text import Text
from dialects.times import Times
from dialects.types import Types
from dialects.url import Url, parse_url

__all__ = [
    "Canonical",
    "Column",
    "ColumnBatch",
    "Dialect",
    "HashAlgorithm",
    "Hashes",
    "Kind",
    "Names",
    "Numbers",
    "Origins",
    "Place",
    "ScanEstimate",
    "ServerTimes",
    "Session",
    "Table",
    "TableName",
    "Text",
    "TimeUnit",
    "Times",
    "Types",
    "Url",
    "by_scheme",
    "connect",
    "database_id",
    "get",
    "names",
    "parse_url",
    "working",
]

GROUP = "auditor.dialects"
"""The entry-point group of dialects."""

PARTS = ("names", "text", "numbers", "times", "canonical", "hashes", "types", "addresses")
"""What an engine must have of its own."""

NAMED_OTHERWISE = {"mariadb": "mysql", "mariadb+pymysql": "mysql", "parquet": "delta", "parquet+s3": "delta"}
"""Engines of URL schemes that do not begin with the engine's name: asked first, so that no other has to be loaded."""


@cache
def installed_dialects() -> dict[str, list[EntryPoint]]:
    """Return the entry points by name; several distributions may have one of the same name."""
    entries: dict[str, list[EntryPoint]] = {}
    for entry in entry_points(group=GROUP):
        if all(entry.value != other.value for other in entries.setdefault(entry.name, [])):
            entries[entry.name].append(entry)
    return entries


def names() -> list[str]:
    """Return the names of all installed engines, sorted."""
    return sorted(installed_dialects())


@cache
def get(name: str) -> Dialect:
    """Return the dialect of that name. Raises LookupError if there is none, EngineBroken if its package cannot be loaded."""
    if name not in installed_dialects():
        known = ", ".join(names()) or f"none; no installed distribution has entry points {GROUP}: install auditor with pip"
        raise LookupError(f"there is no dialect {name!r}; installed: {known}")
    entry, *others = installed_dialects()[name]
    if others:
        values = ", ".join(other.value for other in (entry, *others))
        raise EngineBroken(f"several packages bring an engine {name!r}: {values}; uninstall all but one")
    try:
        dialect_class = entry.load()
        if not (isinstance(dialect_class, type) and issubclass(dialect_class, Dialect)):
            raise TypeError("it is not a subclass of dialects.Dialect")
        dialect: Dialect = dialect_class()
        if missing := [part for part in PARTS if not hasattr(dialect, part)]:
            raise TypeError(f"it has no {', '.join(missing)}")
    except Exception as error:  # of a package that is not ours
        raise EngineBroken(f"the engine {name!r} ({entry.value}) cannot be loaded: {error}; repair its package, or uninstall it") from error
    return dialect


def working() -> list[Dialect]:
    """Return the dialects that can be loaded, by name. One that cannot is named where it is asked for."""
    usable: list[Dialect] = []
    for name in names():
        with suppress(EngineBroken):
            usable.append(get(name))
    return usable


def by_scheme(scheme: str) -> Dialect:
    """Return the dialect of a URL scheme.

    Raises BadUrl if there is none, and EngineBroken if there may be one in a package that cannot be loaded.
    """
    broken: list[EngineBroken] = []
    likely = NAMED_OTHERWISE.get(scheme, scheme)
    for name in sorted(names(), key=lambda name: not likely.startswith(name)):  # an engine named like the scheme first: loads few others
        try:
            dialect = get(name)
        except EngineBroken as error:
            broken.append(error)
            continue
        if scheme in dialect.schemes:
            return dialect
    if broken:
        raise broken[0]
    known = ", ".join(sorted(s for dialect in working() for s in dialect.schemes))
    raise BadUrl(f"unknown engine in URL {scheme}://; use one of {known}")


def database_id(url: str) -> str:
    """Return a canonical identifier of the database behind a URL, without credentials. Raises BadUrl.

    See ``Addresses.database_id``.
    """
    parsed = parse_url(url)
    return by_scheme(parsed.scheme).addresses.database_id(parsed)


def connect(url: str, statement_timeout: float = 3600.0, lock_timeout: float = 10.0) -> Session:
    """Open a pinned, read-only session.

    ``statement_timeout`` limits a statement, ``lock_timeout`` its wait for a lock; both in seconds. Raises BadUrl and EngineError.
    """
    parsed = parse_url(url)
    return by_scheme(parsed.scheme).connect(parsed, statement_timeout, lock_timeout)
