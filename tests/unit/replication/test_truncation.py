from __future__ import annotations

import pytest

from ottla.replication.truncation import truncation_offset
from tests.support.led_partition import append, new_partition
from tests.support.simulated_broker import SimulatedBroker, with_broker


@pytest.mark.parametrize(
    ("leader_epoch", "leader_end_offset", "expected"),
    [
        (5, 4, 3),  # Here epoch 5 has ended earlier, with another one's records.
        (5, 2, 2),
        (4, 9, 1),  # Unknown here: what came before it is compared next.
        (7, 9, 5),
        (7, 4, 4),
        (0, 1, 1),
        (0, 0, 0),
    ],
)
def test_where_a_log_with_epochs_0_5_and_7_is_cut(
    leader_epoch: int, leader_end_offset: int, expected: int
) -> None:
    async def test(broker: SimulatedBroker) -> None:
        partition = await new_partition(broker)
        for epoch, count in ((0, 1), (5, 2), (7, 2)):
            partition.leader.leader_epoch = epoch
            for _ in range(count):
                append(partition, b"v")
        assert partition.log.leader_epochs.entries == [(0, 0), (5, 1), (7, 3)]
        assert truncation_offset(partition.log, leader_epoch, leader_end_offset) == expected

    with_broker(test)


def test_a_log_that_knows_later_epochs_only_goes_by_the_leaders_offset() -> None:
    async def test(broker: SimulatedBroker) -> None:
        partition = await new_partition(broker)
        append(partition, b"v")
        append(partition, b"v")
        partition.log.leader_epochs.clear()
        assert truncation_offset(partition.log, 3, 1) == 1
        assert truncation_offset(partition.log, 3, 9) == 2

    with_broker(test)
