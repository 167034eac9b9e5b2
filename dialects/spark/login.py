"""What a URL of Spark leads to: one in this process, or a server of Spark Connect."""

from __future__ import annotations

from dialects.addresses import Addresses
from dialects.url import Url


class SparkAddresses(Addresses):
    """How URLs of Spark are read."""

    DEFAULT_PORT = 15002
    VERIFIED_BY = "use_ssl=true"

    def verifies_server(self, url: Url) -> bool:
        return url.scheme != "sc" or url.flag("use_ssl")
