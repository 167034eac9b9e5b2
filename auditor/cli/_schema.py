"""The command schema: print the target's CREATE TABLE, or what brings a drifted target in line."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from auditor.cli._output import data_output, load_settings, open_optional_store
from auditor.service import audits
from auditor.service.target_schema import print_schema

if TYPE_CHECKING:
    from dialects.table_form import TableKey


def schema(options: argparse.Namespace) -> int:
    """Print the statements that make an audit's target hold its source's rows."""
    configured = load_settings(options)
    with open_optional_store(configured) as store:
        known = audits.with_defined_audits(configured, store) if store else configured
    keys: dict[TableKey, Sequence[str]] = {"dist": options.dist_key, "sort": options.sort_key}
    data_output().writelines(print_schema(known, options.audit, create=options.create, keys=keys))
    return 0
