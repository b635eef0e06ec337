"""`ottla reassign`: partitions moved to other brokers, planned, begun, watched and cancelled."""
