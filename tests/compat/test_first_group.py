"""The first groups and transactions of a broker that is new: its coordinators begin with them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from threading import Barrier

import pytest

from ottla.kernel.errors import ErrorCode
from ottla.kernel.java import abs_hash
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.init_producer_id import InitProducerIdRequest
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.wire.messages.metadata import MetadataRequest
from tests.support.ottla_process import OttlaProcess
from tests.support.raw_client import RawClient

SHARD_COUNT = 50
GROUP, TRANSACTION = 0, 1
TOPICS = {GROUP: "__consumer_offsets", TRANSACTION: "__transaction_state"}


def keys_of_all_shards(prefix: str) -> list[str]:
    """A name for each shard, in the order in which their logs are made."""
    found: dict[int, str] = {}
    names: Iterator[str] = (f"{prefix}-{number}" for number in count())
    while len(found) < SHARD_COUNT:
        name = next(names)
        found.setdefault(abs_hash(name) % SHARD_COUNT, name)
    return [found[shard] for shard in range(SHARD_COUNT)]


def join(client: RawClient, group_id: str) -> int:
    request = JoinGroupRequest(
        group_id=group_id,
        session_timeout_ms=30_000,
        rebalance_timeout_ms=30_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )
    code: int = client.ask(request, 9).error_code
    return code


def init_producer_id(client: RawClient, transactional_id: str) -> int:
    request = InitProducerIdRequest(
        transactional_id=transactional_id, transaction_timeout_ms=60_000
    )
    code: int = client.ask(request, 4).error_code
    return code


@pytest.mark.parametrize(
    ("kind", "enter", "entered"),
    [
        (GROUP, join, ErrorCode.MEMBER_ID_REQUIRED),
        (TRANSACTION, init_producer_id, ErrorCode.NONE),
    ],
)
def test_a_coordinator_that_was_found_is_there(
    broker: OttlaProcess, kind: int, enter: Callable[[RawClient, str], int], entered: ErrorCode
) -> None:
    """For any name, also while others have just asked for the first time. librdkafka waits for
    three seconds when it is told NOT_COORDINATOR."""
    first, *others = keys_of_all_shards("first")
    topic_is_listed = Barrier(SHARD_COUNT)

    def find(key: str) -> FindCoordinatorRequest:
        return FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])

    def begin(key: str) -> tuple[str, str]:
        with RawClient(broker.bootstrap) as client:
            topic_is_listed.wait(30)
            found = client.ask(find(key), 4).coordinators[0]
            code = enter(client, key)
            return ErrorCode(found.error_code).name, ErrorCode(code).name

    with ThreadPoolExecutor(SHARD_COUNT) as threads, RawClient(broker.bootstrap) as client:
        answers = threads.map(begin, others)
        with RawClient(broker.bootstrap) as impatient:
            impatient.tell(find(first), 4)
            while TOPICS[kind] not in listed_topics(client):
                pass
            topic_is_listed.wait(30)
        assert list(answers) == [("NONE", entered.name)] * len(others)
        assert listed_topics(client)[TOPICS[kind]] == SHARD_COUNT


def listed_topics(client: RawClient) -> dict[str, int]:
    """The number of partitions of each."""
    topics = client.ask(MetadataRequest(topics=None), 12).topics
    return {topic.name: len(topic.partitions) for topic in topics}
