"""AddPartitionsToTxn: partitions that a transaction is about to write to, or a leader's question
whether it does.

- 2 may answer PRODUCER_FENCED, 5 TRANSACTION_ABORTABLE (KIP-890).
- Version 3 is flexible. Clients send versions up to this one, for one transaction.
- 4 and above is what brokers send each other: several transactions at once, each to be added to or
  only to be verified (KIP-890).
"""

from __future__ import annotations

from ottla.wire.schema import Request, Response, Struct, array, boolean, int16, int32, int64, string


class AddPartitionsToTxnTopic(Struct):
    name: str = string()
    partitions: list[int] = array(int32())


class AddPartitionsToTxnTransaction(Struct):
    transactional_id: str = string("4+")
    producer_id: int = int64("4+")
    producer_epoch: int = int16("4+")
    verify_only: bool = boolean("4+")
    topics: list[AddPartitionsToTxnTopic] = array(AddPartitionsToTxnTopic, "4+")


class AddPartitionsToTxnRequest(Request, api_key=24, versions="0-5", flexible="3+"):
    transactions: list[AddPartitionsToTxnTransaction] = array(
        AddPartitionsToTxnTransaction, "4+", ignorable=False
    )
    v3_and_below_transactional_id: str = string("0-3", ignorable=False)
    v3_and_below_producer_id: int = int64("0-3", ignorable=False)
    v3_and_below_producer_epoch: int = int16("0-3", ignorable=False)
    v3_and_below_topics: list[AddPartitionsToTxnTopic] = array(
        AddPartitionsToTxnTopic, "0-3", ignorable=False
    )


class AddPartitionsToTxnPartitionResult(Struct):
    partition_index: int = int32()
    partition_error_code: int = int16()


class AddPartitionsToTxnTopicResult(Struct):
    name: str = string()
    results_by_partition: list[AddPartitionsToTxnPartitionResult] = array(
        AddPartitionsToTxnPartitionResult
    )


class AddPartitionsToTxnResult(Struct):
    transactional_id: str = string("4+")
    topic_results: list[AddPartitionsToTxnTopicResult] = array(AddPartitionsToTxnTopicResult, "4+")


class AddPartitionsToTxnResponse(Response, api_key=24, versions="0-5", flexible="3+"):
    throttle_time_ms: int = int32()
    error_code: int = int16("4+")
    results_by_transaction: list[AddPartitionsToTxnResult] = array(
        AddPartitionsToTxnResult, "4+", ignorable=False
    )
    results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = array(
        AddPartitionsToTxnTopicResult, "0-3", ignorable=False
    )
