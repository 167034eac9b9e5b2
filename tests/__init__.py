"""The tests. `tests/live.py` lists the engines they run on; `tests/servers/` starts them."""
