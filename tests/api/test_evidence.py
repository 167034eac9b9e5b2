"""Evidence over HTTP."""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa

from auditor.config import Evidence
from auditor.history.evidence import verify_bytes
from auditor.service import evidence
from auditor.store.schema import runs as runs_table
from tests.api.conftest import TemporaryService


def test_evidence_is_served_until_the_stored_run_is_changed(tmp_path: Path) -> None:
    temporary = TemporaryService(tmp_path)
    temporary.settings = temporary.settings.model_copy(update={"evidence": Evidence(key=str(tmp_path / "key.pem"))})
    evidence.make_key(temporary.settings)
    with temporary as own:
        client, run = own.client("read"), own.runs["orders"]
        answer = client.get(f"/api/v1/runs/{run}/evidence")
        assert answer.headers["content-disposition"] == f'attachment; filename="evidence-{run[:12]}.json"'
        (entry,) = verify_bytes(answer.content)
        assert entry.payload and (entry.link.run, entry.payload.verdict) == (run, "mismatch")
        assert client.get("/api/v1/runs/abcdef/evidence").status_code == 404
        own.store.write(lambda connection: connection.execute(sa.update(runs_table).values(verdict="match")))
        changed = client.get(f"/api/v1/runs/{run}/evidence")
        assert changed.status_code == 409 and "verdict" in changed.json()["detail"]
