"""Earlier runs and checkpoints: what a run loads from the store, and what it saves there."""
