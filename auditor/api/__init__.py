"""The HTTP API and the pages. They call the use cases in `auditor.service` and hold no logic of their own."""

from __future__ import annotations

from auditor.api.app import create_app
from auditor.api.authentication import check_exposure

__all__ = ["check_exposure", "create_app"]
