"""Refresh tables of a pipeline while events flow: existing rows enter the source's own log, between the changes of others.

A chunk is one transaction on the source, or a part of one, which tables of few rows share: it names its bounds, then copies the rows into a
refresh table, from which nothing is ever read. Rows are locked until its end, so that they stand in the log before every later change and
behind every earlier one. `keys` writes keys and conditions, `plan` says which chunks a request has, `source_tables` makes what the source
needs, `chunk_writer` writes chunks sized by time, `carrier` carries requests of the store out, over a few connections, and `use_cases`,
which doors call, asks for them and waits until targets hold the rows.

Outside stay the requests' table (`auditor.store.refreshes`), the model that leaves the process (`auditor.api_models.pipeline`), how the
log's readers find the rows (`auditor.pipeline.binlog.refreshes`), the statements (`sql_templates/mysql/refresh.sql`), and the doors:
`auditor.cli._pipeline` and `auditor.api.pipelines`.
"""
