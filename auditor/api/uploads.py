"""Two results that were saved in consoles, sent to be compared."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path, PurePath

from fastapi import UploadFile

from auditor import service
from auditor.api.routing import long
from auditor.config import Settings
from auditor.errors import ResultError
from auditor.model import Report, Side

ENDINGS = (".csv", ".tsv", ".txt", ".json", ".jsonl", ".ndjson")
"""What says how to read a file. Parquet is left to the command line: a file of some kilobytes can unfold to more than there is memory."""

BLOCK = 1 << 20


def compared(settings: Settings, uploads: Mapping[Side, UploadFile], audit: str | None) -> Report:
    """The report of two results, of which nothing is kept; ``audit`` names whose threshold counts.

    Raises UnknownAudit, ResultError, and HTTPException where enough of this is being done.
    """
    threshold = service.audit(settings, audit) if audit else None
    with long(), tempfile.TemporaryDirectory(prefix="auditor-") as directory:
        files = {side: Path(directory, f"{side}{_ending(side, upload)}") for side, upload in uploads.items()}
        for side, upload in uploads.items():
            with files[side].open("wb") as file:
                while block := upload.file.read(BLOCK):
                    file.write(block)
        try:
            return service.compare_files(files["source"], files["target"], threshold)
        except ResultError as error:
            told = str(error)
            for side, path in files.items():
                told = told.replace(str(path), f"the {side}'s file")
            raise ResultError(told) from None


def _ending(side: Side, upload: UploadFile) -> str:
    """The upload's ending where it is one that says how to read it; nothing else of its name is used."""
    ending = PurePath(upload.filename or "").suffix.lower()
    if ending == ".parquet":
        raise ResultError(f"the {side}'s file is Parquet, which is not unfolded here; send CSV or JSON, or use: auditor compare")
    return ending if ending in ENDINGS else ".csv"
