"""A table as it stood at a position of the stream, written from the staged parts that are kept."""
