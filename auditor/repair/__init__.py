"""Repair a target: make its rows equal the source's, row by row, in small transactions that are journalled and can be undone."""
