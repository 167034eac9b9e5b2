"""What reading bytes raises that are no event: lengths, counts, types and texts which no server writes."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from auditor.errors import LogRefused

MALFORMED = (ValueError, LookupError, OverflowError, RecursionError, MemoryError, OSError, struct.error, zlib.error)
"""Errors of reading bytes that another process wrote. Those of Unicode are ValueErrors, those of Arrow too, or OSErrors."""


@contextmanager
def refused(where: Callable[[], object]) -> Iterator[None]:
    """Raise as LogRefused, with the place ``where``, that the bytes read in the block are no event."""
    try:
        yield
    except MALFORMED as error:
        raise LogRefused(
            f"{where()}: an event cannot be read ({type(error).__name__}: {error}); if the server is the right one, report this, and leave"
            " its table out"
        ) from error
