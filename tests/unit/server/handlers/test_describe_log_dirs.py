from __future__ import annotations

import pytest

from ottla.kernel.errors import ErrorCode
from ottla.testing.disk import Fault
from ottla.wire.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
)
from tests.support.simulated_broker import SimulatedBroker, make_batch, with_broker


async def describe(
    broker: SimulatedBroker, asked: dict[str, list[int]] | None = None, version: int = 5
) -> list[DescribeLogDirsResult]:
    request = DescribeLogDirsRequest(topics=None)
    if asked is not None:
        request.topics = [
            DescribableLogDirTopic(topic=topic, partitions=partitions)
            for topic, partitions in asked.items()
        ]
    response = await broker.call(request, DescribeLogDirsResponse, version)
    assert response.error_code == ErrorCode.NONE
    return response.results


def sizes(result: DescribeLogDirsResult) -> dict[tuple[str, int], int]:
    return {
        (topic.name, partition.partition_index): partition.partition_size
        for topic in result.topics
        for partition in topic.partitions
    }


@pytest.mark.parametrize("version", [1, 3, 5])
def test_sizes_are_those_of_the_logs(version: int) -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t", 2)
        batch = make_batch(b"v")
        await broker.produce_batch("t", batch, partition=1)
        (result,) = await describe(broker, version=version)
        assert (result.error_code, result.log_dir) == (ErrorCode.NONE, "/data")
        assert sizes(result) == {("t", 0): 0, ("t", 1): len(batch)}
        if version >= 4:
            assert result.total_bytes >= result.usable_bytes > 0
        else:
            assert (result.total_bytes, result.usable_bytes) == (-1, -1)

    with_broker(test)


def test_only_what_was_asked_for_is_told() -> None:
    async def test(broker: SimulatedBroker) -> None:
        for name in ("t", "u"):
            await broker.create_topic(name, 2)
        (result,) = await describe(broker, {"t": [1, 7], "missing": [0]})
        assert sizes(result) == {("t", 1): 0}
        (result,) = await describe(broker, {})
        assert sizes(result) == {}

    with_broker(test)


def test_a_failed_folder_is_told_and_the_others_are_as_before() -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t", 2)
        broker.machine.disk.fail(Fault("write_at", "/two"))
        for partition in (0, 1):
            await broker.produce("t", b"v", partition=partition)
        one, two = await describe(broker)
        assert (one.log_dir, one.error_code) == ("/one", ErrorCode.NONE)
        assert len(sizes(one)) == 1
        assert (two.log_dir, two.error_code) == ("/two", ErrorCode.KAFKA_STORAGE_ERROR)
        assert sizes(two) == {}

    with_broker(test, log_dirs="/one,/two")


def test_a_folder_that_cannot_be_measured_is_an_error_of_its_own() -> None:
    async def test(broker: SimulatedBroker) -> None:
        broker.machine.disk.fail(Fault("total_and_free_bytes", "/two"))
        one, two = await describe(broker)
        assert one.error_code == ErrorCode.NONE
        assert two.error_code == ErrorCode.KAFKA_STORAGE_ERROR

    with_broker(test, log_dirs="/one,/two")
