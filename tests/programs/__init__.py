"""Programs that tests start as processes: commands, the service, workers and clients of it."""
