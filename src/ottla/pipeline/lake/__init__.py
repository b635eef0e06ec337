"""Delta tables that micro-batches write."""
