"""Where a follower's log parts from its leader's (KIP-101, KIP-279, KIP-595).

A follower tells with each fetch the epoch of its last record. A leader whose log has that epoch end
earlier answers with the largest epoch that it has not above it, and where that ends: beyond, the
follower holds records of a leader that nobody followed, never committed. The high watermark says
nothing about this: that of a follower may be older than what its leader has acknowledged.
"""

from __future__ import annotations

from ottla.storage.log import Log


def truncation_offset(log: Log, leader_epoch: int, leader_end_offset: int) -> int:
    """To which the follower cuts its log before it asks again. `leader_epoch` ends at that offset
    in the leader's log."""
    own_epoch, own_end_offset = log.end_offset_for_epoch(leader_epoch)
    if own_end_offset < 0:
        # All epochs known here are later ones: nothing of them is the leader's.
        return min(leader_end_offset, log.log_end_offset)
    if own_epoch != leader_epoch:
        # An epoch that never reached this log. What came before it may differ as well: the next
        # fetch tells, from there.
        return min(own_end_offset, log.log_end_offset)
    return min(own_end_offset, leader_end_offset, log.log_end_offset)
