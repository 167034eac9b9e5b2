"""How an engine writes the definition of a table, where engines differ."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

TableKey = Literal["dist", "sort"]
"""By which columns a table's rows are spread over machines, or sorted on disk."""


@dataclass(frozen=True, slots=True)
class ColumnForm:
    """How a column is defined, where a statement changes it by its whole definition."""

    type: str
    """Its type, with its character set and collation."""
    rest: str
    """What follows NULL or NOT NULL, with the blank before it: default, numbering, comment; empty if nothing does."""


@dataclass(frozen=True, slots=True)
class TableForm:
    """What differs between engines in CREATE TABLE and ALTER TABLE. ``{holes}`` are SQL."""

    create_schema: str = "CREATE SCHEMA {schema}"
    """The statement that makes a ``{schema}`` (of MySQL and Spark a database), and fails if it is there; empty where tables are files."""
    drop_schema: str = "DROP SCHEMA {schema} CASCADE"
    """The statement that drops a ``{schema}`` with its tables."""
    enforces_keys: bool = True
    """Whether a primary key is a constraint, so that it is declared where a table is made."""
    type_by_kind: Mapping[str, str] = field(default_factory=dict)
    """Types of columns that a pipeline makes, of kinds of which the usual type would not keep a value's text."""
    key_text: str = ""
    """The type of a text of at most ``{characters}`` in a key, where the usual type of texts cannot be in one."""
    key_binary: str = ""
    """The same of a binary string of at most ``{bytes}``."""
    sized_text: str = ""
    """The type of a text of at most ``{bytes}`` in UTF-8, where a shorter type costs less or the fixed-width one holds no such text."""
    sized_binary: str = ""
    """The type of a binary string of at most ``{bytes}``, where the usual one holds fewer."""
    null: str = ""
    """What follows the type of a column that may be NULL, where leaving it out can mean something else."""
    inline_comments: bool = False
    """Whether comments stand in CREATE TABLE; else COMMENT ON adds them."""
    backslash_escapes: bool = False
    """Whether a backslash in a comment's literal begins an escape."""
    primary_key: str = "PRIMARY KEY ({columns})"
    """The clause of a primary key; empty where there are none."""
    table_keys: Mapping[TableKey, str] = field(default_factory=dict)
    """The clauses of distribution and sort keys, of ``{columns}``."""
    change: tuple[str, ...] = ("ALTER TABLE {table} ALTER COLUMN {column} TYPE {type}",)
    """The statements that change a ``{column}`` to a ``{type}``, with what follows it; empty where a table must be made again."""
    change_null: str = "ALTER TABLE {table} ALTER COLUMN {column} {change} NOT NULL"
    """The statement that SETs or DROPs NOT NULL; empty where ``change`` does, or nothing."""
