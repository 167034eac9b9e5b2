"""The tests. `tests/engines.py` lists the engines they run on; `tests/servers/` starts them."""
