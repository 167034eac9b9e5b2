"""Where Iceberg tables are: a catalogue of pyiceberg by its name, with properties of the URL and of pyiceberg's configuration.

https://py.iceberg.apache.org/configuration/
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from dialects.addresses import FileAddresses
from dialects.errors import BadUrl, NoSuchObject
from dialects.url import Url

OWN_OPTIONS = ("access_mode", "ref")
"""Options of a URL that are not the catalogue's."""

OPTIONS = (
    "type", "uri", "warehouse", "prefix", "scope", "oauth2-server-uri", "audience", "resource",
    "rest.sigv4-enabled", "rest.signing-region", "rest.signing-name",
    "glue.id", "glue.region", "glue.endpoint", "glue.profile-name", "glue.role-arn", "hive.hive2-compatible",
    "py-io-impl", "client.region", "client.role-arn", "client.session-name",
    "s3.endpoint", "s3.region", "s3.role-arn", "s3.role-session-name", "s3.force-virtual-addressing", "s3.connect-timeout",
    "s3.request-timeout", "gcs.project-id", "gcs.service.host", "adls.account-name", "adls.tenant-id", "adls.account-host",
)  # fmt: skip
"""Properties of a catalogue that a URL may have. Secrets are none of them: they come from pyiceberg's configuration."""

HINT = "keys, tokens and other properties come from ~/.pyiceberg.yaml or PYICEBERG_CATALOG__NAME__PROPERTY in the environment"

_VERSION = re.compile(r" VERSION (\d+)$")


@dataclass(frozen=True, slots=True)
class Root:
    """The catalogue that a connection reads, and what its names mean there."""

    catalog: str
    namespace: tuple[str, ...]
    """In which tables are looked up whose name has no namespace."""
    properties: Mapping[str, str] = field(repr=False)
    """What the URL says of the catalogue; they go before those of pyiceberg's configuration."""
    ref: str
    """The branch or tag that is read of each table that has it; empty for the current snapshots."""

    def identifier(self, schema: str, table: str) -> tuple[str, ...]:
        """Return a table's identifier in the catalogue; ``schema`` is its namespace, with dots between the parts, or ''."""
        return (*(schema.split(".") if schema else self.namespace), table)


def find_root(url: Url) -> Root:
    """Return the catalogue of a URL: ``iceberg://catalog/namespace?property=value``. Raises BadUrl."""
    url.refuse_unknown((*OPTIONS, *OWN_OPTIONS), hint=HINT)
    if not url.host:
        raise BadUrl(f"{url}: write the catalogue's name after two slashes: iceberg://NAME, or iceberg://NAME/NAMESPACE")
    if url.user or url.password or url.port:
        raise BadUrl(f"{url}: a catalogue has no user or port here; write its server as uri=https://...; {HINT}")
    given = {name: value for name, value in url.options.items() if name not in OWN_OPTIONS}
    namespace = tuple(part for part in re.split(r"[./]", url.database) if part)
    return Root(url.host, namespace, given, url.option("ref", ""))


def check_files(url: Url, root: Root) -> None:
    """Raise NoSuchObject if the catalogue is a file of SQLite that is not there: opening it would make one."""
    path = re.match(r"sqlite(?:\+\w+)?:///([^?]+)", root.properties.get("uri", ""))
    if path and path[1] != ":memory:" and not Path(path[1]).is_file():
        raise NoSuchObject(f"{url}: there is no file {Path(path[1]).absolute()}; correct the uri, sqlite:////FILE if its path is absolute")


def pinned(name: str, snapshot: int | None) -> str:
    """Return the name of a table at one snapshot, or at its current one."""
    return name if snapshot is None else f"{name} VERSION {snapshot}"


def unpinned(name: str) -> tuple[str, int | None]:
    """Return a table's name and snapshot of what `pinned` returned."""
    match = _VERSION.search(name)
    return (name[: match.start()], int(match[1])) if match else (name, None)


def without_login(uri: str) -> str:
    """Return a URI without user, password and options, which may hold secrets."""
    parts = urlsplit(uri)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def password_of(uri: str) -> str:
    """Return the password in a URI as it is written there; '' if there is none."""
    login, at, _ = urlsplit(uri).netloc.rpartition("@")
    return login.partition(":")[2] if at else ""


class IcebergAddresses(FileAddresses):
    """How URLs of Iceberg's catalogues are read."""

    VERIFIED_BY = "a catalogue with a uri of https"

    def database_id(self, url: Url) -> str:
        root = find_root(url)
        where = [without_login(root.properties.get(name, "")) for name in ("uri", "warehouse")]
        return f"iceberg://{root.catalog}{''.join(f' {part}' for part in where if part)}"

    def is_local(self, url: Url) -> bool:
        found = _configured(find_root(url))
        return found.get("uri", "").startswith("sqlite") and found.get("warehouse", "").partition(":")[0] in ("file", found["warehouse"])

    def verifies_server(self, url: Url) -> bool:
        found = _configured(find_root(url))
        return found.get("uri", "").startswith("https:") or (found.get("type", "") in ("glue", "dynamodb") and "uri" not in found)


def _configured(root: Root) -> Mapping[str, str]:
    """Return a catalogue's properties: the URL's before those of pyiceberg's configuration, if that is installed."""
    if find_spec("pyiceberg") is None:
        return {"warehouse": "", **root.properties}
    from pyiceberg.utils.config import Config

    configured = Config().get_catalog_config(root.catalog) or {}
    return {"warehouse": "", **{name: str(value) for name, value in configured.items()}, **root.properties}
