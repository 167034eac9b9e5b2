"""What tests of copies by executors share."""

from __future__ import annotations

import json
from pathlib import Path

from auditor.bootstrap.use_cases import Spreading
from auditor.config import Settings


def spreading(settings: Settings, folder: Path) -> Spreading:
    """Write the configuration that executors read, and ask for them."""
    file = folder / "auditor.yaml"
    file.write_text(json.dumps(settings.model_dump(mode="json", by_alias=True, exclude_unset=True)))
    return Spreading(file, is_asked=True)
