"""`ottla perf`: measures producing and consuming."""
