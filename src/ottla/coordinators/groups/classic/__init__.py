"""The classic protocol of groups: Join, Sync, Heartbeat, Leave."""
