"""Whether what a refresh wrote into the source's log has been staged."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from auditor.pipeline.events import Place


def is_staged(progress: Mapping[str, object], offset: Mapping[str, Any] | None) -> bool:
    """Return whether everything was staged up to the end of the log at the end of a refresh.

    Places in the logs of two servers have no common order: what ended in an epoch before a failover is staged if that server was read so
    far then. What was not comes through the new server, at a place that is not known, so that it never counts as staged.
    """
    end = progress.get("end")
    if not isinstance(end, list) or not offset or "." not in str(offset.get("file")):
        return False
    file, position, server, *epochs = end
    epoch = epochs[0] if epochs else offset.get("epoch", 0)
    here = [offset.get("server", ""), offset["file"], offset["position"]]
    read_server, read_file, read_position = (
        here if epoch == offset.get("epoch", 0) else offset.get("left", {}).get(str(epoch), ("?", "", 0))
    )
    if read_server not in ("", server):
        return False
    return Place(str(read_file), int(read_position)).order >= Place(str(file), int(position)).order
