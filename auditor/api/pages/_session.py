"""Dependencies of pages on the caller. Public pages treat an expired session as no session."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request

from auditor.api.sessions import Applier, Definer, Operator, Reader, Repairer, Runner, Visitor, current_visitor
from auditor.errors import Unauthorised

__all__ = ["Applier", "Definer", "Operator", "OptionalVisitor", "Reader", "Repairer", "Runner", "Visitor", "visitor_or_none"]


def visitor_or_none(request: Request) -> Visitor | None:
    """Return the caller, or None without a valid token or session."""
    try:
        return current_visitor(request)
    except Unauthorised:
        request.scope["auditor.visitor"] = None
        return None


OptionalVisitor = Annotated[Visitor | None, Depends(visitor_or_none)]
