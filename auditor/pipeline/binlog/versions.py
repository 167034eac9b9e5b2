"""The versions of MySQL and MariaDB whose logs the change source was tried on: their form changes from one version to the next."""

from __future__ import annotations

import re

TRIED = {"MySQL": ((9, 7),), "MariaDB": ((10, 11), (11, 4))}


def untried(server: str) -> str:
    """Return what a person should know of a source of this version, as the server or a session states it; '' if it was tried."""
    name = "MariaDB" if "mariadb" in server.lower() else "MySQL"
    found = re.match(r"\D*+(\d++)\.(\d+)", server)
    version = (int(found[1]), int(found[2])) if found else (0, 0)
    if version in TRIED[name]:
        return ""
    tried = ", ".join(f"{one} {'.'.join(map(str, version))}" for one, versions in TRIED.items() for version in versions)
    return (
        f"the source is {name} {version[0]}.{version[1]}, on which pipelines were not tried (tried: {tried}); audit the tables after"
        " changes of every kind, and report what differs"
    )
