"""The faults of the matrix: what each of them is, where it gets in, and why a method does not see it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tests.faults import events, places
from tests.faults.events import CHANGED, LOST, in_decoding, in_value, on_the_way
from tests.faults.load import PROBE, PROBES, row_of
from tests.faults.world import World

UPDATE = f"UPDATE {{table}} SET {CHANGED} WHERE id = {PROBE}"
AROUND = tuple(f"UPDATE {{table}} SET {CHANGED} WHERE id = {PROBE + place}" for place in (2, 3))
"""Before and behind an event that is lost alone."""
DELETE = f"DELETE FROM {{table}} WHERE id = {LOST}"
INSERT = f"INSERT INTO {{table}} VALUES {row_of(PROBE + PROBES)}"


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that goes wrong in a pipeline."""

    place: str
    """Where it gets in."""
    inject: Callable[[World], None]
    """Lets it happen, and returns once the target holds what came of it."""
    unseen: Mapping[str, str] = field(default_factory=dict)
    """By method, why it raises no alarm although something is wrong."""


TIMES = {"counts": "of times it compares the least, the greatest and the number of NULLs"}
LENGTHS = {"counts": "of texts it compares the number of characters and of NULLs"}
FLOATS = {"counts": "of floats it compares the least, the greatest and the number of NULLs"}
IN_TARGET = {"segment audit": "it does not look into the target"}
DECODED = {"live summaries": "its sums are of the decoded events; a rescan sees it"}
NOT_LOGGED = {"live summaries": "the stream does not have it; a rescan sees it"}
IN_NEITHER = {"segment audit": "both of its sides come from the log", **NOT_LOGGED}

DECODING, STAGING, FILES, MERGE, TARGET, LOG = "decoding", "after decoding", "staged files", "merge", "target", "source's log"

FAULTS: dict[str, Fault] = {
    "no fault": Fault("nowhere", places.nothing),
    "value decoded wrongly": Fault(DECODING, in_value("item", str.upper, in_decoding), {**LENGTHS, **DECODED}),
    "dropped batch": Fault(STAGING, places.in_lull(on_the_way(events.drop, UPDATE, DELETE, INSERT))),
    "doubled batch": Fault(STAGING, on_the_way(events.double, UPDATE, DELETE, INSERT)),
    "reordered events": Fault(STAGING, on_the_way(events.reorder, UPDATE, UPDATE.replace("12.345", "13"))),
    "lost delete": Fault(STAGING, on_the_way(events.lose, AROUND[0], DELETE, AROUND[1])),
    "lost update": Fault(STAGING, on_the_way(events.lose, AROUND[0], UPDATE.replace(str(PROBE), str(LOST)), AROUND[1])),
    "truncated text": Fault(STAGING, in_value("item", lambda text: text[:20])),
    "lost microseconds": Fault(STAGING, in_value("moved", lambda text: f"{text[:19]}.000000"), TIMES),
    "shifted zone": Fault(STAGING, in_value("moved", events.an_hour_later), TIMES),
    "wrong charset": Fault(STAGING, in_value("item", lambda text: text.encode().decode("latin-1"))),
    "swapped columns": Fault(STAGING, on_the_way(events.swap("item", "city"), UPDATE)),
    "NULL for ''": Fault(STAGING, in_value("note", lambda _: None)),
    "rounded decimal": Fault(STAGING, in_value("amount", lambda text: f"{round(float(text), 2):.3f}")),
    "float through text (6 digits)": Fault(STAGING, in_value("weight", lambda text: f"{float(text):.6g}"), FLOATS),
    "float through text (15 digits)": Fault(STAGING, in_value("weight", lambda text: f"{float(text):.15g}"), FLOATS),
    "stale overwrite": Fault(TARGET, places.write_late, IN_TARGET),
    "merge without its delete": Fault(MERGE, places.merge_without_delete, IN_TARGET),
    "crash between stage and merge": Fault(MERGE, places.crash),
    "target edited by hand": Fault(TARGET, places.edit_by_hand, IN_TARGET),
    "binlog gap": Fault(LOG, places.purge, NOT_LOGGED),
    "change that was not logged": Fault(LOG, places.write_past_the_log, IN_NEITHER),
    "staged file edited": Fault(FILES, places.edit_staged),
    "segment's file edited": Fault(FILES, places.edit_segment),
}
