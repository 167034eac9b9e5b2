"""The service over HTTP: requests to the use cases, their answers to JSON. No decision is made here."""

from __future__ import annotations

from auditor.api.app import create_app
from auditor.api.sessions import check_exposure

__all__ = ["check_exposure", "create_app"]
