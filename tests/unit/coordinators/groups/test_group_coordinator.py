from __future__ import annotations

from tests.support.simulated_broker import SimulatedBroker, with_broker
from tests.support.simulated_group import commit, committed, find_coordinator


def test_offsets_of_deleted_topics_are_forgotten_in_every_shard() -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t")
        await find_coordinator(broker, "g")
        names = [f"g{number}" for number in range(10)]
        for group_id in names:
            await commit(broker, group_id, {"t": {0: 1}})
        groups = broker.machine.broker.groups
        assert groups is not None
        await groups.topics_deleted(["t", "unknown"])
        for group_id in names:
            assert await committed(broker, group_id) == {}

    with_broker(test)
