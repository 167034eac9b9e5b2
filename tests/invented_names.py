"""The names that statements give, or once gave, to tables and columns of their own, as tests give them to columns of a user's table."""

from __future__ import annotations

import re
from functools import cache

import sqlglot
from sqlglot import TokenType

import dialects
import sql_templates
from tests.unit.test_golden import render_statements

PREFIX = "a_"
"""How the names of our own begin where no name of a table begins so."""

PAST = (
    "partition_id", "row_count", "first_key", "end_key", "key_min", "key_max", "hashed", "digest", "total", "stretches", "hashed_rows",
    "located_rows", "ordered_rows", "digested_rows", "summed_rows", "row_words", "read_rows", "classed_rows", "valued_rows",
    "bucketed_rows", "bucket", "least", "greatest", "line", "seconds", "one", "seed", "fence", "row_hash", "word_0", "word_1",
    "syndrome_1", "minhash_0", "t0", "t1", "k", "v", "v0", "v1", "d0", "x", "x2", "x4", "x0", "h", "w0", "w1", "w2", "w3", "kv", "c", "m",
    "b", "nulls_0", "sum_0",
)  # fmt: skip
"""Names that statements have used without a prefix."""

SYSTEM = frozenset({"oid", "ctid", "xmin", "xmax", "cmin", "cmax", "tableoid", "rowid"})
"""Names that an engine's own columns have, and a user's cannot, or not beside them."""


@cache
def dangerous() -> tuple[str, ...]:
    """Return the names of our own in the statements of audits, as they are without a prefix, and those of the past."""
    packages = {package for name in dialects.names() for package in dialects.get(name).template_packages()}
    written = [text for package in packages for text in sql_templates.templates(package).values()]
    prefixed = {name for text in written for name in re.findall(r"\$\{p\}(\w+)", text)}
    rendered = {name.removeprefix(PREFIX) for name in _words_of_statements() if name.startswith(PREFIX)}
    return tuple(sorted(prefixed | rendered | set(PAST)))


@cache
def every() -> tuple[str, ...]:
    """Return these, and every other name without quotation marks in any statement of any engine."""
    return tuple(sorted({*dangerous(), *(name.removeprefix(PREFIX) for name in _words_of_statements())} - SYSTEM))


@cache
def _words_of_statements() -> frozenset[str]:
    """Return the words, in lower case, that are neither keywords, functions nor quoted, and all that are given as names by AS."""
    found: set[str] = set()
    for name in dialects.names():
        dialect = dialects.get(name)
        for sql in render_statements(dialect).values():
            found.update(word.lower() for word in re.findall(r"\bAS ([a-z]\w*)", sql))
            tokens = sqlglot.tokenize(sql, read=dialect.sqlglot_dialect)
            for token, after in zip(tokens, [*tokens[1:], tokens[-1]], strict=True):
                if token.token_type is TokenType.VAR and after.token_type is not TokenType.L_PAREN and token.text.isidentifier():
                    found.add(token.text.lower())
    return frozenset(found)
