"""Which replica a consumer should read from (KIP-392, `replica.selector.class`).

The leader is asked first, and may send the consumer to a follower. Of Kafka's selectors one does
so: `RackAwareReplicaSelector`, to a follower in the consumer's own rack.
"""

from __future__ import annotations

from ottla.config.broker_settings.replication import RACK_AWARE_SELECTOR
from ottla.kernel.ids import BrokerId
from ottla.metadata.image import ClusterImage
from ottla.replication.leader import Leader

STAY = -1
"""With the leader."""


class RackAwareReplicaSelector:
    """Made for one fetch: by the listener that it came by, the consumer has to reach the
    follower."""

    def __init__(self, image: ClusterImage, listener_name: str, rack_id: str) -> None:
        self._image = image
        self._listener_name = listener_name
        self._rack_id = rack_id

    def select(self, leader: Leader, fetch_offset: int) -> int:
        """The id of the follower, or STAY. Only those are taken that are in sync and have the
        offset: a consumer that is sent to one that lags would be sent there again and again."""
        in_sync = leader.in_sync
        if self._is_near(in_sync.own_id):
            return STAY
        nearby = [
            follower
            for broker_id, follower in in_sync.followers.items()
            if broker_id in in_sync.committed
            and follower.log_start_offset <= fetch_offset <= follower.log_end_offset
            and self._is_near(broker_id)
        ]
        if not nearby:
            return STAY
        return max(
            nearby, key=lambda each: (each.log_end_offset, each.last_caught_up_s, each.broker_id)
        ).broker_id

    def _is_near(self, broker_id: BrokerId) -> bool:
        broker = self._image.brokers.get(broker_id)
        return (
            broker is not None
            and broker.rack == self._rack_id
            and self._image.endpoint(broker_id, self._listener_name) is not None
        )


def selector_of(
    class_name: str | None, image: ClusterImage, listener_name: str, rack_id: str
) -> RackAwareReplicaSelector | None:
    """None where consumers stay with the leader."""
    if class_name != RACK_AWARE_SELECTOR:
        return None
    return RackAwareReplicaSelector(image, listener_name, rack_id)
