"""Tests of the pipeline's road from events to merged targets, with real targets."""
