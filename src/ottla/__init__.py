"""Ottla: a distributed commit log that speaks Kafka."""

__version__ = "0.1.0"
