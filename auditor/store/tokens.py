"""API tokens and their scopes. A secret is returned once, when its token is created; the store holds only its hash."""

from __future__ import annotations

import datetime as dt
import hashlib
import hmac
import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any, get_args

from sqlalchemy import Column, Connection, Index, Row, Select, Table, and_, bindparam, delete, insert, or_, select, update

from auditor.api_models.access import Scope
from auditor.errors import ConfigError, StoreError, Unauthorised
from auditor.escaping import shell_word
from auditor.store.database import Store, database_time, time_expression
from auditor.store.schema import Json, Moment, big_integer, metadata, short_text

tokens = Table(
    "auditor_tokens",
    metadata,
    Column("number", big_integer(), primary_key=True),
    Column("name", short_text(), nullable=False),
    # The name while no other token may have it: the unique constraint allows one valid token of a name.
    Column("valid_name", short_text(), unique=True),
    Column("hash", short_text(64), nullable=False, unique=True),
    Column("scope", short_text(16), nullable=False),
    Column("created_at", Moment(), nullable=False),
    Column("expires", Moment()),
    Column("revoked", Moment()),
    Column("last_used", Moment()),
    # The number of the token that created it, by which it ends; null for those made on the command line.
    Column("created_by", big_integer()),
    # Patterns of the audits that it is limited to; null for none.
    Column("audits", Json()),
    Index("auditor_tokens_created_by", "created_by"),
)

SCOPES: tuple[Scope, ...] = get_args(Scope)

GRANTED_BY: Mapping[str, frozenset[str]] = {
    "read": frozenset({"read"}),
    "run": frozenset({"read", "run"}),
    "define": frozenset({"read", "run", "define"}),
    "pipeline": frozenset({"read", "run", "pipeline"}),
    "repair": frozenset({"read", "run", "repair"}),
    "apply": frozenset({"read", "run", "repair", "apply"}),
    "admin": frozenset({"read", "run", "define", "pipeline", "repair", "apply", "admin"}),
}
"""The scopes that a token of each scope includes."""

DESCRIPTIONS: Mapping[Scope, str] = {
    "read": "read everything",
    "run": "also request, cancel and resume runs, and acknowledge incidents",
    "define": "what `run` may; also define audits of configured connections or run them once, pause audits, manage tokens below it",
    "pipeline": "what `run` may; also pause, unpause and start pipelines, let them send existing rows, and let them skip events",
    "repair": "what `run` may; also propose patches, and record repairs that were made elsewhere",
    "apply": "what `repair` may; also have proposed patches applied and undone",
    "admin": "all of this: define audits, repair and apply, let pipelines do things, and manage all other tokens",
}
"""What a token of each scope permits, for people."""

INVALID = "the token is unknown, expired or revoked; create one with: auditor token create"

SECRET_PREFIX = "aud_"
"""The prefix of every secret, by which scanners recognise leaked ones."""

SESSION_PREFIX = "session "
"""The prefix of the names of tokens that are login sessions."""

MAX_SESSIONS = 20
"""Sessions that one token has at once; a further login ends the oldest."""

OF_PROXY = -1
"""The number of what stands in for a token of people whom a proxy authenticated; none is stored."""

LAST_USED_PRECISION = dt.timedelta(minutes=1)
"""How often at most the last use of a token is written."""


@dataclass(frozen=True, slots=True)
class Token:
    """A token without its secret."""

    name: str
    scope: Scope
    created_at: dt.datetime
    expires: dt.datetime | None
    revoked: dt.datetime | None
    last_used: dt.datetime | None
    number: int = 0
    created_by: int | None = None
    """The number of the token that created it, over HTTP; None for one created on the command line."""
    creator: str = ""
    """The name of the token that created it; empty where that was not looked up."""
    audits: tuple[str, ...] = ()
    """Patterns of the audits that it is limited to; empty for all."""

    @property
    def is_session(self) -> bool:
        """Whether this is a login session, not a token that a person created."""
        return self.number != OF_PROXY and self.name.startswith(SESSION_PREFIX)

    def allows(self, scope: Scope) -> bool:
        """Return whether the token's scope includes ``scope``."""
        return scope in GRANTED_BY[self.scope]

    def manages(self, scope: Scope) -> bool:
        """Return whether the token may create and revoke tokens of ``scope``: one that manages tokens, of scopes below its own."""
        return self.allows("define") and GRANTED_BY[scope] < GRANTED_BY[self.scope]


def create_token(
    store: Store,
    *,
    name: str,
    scope: Scope,
    expires: dt.datetime | None = None,
    creator: Token | None = None,
    audits: Sequence[str] = (),
) -> str:
    """Create a token and return its secret, which cannot be read again. It expires no later than its ``creator``, and ends with it.

    With ``audits``, patterns such as ``shop.*``, it is limited to these.

    Raises ConfigError for a name that is invalid or belongs to a valid token, an unknown scope, or an expiry in the past, and Unauthorised
    if the creator has ended.
    """
    if scope not in SCOPES:
        raise ConfigError(f"there is no scope {scope!r}; use one of {', '.join(SCOPES)}")
    if not name or not name.isprintable() or len(name) > 100:
        raise ConfigError(f"the token name {name[:100]!r} is invalid; use 1 to 100 printable characters")
    secret = SECRET_PREFIX + secrets.token_urlsafe(32)

    def work(connection: Connection) -> None:
        at = database_time(connection)
        if expires is not None and expires <= at:
            raise ConfigError(f"the expiry {expires:%Y-%m-%d %H:%M:%S} UTC is in the past; choose a later one")
        ended = or_(tokens.c.revoked.is_not(None), tokens.c.expires <= at)
        connection.execute(update(tokens).where(tokens.c.valid_name == name, ended).values(valid_name=None))
        if connection.execute(select(tokens.c.number).where(tokens.c.valid_name == name)).first() is not None:
            raise ConfigError(f"a token {name!r} already exists; choose another name, or: auditor token revoke {shell_word(name)}")
        _insert(connection, name, secret, scope, at, expires, creator, audits)

    store.write(work)
    return secret


def create_session(store: Store, token: Token, expires: dt.datetime) -> str:
    """Create a login session of a token and return its secret. Sessions that ended are deleted, and the oldest beyond MAX_SESSIONS.

    Raises Unauthorised if the token has ended.
    """
    secret = SECRET_PREFIX + secrets.token_urlsafe(32)
    # "!" is the character after the space. Not LIKE, which ignores case in SQLite.
    is_session = and_(tokens.c.name > SESSION_PREFIX, tokens.c.name < SESSION_PREFIX[:-1] + "!")
    ended = and_(tokens.c.valid_name > SESSION_PREFIX, tokens.c.valid_name < SESSION_PREFIX[:-1] + "!")

    def work(connection: Connection) -> None:
        at = database_time(connection)
        connection.execute(delete(tokens).where(ended, tokens.c.expires <= at))
        own = select(tokens).where(tokens.c.created_by == token.number, is_session).order_by(tokens.c.number.desc())
        rows = connection.execute(own).all()
        kept = [row.number for row in rows if _is_valid(row, at)][: MAX_SESSIONS - 1]
        if old := [row.number for row in rows if row.number not in kept]:
            connection.execute(delete(tokens).where(tokens.c.number.in_(old)))
        _insert(connection, f"{SESSION_PREFIX}{secrets.token_hex(16)}", secret, token.scope, at, expires, token, token.audits)

    store.write(work)
    return secret


def _insert(
    connection: Connection,
    name: str,
    secret: str,
    scope: Scope,
    at: dt.datetime,
    expires: dt.datetime | None,
    creator: Token | None,
    audits: Sequence[str],
) -> None:
    """Insert a token. Its creator's row is locked, so that the creator does not end meanwhile."""
    number = None
    if creator is not None:
        number = creator.created_by if creator.is_session else creator.number
        row = connection.execute(select(tokens).where(tokens.c.number == number).with_for_update()).first()
        if row is None or not _is_valid(row, at):
            raise Unauthorised(INVALID)
        expires = min(expiry for expiry in (expires, row.expires) if expiry) if expires or row.expires else None
    connection.execute(
        insert(tokens).values(
            name=name,
            valid_name=name,
            hash=_hash(secret),
            scope=scope,
            created_at=at,
            expires=expires,
            created_by=number,
            audits=list(audits) or None,
        )
    )


def verify_token(store: Store, secret: str, run: Callable[[Callable[[], None]], object] = lambda work: work()) -> Token:
    """Return the token of a secret. Raises Unauthorised, with the same message for every reason.

    ``run`` is called with a function that records the token's last use; it may call it later, in another thread. Errors of the store
    while recording are ignored.
    """
    secret_hash = _hash(secret)
    with store.reading() as connection:
        row = connection.execute(_select_by_hash(connection.dialect.name), {"secret_hash": secret_hash}).first()
    matches = hmac.compare_digest(row.hash if row else "0" * len(secret_hash), secret_hash)
    if row is None or not matches or not _is_valid(row, row.now) or (row.created_by is not None and not _has_valid_creator(row)):
        raise Unauthorised(INVALID)
    if row.last_used is None or row.now - row.last_used >= LAST_USED_PRECISION:
        run(lambda: _record_use(store, row.number, row.now))
    return _to_token(row)


@cache
def _select_by_hash(database: str) -> Select[Any]:
    creator = tokens.alias("creator_token")
    of_creator = (
        creator.c.name.label("creator_name"),
        creator.c.revoked.label("creator_revoked"),
        creator.c.expires.label("creator_expires"),
    )
    joined = tokens.outerjoin(creator, tokens.c.created_by == creator.c.number)
    statement = select(tokens, *of_creator, time_expression(database).label("now")).select_from(joined)
    return statement.where(tokens.c.hash == bindparam("secret_hash"))


def _has_valid_creator(row: Row[Any]) -> bool:
    return row.creator_name is not None and row.creator_revoked is None and (row.creator_expires is None or row.creator_expires > row.now)


def _record_use(store: Store, number: int, at: dt.datetime) -> None:
    with suppress(StoreError):  # tokens of a read-only store remain valid
        store.write(lambda connection: connection.execute(update(tokens).where(tokens.c.number == number).values(last_used=at)) and None)


def list_tokens(store: Store) -> list[Token]:
    """Return all stored tokens, newest first, including sessions and those that ended."""
    with store.reading() as connection:
        return [_to_token(row) for row in connection.execute(select(tokens).order_by(tokens.c.number.desc()))]


def revoke_token(store: Store, name: str) -> Token:
    """Revoke the valid token with this name, and those that it created. Raises ConfigError if there is none."""

    def work(connection: Connection) -> Token:
        row = connection.execute(select(tokens).where(tokens.c.valid_name == name).with_for_update()).first()
        if row is None:
            raise ConfigError(f"there is no token {name!r}; list the tokens with: auditor token list")
        at, ending = database_time(connection), [row.number]
        while ending:
            connection.execute(update(tokens).where(tokens.c.number.in_(ending)).values(revoked=at, valid_name=None))
            created = select(tokens.c.number).where(tokens.c.created_by.in_(ending), tokens.c.revoked.is_(None))
            ending = list(connection.execute(created).scalars())
        return _to_token(connection.execute(select(tokens).where(tokens.c.number == row.number)).one())

    return store.write(work)


def find_token(store: Store, name: str) -> Token:
    """Return the valid token with this name. Raises ConfigError if there is none."""
    with store.reading() as connection:
        row = connection.execute(select(tokens).where(tokens.c.valid_name == name)).first()
    if row is None:
        raise ConfigError(f"there is no token {name!r}; list the tokens with: auditor token list")
    return _to_token(row)


def has_valid_token(store: Store) -> bool:
    """Return whether there is a valid token. Sessions do not count: they are valid only with the token that they were created with."""
    with store.reading() as connection:
        at = database_time(connection)
        rows = connection.execute(select(tokens).where(tokens.c.valid_name.is_not(None)))
        return any(_is_valid(row, at) and not _to_token(row).is_session for row in rows)


def _is_valid(row: Row[tuple[object, ...]], at: dt.datetime) -> bool:
    return row.revoked is None and (row.expires is None or row.expires > at)


def _to_token(row: Row[tuple[object, ...]]) -> Token:
    creator = getattr(row, "creator_name", None) or ""
    moments = (row.created_at, row.expires, row.revoked, row.last_used)
    return Token(row.name, row.scope, *moments, row.number, row.created_by, creator, tuple(row.audits or ()))


def _hash(secret: str) -> str:
    # A secret is 32 random bytes, which cannot be guessed from its hash; a slow hash would add nothing.
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
