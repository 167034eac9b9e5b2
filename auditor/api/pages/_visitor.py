"""Who is asking: as the sessions say, except that the pages which are for everybody pass over a session that has ended."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request

from auditor.api.sessions import Definer, Reader, Runner, Visitor, current
from auditor.errors import Unauthorised

__all__ = ["Anybody", "Definer", "Reader", "Runner", "Visitor", "visitor_or_none"]


def visitor_or_none(request: Request) -> Visitor | None:
    """Who is asking, if they are known and still may."""
    try:
        return current(request)
    except Unauthorised:
        request.scope["auditor.visitor"] = None
        return None


Anybody = Annotated[Visitor | None, Depends(visitor_or_none)]
