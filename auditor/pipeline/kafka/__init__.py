"""Topics of Kafka: a pipeline's stream is published into them, and read from them."""
