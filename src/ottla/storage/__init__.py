"""Logs on disk, in Kafka's layout and formats to the byte."""
