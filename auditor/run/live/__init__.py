"""Live summaries: comparing a target with the sums that its pipeline keeps of the source, without reading the source.

`running_sums` are the links that the stream leaves and how they add up, `statements` the table of a target that holds them, `plans` which
plans can have them, `summaries` what a run does with them, and `comparison` how it compares with them, or scans the source for them.
`ledger` is what merges did to the target otherwise than the log says, and `bisection` what follows from it.

Outside stay what the stream keeps (`auditor.pipeline.live`, and `auditor.pipeline.merge.live_sums` what a merge adds), as a pipeline is
above a run; the store's table of epochs (`auditor.store.live_epochs`); and how differences are located as of a position
(`auditor.run.locate.live`), which is a part of locating.
"""
