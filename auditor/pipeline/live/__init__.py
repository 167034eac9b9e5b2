"""Live summaries: the stream keeps the sums of a source's summaries.

`texts` the canonical texts of events' values, `images` the hashes and places of rows, `staged_sums` what a task writes of them beside its
parts, `published` which epochs tasks look for. `auditor.pipeline.merge.keeping` adds them to a target.
"""
