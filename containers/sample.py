"""Fill the databases of docker-compose.yml: flights in the source, an intact and a damaged copy in the target, a damaged one in the lake.

Then run each audit of them once, so that the pages have something to show. Loads nothing if the store already has a run of one. The
tables of the pipeline are only made: it begins where the source's log ends, and writer.py then fills them.
"""

from __future__ import annotations

import os
import sys
from contextlib import closing
from pathlib import Path

import dialects
from auditor import service
from auditor.config import Settings, find_file, load
from auditor.demo import damage, flights, shop
from auditor.demo.load import load_table
from auditor.errors import AuditorError
from auditor.store import open_store, runs


def fill(settings: Settings, rows: int) -> None:
    """Load the tables of the audits; ``rows`` is the number of flights."""
    intact = flights.load(rows)
    damaged, faults = damage.apply_faults(intact)
    shop_url, warehouse = (settings.connections[name].url for name in ("shop", "warehouse"))
    tables = ((shop_url, "flights", intact), (warehouse, "flights", damaged), (warehouse, "flights_whole", intact))
    for url, table, data in tables:
        load_table(url, table, data, flights.SCHEMA, "id" if data is intact else None)
    place = settings.audits["flights_lake"].target.place
    load_table(settings.connections["lake"].url, place.path or "", damaged, flights.SCHEMA, None)
    Path(place.path or "").chmod(0o644)
    if settings.pipelines:
        with closing(dialects.connect(shop_url, 60.0, 10.0)) as session:
            for statement in shop.TABLES:
                session.execute(statement)
    for fault in faults:
        print(f"sample: {fault.name}: {fault.what}", file=sys.stderr)


def main() -> int:
    """Fill the databases and run each audit of flights; a mismatch is expected and is no failure."""
    settings = load(find_file(None))
    assert settings.store
    store = open_store(settings.store.url)
    audits = [name for name, audit in settings.audits.items() if audit.align is None]
    try:
        missing = [name for name in audits if not runs.list_runs(store, audit=name, limit=1)]
        if missing == audits:
            fill(settings, int(os.environ.get("SAMPLE_ROWS", "60000")))
        else:
            print("sample: data already loaded", file=sys.stderr)
        for name in missing:
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
