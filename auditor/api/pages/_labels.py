"""Explanations of the terms and numbers on the pages, for readers who do not know them."""

from __future__ import annotations

GLOSSARY = {
    "audit": "The definition of a comparison of two tables: which tables, key and columns, by which method, and when.",
    "source": "The table that is right by definition.",
    "target": "The table that should hold the same rows as the source.",
    "run": "One execution of an audit. Its state says how far it is, its verdict what it found.",
    "verdict": "Match: everything that was compared is equal, or within the threshold. Mismatch: something differs. Unknown: no"
    " conclusion, because something could not be compared.",
    "score": "The share of all rows of both tables that are the same in both; 1 means all. If it is an estimate, its bounds hold in 95 of"
    " 100 cases.",
    "published": "A coarser score over partitions: an equal partition counts 1, any other the share of its minhashes that are equal.",
    "coverage": "The share of the table that was compared. What was not compared never counts as equal.",
    "verified": "Everything that the source held up to this time was seen equal in the target.",
    "stream": "Up to this time the target equals the stream, which says what the source's log says. The source itself was not read.",
    "proved": "The last scan of the source that live summaries were compared with. What its log does not say since is not known.",
    "within": "Up to this time the target was equal to the source, or differed no more than the audit allows.",
    "watermark": "Rows from this time on were left out on both sides, because they may still be in flight.",
    "age": "Time since the run of the last verdict ended. Runs that failed or were cancelled have none; nor do runs with other settings"
    " than the audit's count.",
    "next": "When the schedule will request the next run.",
    "trend": "The scores of the last 30 days; each mark is a run.",
    "limits": "How much the auditor asks of the database at once, and after how long the server cancels a statement of it.",
    "incident": "The time from the first mismatch to the run that found everything equal again. Somebody can acknowledge or mute it.",
    "changes": "Rows are matched by their keys: new differ in this run alone, gone in the other alone, the same in both.",
    "days": "The worst verdict of each of the last 30 days. High: mismatch. Middle: unknown. Low: match. Empty: no run.",
    "partition": "A part of the table that is summarised as one, the same on both sides: a range of keys, or a bucket of their hashes.",
    "heat": "Every partition of the table, in order. Point at one, or use the arrow keys, to see its keys and its state.",
    "rolled": "Every partition of the table, in order, in its state when it was last read. Point at one, or use the arrow keys, to see"
    " the result and its age.",
    "difference": "One row that is not equal. Missing: only the source has it. Extra: only the target has it. Changed: both have"
    " the key, and a column differs.",
    "unsettled": "A difference that was still changing at the last recheck. It may be a row in flight.",
    "shard": "One of several tables that together are the source. Each row should be on one of them; a key that several hold is doubled.",
    "rows": "How many rows of each table were compared.",
    "bootstrap": "A copy of the target's table, or of a range of its keys, made anew from the source by auditor bootstrap.",
    "drift": "Changes of the tables' columns since the previous run.",
    "method": "How much each partition's summary contains. Counts: numbers of rows, sums, extremes. Signature: equal or not. Minhash: how"
    " similar. Exact: which rows differ.",
    "measure": "A number computed over all rows on each side: their count, or a column's sum, minimum, maximum or number of NULLs.",
    "similarity": "The estimated share of a partition's rows that are the same on both sides.",
    "compared": "Each column is converted to text that both databases write alike. This names the kind of text.",
    "cost": "What the run used on each database: statements, bytes received, and seconds of reading.",
    "minhash": "The smallest of many hash values of a partition's rows. The more rows two partitions have in common, the more often their"
    " minhashes agree, so the share that agrees estimates their similarity.",
    "signature": "The sum of the hashes of all rows of a partition. Equal signatures mean equal partitions.",
    "threshold": "What may differ in a match. A score is compared with the similarity of all rows, under the method counts with the"
    " published score.",
    "waits": "What each side is doing, how many rows it has read, and how many statements have ended or are running. While a database is"
    " busy, the auditor waits and says why.",
    "token": "A secret with which a person or a program logs in. Only its hash is stored, so it is shown once.",
    "scope": "What a token may do. Read: see everything. Run: also start, cancel and resume. Define: also define and pause audits, manage"
    " tokens. Repair: run, propose patches, and record repairs. Apply: what repair may, and write patches into targets.",
    "pipeline": "Replicates tables from a database's log of changes into targets: it stages the events as files, from which targets are"
    " loaded.",
    "lag": "How far behind it is. A pipeline: the time since the source's log ended where staging stands. A target's table: the age of the"
    " oldest staged change that is missing in the target.",
    "staging": "The folder in which the changes wait as files until every target has them.",
    "offsets": "The places behind the last messages of the topic's partitions, added up: how many messages, and marks of transactions, they"
    " ever had.",
    "place": "The file and position in the source's log up to which everything is staged.",
    "holds": "When the source committed the last change that the target holds.",
    "table state": "Merged: it continues. Waiting: nothing was loaded yet. Delayed: retried by itself. Stopped: it needs a person; the"
    " reason says what to do.",
    "skipped": "Changes that the target does not have, because somebody let the table continue without them. Audits of the table say so,"
    " too.",
    "refresh": "Rows that exist already are sent through the stream, in chunks between the changes of others. Targets then hold what"
    " the source has, and drop what it lacks.",
    "segment": "A piece of a table's changes, cut at places that depend on the stream only. Equal segments have equal digests, even if"
    " different processes wrote them.",
    "segment audit": "Compares two writers of one stream of changes: both cut it at the same places, so that segment can be compared with"
    " segment by digest. A side may also be the source's log, read again.",
    "awaited": "How long one side has had a segment that the other does not have yet.",
    "time line": "The newest segments of both sides, over the time in which the source committed their changes. Point at one to see what it"
    " is.",
    "bucket": "Segments have a digest for each of 256 buckets of a column's values. Events in the buckets that differ were read and counted"
    " by value, by the last run.",
    "patch": "The statements that make rows of the target equal to the source's. Nothing is written before somebody applies it, and what"
    " was written can be undone.",
}

EXACT_METHOD = (
    "Every row is converted to a text that all databases write alike, and that text is hashed (SHA-256), inside the database.",
    "The table is divided into partitions. Only a few sums of hashes per partition leave the database, so a million rows become some"
    " kilobytes.",
    "The sums are weighted by each row's position, as in error-correcting codes. The difference between the sums of both sides identifies"
    " the rows that differ.",
    "Only those rows are then fetched by key. Their differences must add up to the difference of the whole partition, which proves that"
    " no other row differs.",
    "If too many rows of a partition differ, its rows are listed or, beyond a budget, estimated with bounds. A verdict always states its"
    " coverage.",
)
"""Steps of the method exact."""

DIFFERENCE_KINDS = {
    "missing": "only the source has the row",
    "extra": "only the target has the row",
    "changed": "both have the key, and a column differs",
}

METHODS = {
    "counts": "rows, sums and extremes: cheapest",
    "signature": "equal or not, per partition",
    "minhash": "how similar, per partition",
    "exact": "which rows differ",
}
