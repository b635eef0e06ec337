"""WriteTxnMarkers: a coordinator, or whoever aborts a hanging transaction, has the leaders of
partitions write how a transaction ended.

Version 0 went with Kafka 4.

- Version 1 is flexible.
- 2 says by which version of transactions the marker is written: with 2 its epoch must be above the
  one of the records that it ends (KIP-1228).
"""

from __future__ import annotations

from ottla.wire.schema import (
    Request,
    Response,
    Struct,
    array,
    boolean,
    int8,
    int16,
    int32,
    int64,
    string,
)


class WritableTxnMarkerTopic(Struct):
    name: str = string()
    partition_indexes: list[int] = array(int32())


class WritableTxnMarker(Struct):
    producer_id: int = int64()
    producer_epoch: int = int16()
    # True commits, false aborts.
    transaction_result: bool = boolean()
    topics: list[WritableTxnMarkerTopic] = array(WritableTxnMarkerTopic)
    coordinator_epoch: int = int32()
    transaction_version: int = int8("2+")


class WriteTxnMarkersRequest(Request, api_key=27, versions="1-2", flexible="1+"):
    markers: list[WritableTxnMarker] = array(WritableTxnMarker)


class WritableTxnMarkerPartitionResult(Struct):
    partition_index: int = int32()
    error_code: int = int16()


class WritableTxnMarkerTopicResult(Struct):
    name: str = string()
    partitions: list[WritableTxnMarkerPartitionResult] = array(WritableTxnMarkerPartitionResult)


class WritableTxnMarkerResult(Struct):
    producer_id: int = int64()
    topics: list[WritableTxnMarkerTopicResult] = array(WritableTxnMarkerTopicResult)


class WriteTxnMarkersResponse(Response, api_key=27, versions="1-2", flexible="1+"):
    markers: list[WritableTxnMarkerResult] = array(WritableTxnMarkerResult)
