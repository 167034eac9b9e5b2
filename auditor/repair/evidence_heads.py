"""Note the heads of chains of evidence in a target: a row for each, which the store's owner need not be able to change."""

from __future__ import annotations

import datetime as dt
from contextlib import closing

import sql_templates
from auditor.config import ConnectionSettings
from auditor.connections.writer import create_table, open_patch_session, patching_dialect, transaction
from auditor.errors import AccessDenied, ConfigError, NoSuchObject, StatementRefused
from dialects import Dialect, Kind, Place

HEADS = "auditor_evidence_heads"
"""The table, beside that of the target."""


def write_head(name: str, connection: ConnectionSettings, target: Place, audit: str, number: int, head: str) -> None:
    """Insert a head (SHA-256 in hexadecimal) by a connection's ``write``; the table is made if it is missing.

    Raises MayOnlyRead, ConfigError for a target that has no tables to insert into, BadUrl, EngineError, and AccessDenied with what to
    grant.
    """
    dialect = patching_dialect(name, connection)
    if dialect.writing.WRITES_COMMITS or target.path:
        raise ConfigError(
            f"the connection {name!r}: heads of evidence are rows of a table, which {dialect.name} has not here; use a bucket"
        )
    table = dialect.names.table(*target.parts[:-1], HEADS)
    literals: dict[str, str | int] = {
        "audit": audit,
        "number": number,
        "head": head,
        "published_at": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
    }
    insert = _fill(
        dialect, "evidence_heads_insert", heads=table, **{name: dialect.names.literal(value) for name, value in literals.items()}
    )
    with closing(open_patch_session(name, connection)) as session:
        try:
            with transaction(session):
                session.execute(insert)
        except (NoSuchObject, StatementRefused):  # first by INSERT: a user who may do nothing else is the safest
            try:
                create_table(session, create_statement(dialect, table))
                with transaction(session):
                    session.execute(insert)
            except AccessDenied as error:
                raise AccessDenied(
                    f"{error}; have an administrator run {create_statement(dialect, table)}; and grant the user INSERT on it"
                ) from error


def create_statement(dialect: Dialect, table: str) -> str:
    """Return the statement that makes the table of heads, given as SQL, if it is missing."""
    types = {"name": Kind("text"), "text": Kind("char", 64), "integer": Kind("integer")}
    return _fill(dialect, "evidence_heads_create", heads=table, **{hole: dialect.types.native_type(kind) for hole, kind in types.items()})


def _fill(dialect: Dialect, template: str, **fragments: str) -> str:
    return sql_templates.fill(dialect.template(template), fragments)
