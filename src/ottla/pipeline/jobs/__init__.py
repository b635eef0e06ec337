"""The pipelines: what they are made of, and one module (or more) for each."""
