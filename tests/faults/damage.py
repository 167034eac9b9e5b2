"""What is wrong in a target, found without the auditor: all rows of both tables, compared in plain Python."""

from __future__ import annotations

from collections import Counter

from auditor.connections.writer import open_writer
from tests.faults.world import World


def find_damage(world: World) -> str:
    """Compare both tables in a lull, and say which rows are wrong; '' if none is."""
    with world.lull():
        source = Counter(map(tuple, world.log.run(f"SELECT * FROM {world.table}")))
        with open_writer("warehouse", world.settings.connections["warehouse"]) as session:
            target = Counter(map(tuple, session.query(f"SELECT * FROM {session.dialect.names.table(world.table, world.table)}")))
    gone, more = source - target, target - source
    changed = {row[0] for row in gone} & {row[0] for row in more}
    missing = [row for row in gone.elements() if row[0] not in changed]
    extra = [row for row in more.elements() if row[0] not in changed]
    counts = {"missing": len(missing), "extra": len(extra), "changed": len(changed)}
    return ", ".join(f"{count} {kind}" for kind, count in counts.items() if count)
