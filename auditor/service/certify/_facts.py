"""Ask a server for the single facts on which its dialect's SQL rests."""

from __future__ import annotations

from functools import partial

from auditor.service.certify._book import Book
from dialects import Session


def check_facts(book: Book, session: Session) -> None:
    """Ask for each fact of the session's dialect."""
    for fact in session.dialect.FACTS:
        book.ask("facts", fact.name, fact.sql, partial(_answer, session, fact.sql), fact.expected, fact.tells)


def _answer(session: Session, sql: str) -> object:
    rows = session.query(sql)
    return rows[0][0] if rows else "no row"
