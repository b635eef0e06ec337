from __future__ import annotations

import asyncio

import pytest

from ottla.kernel.ids import ProducerIdAndEpoch
from ottla.testing.simulation.admin import Admin
from ottla.testing.simulation.client import Refused
from ottla.testing.simulation.reading import (
    fetch_committed,
    fetch_offsets,
    list_end_offset,
    list_start_offset,
    start_above,
)
from ottla.testing.simulation.sending import Sequences, send_batch
from tests.support.quiet_cluster import T0, T1, QuietCluster, with_quiet_cluster


def test_records_are_read_from_an_offset_on() -> None:
    async def test(quiet: QuietCluster) -> None:
        client = quiet.client("c")
        batch = Sequences(ProducerIdAndEpoch(7, 0)).batch(T0, ["a", "b"], quiet.now_ms())
        await send_batch(client, T0, batch)
        assert await list_end_offset(client, T0) == 2
        assert await fetch_committed(client, T0, 0) == ([(0, "a"), (1, "b")], 2)
        assert await fetch_committed(client, T0, 1) == ([(1, "b")], 2)
        assert await fetch_committed(client, T0, 2) == ([], 2)
        await asyncio.sleep(1)
        for replica in quiet.cluster.machines:
            assert await fetch_committed(client, T0, 1, replica=replica) == ([(1, "b")], 2)
        with pytest.raises(Refused, match="OFFSET_OUT_OF_RANGE"):
            await fetch_committed(client, T0, 3)
        client.close()

    with_quiet_cluster(test)


def test_a_group_without_offsets_has_none() -> None:
    async def test(quiet: QuietCluster) -> None:
        client = quiet.client("c")
        offsets = await client.insist(
            lambda: fetch_offsets(client, "g", [T0, T1]), gives_up_on=frozenset()
        )
        assert offsets == {T0: -1, T1: -1}
        client.close()

    with_quiet_cluster(test)


def test_who_is_out_of_range_goes_on_where_the_log_starts() -> None:
    async def test(quiet: QuietCluster) -> None:
        client = quiet.client("c")
        batch = Sequences(ProducerIdAndEpoch(7, 0)).batch(T0, ["a", "b"], quiet.now_ms())
        await send_batch(client, T0, batch)
        assert await Admin(client).delete_records(T0, 1) == 1
        assert await list_start_offset(client, T0) == 1
        assert await start_above(client, T0, 0) == 1
        assert await start_above(client, T0, 1) == 1
        with pytest.raises(AssertionError, match="out of range"):
            await start_above(client, T0, 3)
        assert await Admin(client).delete_records(T0, 99) is None
        client.close()

    with_quiet_cluster(test)
