"""What the brokers of a cluster agree on: the store, and Kafka's znodes in it."""
