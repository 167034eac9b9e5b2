"""Foreign keys of the source whose cascades its log does not hold: which tables change, without a word, with an event of another one.

InnoDB carries cascades out below the binary log. MySQL logs them from 9.6 on, unless ``innodb_native_foreign_keys`` is on; MariaDB, and
MySQL before that, never do.

https://dev.mysql.com/doc/refman/9.6/en/innodb-parameters.html#sysvar_innodb_native_foreign_keys
https://mariadb.com/kb/en/foreign-keys/
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from auditor.errors import NoSuchObject
from auditor.pipeline.binlog.selection import Selection
from auditor.pipeline.binlog.sql_tokens import Token, TokenReader, split, tokens
from dialects.mysql.expressions import MySQLNames

Name = tuple[str, str]
"""Database and table."""

NATIVE = "SHOW GLOBAL VARIABLES LIKE 'innodb_native_foreign_keys'"

CHILDREN = "SELECT DISTINCT TABLE_SCHEMA, TABLE_NAME FROM information_schema.KEY_COLUMN_USAGE WHERE REFERENCED_TABLE_NAME IS NOT NULL"
"""Tables with foreign keys. What these do is read from SHOW CREATE TABLE: MariaDB's REFERENTIAL_CONSTRAINTS shows nothing to who may only
SELECT."""

NO_CHECKS = 2
"""Flag of a rows event: its session had foreign_key_checks = 0, and so nothing cascaded.
https://dev.mysql.com/doc/dev/mysql-server/latest/classbinary__log_1_1Rows__event.html"""

_QUIET = ("RESTRICT", "NO ACTION")


@dataclass(frozen=True, slots=True)
class Reference:
    """A foreign key with an action other than to refuse."""

    child: Name
    columns: tuple[str, ...]
    parent: Name
    referenced: tuple[str, ...]
    on_delete: str
    on_update: str

    def to_json(self) -> list[Any]:
        """Return it as JSON holds it."""
        return [list(self.child), list(self.columns), list(self.parent), list(self.referenced), self.on_delete, self.on_update]

    @classmethod
    def from_json(cls, body: Sequence[Any]) -> Reference:
        """Return what ``to_json`` made."""
        child, columns, parent, referenced, on_delete, on_update = body
        return cls((child[0], child[1]), tuple(columns), (parent[0], parent[1]), tuple(referenced), on_delete, on_update)

    def __str__(self) -> str:
        """Return it for people."""
        actions = [
            f"ON {what} {action}" for what, action in (("DELETE", self.on_delete), ("UPDATE", self.on_update)) if action not in _QUIET
        ]
        child, parent = ".".join(self.child), ".".join(self.parent)
        return f"{child} ({', '.join(self.columns)}) REFERENCES {parent} ({', '.join(self.referenced)}) {' '.join(actions)}"


def read_references(ask: Callable[[str], Sequence[Sequence[Any]]], server: str) -> list[Reference]:
    """Return the foreign keys of a server whose cascades its log does not hold, none if it holds them.

    ``ask`` runs a statement and returns its rows; ``server`` names the server and its version. Raises what ``ask`` raises.
    """
    if "mariadb" not in server.lower() and any(_text(value).upper() == "OFF" for _, value in ask(NATIVE)):
        return []
    references: list[Reference] = []
    for row in ask(CHILDREN):
        database, table = (_text(value) for value in row)
        with suppress(NoSuchObject):  # dropped meanwhile
            [(_, definition)] = ask(f"SHOW CREATE TABLE {MySQLNames().table(database, table)}")
            references += made_references(_text(definition), database, 0)
    return references


def made_references(text: str, database: str, sql_mode: int) -> list[Reference]:
    """Return the foreign keys with actions that a CREATE or ALTER TABLE makes."""
    reader = TokenReader(tokens(text, sql_mode), database)
    while reader.left and not reader.take("TABLE"):
        reader.left.pop(0)
    _ = reader.take("IF", "EXISTS") or reader.take("IF", "NOT", "EXISTS")
    child, left = reader.take_table(), reader.left
    places = [place for place, token in enumerate(left) if token.is_word("REFERENCES")]
    made = [_reference(child, left[:place], TokenReader(left[place + 1 :], database)) for place in places if child]
    return [reference for reference in made if reference]


def _reference(child: Name, before: Sequence[Token], rest: TokenReader) -> Reference | None:
    """Return the foreign key of which this is before and after the word REFERENCES, if it has an action."""
    parent, referenced = rest.take_table(), _names(rest.left)
    columns = _names(before[_last(before, "(") :]) if before and before[-1].text == ")" else []
    del rest.left[: _first(rest.left, ")") + 1 if referenced else 0]
    actions = {"DELETE": "RESTRICT", "UPDATE": "RESTRICT"}
    while rest.left and rest.left[0].is_word("ON", "MATCH"):
        verb, what = rest.left.pop(0), rest.left.pop(0).text.upper() if len(rest.left) > 1 else ""
        if verb.is_word("ON") and rest.left:
            action = rest.left.pop(0).text.upper()
            actions[what] = f"{action} {rest.left.pop(0).text.upper()}" if action in ("SET", "NO") and rest.left else action
    if parent is None or all(action in _QUIET for action in actions.values()):
        return None
    return Reference(child, tuple(columns or referenced), parent, tuple(referenced), actions["DELETE"], actions["UPDATE"])


def _names(left: Sequence[Token]) -> list[str]:
    """Return the names in the parentheses that stand first; none if there are none."""
    if not left or left[0].text != "(":
        return []
    return [names[0].text for names in split(left[1 : _first(left, ")")])]


def _first(left: Sequence[Token], sign: str) -> int:
    return next((place for place, token in enumerate(left) if token.kind == "sign" and token.text == sign), len(left))


def _last(left: Sequence[Token], sign: str) -> int:
    return len(left) - 1 - _first(left[::-1], sign)


@dataclass(frozen=True, slots=True)
class Reached:
    """What cascades from the events of one table: tables that are read, each with the foreign key that begins the way to it."""

    deleted: tuple[tuple[Name, Reference], ...]
    updated: tuple[tuple[frozenset[str], Name, Reference], ...]
    """Of an UPDATE that changes one of these columns, whose names are in lower case."""


class Cascades:
    """Which tables that are read change with events of which tables, over any number of foreign keys."""

    def __init__(self, references: Iterable[Reference], selection: Selection) -> None:
        self._selection = selection
        self._by_parent: dict[Name, list[Reference]] = {}
        for reference in references:
            self._by_parent.setdefault(reference.parent, []).append(reference)
        self._reached = {parent: reached for parent in self._by_parent if (reached := self._reach(parent))}

    def __bool__(self) -> bool:
        return bool(self._reached)

    def of(self, table: Name) -> Reached | None:
        """Return what events of a table cascade to; None if nothing."""
        return self._reached.get(table)

    def silent(self) -> list[tuple[Name, Reference]]:
        """Return the tables that are read and change so, each with the foreign keys that begin the way to it."""
        pairs = [pair for reached in self._reached.values() for pair in reached.deleted]
        pairs += [(child, reference) for reached in self._reached.values() for _, child, reference in reached.updated]
        return sorted(dict.fromkeys(pairs), key=str)

    def _reach(self, parent: Name) -> Reached | None:
        deleted = [(child, reference) for reference in self._by_parent[parent] for child in self._follow(reference, True, {reference})]
        updated = [
            (frozenset(name.lower() for name in reference.referenced), child, reference)
            for reference in self._by_parent[parent]
            for child in self._follow(reference, False, {reference})
        ]
        return Reached(tuple(dict.fromkeys(deleted)), tuple(dict.fromkeys(updated))) if deleted or updated else None

    def _follow(self, reference: Reference, is_delete: bool, passed: set[Reference]) -> Iterator[Name]:
        """Yield the tables that are read and change if a row that this key references is deleted, or its columns are updated."""
        action = reference.on_delete if is_delete else reference.on_update
        if action in _QUIET:
            return
        if self._selection.has(*reference.child):
            yield reference.child
        goes = is_delete and action == "CASCADE"
        changed = {name.lower() for name in reference.columns}
        for other in self._by_parent.get(reference.child, []):
            if other not in passed and (goes or changed & {name.lower() for name in other.referenced}):
                passed.add(other)
                yield from self._follow(other, goes, passed)


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
