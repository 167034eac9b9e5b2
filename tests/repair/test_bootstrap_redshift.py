"""A table of Redshift is copied anew by files on S3 and one COPY of their manifest; no file is left behind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import boto3
import pytest

from auditor.bootstrap import use_cases
from auditor.errors import BootstrapFailed, BootstrapRefused
from auditor.model import Verdict
from auditor.points import armed, followed
from auditor.store import bootstraps as stored
from tests import tables
from tests.live import Engines, LivePair, chosen_pairs
from tests.repair import damaged
from tests.repair.bootstrap_killed import kill
from tests.repair.bootstrapped import clean, left
from tests.repair.damaged import Damaged
from tests.repair.spread import spreading
from tests.servers import s3
from tests.servers.redshift import StandIn

BUCKET = "copied-rows"
ROLE = "arn:aws:iam::123456789012:role/copy"
PAIRS = pytest.mark.parametrize("pair", chosen_pairs("mysql-redshift"), indirect=True)


@pytest.fixture
def bucket(pair: LivePair, engines: Engines, monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIn]:
    """The stand-in, which may read an empty bucket."""
    server = engines.server("redshift")
    if not isinstance(server, StandIn):
        pytest.skip(f"redshift: {server.how}, which needs a bucket of its own")
    endpoint = engines.companion("s3", s3.start).url
    for name, value in {"ENDPOINT_URL": endpoint, "ACCESS_KEY_ID": "tests", "SECRET_ACCESS_KEY": "tests"}.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    boto3.client("s3", region_name="us-east-1").create_bucket(Bucket=BUCKET)
    with server.unloading_to(endpoint):
        yield server


@pytest.fixture
def both(pair: LivePair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Damaged:
    monkeypatch.setattr("auditor.bootstrap.plan.RANGE_ROWS", 20)
    clean(pair.target)
    made = damaged.make(pair, tmp_path, rows=60, differences=30)
    target = made.settings.connections["target"]
    assert target.write
    url = f"{pair.target.url}&unload_to={quote(f's3://{BUCKET}/auditor', safe='')}&unload_role={quote(ROLE, safe='')}&region=us-east-1"
    written = target.model_copy(update={"write": target.write.model_copy(update={"url": url})})
    connections = {**made.settings.connections, "target": written}
    object.__setattr__(made, "settings", made.settings.model_copy(update={"connections": connections}))
    return made


def leave(both: Damaged) -> None:
    """Leave files of an attempt that was killed, and of somebody else."""
    for folder in (f"bootstrap-{stored.list_bootstraps(both.store)[-1].bootstrap}/0123", "another"):
        boto3.client("s3", region_name="us-east-1").put_object(Bucket=BUCKET, Key=f"auditor/{folder}/000000.txt", Body=b"1\n")


def files() -> list[str]:
    found = boto3.client("s3", region_name="us-east-1").list_objects_v2(Bucket=BUCKET)
    return [str(one["Key"]) for one in found.get("Contents", [])]


@PAIRS
def test_a_damaged_table_is_copied_anew_by_a_manifest(both: Damaged, bucket: StandIn) -> None:
    before, names = both.read_target(), [name for name, _ in both.columns]
    bucket.forget()
    with armed("bootstrap.verify", lambda: leave(both), nth=1):
        result = use_cases.run_bootstrap(both.settings, both.store, "all")
    (sent,) = [one for one in bucket.statements() if one.startswith("COPY")]
    assert f"FROM 's3://{BUCKET}/auditor/" in sent and f"/manifest' IAM_ROLE '{ROLE}' MANIFEST DELIMITER '\\t' ESCAPE" in sent
    assert result.rows == len(both.source) and result.after and result.after.verdict is Verdict.MATCH
    assert result.after.jaccard and result.after.jaccard.score.lower == 1
    assert damaged.read_exactly(both.pair.target, result.old, names) == before
    assert files() == ["auditor/another/000000.txt"], "what a killed attempt left is deleted, and nothing else"
    leave(both)
    assert use_cases.drop_left(both.settings, both.store, "all") == [result.old] and left(both.pair.target) == []
    assert files() == ["auditor/another/000000.txt"]


@pytest.mark.slow
@pytest.mark.spark
@PAIRS
def test_executors_store_the_files_that_it_copies(both: Damaged, bucket: StandIn, engines: Engines, tmp_path: Path) -> None:
    engines.live("spark")
    bucket.forget()
    asked = spreading(both.settings, tmp_path)
    result = use_cases.run_bootstrap(both.settings, both.store, "all", spreading=asked)
    assert len([one for one in bucket.statements() if one.startswith("COPY")]) == 1
    assert result.rows == len(both.source) and result.after and result.after.verdict is Verdict.MATCH
    assert files() == []
    use_cases.drop_left(both.settings, both.store, "all")


@pytest.mark.slow
@PAIRS
def test_without_rights_on_s3_the_table_stays_as_it_was(both: Damaged, bucket: StandIn) -> None:
    before, place = both.read_target(), bucket.log.with_suffix(".s3")
    content = place.read_text()
    denied = pytest.raises(BootstrapFailed, match=r"the target did not take the copy: .*Access Denied")
    with denied, armed("bootstrap.load", place.unlink, nth=1):
        use_cases.run_bootstrap(both.settings, both.store, "all")
    place.write_text(content)
    assert both.read_target() == before and files() == []
    steps: list[str] = []
    with followed("bootstrap", steps.append):
        assert use_cases.run_bootstrap(both.settings, both.store, "all").after
    assert "range" not in steps, "the files were there already"


@pytest.mark.slow
@PAIRS
def test_a_bootstrap_survives_a_kill_at_each_step(both: Damaged, bucket: StandIn, tmp_path: Path) -> None:
    moments = [(step, 0.0) for step in ("made", "loaded", "load", "verify", "swapping", "swap", "cleared", "commit", "swapped", "noted")]
    moments += [("load", 0.1), ("load", 0.3), ("swap", 0.02)]
    for step, delay in moments:
        before = both.read_target()
        code = kill(both, tmp_path, step=step, delay=delay)
        assert code == -9 or delay, step
        last = stored.list_bootstraps(both.store)[-1]
        assert set(left(both.pair.target)) <= {last.detail["stage"], last.detail["old"]}, "nothing that the journal does not name"
        after = both.read_target()
        assert after == before or len(after) == len(both.source), (step, "half of an exchange")
        if code:
            result = use_cases.run_bootstrap(both.settings, both.store, "all")
            assert result.after and result.after.verdict is Verdict.MATCH, (step, result)
        assert both.run().verdict is Verdict.MATCH, step
        use_cases.drop_left(both.settings, both.store, "all")
        assert left(both.pair.target) == [] and all(one.state == "done" for one in stored.list_bootstraps(both.store))
        tables.execute(both.pair.target, "DELETE FROM patched_target WHERE id < 30")


@PAIRS
def test_without_a_bucket_it_is_refused(both: Damaged, pair: LivePair) -> None:
    target = both.settings.connections["target"]
    assert target.write
    plain = target.model_copy(update={"write": target.write.model_copy(update={"url": pair.target.url})})
    settings = both.settings.model_copy(update={"connections": {**both.settings.connections, "target": plain}})
    with pytest.raises(
        BootstrapRefused, match=r"its files go through S3: add unload_to=s3://bucket/folder and unload_role=ARN to write: url"
    ):
        use_cases.run_bootstrap(settings, both.store, "all")
