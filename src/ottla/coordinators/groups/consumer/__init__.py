"""The consumer protocol of groups (KIP-848)."""
