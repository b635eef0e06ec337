"""`ottla simulate`: whole clusters from seeds, under faults, checked."""
