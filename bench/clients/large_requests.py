"""The largest requests that administrators' tools send, one after another, until SIGTERM.

Arguments: ADDRESS TOPIC PARTITIONS NAMES
"""

from __future__ import annotations

import itertools
import json
import signal
import sys

from bench.connection import Connection
from ottla.kernel.transport import Part
from ottla.wire.codec import encoder
from ottla.wire.header import RequestHeader, append_request
from ottla.wire.messages.describe_groups import DescribeGroupsRequest
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from ottla.wire.schema import Request


def frame_of(request: Request, version: int) -> bytes:
    parts: list[Part] = []
    header = RequestHeader(request.API_KEY, version, 1, "large-requests")
    append_request(header, encoder(type(request), version), request, parts)
    return b"".join(bytes(part) for part in parts)  # type: ignore[arg-type]


def frames(topic: str, partition_count: int, name_count: int) -> list[bytes]:
    names = [f"name-{number}" for number in range(name_count)]
    partitions = [
        ListOffsetsPartition(partition_index=index, timestamp=-1)
        for index in range(partition_count)
    ]
    topics = [MetadataRequestTopic(name=name) for name in names]
    groups = [OffsetFetchRequestGroup(group_id=name, topics=None) for name in names]
    listed = [ListOffsetsTopic(name=topic, partitions=partitions)]
    return [
        frame_of(MetadataRequest(topics=None), 12),
        frame_of(MetadataRequest(topics=topics, allow_auto_topic_creation=False), 12),
        frame_of(ListOffsetsRequest(replica_id=-1, topics=listed), 8),
        frame_of(DescribeGroupsRequest(groups=names), 5),
        frame_of(OffsetFetchRequest(groups=groups), 8),
    ]


def main(address: str, topic: str, partition_count: int, name_count: int) -> None:
    ended: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: ended.append(number))
    count = 0
    with Connection(address) as connection:
        for frame in itertools.cycle(frames(topic, partition_count, name_count)):
            if ended:
                break
            connection.ask(frame)
            count += 1
    print(json.dumps({"count": count}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
