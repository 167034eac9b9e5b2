"""The command dump: write a dump of an audit's source, which stands in for it."""

from __future__ import annotations

import argparse
import dataclasses

from auditor import config
from auditor.cli._output import current_user, print_json, settings_and_store
from auditor.escaping import shell_word
from auditor.service import dumps


def dump(options: argparse.Namespace) -> int:
    """Write the dump and print where it is, of which moment, and how many rows it has."""
    with settings_and_store(options) as (configured, store):
        folder, dumped = dumps.dump(configured, store, config.find_file(options.config), options.audit, options.master, current_user())
    if options.format == "json":
        print_json({"folder": str(folder), **dataclasses.asdict(dumped), "as_of": dumped.as_of.isoformat()})
        return 0
    where = f", at {dumped.position}" if dumped.position else f"; position: not known, because {dumped.why_unknown}"
    print(f"dumped {dumped.rows:,} rows as of {dumped.as_of:%Y-%m-%d %H:%M:%S} UTC{where}")
    print(f"  {folder}: {dumped.files:,} files by {dumped.connections} connections, {dumped.memory / 1e6:,.0f} MB of memory in the task")
    print(f"  audit it: auditor run {shell_word(options.audit)}")
    return 0
