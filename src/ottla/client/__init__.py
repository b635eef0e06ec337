"""A small Kafka client, for what must run in simulation or on raw batches."""
