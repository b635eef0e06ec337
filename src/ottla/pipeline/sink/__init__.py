"""The data source `ottla`: writing, and exactly once."""
