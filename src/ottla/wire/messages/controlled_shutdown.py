"""ControlledShutdown: a broker that is about to stop asks the controller to move its leaders away.

Kafka 4 has no such request; these are the versions of Kafka 3.9.

- Version 0 has a header without a client id.
- 2 fences by broker epoch (KIP-380).
- 3 is flexible.
"""

from __future__ import annotations

from ottla.wire.schema import Request, Response, Struct, array, int16, int32, int64, string


class ControlledShutdownRequest(Request, api_key=7, versions="0-3", flexible="3+"):
    broker_id: int = int32()
    broker_epoch: int = int64("2+", default=-1)


class RemainingPartition(Struct):
    topic_name: str = string()
    partition_index: int = int32()


class ControlledShutdownResponse(Response, api_key=7, versions="0-3", flexible="3+"):
    error_code: int = int16()
    # What the broker still leads.
    remaining_partitions: list[RemainingPartition] = array(RemainingPartition)
