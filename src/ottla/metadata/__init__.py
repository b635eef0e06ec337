"""What this broker knows of its cluster: brokers, topics, partitions and who leads them."""
