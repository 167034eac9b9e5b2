"""What every setting is built of: strictness, durations, shares, and a person's SQL."""

from __future__ import annotations

import difflib
import re
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict

_UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}


def seconds(value: Any) -> Any:
    """``90``, ``90s``, ``15m``, ``2h`` as seconds."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)?\s*", str(value))
    if not match:
        raise ValueError(f"{value!r} is no duration; write 90s, 15m or 2h")
    return float(match.group(1)) * _UNITS[match.group(2) or "s"]


Duration = Annotated[float, BeforeValidator(seconds)]


def share(value: Any) -> Any:
    """``5%`` or ``0.05`` as a share between 0 and 1."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?(?:e-?\d+)?)\s*(%?)\s*", str(value), re.IGNORECASE)
    found = float(match.group(1)) / (100 if match.group(2) else 1) if match else -1.0
    if not 0 <= found <= 1:
        raise ValueError(f"{value!r} is no share; write 5% or 0.05")
    return found


Share = Annotated[float, BeforeValidator(share)]


class Strict(BaseModel):
    """Settings of which each is declared; an unknown one is an error, and no message repeats what was written."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True, populate_by_name=True)


class Per(Strict):
    """SQL for each side in that side's own dialect."""

    source: str
    target: str


class Written(Strict):
    """SQL in a dialect that is named."""

    sql: str
    dialect: str


def _sql(value: Any) -> Any:
    """One sentence for whatever is none of the three forms."""
    if isinstance(value, str | Per | Written):
        return value
    forms = ({"source", "target"}, {"sql", "dialect"})
    if isinstance(value, dict) and set(value) in forms and all(isinstance(text, str) for text in value.values()):
        return value
    raise ValueError("write SQL as text in quotes, or {source: ..., target: ...}, or {sql: ..., dialect: ...}")


Sql = Annotated[str | Per | Written, BeforeValidator(_sql)]
"""SQL in the source's dialect, or as ``Per`` or ``Written`` say; it is translated to what a side needs."""


def closest(name: str, known: Any) -> str:
    """A question whether one of the known names was meant; nothing where none is near."""
    close = difflib.get_close_matches(name, list(known), 1)
    return f"; did you mean {close[0]!r}?" if close else ""
