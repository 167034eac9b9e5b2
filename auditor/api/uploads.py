"""Compare two uploaded results that were saved from consoles."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path, PurePath

from fastapi import UploadFile

from auditor import service
from auditor.api.routing import slow_request
from auditor.config import Settings
from auditor.errors import ResultError
from auditor.model import Report, Side

SUFFIXES = (".csv", ".tsv", ".txt", ".json", ".jsonl", ".ndjson")
"""Suffixes that decide how a file is read. Parquet is left to the command line: small files can decompress to more than fits in memory."""

BLOCK = 1 << 20
"""Bytes that are copied at a time."""


def compare_uploads(settings: Settings, uploads: Mapping[Side, UploadFile], audit: str | None) -> Report:
    """Return the report of two results with the threshold of ``audit``, if given. Nothing is stored.

    Raises UnknownAudit, ResultError, and HTTPException (503) if too many slow requests are running.
    """
    threshold = service.audit(settings, audit) if audit else None
    with slow_request(), tempfile.TemporaryDirectory(prefix="auditor-") as directory:
        files = {side: Path(directory, f"{side}{_suffix(side, upload)}") for side, upload in uploads.items()}
        for side, upload in uploads.items():
            with files[side].open("wb") as file:
                while block := upload.file.read(BLOCK):
                    file.write(block)
        try:
            return service.compare_files(files["source"], files["target"], threshold)
        except ResultError as error:
            message = str(error)
            for side, path in files.items():
                message = message.replace(str(path), f"the {side}'s file")
            raise ResultError(message) from None


def _suffix(side: Side, upload: UploadFile) -> str:
    """Return the suffix of the uploaded file's name if it is in SUFFIXES, else .csv. Nothing else of the name is used."""
    suffix = PurePath(upload.filename or "").suffix.lower()
    if suffix == ".parquet":
        raise ResultError(f"the {side}'s file is Parquet, which is not accepted here; upload CSV or JSON, or use: auditor compare")
    return suffix if suffix in SUFFIXES else ".csv"
