"""pt-table-checksum with replication: checksums replicate from the source to a replica, where differing chunks then show.

pt-table-sync reads these checksums, compares the rows of the chunks that differ, and prints the statements that repair the replica.
"""

from __future__ import annotations

import shutil
import time
from contextlib import closing

from benchmarks.process import CompletedCommand
from benchmarks.rivals import Answer, Job, Pair, Tool, statement_keys
from tests.servers import mysql
from tests.servers.process import Unavailable


class TableChecksum(Tool):
    """pt-table-checksum on the source, then pt-table-sync for the replica."""

    name = "pt-table-checksum + pt-table-sync"
    description = "needs replication, which runs during the measurement; prints the statements that repair the replica"

    def install(self) -> None:
        for program in ("pt-table-checksum", "pt-table-sync"):
            if not shutil.which(program):
                raise Unavailable("not installed; install it with: apt-get install percona-toolkit")

    def unsupported_reason(self, pair: Pair) -> str | None:
        if pair != ("mariadb", "replica"):
            return "it compares a server only with its replicas"
        return None

    def set_up(self, job: Job) -> None:
        with closing(mysql.connect(job.source.url)) as source, closing(mysql.connect(job.target.url)) as replica:
            on_source, on_replica = source.cursor(), replica.cursor()
            on_replica.execute("STOP SLAVE")
            on_source.execute("DROP DATABASE IF EXISTS percona")
            on_replica.execute("DROP DATABASE IF EXISTS percona")
            on_source.execute("SHOW MASTER STATUS")
            row = on_source.fetchone()
            assert row is not None
            on_replica.execute(
                f"CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT={job.source.port}, MASTER_USER='root',"
                f" MASTER_LOG_FILE='{row[0]}', MASTER_LOG_POS={row[1]}, MASTER_USE_GTID=no"
            )
            on_replica.execute("START SLAVE")
            on_source.execute("CREATE DATABASE percona")
            on_source.execute("CREATE TABLE percona.dsns (id INT AUTO_INCREMENT PRIMARY KEY, parent_id INT, dsn VARCHAR(255))")
            on_source.execute(f"INSERT INTO percona.dsns (dsn) VALUES ('h=127.0.0.1,P={job.target.port},u=root')")
            for _ in range(100):
                if on_replica.execute("SELECT 1 FROM information_schema.TABLES WHERE table_schema = 'percona' AND table_name = 'dsns'"):
                    return
                time.sleep(0.1)
        raise ValueError("the replica did not catch up with its source")

    def commands(self, job: Job) -> list[list[str]]:
        source = f"h=127.0.0.1,P={job.source.port},u=root"
        replicas = f"--recursion-method=dsn={source},D=percona,t=dsns"
        table = f"--tables={job.damage.shape.table}"
        checksum = [
            "pt-table-checksum", source, "--databases=audit", table, "--no-check-binlog-format", "--no-check-replication-filters",
            replicas, "--replicate=percona.checksums", "--create-replicate-table", "--quiet",
        ]  # fmt: skip
        sync = [
            "pt-table-sync", "--print", "--no-check-triggers", "--no-check-child-tables", "--no-check-master", "--sync-to-master",
            "--replicate", "percona.checksums", table, f"h=127.0.0.1,P={job.target.port},u=root",
        ]  # fmt: skip
        return [checksum, sync]

    def answer(self, job: Job, completed: CompletedCommand) -> Answer:
        if completed.code not in (0, 2):  # 2: differences found
            raise ValueError(completed.error_message)
        return Answer(statement_keys(completed.out, job.damage.shape.key))

    def tear_down(self, job: Job) -> None:
        with closing(mysql.connect(job.target.url)) as replica:
            replica.cursor().execute("STOP SLAVE")
