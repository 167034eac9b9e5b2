"""How MySQL and MariaDB change the columns of a table: by one statement, which is done as a whole or not at all, and commits by itself.

https://dev.mysql.com/doc/refman/9.4/en/atomic-ddl.html, https://mariadb.com/kb/en/atomic-ddl/
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dialects.alteration import Added, Alteration, Altering, Changes, name_of, rewrites
from dialects.catalogue import Table


class MySQLAltering(Altering):
    """How MySQL and MariaDB change the columns of a table."""

    COMMITS_BY_ITSELF = True

    def alter(self, session: Any, table: Table, changes: Changes) -> Alteration:
        quote = session.dialect.names.quote
        clauses = [f"DROP COLUMN {quote(name)}" for name in changes.dropped]
        retyped = {one.column.name for one in changes.retyped}
        clauses += [f"RENAME COLUMN {quote(old)} TO {quote(new)}" for old, new in changes.renamed.items() if old not in retyped]
        forms = session.dialect.catalogue.column_forms(session, table) if retyped else {}
        for one in changes.retyped:
            if one.column.name not in forms:
                return Alteration(refused=f"{one.column.name} of {table.sql} is computed there: change it by hand")
            may_be_null = one.column.nullable and name_of(one, changes) not in changes.key
            defined = f"{one.native} {'NULL' if may_be_null else 'NOT NULL'}{forms[one.column.name].rest}"
            clauses.append(f"CHANGE COLUMN {quote(one.column.name)} {quote(name_of(one, changes))} {defined}")
        for added in changes.added:
            null = "NOT NULL" if added.name in changes.key else "NULL"
            clauses.append(f"ADD COLUMN {quote(added.name)} {added.native} {null}{_default(added)}")
        if changes.key:
            clauses += [*(["DROP PRIMARY KEY"] if table.primary_key else []), f"ADD PRIMARY KEY ({', '.join(map(quote, changes.key))})"]
        moves_rows = rewrites(changes) or bool(changes.key)
        return Alteration([f"ALTER TABLE {table.sql} " + ", ".join(clauses)] if clauses else [], moves_rows=moves_rows)

    def rename_at_once(self, pairs: Sequence[tuple[str, str]]) -> str:
        return "RENAME TABLE " + ", ".join(f"{old} TO {new}" for old, new in pairs)


def _default(one: Added) -> str:
    """Return the clause of the default that older rows get, and which stays: a merge gives every column a value."""
    if not one.literal:
        return ""
    is_long = any(name in one.native.upper() for name in ("TEXT", "BLOB", "JSON"))  # which take expressions alone
    return f" DEFAULT ({one.literal})" if is_long else f" DEFAULT {one.literal}"
