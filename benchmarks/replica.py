"""pt-table-checksum as it is meant: checksums replicate from the source to a replica, which then tells where it differs.

pt-table-sync reads what they say, looks at the chunks that differ, and prints the statements that mend the replica.
"""

from __future__ import annotations

import shutil
import time
from contextlib import closing

from benchmarks.process import Ran
from benchmarks.rivals import Answer, Job, Pair, Tool, statement_keys
from tests.servers import mysql
from tests.servers._process import Unavailable


class TableChecksum(Tool):
    """pt-table-checksum on the source, then pt-table-sync for the replica."""

    name = "pt-table-checksum + pt-table-sync"
    about = "needs replication, which runs while it is measured; prints the statements that mend the replica"

    def prepare(self) -> None:
        for program in ("pt-table-checksum", "pt-table-sync"):
            if not shutil.which(program):
                raise Unavailable("apt-get install percona-toolkit brings it")

    def refuses(self, pair: Pair, threads: int) -> str | None:
        if pair != ("mariadb", "replica"):
            return "it compares a server with its replicas only"
        return None if threads == 1 else "it has one connection a side"

    def before(self, job: Job) -> None:
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
        raise ValueError("the replica did not follow its source")

    def commands(self, job: Job) -> list[list[str]]:
        source = f"h=127.0.0.1,P={job.source.port},u=root"
        found = f"--recursion-method=dsn={source},D=percona,t=dsns"
        table = f"--tables={job.damage.shape.table}"
        checksum = [
            "pt-table-checksum", source, "--databases=audit", table, "--no-check-binlog-format", "--no-check-replication-filters",
            found, "--replicate=percona.checksums", "--create-replicate-table", "--quiet",
        ]  # fmt: skip
        sync = [
            "pt-table-sync", "--print", "--no-check-triggers", "--no-check-child-tables", "--no-check-master", "--sync-to-master",
            "--replicate", "percona.checksums", table, f"h=127.0.0.1,P={job.target.port},u=root",
        ]  # fmt: skip
        return [checksum, sync]

    def answer(self, job: Job, ran: Ran) -> Answer:
        if ran.code not in (0, 2):  # 2: there were differences
            raise ValueError(ran.last_words)
        return Answer(statement_keys(ran.out, job.damage.shape.key))

    def after(self, job: Job) -> None:
        with closing(mysql.connect(job.target.url)) as replica:
            replica.cursor().execute("STOP SLAVE")
