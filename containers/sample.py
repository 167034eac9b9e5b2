"""Fill the databases of docker-compose.yml: flights in the source, a whole and a damaged copy in the target, another in the lake.

Then each audit is run once, so that the page has something to show. It does all this once: where a run is kept, nothing is done.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from auditor import service
from auditor.config import Settings, find, load
from auditor.demo import damage, flights
from auditor.demo.load import load_table
from auditor.errors import AuditorError
from auditor.store import open_store, runs


def fill(settings: Settings, rows: int) -> None:
    """Load what the audits compare."""
    whole = flights.load(rows)
    damaged, faults = damage.damage(whole)
    shop, warehouse = (settings.connections[name].url for name in ("shop", "warehouse"))
    tables = ((shop, "flights", whole), (warehouse, "flights", damaged), (warehouse, "flights_whole", whole))
    for url, table, data in tables:
        load_table(url, table, data, flights.SCHEMA, "id" if data is whole else None)
    place = settings.audits["flights_lake"].target.place
    load_table(settings.connections["lake"].url, place.path or "", damaged, flights.SCHEMA, None)
    Path(place.path or "").chmod(0o644)
    for fault in faults:
        print(f"sample: {fault.name}: {fault.what}", file=sys.stderr)


def main() -> int:
    """Fill, then run each audit; a mismatch is what is wanted here."""
    settings = load(find(None))
    assert settings.store
    store = open_store(settings.store.url)
    try:
        if any(runs.listed(store, audit=name, limit=1) for name in settings.audits):
            print("sample: the data is there already", file=sys.stderr)
            return 0
        fill(settings, int(os.environ.get("SAMPLE_ROWS", "60000")))
        for name in settings.audits:
            found = service.run_audit(settings, name, store=store, requested_by="sample", reason="the first look")
            print(f"sample: {name}: {found.verdict.value}: {'; '.join(found.reasons)}", file=sys.stderr)
    except AuditorError as error:
        print(f"sample: {error}", file=sys.stderr)
        return 1
    finally:
        store.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
