"""Declarations of Kafka's messages, one file an API, in the words of `ottla.wire.schema`."""
