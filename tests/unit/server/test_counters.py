"""`ottla.counters`, as a client reads it."""

from __future__ import annotations

import json
from typing import Any

from ottla.kernel.ids import BrokerId
from ottla.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from tests.support.led_partition import append, fetched, lead_two_replicas, new_partition
from tests.support.simulated_broker import SimulatedBroker, with_broker

BROKER = 4


async def counters(broker: SimulatedBroker) -> Any:
    resource = DescribeConfigsResource(
        resource_type=BROKER, resource_name="1", configuration_keys=["ottla.counters"]
    )
    response = await broker.call(
        DescribeConfigsRequest(resources=[resource]), DescribeConfigsResponse, 4
    )
    ((entry,),) = [result.configs for result in response.results]
    assert entry.read_only
    return json.loads(entry.value or "")


def test_of_a_broker_alone() -> None:
    async def test(broker: SimulatedBroker) -> None:
        found = await counters(broker)
        assert (found["active_controller"], found["session"]) == (True, "connected")
        assert (found["isr_shrinks"], found["follower_lag_records_max"]) == (0, 0)
        assert found["loop_lag_ms_max"] == 0

    with_broker(test)


def test_followers_that_are_behind_and_leave() -> None:
    async def test(broker: SimulatedBroker) -> None:
        partition = await lead_two_replicas(await new_partition(broker), broker, isr=(1, 2))
        assert (await counters(broker))["follower_lag_records_max"] == 0
        append(partition, b"a", b"b", b"c", acks=1)
        assert (await counters(broker))["follower_lag_records_max"] == 3
        fetched(partition, 1)
        assert (await counters(broker))["follower_lag_records_max"] == 2
        partition.leader.isr_told({BrokerId(1)}, 2)
        found = await counters(broker)
        assert (found["isr_shrinks"], found["isr_expands"]) == (1, 0)

    with_broker(test)
