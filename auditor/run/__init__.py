"""One run of one audit, from the connections to the report."""
