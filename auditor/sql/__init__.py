"""SQL text from a plan, a dialect and a template. Nothing here runs a statement."""
