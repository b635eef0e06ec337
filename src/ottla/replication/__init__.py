"""Partitions and their replicas: leaders, the in-sync set, the high watermark."""
