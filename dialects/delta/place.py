"""Where Delta tables are: folders below a root, in a file system or in S3."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from dialects.addresses import FileAddresses
from dialects.errors import BadUrl
from dialects.url import Url

S3 = "delta+s3"

OWN_OPTIONS = ("access_mode", "keep")
"""Options of a URL that are not the object store's."""

PATIENCE: Mapping[str, str] = {"connect_timeout": "10s", "timeout": "60s", "max_retries": "3", "retry_timeout": "30s"}
"""How long the client of an object store waits, which by default waits for three minutes; options of the URL override it."""

_VERSION = re.compile(r" VERSION (\d+)$")

OPTIONS = (
    *(f"aws_{name}" for name in ("endpoint_url", "region", "allow_http", "virtual_hosted_style_request", "conditional_put")),
    *PATIENCE,
)
"""Options of a URL that are passed on. Secrets are none of them: they come from the environment, or from the machine's role.
https://docs.rs/object_store/latest/object_store/aws/enum.AmazonS3ConfigKey.html"""


@dataclass(frozen=True, slots=True)
class Root:
    """The folder below which a connection's tables are."""

    uri: str
    """An absolute path, or ``s3://bucket/prefix``; no slash at its end."""
    options: Mapping[str, str]
    """Options of the object store's client."""

    @property
    def is_local(self) -> bool:
        """Whether it is a folder of this machine."""
        return "://" not in self.uri

    def uri_of(self, name: str) -> str:
        """Return where the table is that statements name so: relative to the root, or absolute."""
        return name if name.startswith("/") or "://" in name else f"{self.uri}/{name}"

    def folders(self, below: str = "") -> Iterator[str]:
        """Yield the names of the folders in one below the root."""
        if self.is_local:
            folder = Path(self.uri, below)
            yield from sorted(child.name for child in folder.iterdir() if child.is_dir()) if folder.is_dir() else ()
            return
        import pyarrow.fs as files
        from deltalake.fs import DeltaStorageHandler

        store = files.PyFileSystem(DeltaStorageHandler(self.uri, dict(self.options)))
        for item in sorted(store.get_file_info(files.FileSelector(below, allow_not_found=True)), key=lambda item: str(item.base_name)):
            if item.type == files.FileType.Directory:
                yield str(item.base_name)

    def find(self, parts: tuple[str, ...]) -> str | None:
        """Return the name of the table to which the parts of a name lead, spelt so or in other cases; None if there is none."""
        exact = "/".join(parts)
        matches = [exact] if self.has_table(exact) else [name for name in self.spelt(parts) if self.has_table(name)]
        return matches[0] if matches else None

    def spelt(self, parts: tuple[str, ...]) -> list[str]:
        """Return the folders below the root that parts of a name lead to, whatever the case of their letters."""
        spelt = [""]
        for part in parts:
            spelt = [f"{below}/{name}".lstrip("/") for below in spelt for name in self.folders(below) if name.lower() == part.lower()]
        return spelt

    def has_table(self, name: str) -> bool:
        """Return whether there is a Delta table of this name."""
        from deltalake import DeltaTable

        return bool(DeltaTable.is_deltatable(self.uri_of(name), dict(self.options)))


def find_root(url: Url) -> Root:
    """Return the root of a URL: ``delta:///folder``, or ``delta+s3://bucket/prefix``, and so for ``parquet``. Raises BadUrl."""
    hint = "keys and secrets come from the environment (AWS_ACCESS_KEY_ID) or the role"
    url.refuse_unknown((*OPTIONS, *OWN_OPTIONS), hint=hint)
    options = {name: value for name, value in url.options.items() if name not in OWN_OPTIONS}
    form = url.scheme.partition("+")[0]
    if url.scheme != form:
        if not url.host:
            raise BadUrl(f"{url}: write the bucket: {form}+s3://bucket/prefix")
        return Root(f"s3://{url.host}/{url.database}".rstrip("/"), {**PATIENCE, **options})
    if url.host or not url.database:
        raise BadUrl(f"{url}: write an absolute path with three slashes: {form}:///lake/sales")
    return Root(str(Path("/", url.database).resolve()), {})


def endpoint_of(url: Url) -> str:
    """Return the URL of the object store that a connection asks: Amazon's, unless the URL or the environment names another."""
    named = url.options.get("aws_endpoint_url") or os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    return named or "https://s3.amazonaws.com"


def pinned(name: str, version: int | None) -> str:
    """Return the name of one version of a table, or of its latest."""
    return name if version is None else f"{name} VERSION {version}"


def unpinned(name: str) -> tuple[str, int | None]:
    """Return a table's name and version of what `pinned` returned."""
    match = _VERSION.search(name)
    return (name[: match.start()], int(match[1])) if match else (name, None)


class DeltaAddresses(FileAddresses):
    """How URLs of Delta tables, and of Parquet with a pointer, are read."""

    VERIFIED_BY = "an endpoint of https"

    def database_id(self, url: Url) -> str:
        return f"{url.scheme.partition('+')[0]}://{find_root(url).uri}"

    def is_local(self, url: Url) -> bool:
        return find_root(url).is_local

    def verifies_server(self, url: Url) -> bool:
        return endpoint_of(url).startswith("https:")
