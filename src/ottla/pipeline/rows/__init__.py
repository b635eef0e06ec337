"""Record batches as columns, and back: read and written by ranges of partitions."""
