"""How URLs sign in to Redshift: the keyword arguments that Amazon's driver gets."""

from __future__ import annotations

from typing import Any

import boto3
import pytest
import redshift_connector
from botocore.exceptions import ClientError, NoCredentialsError

import dialects
from auditor.errors import AccessDenied, BadUrl, Unreachable
from dialects.redshift.login import sign_in_options

ROLE = "arn:aws:iam::123456789012:role/auditor"
SIGN_INS: dict[str, dict[str, Any]] = {
    "redshift://me:p%40ss@wh/db": {"host": "wh", "user": "me", "password": "p@ss", "sslmode": "verify-ca", "ssl": True},
    "redshift+redshift_connector://me:pw@wh:5440/db?sslmode=verify-full": {"port": 5440, "sslmode": "verify-full", "user": "me"},
    "redshift+psycopg2://me:pw@wh/db?sslmode=disable": {"host": "wh", "ssl": False},
    "redshift://wh/db?iam=true&db_user=audit&profile=reader&region=eu-central-1": {
        "host": "wh", "iam": True, "db_user": "audit", "profile": "reader", "region": "eu-central-1", "ssl": True},
    "redshift:///db?iam=1&cluster_identifier=main&region=eu-central-1&db_user=audit&auto_create=false&db_groups=readers,auditors": {
        "iam": True, "cluster_identifier": "main", "db_user": "audit", "auto_create": False, "db_groups": ["readers", "auditors"]},
    "redshift+redshift_connector://audit@/db?iam=true&cluster_identifier=main&region=x": {"db_user": "audit", "iam": True},
    "redshift:///db?iam=true&workgroup=adhoc&region=eu-central-1": {"is_serverless": True, "serverless_work_group": "adhoc", "iam": True},
    "redshift:///db?iam=true&is_serverless=true&serverless_work_group=adhoc&serverless_acct_id=12&region=x": {
        "is_serverless": True, "serverless_work_group": "adhoc", "serverless_acct_id": "12"},
    f"redshift:///db?iam=true&cluster_identifier=main&role_arn={ROLE}&web_identity_token=t&credentials_provider=BasicJwt": {
        "role_arn": ROLE, "web_identity_token": "t", "credentials_provider": "BasicJwt"},
    "redshift://me:pw@wh/db?application_name=nightly": {"application_name": "nightly"},
}  # fmt: skip


@pytest.mark.parametrize("url", SIGN_INS)
def test_options_are_the_drivers(url: str) -> None:
    found = sign_in_options(dialects.parse_url(url), "auditor")
    assert {name: found[name] for name in SIGN_INS[url]} == SIGN_INS[url]
    assert found["database"] == "db"
    assert "None" not in map(str, found.values()) or not found.get("iam"), "the driver must not get what is not given"
    known = redshift_connector.connect.__kwdefaults__ or {}
    names = set(redshift_connector.connect.__code__.co_varnames) | set(known)
    assert set(found) <= names, "the driver knows each of them"


REFUSED = {
    "redshift://me:pw@wh/db?sslmode=require": "sslmode=require is none that the driver has; use verify-ca, verify-full, disable",
    "redshift://me:pw@wh/db?iam=perhaps": "option iam must be true or false, not 'perhaps'",
    "redshift://me:pw@wh/db?clusteridentifier=main": "unknown option clusteridentifier; did you mean cluster_identifier",
    "redshift:///db?iam=true&region=x": r"iam=true needs cluster_identifier=\.\.\., workgroup=\.\.\., or a host",
    "redshift:///db?cluster_identifier=main": "cluster_identifier is for signing in by IAM; add iam=true",
    "redshift://wh/db?iam=true&sslmode=disable": "iam=true needs TLS; remove sslmode=disable",
    "redshift:///db": "there is no host; write redshift://user:password@host:5439/database",
}


@pytest.mark.parametrize("url", REFUSED)
def test_what_cannot_work_is_refused_before_anything_is_sent(url: str) -> None:
    with pytest.raises(BadUrl, match=REFUSED[url]):
        dialects.connect(url)


def test_secrets_are_not_shown() -> None:
    url = dialects.parse_url("redshift:///db?iam=true&workgroup=w&access_key_id=AKIA&secret_access_key=hush&session_token=hush")
    assert "hush" not in f"{url}{url!r}"


def test_database_is_known_by_its_cluster_or_workgroup() -> None:
    """Two ways to sign in to one cluster are one database; two clusters are two, though no URL has a host."""
    ids = [
        dialects.database_id(f"redshift:///db?iam=true&{where}&region=x{more}")
        for where, more in (
            ("cluster_identifier=a", "&db_user=me"),
            ("cluster_identifier=a", "&profile=p"),
            ("cluster_identifier=b", ""),
            ("workgroup=w", ""),
        )
    ]
    assert ids[0] == ids[1] and len(set(ids)) == 3


class FakeSts:
    """AWS's token service, or its refusal."""

    def __init__(self, error: Exception | None) -> None:
        self.error = error
        self.asked: dict[str, str] = {}

    def assume_role(self, **asked: str) -> dict[str, dict[str, str]]:
        self.asked = asked
        if self.error:
            raise self.error
        return {"Credentials": {"AccessKeyId": "id", "SecretAccessKey": "key", "SessionToken": "token"}}


def assume(monkeypatch: pytest.MonkeyPatch, error: Exception | None = None) -> FakeSts:
    sts, sessions = FakeSts(error), []

    class Session:
        def __init__(self, **given: str | None) -> None:
            sessions.append(given)

        def client(self, name: str) -> FakeSts:
            assert name == "sts" and sessions == [{"profile_name": "base", "region_name": "x"}]
            return sts

    monkeypatch.setattr(boto3, "Session", Session)
    return sts


URL = f"redshift:///db?iam=true&cluster_identifier=main&region=x&profile=base&role_arn={ROLE}&db_user=audit"


def test_role_is_assumed_by_the_user_of_the_profile(monkeypatch: pytest.MonkeyPatch) -> None:
    sts = assume(monkeypatch)
    found = sign_in_options(dialects.parse_url(URL), "auditor")
    assert sts.asked == {"RoleArn": ROLE, "RoleSessionName": "auditor"}
    assert (found["access_key_id"], found["secret_access_key"], found["session_token"]) == ("id", "key", "token")
    assert "profile" not in found and "role_arn" not in found, "the driver would sign in as the profile itself"


def test_role_that_cannot_be_assumed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    refusal = ClientError({"Error": {"Code": "AccessDenied", "Message": "not authorized to perform: sts:AssumeRole"}}, "AssumeRole")
    for error, known in ((refusal, AccessDenied), (NoCredentialsError(), Unreachable)):
        assume(monkeypatch, error)
        with pytest.raises(known, match=f"the role {ROLE} could not be assumed"):
            dialects.connect(URL)


def test_credentials_that_aws_refuses_are_an_error_of_the_tree(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(**_: Any) -> Any:
        raise ClientError({"Error": {"Code": "ClusterNotFound", "Message": "Cluster main not found."}}, "GetClusterCredentials")

    monkeypatch.setattr(redshift_connector, "connect", refuse)
    with pytest.raises(AccessDenied, match=r"AWS gave no credentials: .*Cluster main not found"):
        dialects.connect("redshift:///db?iam=true&cluster_identifier=main&region=x&db_user=audit")
