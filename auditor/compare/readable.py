"""Show the keys of differences as people write them. Within a run they are canonical texts, by which rows are fetched and matched."""

from __future__ import annotations

import dataclasses

from auditor import canonical
from auditor.canonical import FLOATS
from auditor.model import Differences, Plan


def with_readable_keys(differences: Differences, plan: Plan) -> Differences:
    """Return the differences of a finished run with floats among their keys as decimal numbers, which read back as the same floats."""
    kinds = {column.name: column.kind for column in plan.key_columns}
    if not any(kind.name in FLOATS for kind in kinds.values()):
        return differences
    named = (
        dataclasses.replace(one, key={name: canonical.readable(kinds[name], text) for name, text in one.key.items()})
        for one in differences.named
    )
    return dataclasses.replace(differences, named=tuple(named))
