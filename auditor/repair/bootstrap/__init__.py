"""Copy a table, or a range of its keys, anew from the source: plan, copy, compare with the snapshot, swap in."""
