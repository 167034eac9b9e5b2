"""What the values of options mean. Each function raises argparse.ArgumentTypeError for a text that means nothing."""

from __future__ import annotations

import argparse
import datetime
import re
from collections.abc import Callable
from typing import Any


def keys(text: str) -> dict[str, int]:
    """Parse a range of keys such as ``1000..2000``, both ends included."""
    from auditor.config import MAX_KEY, MIN_KEY

    ends = {name: int(key) for name, key in _range_ends(text, r"-?\d{1,20}").items()}
    if not all(MIN_KEY <= key <= MAX_KEY for key in ends.values()):
        raise argparse.ArgumentTypeError(f"{text!r}: write keys from {MIN_KEY} to {MAX_KEY}")
    if len(ends) == 2 and ends["from"] > ends["to"]:
        raise argparse.ArgumentTypeError(f"{text!r}: the first key is greater than the last; exchange them")
    return ends


def times(text: str) -> dict[str, str]:
    """Parse a range of times such as ``2026-11-01..2026-12-01``, without its last moment; the ends stay as they are written."""
    from auditor.model import parse_time

    ends = _range_ends(text, r"[^.]+(?:\.\d+[^.]*)?")
    try:
        times = [parse_time(end) for end in ends.values()]
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r}: {error}") from None
    if len(times) == 2 and times[0] >= times[1]:
        raise argparse.ArgumentTypeError(f"{text!r}: the first time is not before the last; exchange them")
    return ends


def moment(text: str) -> datetime.datetime:
    """Parse a moment; one without a zone is in UTC."""
    try:
        moment = datetime.datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time; write it like 2026-11-01T06:00:00Z") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=datetime.UTC)


def duration(text: str) -> float:
    """Parse a duration of at least 0, in seconds."""
    from auditor.config import parse_duration

    try:
        seconds = float(parse_duration(text))
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a duration; write it like 30m, 2h or 90 (seconds)")
    return seconds


def names(text: str) -> tuple[str, ...]:
    """Split names at their commas."""
    return tuple(name.strip() for name in text.split(",") if name.strip())


def pairs(what: str, parse: Callable[[str], Any]) -> Callable[[str], list[tuple[str, Any]]]:
    """Return a function that parses pairs ``NAME=VALUE``, with commas between; ``what`` they are is said of others."""

    def pairs(text: str) -> list[tuple[str, Any]]:
        parts = [part.partition("=") for part in names(text)]
        if not parts or not all(name.strip() and value.strip() for name, _, value in parts):
            raise argparse.ArgumentTypeError(f"{text!r} is not {what}; write them with = between, and commas between several")
        return [(name.strip(), parse(value.strip())) for name, _, value in parts]

    return pairs


def tolerance(text: str) -> dict[str, Any]:
    """Parse how far two values may differ, as an audit's ``tolerance``."""
    number = r"\d+(?:\.\d+)?(?:e-?\d+)?"
    if re.fullmatch(number, text):
        return {"absolute": float(text)}
    if re.fullmatch(f"{number}%", text):
        return {"relative": float(text[:-1]) / 100}
    return {"time": duration(text)}


def threshold(text: str) -> dict[str, Any]:
    """Parse what still counts as a match, as an audit's ``threshold``."""
    name, given, value = text.partition("=")
    try:
        if given and name.strip() in ("rows", "share"):
            return {name.strip(): int(value) if name.strip() == "rows" else value.strip()}
        return {"score": float(text)}
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a threshold; write a similarity (0.999), rows=10 or share=0.01%") from None


def count(text: str) -> int:
    """Parse a number of things, at least 1."""
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return int(text)


def scattered(text: str) -> int:
    """Parse an audit's ``t``."""
    if not text.isdecimal() or not 1 <= int(text) <= 16:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of differences; write 1 to 16")
    return int(text)


def _range_ends(text: str, pattern: str) -> dict[str, str]:
    match = re.fullmatch(rf"({pattern})?\.\.({pattern})?", text)
    if not match or not any(match.groups()):
        raise argparse.ArgumentTypeError(f"{text!r} is not a range; write FROM..TO, FROM.. or ..TO")
    return {name: end for name, end in zip(("from", "to"), match.groups(), strict=True) if end}
