"""Large results of Redshift come by UNLOAD through S3: the same rows as through a cursor, and no file is left behind."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any
from urllib.parse import quote

import boto3
import pytest

import auditor
import dialects
from auditor.errors import BadUrl, EngineError, UnloadFailed
from dialects import Kind, parse_url
from dialects.redshift import unload as redshift_unload
from dialects.redshift.unload import unloading
from tests import tables
from tests.live import Engines, LiveEngine, engine_params
from tests.servers import s3
from tests.servers.redshift import StandIn
from tests.servers.redshift_allowed import violations

BUCKET = "unloaded-rows"
ROLE = "arn:aws:iam::123456789012:role/unload"


@pytest.fixture
def bucket(engine: LiveEngine, engines: Engines, monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIn]:
    """The stand-in, which may unload into an empty bucket."""
    server = engines.server(engine.name)
    if not isinstance(server, StandIn):
        pytest.skip(f"{engine.name}: {server.how}, which needs a bucket of its own")
    endpoint = engines.companion("s3", s3.start).url
    for name, value in {"ENDPOINT_URL": endpoint, "ACCESS_KEY_ID": "tests", "SECRET_ACCESS_KEY": "tests"}.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    boto3.client("s3", region_name="us-east-1").create_bucket(Bucket=BUCKET)
    monkeypatch.setattr(redshift_unload, "ROWS", 50)
    with server.unloading_to(endpoint):
        yield server


def url_of(engine: LiveEngine, role: str = ROLE) -> str:
    return f"{engine.url}&unload_to={quote(f's3://{BUCKET}/auditor', safe='')}&unload_role={quote(role, safe='')}&region=us-east-1"


def left_behind() -> list[str]:
    found = boto3.client("s3", region_name="us-east-1").list_objects_v2(Bucket=BUCKET)
    return [str(one["Key"]) for one in found.get("Contents", [])]


@pytest.mark.parametrize("engine", engine_params("redshift"), indirect=True)
def test_listed_rows_come_by_unload(engine: LiveEngine, bucket: StandIn) -> None:
    """With texts of quotation marks and NULL; every statement is one that the manual allows, and the files are gone afterwards."""
    columns = [("id", Kind("integer")), ("note", Kind("text"))]
    rows = [(n, None if n % 7 == 0 else f'it\'s {n} \\ "x"') for n in range(400)]
    tables.make(engine, "unload_a", columns, rows, key=["id"])
    tables.make(engine, "unload_b", columns, [(n, text if n % 2 else "other") for n, text in rows], key=["id"])
    bucket.forget()
    settings: dict[str, Any] = {
        "t": 1,
        "partition": {"strategy": "hash", "buckets": 2},
        "columns": {"override": {"note": {"case": "lower"}}},
    }
    plain = auditor.audit((engine.url, "unload_a"), (engine.url, "unload_b"), **settings)
    assert not [one for one in bucket.statements() if one.startswith("UNLOAD")]
    report = auditor.audit((url_of(engine), "unload_a"), (url_of(engine, "default"), "unload_b"), **settings)
    sent = [one for one in bucket.statements() if one.startswith("UNLOAD")]
    assert len(sent) >= 2 and all(" FORMAT AS PARQUET MANIFEST" in one for one in sent), report.reasons
    assert {one: found for one in sent if (found := violations(one))} == {}
    assert report.differences and plain.differences
    assert report.differences.changed == plain.differences.changed == 200
    assert {(one.kind, one.key["id"]) for one in report.differences.named} == {(one.kind, one.key["id"]) for one in plain.differences.named}
    assert left_behind() == []


def cancelled(_: object) -> int:
    """Stand for an UNLOAD that ended with an error after it had written files."""
    raise EngineError("cancelled after it wrote files")


def no_manifest(*_: object) -> Iterator[tuple[str, int]]:
    """Stand for a folder in which Redshift wrote nothing."""
    raise FileNotFoundError("manifest")


@pytest.mark.parametrize("engine", engine_params("redshift"), indirect=True)
def test_result_without_rows_and_lost_files(engine: LiveEngine, bucket: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    tables.make(engine, "unload_few", [("id", Kind("integer"))], [(n,) for n in range(5)])
    with closing(dialects.connect(url_of(engine))) as session:
        assert list(session.stream_many("SELECT id FROM unload_few WHERE id > 9", 60)) == []
        found = [
            row
            for batch in session.stream_many("SELECT id, CAST('x' AS VARCHAR(9)) AS t FROM unload_few", 60)
            for row in zip(*batch, strict=True)
        ]
        assert sorted(found) == [(n, "x") for n in range(5)]
        session.begin()
        assert list(session.stream_many("SELECT id FROM unload_few", 40)), "too few rows to be unloaded"
        session.end()
        with monkeypatch.context() as patch:
            patch.setattr(redshift_unload, "read_batches", lambda files, path: iter([[[1]]]))
            with pytest.raises(UnloadFailed, match=r"unloaded 5 rows to s3://.*, and its files held 2"):
                list(session.stream_many("SELECT id FROM unload_few", 60))
        with pytest.raises(EngineError, match="LIMIT clause is not supported"):
            list(session.stream_many("SELECT id FROM unload_few LIMIT 3", 60))
        with monkeypatch.context() as patch:
            patch.setattr(session, "query", cancelled)
            with pytest.raises(EngineError, match="cancelled after it wrote files"):
                list(session.stream_many("SELECT id FROM unload_few", 60))
        assert left_behind() == []
        with monkeypatch.context() as patch:
            patch.setattr(redshift_unload, "manifest_paths", no_manifest)
            assert list(session.stream_many("SELECT id FROM unload_few WHERE id > 9", 60)) == []
        monkeypatch.setattr(redshift_unload, "manifest_paths", lambda files, folder: iter([(f"{BUCKET}/nothing.parquet", 1)]))
        with pytest.raises(UnloadFailed, match=r"cannot be read.*nothing.parquet.*remove unload_to"):
            list(session.stream_many("SELECT id FROM unload_few", 60))
    assert left_behind() == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("unload_to=s3://b-b-b/x", "unload_role must be the ARN"),
        ("unload_role=default", "unload_to must be a folder"),
        ("unload_to=/tmp&unload_role=default", "unload_to must be a folder"),
        ("unload_to=s3://bucket/x'y&unload_role=default", "unload_to must be a folder"),
        ("unload_to=s3://bucket/x&unload_role=me", "not 'me'"),
    ],
)
def test_bucket_and_role_go_together(options: str, message: str) -> None:
    with pytest.raises(BadUrl, match=message):
        unloading(parse_url(f"redshift://u:p@h/d?{options}"))
    assert unloading(parse_url("redshift://u:p@h/d")) is None
