"""Pipelines on Spark, and what they stand on: record batches to columns and back."""
