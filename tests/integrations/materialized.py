"""Materialise assets behind the checks of the Dagster package; executed in a real Dagster, it prints what became of each as JSON.

python materialized.py URL TOKEN AUDIT...

Each audit is of an asset of its name, on which another depends.
"""

import json
import sys
from typing import Any

from auditor_dagster import build_auditor_checks
from dagster import AssetKey, Definitions, asset


def assets_of(audit: str) -> list[Any]:
    @asset(name=audit)  # type: ignore[untyped-decorator]
    def table() -> None:
        """What is audited."""

    @asset(name=f"behind_{audit}", deps=[table])  # type: ignore[untyped-decorator]
    def behind() -> None:
        """What may begin only behind the check."""

    return [table, behind]


def main(url: str, token: str, *audits: str) -> None:
    found = {}
    for audit in audits:
        checks = build_auditor_checks(url, token, {AssetKey(audit): audit})
        job = Definitions(assets=assets_of(audit), asset_checks=checks).resolve_implicit_global_asset_job_def()
        result = job.execute_in_process(raise_on_error=False)
        evaluations = result.get_asset_check_evaluations()
        found[audit] = {
            "success": result.success,
            "materialized": sorted(event.asset_key.path[-1] for event in result.get_asset_materialization_events()),
            "checks": [
                {"passed": one.passed, "said": one.description, **{key: value.value for key, value in one.metadata.items()}}
                for one in evaluations
            ],
            "errors": [str(event.step_failure_data.error) for event in result.get_step_failure_events()],
        }
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
