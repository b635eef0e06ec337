"""`ottla start --brokers N`: several brokers on this machine, each a process of its own."""
