"""Copy a table, or a range of its keys, again from the source: plan, copy, compare with the snapshot, swap in."""
