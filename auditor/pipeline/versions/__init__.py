"""Histories: the versions that a table's rows had, as a pipeline reads them in the source's log, for audits with ``history``.

`find_history` is what a run asks, `stream_history` answers it. `writer` is the pipeline's process that writes versions as events are
staged, `files` the files in which they are.

Outside stay the rule by which a row is judged (`auditor.compare.row_versions`), the run's own half (`auditor.run.row_history`), and the
tables of histories and files (`auditor.store.row_versions`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.config import Audit, Settings

if TYPE_CHECKING:
    from auditor.pipeline.versions.stream_history import StreamHistory
    from auditor.store import Store


def find_history(settings: Settings, store: Store, name: str, audit: Audit, *, is_own: bool) -> StreamHistory | None:
    """Return the history in which a run of an audit looks rows up; None if it has none.

    A run that is not the audit's own has other settings: it cannot let the history begin anew.
    """
    if audit.history is None:
        return None
    from auditor.pipeline.versions.stream_history import StreamHistory  # which loads what only pipelines need

    return StreamHistory(settings, store, name, audit, audit.history, is_own)
