"""State machines over compacted topics: groups and transactions.

A shard owns one partition of `__consumer_offsets` or `__transaction_state`. A handler looks at the
shard's state and returns a `Result`: the response and the records to write. The runtime appends
the records, replays them into the state, and answers once they are committed. Loading a partition
is the same replay. Handlers know no loop, no clock and no disk.
"""
