"""Dagster: asset checks that are audits, so that nothing downstream is materialised from what a source does not confirm.

A check requests a run from a service, ``auditor serve``, and waits for it: its verdict is about what the asset holds by then.
"""

import re
import time
from collections.abc import Mapping

from dagster import AssetCheckExecutionContext, AssetCheckResult, AssetChecksDefinition, AssetKey, MetadataValue, asset_check

from auditor.client import Client
from auditor.errors import AlreadyRunning

POLL = 5.0
"""Seconds between two requests while another run of the audit is under way."""


def build_auditor_checks(url: str, token: str, audits: Mapping[str | AssetKey, str]) -> list[AssetChecksDefinition]:
    """Return a blocking check for each asset, which passes only if a run of its audit is a match, or within the audit's threshold.

    ``audits`` names the audit of each asset's table. The token needs the scope run. A run without a verdict does not pass; a service
    that does not answer or does not know the audit fails the check's step, by which the assets downstream are left, too.
    """
    return [_build_check(url, token, asset, audit) for asset, audit in audits.items()]


def _build_check(url: str, token: str, asset: str | AssetKey, audit: str) -> AssetChecksDefinition:
    @asset_check(
        asset=asset,
        name=f"auditor_{re.sub(r'[^A-Za-z0-9_]', '_', audit)}",
        description=f"Audit {audit}: the table holds what its source holds.",
        blocking=True,
    )
    def check(context: AssetCheckExecutionContext) -> AssetCheckResult:
        with Client(url, token) as service:
            requested = _request_run(service, audit, f"Dagster: run {context.run.run_id}")
            context.log.info(f"waiting for run {requested} of audit {audit}")
            run = service.wait(requested)
            report = service.report(requested, "text")
        return AssetCheckResult(
            passed=run.state == "done" and run.verdict == "match",
            description=report.partition("\n")[0],
            metadata={
                "verdict": run.verdict.value,
                "state": run.state.value,
                "page": MetadataValue.url(f"{service.url}/runs/{requested}"),
                "report": MetadataValue.md(f"```\n{report}\n```"),
                **({"score": run.score.value} if run.score.value is not None else {}),
                **({f"rows of the {side}": count for side, count in run.rows.items()} if run.rows else {}),
            },
        )

    return check


def _request_run(service: Client, audit: str, reason: str) -> str:
    """Return the id of a run of this request, once no other run of the audit is under way, which may have begun too early."""
    while True:
        try:
            return service.request(audit, reason=reason).run
        except AlreadyRunning:
            time.sleep(POLL)
