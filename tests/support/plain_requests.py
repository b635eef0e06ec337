"""A request of each API in each version that changes nothing a test would notice, whatever the
broker knows."""

from __future__ import annotations

from ottla.wire.api import APIS, ApiKey
from ottla.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from ottla.wire.messages.api_versions import ApiVersionsRequest
from ottla.wire.messages.describe_transactions import DescribeTransactionsRequest
from ottla.wire.messages.end_txn import EndTxnRequest
from ottla.wire.messages.list_transactions import ListTransactionsRequest
from ottla.wire.messages.produce import ProduceRequest
from ottla.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from ottla.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from ottla.wire.schema import Request

_NOBODY = "nobody-has-this-id"
_NOWHERE = "nobody-has-this-topic"
_PRODUCER_ID = 2**40


def plain_request(key: ApiKey, version: int) -> Request:
    """With defaults, which ask for nothing, except where that is no request at all or where much
    would go untried: then it names what is not there."""
    match key:
        case ApiKey.PRODUCE:
            return ProduceRequest(acks=1)
        case ApiKey.API_VERSIONS:
            return ApiVersionsRequest(client_software_name="raw", client_software_version="1")
        case ApiKey.ADD_PARTITIONS_TO_TXN:
            return _add_partitions(version)
        case ApiKey.ADD_OFFSETS_TO_TXN:
            return AddOffsetsToTxnRequest(
                transactional_id=_NOBODY, producer_id=_PRODUCER_ID, group_id=_NOBODY
            )
        case ApiKey.END_TXN:
            return EndTxnRequest(transactional_id=_NOBODY, producer_id=_PRODUCER_ID)
        case ApiKey.WRITE_TXN_MARKERS:
            return _markers()
        case ApiKey.TXN_OFFSET_COMMIT:
            return _offsets(version)
        case ApiKey.DESCRIBE_TRANSACTIONS:
            return DescribeTransactionsRequest(transactional_ids=[_NOBODY])
        case ApiKey.LIST_TRANSACTIONS:
            return ListTransactionsRequest(
                state_filters=["Ongoing", "NoSuchState"],
                producer_id_filters=[_PRODUCER_ID],
                duration_filter=0 if version >= 1 else -1,
                transactional_id_pattern="nobody.*" if version >= 2 else None,
            )
    return APIS[key].request()


def _add_partitions(version: int) -> AddPartitionsToTxnRequest:
    topics = [AddPartitionsToTxnTopic(name=_NOWHERE, partitions=[0, 1])]
    if version <= 3:
        return AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=_NOBODY,
            v3_and_below_producer_id=_PRODUCER_ID,
            v3_and_below_topics=topics,
        )
    transaction = AddPartitionsToTxnTransaction(
        transactional_id=_NOBODY, producer_id=_PRODUCER_ID, verify_only=True, topics=topics
    )
    return AddPartitionsToTxnRequest(transactions=[transaction])


def _markers() -> WriteTxnMarkersRequest:
    topics = [WritableTxnMarkerTopic(name=_NOWHERE, partition_indexes=[0, 1])]
    return WriteTxnMarkersRequest(
        markers=[WritableTxnMarker(producer_id=_PRODUCER_ID, topics=topics)]
    )


def _offsets(version: int) -> TxnOffsetCommitRequest:
    partition = TxnOffsetCommitRequestPartition(committed_offset=1, committed_metadata=None)
    has_member = version >= 3
    return TxnOffsetCommitRequest(
        transactional_id=_NOBODY,
        group_id=_NOBODY,
        producer_id=_PRODUCER_ID,
        generation_id=7 if has_member else -1,
        member_id=_NOBODY if has_member else "",
        group_instance_id=_NOBODY if has_member else None,
        topics=[TxnOffsetCommitRequestTopic(name=_NOWHERE, partitions=[partition])],
    )
