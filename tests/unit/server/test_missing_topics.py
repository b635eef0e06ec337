from __future__ import annotations

import pytest

from ottla.server.missing_topics import MissingTopics
from ottla.testing.loop import VirtualClock, VirtualLoop, run_virtual
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from tests.support.simulated_broker import SimulatedBroker, with_broker


def test_each_topic_is_told_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    async def main(loop: VirtualLoop) -> None:
        missing = MissingTopics(VirtualClock(loop))
        for second in range(121):
            loop.call_later(second, missing.note, "__consumer_offsets", f"after {second} s")
        loop.call_later(30, missing.note, "__transaction_state", "too")
        done = loop.create_future()
        loop.call_later(130, done.set_result, None)
        await done

    run_virtual(main)
    assert [record.getMessage() for record in caplog.records] == [
        "clients have to wait, __consumer_offsets could not be created: after 0 s",
        "clients have to wait, __transaction_state could not be created: too",
        "clients have to wait, __consumer_offsets could not be created: after 60 s",
        "clients have to wait, __consumer_offsets could not be created: after 120 s",
    ]


def test_a_group_that_waits_for_brokers_is_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async def test(broker: SimulatedBroker) -> None:
        request = FindCoordinatorRequest(coordinator_keys=["g"])
        for _ in range(3):
            await broker.call(request, FindCoordinatorResponse)

    with_broker(test, offsets_topic_replication_factor="3")
    said = [record.getMessage() for record in caplog.records if "have to wait" in record.msg]
    assert len(said) == 1
    assert "replication factor of 3 cannot be reached" in said[0]
