"""Regression scripts of the servers' developers, sent to a source with a pipeline into PostgreSQL and DuckDB.

At points within each script, and behind it, every table of the source is audited in both targets: it is equal, or it stopped with a
sentence. `make deep` plays some hundred; ``--deep-scripts`` says how many, ``--deep-seed`` which.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from auditor.store import open_store
from tests.live import Engines
from tests.scripts.outcomes import Tally, plain, play, render, write
from tests.scripts.server import CLIENT, Stage
from tests.scripts.written import KEY, SUITES, choose_scripts, with_points
from tests.servers.process import open_directory

SCRIPT = """\
--source include/have_innodb.inc
let $engine= InnoDB;
create table t1 (a int, b text);
insert into t1 values (1, 'a;
b');
--error 1050
create table t1 (a int);
eval create table `t 2` (id int primary key) engine=$engine;
delimiter //;
create procedure p()
begin
  drop table if exists t1;
  create table t1 (a int);
end//
delimiter ;//
--perl
drop table t1;
EOF
while ($engine)
{
  let $engine= 0;
}
drop table t1;
drop table `t 2`;
"""


def test_a_script_gets_points_before_its_drops_and_keys_behind_its_tables() -> None:
    added = [line for line in with_points(SCRIPT, 1).splitlines() if line not in SCRIPT.splitlines()]
    column = f"ADD COLUMN {KEY} BIGINT NOT NULL AUTO_INCREMENT INVISIBLE PRIMARY KEY;"
    exec_begin, *rest = added
    assert exec_begin == "--exec $AUDITOR_POINT begin"
    assert rest[:2] == [f"ALTER TABLE t1 {column}", f"eval ALTER TABLE `t 2` {column}"]
    assert [line.rpartition(" ")[0] for line in rest[2:]] == ["--exec $AUDITOR_POINT"]


def test_sentences_of_one_kind_are_counted_as_one() -> None:
    assert plain("test.t1: column 'a' of test.t1 has 12 rows") == plain("test.t2: column 'b' of db1.x has 7 rows")


@pytest.fixture(scope="module")
def empty_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of a store in which nothing is stored yet."""
    path = tmp_path_factory.mktemp("store") / "auditor.db"
    open_store(f"sqlite:///{path}").close()
    return path


@pytest.fixture
def stage() -> Iterator[Stage]:
    """A server of its own for scripts."""
    if not CLIENT.exists():
        pytest.skip("there are no regression scripts here: run scripts/regression.sh")
    with closing(Stage(open_directory())) as made:
        yield made


@pytest.mark.deep
@pytest.mark.closes_files  # of hundreds of targets
@pytest.mark.mariadb
@pytest.mark.postgres
def test_hundreds_of_scripts_leave_no_silent_difference(
    stage: Stage, engines: Engines, empty_store: Path, pytestconfig: pytest.Config, capsys: pytest.CaptureFixture[str]
) -> None:
    seed, postgres = pytestconfig.getoption("--deep-seed"), engines.live("postgres").url
    tally, wanted, longest = Tally(), *(pytestconfig.getoption(f"--deep-{name}") for name in ("scripts", "longest"))
    for script in choose_scripts(wanted, seed, longest, pytestconfig.getoption("--deep-script")):
        outcome = play(stage, script, empty_store, postgres, seed)
        tally.outcomes.append(outcome)
        if not pytestconfig.getoption("--deep-script"):
            write(render(tally, list(SUITES), stage.version, seed, longest))
        with capsys.disabled():
            if outcome.kind != "not run":
                print(f"{outcome.kind:15}{outcome.seconds:6.1f} s  {script.name}", flush=True)
                for kind in ("wrong", "ended", "not comparable", "stopped"):
                    for sentence in dict.fromkeys(outcome.sentences(kind)):
                        print(f"    {kind}: {sentence}", flush=True)
    with capsys.disabled():
        print(f"\n{tally}")
    assert not tally.wrong, f"\n{tally}"
