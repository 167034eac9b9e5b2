"""How a URL signs in to Redshift: by password, or by IAM to a cluster or a Serverless workgroup.

``redshift://user:password@host:5439/db``, or without a password, and without a host where AWS knows it::

    redshift:///db?iam=true&cluster_identifier=warehouse&region=eu-central-1&db_user=auditor
    redshift:///db?iam=true&workgroup=analytics&region=eu-central-1&profile=audit
    redshift:///db?iam=true&cluster_identifier=warehouse&region=eu-central-1&role_arn=arn:aws:iam::123456789012:role/auditor

The options are those of Amazon's driver, under its names; SQLAlchemy's schemes ``redshift+redshift_connector://`` and
``redshift+psycopg2://`` mean the same here. https://docs.aws.amazon.com/redshift/latest/mgmt/python-configuration-options.html
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dialects.addresses import Addresses
from dialects.errors import AccessDenied, BadUrl, Unreachable
from dialects.url import Url

DEFAULT_PORT = 5439
SSL_MODES = ("verify-ca", "verify-full", "disable")
"""What the driver does; it takes any other mode for ``verify-ca``."""

TEXTS = frozenset(
    {"cluster_identifier", "region", "profile", "db_user", "access_key_id", "secret_access_key", "session_token", "endpoint_url"}
    | {"credentials_provider", "idp_host", "idp_tenant", "client_id", "client_secret", "preferred_role", "principal_arn", "app_id"}
    | {"web_identity_token", "role_session_name", "auth_profile", "serverless_acct_id", "identity_namespace", "token", "token_type"}
)
"""Options that are handed to the driver as they are."""

FLAGS = frozenset({"iam", "auto_create", "force_lowercase", "iam_disable_cache", "group_federation", "is_serverless"})
"""Options that are true or false."""

OWN = frozenset(
    {"sslmode", "connect_timeout", "application_name", "query_group", "workgroup", "serverless_work_group", "role_arn", "db_groups"}
    | {"unload_to", "unload_role"}
)

SESSION_NAME = "auditor"
"""Name of the sessions of an assumed role, as AWS's own logs show it."""


def sign_in_options(url: Url, application_name: str) -> dict[str, Any]:
    """Return the driver's keyword arguments for a URL. Raises BadUrl, and AccessDenied where a role cannot be assumed.

    Call it for each login: a role's credentials end.
    """
    check_options(url)
    options: dict[str, Any] = {name: value for name, value in url.options.items() if name in TEXTS}
    options |= {name: url.flag(name) for name in FLAGS if name in url.options}
    mode = url.option("sslmode", "verify-ca")
    options |= {"ssl": mode != "disable", **({"sslmode": mode} if mode != "disable" else {})}
    options |= {"host": url.host, "port": url.port or DEFAULT_PORT, "database": url.database}
    options["application_name"] = url.option("application_name", application_name)  # else the driver looks through the stack for a name
    if groups := url.options.get("db_groups"):
        options["db_groups"] = groups.split(",")
    if workgroup := url.options.get("workgroup") or url.options.get("serverless_work_group"):
        options |= {"serverless_work_group": workgroup, "is_serverless": True}
    if not options.get("iam"):
        return options | {"user": url.user, "password": url.password}
    options["db_user"] = url.options.get("db_user") or url.user
    role = url.options.get("role_arn")
    if role and "web_identity_token" in url.options:  # which the driver exchanges itself
        options["role_arn"] = role
    elif role:
        options |= _assume(role, url)
        options.pop("profile", None)
    return {name: value for name, value in options.items() if value is not None}


def check_options(url: Url) -> None:
    """Raise BadUrl for options that are unknown, or do not go together."""
    url.refuse_unknown(TEXTS | FLAGS | OWN)
    if url.option("sslmode", "verify-ca") not in SSL_MODES:
        raise BadUrl(f"{url}: sslmode={url.options['sslmode']} is none that the driver has; use {', '.join(SSL_MODES)}")
    if url.flag("iam"):
        if not url.host and not {"cluster_identifier", "workgroup", "serverless_work_group"} & set(url.options):
            raise BadUrl(f"{url}: iam=true needs cluster_identifier=..., workgroup=..., or a host")
        if url.option("sslmode", "verify-ca") == "disable":
            raise BadUrl(f"{url}: iam=true needs TLS; remove sslmode=disable")
        return
    for_iam = {"cluster_identifier", "workgroup", "serverless_work_group", "role_arn", "db_user"}
    for_iam |= set() if "unload_to" in url.options else {"profile"}  # by which unloaded files are read
    needless = sorted(for_iam & set(url.options))
    if needless:
        raise BadUrl(f"{url}: {needless[0]} is for signing in by IAM; add iam=true")
    if not url.host:
        raise BadUrl(f"{url}: there is no host; write redshift://user:password@host:5439/database, or sign in with iam=true")


def place_of(url: Url) -> str:
    """Return what names the server of a URL: its host, or the cluster or workgroup whose host AWS returns, with the region."""
    named = url.options.get("cluster_identifier") or url.options.get("workgroup") or url.options.get("serverless_work_group")
    return url.host or f"{named or 'localhost'}.{url.option('region', '')}"


def _assume(role: str, url: Url) -> Mapping[str, str]:
    """Return the credentials of a role, which the profile's or the environment's user may assume.

    https://docs.aws.amazon.com/STS/latest/APIReference/API_AssumeRole.html
    """
    import boto3
    from botocore.exceptions import BotoCoreError, ClientError

    session = boto3.Session(profile_name=url.options.get("profile"), region_name=url.options.get("region"))
    try:
        answer = session.client("sts").assume_role(RoleArn=role, RoleSessionName=url.option("role_session_name", SESSION_NAME))
    except ClientError as error:
        raise AccessDenied(f"{url}: the role {role} could not be assumed: {error}") from error
    except BotoCoreError as error:
        raise Unreachable(f"{url}: the role {role} could not be assumed: {error}") from error
    credentials = answer["Credentials"]
    return {
        "access_key_id": str(credentials["AccessKeyId"]),
        "secret_access_key": str(credentials["SecretAccessKey"]),
        "session_token": str(credentials["SessionToken"]),
    }


class RedshiftAddresses(Addresses):
    """How URLs of Redshift are read."""

    DEFAULT_PORT = 5439
    VERIFIED_BY = "sslmode=verify-full"

    def database_id(self, url: Url) -> str:
        return f"{self.engine}://{place_of(url)}:{url.port or self.DEFAULT_PORT}/{url.database}"

    def is_local(self, url: Url) -> bool:
        return bool(url.host) and url.is_local

    def verifies_server(self, url: Url) -> bool:
        return url.options.get("sslmode") == "verify-full"
