"""Bootstraps: a target's table, or ranges of its keys, copied again from the source and swapped in.

`use_cases` is what the doors call. `stages` makes a bootstrap, each stage journalled before the next: `plan` says what is copied and
which tables are refused, `copying` reads and loads it (`tasks` on executors, `range_files` between the two), `verifying` compares the
copy with the snapshot that it was read in, and `swapping` brings it into the table.

Outside stay the journal's table (`auditor.store.bootstraps`), the models that leave the process (`auditor.api_models.bootstrap`), the
statements (`auditor.sql.table_copy`, `sql_templates/bootstrap.sql`), how a kind of target is written (`auditor.repair.target_writer`),
the executors of Spark (`auditor.pipeline.executors`), and the doors: `auditor.cli._bootstrap` and `auditor.api.repairs`.
"""
