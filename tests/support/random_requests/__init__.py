"""Random sequences of requests, the same ones to Ottla and to Apache Kafka."""
