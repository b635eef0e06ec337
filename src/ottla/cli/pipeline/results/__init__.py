"""What pipelines have found out: read from their topics, put together, and shown. Without Spark."""
