"""Record batches, magic 2: header, validation, iteration, building and compression."""
