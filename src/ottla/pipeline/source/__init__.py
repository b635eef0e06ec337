"""The data source `ottla`: reading."""
