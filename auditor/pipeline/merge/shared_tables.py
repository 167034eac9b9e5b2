"""Which other pipelines fill a table of a target, so that none of them deletes rows that the others brought."""

from __future__ import annotations

from auditor.errors import TableShared
from auditor.pipeline.merge import merge_by_commits
from auditor.pipeline.merge.load_tasks import settings_of
from auditor.pipeline.merge.positions import Where, positions_of
from auditor.store import parts
from dialects import Session
from dialects.committing import Committing


def check_alone(session: Session, where: Where, table: str, what: str, way_on: str) -> None:
    """Check that no other pipeline fills the target's table of that name.

    Raises TableShared, which says ``what`` the stream would do to its rows and the ``way_on``, if one does.
    """
    if others := _others(session, where, table):
        by = f"the pipeline{'s' if len(others) > 1 else ''} {' and '.join(others)}"
        raise TableShared(
            f"{table}: {what}, and the target's table is also filled by {by}, whose rows would go with it; {way_on}; or reset"
            f" {' and '.join(others)}, if that no longer fills the table"
        )


def _others(session: Session, where: Where, table: str) -> list[str]:
    """Return the names of the other pipelines of which the target holds this table, in order."""
    place = where.place(table)
    if isinstance(session, Committing):
        listed = [one for one in parts.list_pipelines(where.store) if one[0] != where.pipeline]
    else:
        found = session.query(positions_of(session, where, table).list_others())
        listed = [(str(pipeline), str(filled)) for pipeline, filled in found if filled]
    alike = [(pipeline, filled) for pipeline, filled in listed if _may_fill(where, pipeline, filled, place)]
    if isinstance(session, Committing):
        alike = [one for one in alike if merge_by_commits.read_position(session, place, *one)[0]]
    return sorted({pipeline for pipeline, _ in alike})


def _may_fill(where: Where, pipeline: str, table: str, place: tuple[str, str]) -> bool:
    """Return whether another pipeline may have a table of its source at a place of this target."""
    known = settings_of(where.config_file).pipelines.get(pipeline)
    names = [one.place_of(table)[1] for one in known.table_targets.values()] if known else [table.partition(".")[2]]
    return any(name.lower() == place[1].lower() for name in names)
