from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ottla.kernel.errors import ErrorCode
from ottla.kernel.internal_topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from ottla.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from ottla.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from ottla.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from ottla.wire.messages.offset_fetch import OffsetFetchResponse
from ottla.wire.messages.txn_offset_commit import TxnOffsetCommitResponse
from tests.support.other_broker import OTHER, add_other_broker, lead_by
from tests.support.raw_group import fetch_request
from tests.support.raw_transaction import txn_commit_request
from tests.support.simulated_broker import SimulatedBroker, with_broker
from tests.support.simulated_group import (
    Member,
    commit,
    committed,
    delete,
    describe,
    find_coordinator,
    loading,
)
from tests.support.simulated_transaction import Transactional
from tests.unit.server.test_remote_verification import answer as verified

NEWEST = 5
IMPLICIT_ADD_SINCE = 5


async def commit_within(
    broker: SimulatedBroker,
    producer: Transactional,
    group_id: str,
    offsets: dict[str, dict[int, int]],
    *,
    version: int = NEWEST,
    **fields: Any,
) -> list[ErrorCode]:
    """The codes, in the order of the request."""
    fields.setdefault("producer_id", producer.producer.producer_id)
    fields.setdefault("producer_epoch", producer.producer.producer_epoch)
    fields.setdefault("transactional_id", producer.transactional_id)
    request = txn_commit_request(group_id, offsets, **fields)
    response = await broker.call(request, TxnOffsetCommitResponse, version)
    return [ErrorCode(one.error_code) for topic in response.topics for one in topic.partitions]


async def stable_codes(
    broker: SimulatedBroker, group_id: str, partitions: dict[str, list[int]] | None
) -> dict[int, ErrorCode]:
    """By partition, what one hears who asks for stable offsets only."""
    request = fetch_request(9, group_id, partitions)
    request.require_stable = True
    (group,) = (await broker.call(request, OffsetFetchResponse, 9)).groups
    codes = {}
    for topic in group.topics:
        for one in topic.partitions:
            codes[one.partition_index] = ErrorCode(one.error_code)
            if one.error_code:
                assert (one.committed_offset, one.committed_leader_epoch) == (-1, -1)
    return codes


async def start(
    broker: SimulatedBroker, *, is_version_2: bool = True, **options: Any
) -> Transactional:
    if ("t", 0) not in broker.machine.broker.replicas.topic_partitions():
        await broker.create_topic("t", 3)
    await find_coordinator(broker, "g")
    producer = Transactional(broker, is_version_2=is_version_2)
    assert await producer.init(**options) is ErrorCode.NONE
    return producer


async def settle() -> None:
    """Markers are written after the end of a transaction was answered."""
    await asyncio.sleep(0.1)


@pytest.mark.parametrize("version", range(NEWEST + 1))
@pytest.mark.parametrize("is_commit", [True, False])
def test_offsets_count_when_the_transaction_commits(version: int, is_commit: bool) -> None:
    async def test(broker: SimulatedBroker) -> None:
        is_version_2 = version >= IMPLICIT_ADD_SINCE
        producer = await start(broker, is_version_2=is_version_2)
        await commit(broker, "g", {"t": {0: 1, 1: 1}})
        if not is_version_2:
            assert await producer.add_offsets("g") is ErrorCode.NONE
        codes = await commit_within(broker, producer, "g", {"t": {0: 7, 2: 8}}, version=version)
        assert codes == [ErrorCode.NONE] * 2
        assert await committed(broker, "g") == {("t", 0): 1, ("t", 1): 1}
        assert await stable_codes(broker, "g", {"t": [0, 1, 2]}) == {
            0: ErrorCode.UNSTABLE_OFFSET_COMMIT,
            1: ErrorCode.NONE,
            2: ErrorCode.UNSTABLE_OFFSET_COMMIT,
        }
        assert await stable_codes(broker, "g", None) == {
            0: ErrorCode.UNSTABLE_OFFSET_COMMIT,
            1: ErrorCode.NONE,
        }
        assert await producer.end(is_commit=is_commit) is ErrorCode.NONE
        await settle()
        after = {("t", 0): 1, ("t", 1): 1}
        if is_commit:
            after |= {("t", 0): 7, ("t", 2): 8}
        assert await committed(broker, "g") == after
        assert set((await stable_codes(broker, "g", {"t": [0, 1, 2]})).values()) == {ErrorCode.NONE}

    with_broker(test)


def test_offsets_of_an_aborted_transaction_do_not_become_visible() -> None:
    """Not at the end of the transaction, nor with the next one of the same producer, nor after the
    coordinator has loaded them again, and not through a plain commit beside them."""

    async def test(broker: SimulatedBroker) -> None:
        producer = await start(broker)
        await commit(broker, "g", {"t": {0: 1}})
        await commit_within(broker, producer, "g", {"t": {0: 666, 1: 666}})
        await broker.restart(broker.machine.kill)
        assert await committed(broker, "g") == {("t", 0): 1}, "it is open"
        codes = await stable_codes(broker, "g", {"t": [0, 1]})
        assert set(codes.values()) == {ErrorCode.UNSTABLE_OFFSET_COMMIT}

        await producer.abort()
        await settle()
        assert await committed(broker, "g") == {("t", 0): 1}
        await commit_within(broker, producer, "g", {"t": {2: 5}})
        await producer.commit()
        await settle()
        good = {("t", 0): 1, ("t", 2): 5}
        assert await committed(broker, "g") == good
        await commit(broker, "g", {"t": {0: 2}})
        await broker.restart(broker.machine.kill)
        assert await committed(broker, "g") == good | {("t", 0): 2}
        assert set((await stable_codes(broker, "g", {"t": [0, 1, 2]})).values()) == {ErrorCode.NONE}

    with_broker(test)


def test_offsets_of_a_producer_that_vanished_go_when_its_transaction_times_out() -> None:
    async def test(broker: SimulatedBroker) -> None:
        producer = await start(broker, timeout_ms=1000)
        await commit_within(broker, producer, "g", {"t": {0: 666}})
        await asyncio.sleep(15)
        assert await stable_codes(broker, "g", {"t": [0]}) == {0: ErrorCode.NONE}
        assert await committed(broker, "g") == {}

    with_broker(test)


def test_a_new_life_of_the_producer_aborts_what_the_old_one_left() -> None:
    async def test(broker: SimulatedBroker) -> None:
        old = await start(broker)
        await commit_within(broker, old, "g", {"t": {0: 666}})
        new = Transactional(broker)
        while await new.init() is ErrorCode.CONCURRENT_TRANSACTIONS:
            await settle()
        assert await committed(broker, "g") == {}
        assert await stable_codes(broker, "g", {"t": [0]}) == {0: ErrorCode.NONE}
        (code,) = await commit_within(broker, old, "g", {"t": {0: 666}})
        assert code is ErrorCode.INVALID_PRODUCER_EPOCH
        assert await commit_within(broker, new, "g", {"t": {0: 7}}) == [ErrorCode.NONE]
        await new.commit()
        await settle()
        assert await committed(broker, "g") == {("t", 0): 7}

    with_broker(test)


@pytest.mark.parametrize(
    ("version", "code"),
    [
        (3, ErrorCode.INVALID_TXN_STATE),
        (4, ErrorCode.TRANSACTION_ABORTABLE),
    ],
)
def test_before_it_is_added_by_itself_the_group_must_be_in_the_transaction(
    version: int, code: ErrorCode
) -> None:
    async def test(broker: SimulatedBroker) -> None:
        producer = await start(broker, is_version_2=False)
        assert await commit_within(broker, producer, "g", {"t": {0: 7}}, version=version) == [code]
        assert await stable_codes(broker, "g", {"t": [0]}) == {0: ErrorCode.NONE}
        assert await producer.add_offsets("g") is ErrorCode.NONE
        codes = await commit_within(broker, producer, "g", {"t": {0: 7}}, version=version)
        assert codes == [ErrorCode.NONE]

    with_broker(test)


def test_without_verification_it_is_taken_as_it_comes() -> None:
    async def test(broker: SimulatedBroker) -> None:
        producer = await start(broker, is_version_2=False)
        codes = await commit_within(broker, producer, "g", {"t": {0: 7}}, version=3)
        assert codes == [ErrorCode.NONE]

    with_broker(test, transaction_partition_verification_enable="false")


def test_the_groups_partition_is_added_to_the_transaction() -> None:
    async def test(broker: SimulatedBroker) -> None:
        producer = await start(broker)
        assert await commit_within(broker, producer, "g", {"t": {0: 7}}) == [ErrorCode.NONE]
        request = DescribeTransactionsRequest(transactional_ids=["mine"])
        (state,) = (await broker.call(request, DescribeTransactionsResponse)).transaction_states
        assert state.transaction_state == "Ongoing"
        groups = broker.machine.broker.groups
        assert groups is not None
        (topic,) = state.topics
        assert (topic.topic, topic.partitions) == (CONSUMER_OFFSETS, [groups.partition_of("g")])

    with_broker(test)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"producer_epoch": 100}, ErrorCode.INVALID_PRODUCER_EPOCH),
        ({"producer_id": 10**6}, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        ({"transactional_id": "unknown"}, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        ({"transactional_id": ""}, ErrorCode.INVALID_REQUEST),
    ],
)
@pytest.mark.parametrize("version", [4, 5])
def test_who_is_not_the_producer_is_refused(
    version: int, fields: dict[str, Any], code: ErrorCode
) -> None:
    async def test(broker: SimulatedBroker) -> None:
        producer = await start(broker)
        codes = await commit_within(
            broker, producer, "g", {"t": {0: 7, 1: 7}}, version=version, **fields
        )
        assert codes == [code] * 2
        assert await stable_codes(broker, "g", {"t": [0]}) == {0: ErrorCode.NONE}

    with_broker(test)


def test_partitions_that_do_not_exist_are_refused_by_themselves() -> None:
    async def test(broker: SimulatedBroker) -> None:
        producer = await start(broker)
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        offsets = {"missing": {0: 1}, "t": {3: 1, 0: 7, -1: 1}}
        codes = await commit_within(broker, producer, "g", offsets)
        assert codes == [unknown, unknown, ErrorCode.NONE, unknown]
        assert await commit_within(broker, producer, "", {"missing": {0: 1}}) == [unknown]

    with_broker(test)


def test_a_group_id_is_not_empty() -> None:
    async def test(broker: SimulatedBroker) -> None:
        producer = await start(broker)
        codes = await commit_within(broker, producer, "", {"t": {0: 7}})
        assert codes == [ErrorCode.INVALID_GROUP_ID]

    with_broker(test)


@pytest.mark.parametrize("version", [3, 4, 5])
def test_a_member_that_lost_its_partitions_is_fenced(version: int) -> None:
    """KIP-447."""

    async def test(broker: SimulatedBroker) -> None:
        producer = await start(broker)
        member = await Member.stable(broker, "g", "t")
        if version < IMPLICIT_ADD_SINCE:
            assert await producer.add_offsets("g") is ErrorCode.NONE

        async def told(generation_id: int, member_id: str) -> ErrorCode:
            fields = {"generation_id": generation_id, "member_id": member_id}
            (code,) = await commit_within(
                broker, producer, "g", {"t": {0: 7}}, version=version, **fields
            )
            return code

        before = member.generation_id
        assert await told(before, member.member_id) is ErrorCode.NONE
        await member.join()
        await member.sync()
        assert await told(before, member.member_id) is ErrorCode.ILLEGAL_GENERATION
        assert await told(before + 1, "someone") is ErrorCode.UNKNOWN_MEMBER_ID
        assert await told(before + 1, member.member_id) is ErrorCode.NONE

    with_broker(test)


@pytest.mark.parametrize(
    ("version", "code"),
    [
        (1, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (2, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (5, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
    ],
)
def test_a_coordinator_that_loads(version: int, code: ErrorCode) -> None:
    async def test(broker: SimulatedBroker) -> None:
        producer = await start(broker)
        await commit(broker, "g", {"t": {0: 1}})
        assert await producer.add_offsets("g") is ErrorCode.NONE
        with loading(broker, "g"):
            codes = await commit_within(broker, producer, "g", {"t": {0: 7}}, version=version)
            assert codes == [code]

    with_broker(test)


def test_before_there_is_a_group_coordinator() -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t")
        producer = Transactional(broker)
        await producer.init()
        codes = await commit_within(broker, producer, "g", {"t": {0: 7}})
        assert codes == [ErrorCode.COORDINATOR_NOT_AVAILABLE]

    with_broker(test)


def test_a_group_that_has_nothing_but_what_waits() -> None:
    async def test(broker: SimulatedBroker) -> None:
        producer = await start(broker)
        await commit_within(broker, producer, "g", {"t": {0: 7}})
        (listed,) = (await broker.call(ListGroupsRequest(), ListGroupsResponse)).groups
        assert (listed.group_id, listed.group_state, listed.group_type) == ("g", "Empty", "classic")
        assert (await describe(broker, "g")).group_state == "Empty"
        assert await delete(broker, "g") == [ErrorCode.NONE]
        assert await stable_codes(broker, "g", {"t": [0]}) == {0: ErrorCode.NONE}
        await producer.commit()
        await settle()
        assert await committed(broker, "g") == {}, "it was deleted before"
        assert (await describe(broker, "g")).group_state == "Dead"

    with_broker(test)


def test_a_transaction_whose_coordinator_cannot_be_reached_is_tried_again() -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t")
        producer = Transactional(broker)
        await producer.init()
        await find_coordinator(broker, "g")
        lead_by(broker, OTHER, TRANSACTION_STATE, *range(50))
        request = txn_commit_request(
            "g",
            {"t": {0: 7}},
            transactional_id=producer.transactional_id,
            **producer.producer._asdict(),
        )
        cluster = None
        for expected in (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NONE):
            response = await broker.call(request, TxnOffsetCommitResponse)
            assert response.topics[0].partitions[0].error_code == expected
            if cluster is None:
                cluster = add_other_broker(broker)
                cluster.answers[AddPartitionsToTxnRequest] = lambda _, asked: verified(
                    asked, ErrorCode.NONE
                )
        assert cluster is not None
        ((_, asked, _),) = cluster.asked
        assert isinstance(asked, AddPartitionsToTxnRequest)
        assert asked.transactions[0].topics[0].name == CONSUMER_OFFSETS

    with_broker(test)
