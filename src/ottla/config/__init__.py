"""Settings: what they are called, what they may be, where a value came from."""
