"""How a store's tables came to be, in steps, run by themselves when a store is opened.

A new step: change ``_schema.py``, raise its HEAD, write ``versions/NNNN_what.py``; a test holds the two against each other.
MySQL commits every statement by itself, so a step that was cut off is run again from its beginning: let it ask before it creates.
"""
