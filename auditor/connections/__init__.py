"""Sessions to the audited databases: retries, throttling, slots, both sides in parallel."""
