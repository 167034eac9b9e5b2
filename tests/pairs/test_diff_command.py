"""``auditor diff``, `auditor.audit` and `auditor.testing.assert_equal` between live engines."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

import auditor
from auditor.cli import main
from auditor.testing import assert_equal
from dialects import Kind
from tests import tables
from tests.live import LivePair, chosen_pairs

COLUMNS = (("id", Kind("integer")), ("note", Kind("text")))
SOURCE, TARGET = "diff_orders", "diff_orders_copy"


@pytest.fixture
def made(pair: LivePair) -> Iterator[LivePair]:
    rows = [(number, f"note {number}") for number in range(300)]
    tables.make(pair.source, SOURCE, COLUMNS, rows, ["id"])
    damaged = [(number, "other" if number == 20 else note) for number, note in rows if number != 250]
    tables.make(pair.target, TARGET, COLUMNS, [*damaged, (400, "note 400")], ["id"])
    yield pair
    tables.execute(pair.source, f"DROP TABLE {SOURCE}")
    tables.execute(pair.target, f"DROP TABLE {TARGET}")


@pytest.mark.quick_for("mariadb-postgres")
@pytest.mark.parametrize("pair", chosen_pairs("mysql-redshift", "mariadb-postgres"), indirect=True)
def test_two_live_tables_in_one_line(made: LivePair, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["diff", made.source.url, SOURCE, made.target.url, TARGET, "-k", "id", "-q"]
    assert main([*command, "--json"]) == 1
    found = json.loads(capsys.readouterr().out)["differences"]
    assert [(row["kind"], row["key"]["id"]) for row in found["sample"]] == [("changed", 20), ("missing", 250), ("extra", 400)]
    assert main([*command, "--where", "id < 250 and id <> 20"]) == 0
    capsys.readouterr()
    wrong = [url.replace(":audit@", ":wr0ng-4711@") for url in (made.source.url, made.target.url)]
    assert main(["diff", wrong[0], SOURCE, wrong[1], TARGET]) == 3
    out, error = capsys.readouterr()
    assert "wr0ng" not in out + error

    sides = (made.source.url, SOURCE), (made.target.url, TARGET)
    report = auditor.audit(*sides)
    assert report.differences
    assert sorted(report.to_pandas()["id"]) == [20, 250, 400]
    with pytest.raises(AssertionError, match="MISMATCH  diff_orders"):
        assert_equal(*sides)
    assert assert_equal(*sides, where="id < 20").verdict is auditor.Verdict.MATCH
