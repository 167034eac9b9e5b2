"""Programs for development: the generated part of the documentation, and the checks of a release."""
