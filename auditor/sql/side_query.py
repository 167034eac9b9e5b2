"""The query that stands in place of a side's table: one SELECT, in the dialect of its server, which is checked before the server sees it.

The server gets the text as it was written, without what ends it, as a derived table. So whatever this module reads of the text must be what
the server reads: what the two may read differently (comments that a server runs, nested comments) is refused.

A session reads only, whatever the text says. The checks here are for what a read-only session still lets through, and for what would be
read differently each time: an audit reads a side more than once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import pairwise
from typing import TYPE_CHECKING

from auditor.errors import BadExpression
from auditor.sql.user_sql import error_position, find_clock
from dialects import Dialect

if TYPE_CHECKING:
    from sqlglot import Token, exp

ACTING_FUNCTIONS = (
    # MySQL and MariaDB: https://dev.mysql.com/doc/refman/9.4/en/locking-functions.html, https://mariadb.com/kb/en/sequence-functions/
    "SLEEP", "BENCHMARK", "GET_LOCK", "RELEASE_LOCK", "RELEASE_ALL_LOCKS", "LAST_INSERT_ID", "LOAD_FILE", "*_POS_WAIT", "*_GTID_WAIT",
    "WAIT_FOR_EXECUTED_GTID_SET", "WAIT_UNTIL_SQL_THREAD_AFTER_GTIDS", "NEXTVAL", "SETVAL", "ASYNCHRONOUS_CONNECTION_FAILOVER_*",
    # PostgreSQL and Redshift: https://www.postgresql.org/docs/current/functions-admin.html
    "PG_SLEEP*", "PG_*ADVISORY*", "SET_CONFIG", "LO_*", "LOREAD", "LOWRITE", "DBLINK*", "PG_TERMINATE_BACKEND", "PG_CANCEL_BACKEND",
    "PG_NOTIFY", "PG_RELOAD_CONF", "PG_ROTATE_LOGFILE*", "PG_READ_*FILE", "PG_LS_*", "PG_SWITCH_WAL", "PG_PROMOTE", "PG_*BACKUP*",
    "PG_LOGICAL_*", "PG_REPLICATION_*", "PG_CREATE_*", "PG_DROP_*", "PG_EXPORT_SNAPSHOT", "PG_STAT_RESET*", "PG_WAL_REPLAY_*",
    "QUERY_TO_XML*", "CURSOR_TO_XML*", "TABLE_TO_XML*", "SCHEMA_TO_XML*", "DATABASE_TO_XML*",
    # DuckDB, Spark, SQLite: https://spark.apache.org/docs/latest/api/sql/#java_method, https://www.sqlite.org/lang_corefunc.html
    "QUERY", "MYSQL_QUERY", "MYSQL_EXECUTE", "POSTGRES_QUERY", "POSTGRES_EXECUTE", "JAVA_METHOD", "REFLECT", "TRY_REFLECT",
    "LOAD_EXTENSION", "WRITEFILE",
)  # fmt: skip
"""Patterns of functions that write, wait, lock, change the session, or read what no table holds, or run a text as a statement."""

RANDOM_FUNCTIONS = (
    "RAND", "RANDN", "RANDOM", "RANDOM_NORMAL", "RANDOM_BYTES", "RANDOMBLOB", "GEN_RANDOM_*", "SETSEED", "UNIFORM", "SHUFFLE", "UUID",
    "UUIDV4", "UUIDV7", "UUID_V4", "UUID_V7", "UUID_SHORT", "UUID_GENERATE_V*", "MONOTONICALLY_INCREASING_ID",
)  # fmt: skip
"""Patterns of functions whose result is another one each time."""

_COMMENTS = re.compile(r"(?:\s|--(?:[ \t][^\n]*)?(?:\n|$)|#[^\n]*(?:\n|$)|/\*(?![!+]|M!)(?:(?!/\*|\*/)[\s\S])*\*/)*")
"""What may stand between two tokens: blanks, and comments that every server takes for the same. MySQL takes ``--`` for a comment before a
blank alone, runs ``/*! */``, and ends ``/* /* */ */`` where PostgreSQL does not."""


@dataclass(frozen=True, slots=True)
class SideQuery:
    """A query that may be read."""

    text: str
    """The query as it was written, without comments around it, and without a semicolon."""
    tables: tuple[tuple[str, ...], ...]
    """The parts of the name of each table that it reads."""
    assumed: tuple[str, ...] = ()
    """What is taken for granted of it, as clauses for a person."""


def read_query(sql: str, dialect: Dialect, what: str) -> SideQuery:
    """Return a query that is one SELECT, as the dialect's server reads it; ``what`` names it in messages.

    Raises BadExpression for any other text, and for a query that writes, locks, waits, has placeholders, or has another result each time,
    as far as its text shows.
    """
    import sqlglot
    from sqlglot import TokenType, exp
    from sqlglot.errors import SqlglotError

    try:
        tokens = sqlglot.tokenize(sql, read=dialect.sqlglot_dialect)
        _check_tokens(sql, tokens, what)
        trees = [tree for tree in sqlglot.parse(sql, dialect=dialect.sqlglot_dialect) if not isinstance(tree, exp.Semicolon | None)]
    except SqlglotError as error:
        raise BadExpression(f"{what} is not valid {dialect.name} SQL{error_position(error)}; correct it") from None
    if len(trees) != 1:
        raise BadExpression(f"{what} has {len(trees)} statements; write one SELECT")
    [tree] = trees
    if isinstance(tree, exp.SetOperation):
        kind = type(tree).__name__.upper()
        raise BadExpression(f"{what} is a {kind} of several SELECTs; make it one: SELECT * FROM (... {kind} ...) AS parts")
    if not isinstance(tree, exp.Select):
        raise BadExpression(f"{what} is no SELECT; write one, or a WITH that ends in one")
    _check_tree(tree, what)
    shown = [token for token in tokens if token.token_type != TokenType.SEMICOLON]
    text = sql[shown[0].start : shown[-1].end + 1]
    return SideQuery(text, tuple(dict.fromkeys(_tables(tree))), tuple(_assumptions(tree, text, dialect)))


def _check_tokens(sql: str, tokens: Sequence[Token], what: str) -> None:
    """Raise BadExpression for what its words alone show: comments that are run, another statement than SELECT, functions that act."""
    from sqlglot import TokenType

    first = tokens[0].text.upper() if tokens else ""
    if first not in ("SELECT", "WITH"):
        begins = f"begins with {first}" if first else "is empty"
        raise BadExpression(f"{what} {begins}; write one SELECT, or a WITH that ends in one, which only reads")
    ends = [0, *(token.end + 1 for token in tokens)]
    starts = [*(token.start for token in tokens), len(sql)]
    between = [sql[end:start] for end, start in zip(ends, starts, strict=True)]
    if any(token.token_type == TokenType.HINT for token in tokens) or any("/*+" in gap for gap in between):
        raise BadExpression(f"{what} has a hint (/*+ ... */), which can change settings of the session; remove it")
    if odd := next((gap for gap in between if not _COMMENTS.fullmatch(gap)), None):
        raise BadExpression(
            f"{what} has a comment that servers read differently or run: {' '.join(odd.split())!r}; write a blank after --, and no comment"
            " inside another"
        )
    if any(token.token_type == TokenType.INTO for token in tokens):
        raise BadExpression(f"{what} has INTO, which writes; remove it")
    for token, following in pairwise(tokens):
        if following.token_type != TokenType.L_PAREN or token.token_type == TokenType.STRING:
            continue
        name = token.text.upper()
        if any(fnmatchcase(name, pattern) for pattern in ACTING_FUNCTIONS):
            raise BadExpression(f"{what} calls {name}(), which does more than read tables; remove it")
        if any(fnmatchcase(name, pattern) for pattern in RANDOM_FUNCTIONS):
            raise BadExpression(f"{what} calls {name}(), which returns another value each time it is read; remove it")


def _check_tree(tree: exp.Select, what: str) -> None:
    """Raise BadExpression for parts of a SELECT that write, lock, or need a value from outside."""
    from sqlglot import exp

    if written := next((part for part in tree.find_all(exp.DML, exp.DDL, exp.Command) if not isinstance(part, exp.Query)), None):
        raise BadExpression(f"{what} has {type(written).__name__.upper()}, which writes; remove it")
    if lock := tree.find(exp.Lock):
        raise BadExpression(f"{what} locks rows ({'FOR UPDATE' if lock.args.get('update') else 'FOR SHARE'}); remove that")
    if given := tree.find(exp.Placeholder, exp.Parameter, exp.SessionParameter):
        raise BadExpression(f"{what} has a placeholder or a variable, {given.sql()}, which no value is given for; write the value")
    if tree.find(exp.TableSample):
        raise BadExpression(f"{what} reads a sample, which is another one each time it is read; remove it")
    names = [name for name in tree.named_selects if name and name != "*"]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise BadExpression(f"{what} has two columns named {twice!r}; name them apart: ... AS {twice}_2")


def _tables(tree: exp.Select) -> Iterator[tuple[str, ...]]:
    """Yield the name of each table that a query reads, by its parts; functions are none, nor are names that it gives its own queries."""
    from sqlglot import exp

    own = {expression.alias_or_name.lower() for expression in tree.find_all(exp.CTE)}
    for table in tree.find_all(exp.Table):
        parts = tuple(part.name for part in table.parts)
        if all(parts) and not (len(parts) == 1 and parts[0].lower() in own):
            yield parts


def _assumptions(tree: exp.Select, text: str, dialect: Dialect) -> Iterator[str]:
    """Yield what must hold for a query so that it is the same one each time it is read."""
    from sqlglot import exp

    if any(select.args.get("limit") or select.args.get("offset") for select in tree.find_all(exp.Query)):
        yield ("its query has a LIMIT: unless its ORDER BY leaves no two rows alike, the server may choose other rows each time it is read")
    if read := find_clock(text, dialect):
        yield f"its query reads the server's clock ({read}) again in each statement: what depends on it may change meanwhile"
