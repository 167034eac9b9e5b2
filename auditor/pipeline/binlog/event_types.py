"""Types of events in a binary log, and the error of what is no event of one."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from auditor.errors import LogRefused

HEADER = struct.Struct("<IBIIIH")
"""Seconds since 1970, type, server id, size, offset of the event's end (0 if it does not stand in the file), flags."""

QUERY, STOP, ROTATE, INTVAR, RAND, USER_VAR, FORMAT, XID = 2, 3, 4, 5, 13, 14, 15, 16
TABLE_MAP, INCIDENT, HEARTBEAT, ROWS_QUERY, GTID, ANONYMOUS_GTID, PREVIOUS_GTIDS = 19, 26, 27, 29, 33, 34, 35
XA_PREPARE, PARTIAL_UPDATE, TRANSACTION_PAYLOAD, HEARTBEAT_V2, TAGGED_GTID = 38, 39, 40, 41, 42
EXECUTE_LOAD_QUERY = 18
MARIADB_ANNOTATE, MARIADB_CHECKPOINT, MARIADB_GTID, MARIADB_GTID_LIST = 160, 161, 162, 163
MARIADB_QUERY_COMPRESSED = 165

BEGINNINGS = frozenset({GTID, ANONYMOUS_GTID, TAGGED_GTID, MARIADB_GTID})

INSERT_TYPES = frozenset({23, 30, 166, 169})
UPDATE_TYPES = frozenset({24, 31, 167, 170})
DELETE_TYPES = frozenset({25, 32, 168, 171})
ROWS_TYPES = INSERT_TYPES | UPDATE_TYPES | DELETE_TYPES
ROWS_V2 = frozenset({30, 31, 32, 169, 170, 171})
"""Rows events with extra data between their header and their columns. MariaDB writes none of its own, but reads MySQL's."""
COMPRESSED_ROWS = frozenset(range(166, 172))

BESIDE_ROWS = frozenset(
    {
        STOP,
        INTVAR,
        RAND,
        USER_VAR,
        9,
        11,
        17,
        EXECUTE_LOAD_QUERY,
        INCIDENT,
        HEARTBEAT,
        28,
        ROWS_QUERY,
        PREVIOUS_GTIDS,
        36,
        37,
        PARTIAL_UPDATE,
        HEARTBEAT_V2,
        MARIADB_ANNOTATE,
        MARIADB_CHECKPOINT,
        MARIADB_GTID_LIST,
        164,
    }
)
"""Events that are known, and hold no rows, nor begin or end a transaction: those with numbers are pieces of files of LOAD DATA, what a
group of servers and a reader's own tools write, and the beginning of an encrypted file."""

IGNORABLE = 0x80
"""Flag of an event that a reader may pass by which does not know its type."""

ARTIFICIAL = 0x20
"""Flag of an event that the server made up for the dump, as the ROTATE that a dump begins with."""

CHECKSUM_BYTES = 4

LONGEST_EVENT = (1 << 30) + (1 << 20)
"""Bytes of an event at most: a server takes no row of more than 1 GiB, the largest max_allowed_packet, and little stands around it."""

DUMMY_TABLE = (1 << 48) - 1
"""The table of rows events without rows, which only end a statement."""


def checksum_bytes(buffer: bytes, end: int) -> int:
    """Return how many bytes of checksum the events of a file end with, which the description of its format says that ends at ``end``.

    The description itself always has a checksum, and before it the number of the algorithm.
    https://dev.mysql.com/doc/dev/mysql-server/latest/classbinary__log_1_1Format__description__event.html
    """
    return CHECKSUM_BYTES if buffer[end - CHECKSUM_BYTES - 1] == 1 else 0


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
