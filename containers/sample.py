"""Fill the databases of docker-compose.yml: flights in the source, an intact and a damaged copy in the target, a damaged one in the lake.

Then run each audit once, so that the pages have something to show. Does nothing if the store already has a run.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from auditor import service
from auditor.config import Settings, find_file, load
from auditor.demo import damage, flights
from auditor.demo.load import load_table
from auditor.errors import AuditorError
from auditor.store import open_store, runs


def fill(settings: Settings, rows: int) -> None:
    """Load the tables of the audits; ``rows`` is the number of flights."""
    intact = flights.load(rows)
    damaged, faults = damage.apply_faults(intact)
    shop, warehouse = (settings.connections[name].url for name in ("shop", "warehouse"))
    tables = ((shop, "flights", intact), (warehouse, "flights", damaged), (warehouse, "flights_whole", intact))
    for url, table, data in tables:
        load_table(url, table, data, flights.SCHEMA, "id" if data is intact else None)
    place = settings.audits["flights_lake"].target.place
    load_table(settings.connections["lake"].url, place.path or "", damaged, flights.SCHEMA, None)
    Path(place.path or "").chmod(0o644)
    for fault in faults:
        print(f"sample: {fault.name}: {fault.what}", file=sys.stderr)


def main() -> int:
    """Fill the databases and run each audit; a mismatch is expected and is no failure."""
    settings = load(find_file(None))
    assert settings.store
    store = open_store(settings.store.url)
    try:
        if any(runs.list_runs(store, audit=name, limit=1) for name in settings.audits):
            print("sample: data already loaded", file=sys.stderr)
            return 0
        fill(settings, int(os.environ.get("SAMPLE_ROWS", "60000")))
        for name in settings.audits:
            report = service.run_audit(settings, name, store=store, requested_by="sample", reason="first run")
            print(f"sample: {name}: {report.verdict.value}: {'; '.join(report.reasons)}", file=sys.stderr)
    except AuditorError as error:
        print(f"sample: {error}", file=sys.stderr)
        return 1
    finally:
        store.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
