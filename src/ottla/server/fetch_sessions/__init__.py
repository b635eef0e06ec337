"""Fetch sessions (KIP-227): a client names its partitions once, then only what changed.

A session also knows which of its partitions may have something new, because it watches them:
a fetch costs by what happened, not by how many partitions the client reads. Kafka's own broker
looks at every partition of the session each time.
"""
