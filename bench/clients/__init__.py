"""Load generators. Each is a process of its own, told by arguments, answering one JSON line."""
