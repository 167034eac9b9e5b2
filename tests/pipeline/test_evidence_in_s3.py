"""Heads of chains of evidence in a bucket whose objects are locked."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import duckdb
import pytest
from botocore.exceptions import ClientError

from auditor import config, service
from auditor.history.evidence import verify_bytes
from auditor.pipeline import folders
from auditor.service import evidence
from auditor.store import evidence as chains
from auditor.store import open_store
from tests.live import Engines
from tests.pipeline.test_staging_in_s3 import environment_of
from tests.servers import s3


@pytest.fixture
def client(engines: Engines, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A client of the S3 that the environment leads to."""
    for name, value in environment_of(engines.companion("s3", s3.start).url).items():
        monkeypatch.setenv(name, value)
    folders.s3_client.cache_clear()
    yield boto3.client("s3")
    folders.s3_client.cache_clear()


def test_heads_are_locked_objects(client: Any, tmp_path: Path) -> None:
    client.create_bucket(Bucket="heads", ObjectLockEnabledForBucket=True)
    client.create_bucket(Bucket="unlocked")
    with duckdb.connect(f"{tmp_path}/t.duckdb") as connection:
        connection.execute("CREATE TABLE a AS SELECT i AS id FROM range(10) t(i)")
    name = "größer/2024"
    table = {"connection": "here", "table": "a"}
    settings = config.validate_settings(
        {
            "connections": {"here": {"url": f"duckdb:///{tmp_path}/t.duckdb"}},
            "audits": {name: {"source": table, "target": table, "key": ["id"]}},
            "evidence": {"key": f"{tmp_path}/key.pem", "publish": ["s3://unlocked/a", "s3://heads/prod/"], "lock": "30d"},
        }
    )
    evidence.make_key(settings)
    store = open_store(f"sqlite:///{tmp_path}/store.db")
    reports = [service.run_audit(settings, name, store=store) for _ in range(2)]
    for report in reports:
        assert [note for note in report.notes if "was not published" in note and "s3://unlocked/a" in note]
        assert not any("s3://heads" in note for note in report.notes)
    keys = [one["Key"] for one in client.list_objects_v2(Bucket="heads")["Contents"]]
    links = chains.list_links(store, name)
    assert keys == [f"prod/gr%C3%B6%C3%9Fer%2F2024/{link.number:010}-{link.digest}.json" for link in links]
    for key, link in zip(keys, links, strict=True):
        found = client.get_object(Bucket="heads", Key=key)
        assert [entry.link.number for entry in verify_bytes(found["Body"].read())] == [link.number]
        assert found["ObjectLockMode"] == "COMPLIANCE"
        days = (found["ObjectLockRetainUntilDate"] - dt.datetime.now(dt.UTC)) / dt.timedelta(days=1)
        assert 29 < days <= 30
        (version,) = client.list_object_versions(Bucket="heads", Prefix=key)["Versions"]
        with pytest.raises(ClientError, match="AccessDenied"):
            client.delete_object(Bucket="heads", Key=key, VersionId=version["VersionId"])
    store.close()
