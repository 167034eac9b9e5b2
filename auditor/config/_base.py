"""Types shared by all settings: the strict base model, durations, shares, and SQL."""

from __future__ import annotations

import base64
import difflib
import re
from collections.abc import Collection
from typing import Annotated, Any, Literal
from zoneinfo import ZoneInfo

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

_UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}


def parse_duration(value: Any) -> Any:
    """Convert a duration such as ``90``, ``90s``, ``15m`` or ``2h`` to seconds. Raises ValueError."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)?\s*", str(value))
    if not match:
        raise ValueError(f"{value!r} is not a duration; write 90s, 15m or 2h")
    return float(match.group(1)) * _UNITS[match.group(2) or "s"]


Duration = Annotated[float, BeforeValidator(parse_duration)]
"""Seconds."""


_SIZES = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}


def parse_size(value: Any) -> Any:
    """Convert a size such as ``64MB``, ``1GiB`` or ``1000`` to bytes. Raises ValueError."""
    match = re.fullmatch(r"\s*(\d+)\s*([a-z]*)\s*", str(value), re.IGNORECASE)
    unit = _SIZES.get((match.group(2) or "B").upper()) if match else None
    if not match or unit is None:
        raise ValueError(f"{value!r} is not a size; write 64MB or 1GiB")
    return int(match.group(1)) * unit


Size = Annotated[int, BeforeValidator(parse_size)]
"""Bytes."""


def check_timezone(name: str) -> str:
    """Return the name of a time zone. Raises ValueError if there is none of that name."""
    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise ValueError(f"{name!r} is not a time zone; write one such as Europe/Berlin or UTC") from None
    return name


Zone = Annotated[str, AfterValidator(check_timezone)]
"""The name of a time zone in the IANA database."""


def check_key(text: str) -> str:
    """Return a key of the store's encryption (Fernet). Raises ValueError for any other text."""
    try:
        size = len(base64.urlsafe_b64decode(text))
    except ValueError:
        size = 0
    if size != 32:
        raise ValueError(
            "this is no key; make one with: python -c 'from cryptography.fernet import Fernet; print(Fernet.generate_key().decode())', and"
            " name the environment variable that holds it: ${AUDITOR_JOURNAL_KEY}"
        )
    return text


def parse_share(value: Any) -> Any:
    """Convert ``5%`` or ``0.05`` to a share between 0 and 1. Raises ValueError."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?(?:e-?\d+)?)\s*(%?)\s*", str(value), re.IGNORECASE)
    result = float(match.group(1)) / (100 if match.group(2) else 1) if match else -1.0
    if not 0 <= result <= 1:
        raise ValueError(f"{value!r} is not a share; write 5% or 0.05")
    return result


Share = Annotated[float, BeforeValidator(parse_share)]
"""A share between 0 and 1."""


class Strict(BaseModel):
    """Base of all settings: an unknown key is an error, and no message repeats a value, which may be a secret."""

    # Deferred, because the model of the whole file builds those within it once more: a third of what loading the package took.
    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True, populate_by_name=True, defer_build=True)


class Budget(Strict):
    """How much a run, or all runs of a day, may cost. Once it is spent no further statement begins, and the verdict is unknown."""

    seconds: Duration | None = None
    """Seconds that its statements may take, added up over connections."""
    statements: int | None = Field(None, ge=1)
    """Statements that it may run."""
    bytes: Size | None = None
    """Bytes that it may receive."""
    usd: float | None = Field(None, gt=0, allow_inf_nan=False)
    """US dollars that it may cost, by the ``price`` of each connection that it uses."""
    per: Literal["run", "day"] = "run"
    """Whether each run has the budget, or all runs that begin or continue on a day in UTC have it together."""

    @model_validator(mode="after")
    def _limits_something(self) -> Budget:
        if self.per == "day" and not self.limits:
            raise ValueError("per: day is given without a limit; add one, e.g. seconds: 1h")
        return self

    @property
    def limits(self) -> dict[str, float]:
        """Return the given limits by name."""
        limits = {"seconds": self.seconds, "statements": self.statements, "bytes": self.bytes, "usd": self.usd}
        return {name: limit for name, limit in limits.items() if limit is not None}


class PerSide(Strict):
    """SQL for each side, in that side's dialect."""

    source: str
    target: str


class DialectSql(Strict):
    """SQL in a named dialect."""

    sql: str
    dialect: str


class Computed(Strict):
    """What the source's value is computed by, in the portable language of filters; the target holds it in a column."""

    compute: str
    """Its value, over the source's columns: ``price - discount``."""


def _check_sql(value: Any) -> Any:
    """Raise one ValueError for any value that has none of the four forms."""
    if isinstance(value, str | PerSide | DialectSql | Computed):
        return value
    forms = ({"source", "target"}, {"sql", "dialect"}, {"compute"})
    if isinstance(value, dict) and set(value) in forms and all(isinstance(text, str) for text in value.values()):
        return value
    raise ValueError("write SQL as text in quotes, or {source: ..., target: ...}, or {sql: ..., dialect: ...}, or {compute: ...}")


TranslatedSql = str | PerSide | DialectSql
"""SQL in the source's dialect, in each side's, or in a named one, which is translated as needed."""

Sql = Annotated[TranslatedSql | Computed, BeforeValidator(_check_sql)]
"""The expression of a column: SQL, or what the source's value is computed by."""


def _check_where(value: Any) -> Any:
    """Raise one ValueError for any value that has neither form of a filter."""
    if isinstance(value, str | PerSide):
        return value
    if isinstance(value, dict) and set(value) == {"source", "target"} and all(isinstance(text, str) for text in value.values()):
        return value
    raise ValueError("write a filter as text in quotes, or {source: ..., target: ...}, each in its own dialect")


Where = Annotated[str | PerSide, BeforeValidator(_check_where)]
"""A filter in the portable language, or one for each side in that side's dialect, which is taken on trust."""


MOST_NEAR = 3
"""Names that an error message suggests at most."""

MOST_LISTED = 10
"""Names up to which an error message lists all."""


def suggest(name: str, known: Any, most: int = MOST_NEAR) -> str:
    """Return the end of an error message that suggests the known names that are most similar, ``most`` at most; '' if none is."""
    names = [str(one) for one in known]
    near = difflib.get_close_matches(name, names, most) or [one for one in names if len(name) > 2 and name.lower() in one.lower()][:most]
    if not near:
        return ""
    *first, last = map(repr, near)
    return f"; did you mean {', '.join(first)} or {last}?" if first else f"; did you mean {last}?"


def describe_unknown(kind: str, name: str, known: Collection[str]) -> str:
    """Return the message of an error about a name of a ``kind`` that is not among the ``known`` ones, which are listed if they are few."""
    here = ", ".join(sorted(known)) or "none" if len(known) <= MOST_LISTED else f"{len(known):,}"
    return f"there is no {kind} {name!r}{suggest(name, known)} ({kind}s here: {here})"


def is_pattern(name: str) -> bool:
    """Return whether a name holds a character that stands for others."""
    return re.search(r"[*?\[]", name) is not None
