"""Audits are added to a configuration file that keeps its comments, whatever its ``audits:`` look like."""

from __future__ import annotations

from pathlib import Path

import pytest

from auditor import config
from auditor.errors import ConfigError

HEAD = 'connections:\n  shop: {url: "duckdb:///shop.duckdb"}   # a comment\n'
AUDIT = {"source": {"connection": "shop", "table": "orders"}, "target": {"connection": "shop", "table": "copies"}}
OLD = "  # the oldest\n  old:\n    source: {connection: shop, table: a}   # kept\n    target: {connection: shop, table: b}\n"


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (HEAD, ["new"]),
        (HEAD.rstrip(), ["new"]),
        (f"{HEAD}audits: {{}}\nstore: {{url: 'sqlite:///x.db'}}\n", ["new"]),
        (f"{HEAD}audits:\n", ["new"]),
        (f"{HEAD}audits:   # none yet\nstore: {{url: 'sqlite:///x.db'}}\n", ["new"]),
        (f"{HEAD}audits:\n{OLD}store: {{url: 'sqlite:///x.db'}}\n", ["new", "old"]),
        (f"audits:\n{OLD}\n# the end\n{HEAD}", ["new", "old"]),
    ],
)
def test_audits_are_added_wherever_they_belong(tmp_path: Path, text: str, names: list[str]) -> None:
    path = tmp_path / "auditor.yaml"
    path.write_text(text)
    path.chmod(0o640)
    assert config.add_audits(path, {"new": AUDIT, "old": AUDIT} if "old" in names else {"new": AUDIT}) == ["new"]
    settings = config.load(path)
    assert sorted(settings.audits) == names and settings.audits["new"].target.table == "copies"
    kept = path.read_text()
    assert all(line in kept for line in text.splitlines() if "#" in line and "none yet" not in line)
    assert path.stat().st_mode & 0o777 == 0o640 and list(tmp_path.iterdir()) == [path]
    assert config.add_audits(path, {"new": AUDIT}) == [] and path.read_text() == kept


def test_what_cannot_be_added_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "auditor.yaml"
    path.write_text(f"{HEAD}audits: {{old: {{source: {{connection: shop, table: a}}, target: {{connection: shop, table: b}}}}}}\n")
    before = path.read_text()
    with pytest.raises(ConfigError, match=r"auditor\.yaml:3: audits: is written within braces; write it in lines"):
        config.add_audits(path, {"new": AUDIT})
    path.write_text(HEAD)
    with pytest.raises(ConfigError, match="'nowhere'"):
        config.add_audits(path, {"new": {**AUDIT, "source": {"connection": "nowhere", "table": "a"}}})
    assert path.read_text() == HEAD and before and list(tmp_path.iterdir()) == [path]
    with pytest.raises(ConfigError, match="cannot be read"):
        config.add_audits(tmp_path / "none.yaml", {"new": AUDIT})
