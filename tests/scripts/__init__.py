"""Regression scripts that the servers' own developers wrote, against a pipeline; `make deep` runs some hundred of them."""
