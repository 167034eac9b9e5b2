"""Packages for other programs, in the real ones: make integrations installs these into environments of their own, and runs this folder."""
