"""Ottla and Apache Kafka side by side, and what the machine itself can do."""
