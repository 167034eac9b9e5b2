"""A source where refreshes may write into one table alone."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import urlsplit

from auditor.config import WriteSettings
from tests.binlog import LiveLog
from tests.live import LiveEngine
from tests.pipeline.live_road import LiveRoad

DOCUMENT = Path(__file__).parents[2] / "docs" / "refreshes.md"


def allow_one_table(road: LiveRoad, engine: LiveEngine) -> None:
    """Let refreshes write as a user who may read, and write into one table alone, which is made as the documentation shows."""
    [shown] = re.findall(r"```sql\n(CREATE DATABASE .*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)
    LiveLog(engine.url).run(
        "DROP DATABASE IF EXISTS auditor_refresh",
        "DROP USER IF EXISTS refresher",
        "CREATE USER refresher IDENTIFIED BY 'a-Long1Password'",
        "GRANT SELECT, REPLICATION CLIENT, REPLICATION SLAVE ON *.* TO refresher",
        *(one for one in shown.replace("the_user", "refresher").split(";") if one.strip()),
    )
    source = road.settings.connections["source"]
    parts = urlsplit(source.url)
    url = parts._replace(netloc=f"refresher:a-Long1Password@{parts.hostname}:{parts.port}").geturl()
    road.settings.connections["source"] = source.model_copy(update={"write": WriteSettings(url=url)})
    text = road.config_file.read_text()
    road.config_file.write_text(text.replace(f'write: {{url: "{source.url}"', f'write: {{url: "{url}"'))
