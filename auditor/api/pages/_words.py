"""What the words and numbers of the pages mean, each in a sentence or two for somebody who never heard of them."""

from __future__ import annotations

WORDS = {
    "audit": "A standing order to compare two tables: which ones, by which key, which columns, how, and when.",
    "source": "The table that is right by definition.",
    "target": "The table that should hold the same rows as the source.",
    "run": "One execution of an audit. Whether it ended is its state; what it found is its verdict.",
    "verdict": "Match: everything that was compared is equal. Mismatch: something differs. Unknown: nothing is claimed,"
    " because something could not be compared.",
    "score": "The share of all rows, of both tables together, that are the same in both. 1 is all of them. Where it is an estimate,"
    " its bounds hold in 95 of 100 such estimates.",
    "published": "A coarser score over partitions: 1 for an equal one, the share of equal minhashes for any other.",
    "coverage": "The share of the table that the verdict speaks for. What was not compared is never counted as equal.",
    "verified": "Everything that the source held up to this moment was found equal in the target.",
    "watermark": "Rows from this moment on were left out on both sides: they may still be on their way.",
    "age": "How long ago the latest run ended.",
    "next": "When the schedule will request the next run.",
    "trend": "The scores of the last 30 days; each mark is a run.",
    "partition": "A part of the table that is summed up in one line, the same part on both sides: a range of keys, or a bucket of"
    " their hashes.",
    "heat": "Every partition of the table in its order. Point at one, or walk with the arrow keys, to read which keys it holds and what"
    " was found.",
    "rolled": "Every partition of the table in its order, each as it was when it was last read. Point at one, or walk with the arrow"
    " keys, to read what was found and how long ago.",
    "difference": "One row that is not equal. Missing: only the source has it. Extra: only the target has it. Changed: both have"
    " the key, and a column differs.",
    "unsettled": "A difference that was still changing when it was looked at for the last time; it may be rows in flight.",
    "rows": "How many rows each table holds, of those that were compared.",
    "drift": "What of the tables' columns is not as it was at the run before.",
    "method": "How much each partition's summary carries. Counts: numbers of rows, sums, extremes. Signature: equal or not. Minhash: how"
    " similar. Exact: which rows differ.",
    "measure": "A number that is taken of all rows at once, on both sides: how many there are, a column's sum, its least and greatest"
    " value, how many are NULL.",
    "similarity": "Of a partition that differs, about which share of its rows is the same on both sides.",
    "compared": "Each column is turned into a text that both databases write alike; what it is compared as says which text.",
    "cost": "What the run asked of each database: statements, the bytes that crossed the network, and how long it read.",
    "minhash": "The least of many scrambled values of a partition's rows. Two partitions with many rows in common often agree on it,"
    " so how often they agree tells how similar they are.",
    "signature": "The sum of the fingerprints of all rows of a partition. Equal sums mean equal partitions.",
    "threshold": "What this audit still calls a match.",
    "waits": "What each side does now, how many rows it has read, and how many statements have ended or are under way. Where a database"
    " is busy, the auditor waits and says what for.",
    "token": "A secret that lets a person or a program in. Only its fingerprint is kept, so it can be shown once and never again.",
    "scope": "What a token may do. Read: see everything. Run: also start, cancel and resume. Define: also keep and pause audits, make"
    " tokens. Repair: run, and record repairs.",
    "patch": "The statements that would make the target equal to the source again.",
}

EXACT = (
    "Every row is turned into one text that all databases write alike, and that text into a fingerprint (SHA-256), inside the database.",
    "The table is cut into partitions, and of each only a few sums of fingerprints leave the database, so a million rows"
    " become some kilobytes.",
    "The sums are weighted by each row's place, as in the codes that repair scratched discs; the difference between the"
    " two sides' sums tells which rows differ, not only that some do.",
    "Those rows alone are then fetched by their keys, and their differences must add up to the whole difference of the"
    " partition, which proves that no other row differs.",
    "Where too many rows differ for that, the partition's rows are listed or, beyond a budget, estimated with bounds; a verdict always"
    " says how much of the table it speaks for.",
)
"""How the method exact works."""

KINDS = {
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
