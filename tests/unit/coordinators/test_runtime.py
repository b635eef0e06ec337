from __future__ import annotations

import asyncio

import pytest

from ottla.coordinators.runtime import Runtime
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.records.batch import ATTRIBUTES_AT, LENGTH_AT, MAGIC_AT
from ottla.testing.disk import Fault
from ottla.testing.loop import VirtualClock
from tests.support.led_partition import fetched, lead_two_replicas
from tests.support.simulated_broker import SimulatedBroker, with_broker
from tests.unit.coordinators.test_shard import PRODUCER, TIMEOUT_MS, Counters


async def runtime_over(broker: SimulatedBroker, partition_count: int) -> Runtime[Counters]:
    await broker.create_topic("state", partition_count, cleanup_policy="compact")
    return lead_all(broker, partition_count)


def lead_all(broker: SimulatedBroker, partition_count: int) -> Runtime[Counters]:
    runtime = Runtime(Counters, VirtualClock(broker.loop), TIMEOUT_MS)
    runtime.partition_count = partition_count
    for number in range(partition_count):
        runtime.become_leader(broker.machine.broker.replicas.partition("state", number).leader)
    return runtime


def test_a_key_belongs_to_the_partition_of_its_java_hash() -> None:
    async def test(broker: SimulatedBroker) -> None:
        runtime = await runtime_over(broker, 50)
        # As Kafka computes them: "g".hashCode() is 103; the other hash is -2^31.
        assert runtime.partition_of("g") == 103 % 50
        assert runtime.partition_of("polygenelubricants") == 0

    with_broker(test)


def test_shards_keep_their_own_and_are_loaded_again() -> None:
    async def test(broker: SimulatedBroker) -> None:
        runtime = await runtime_over(broker, 3)
        for name in ("a", "b", "c", "a"):
            await runtime.write(name, lambda s, name=name: s.add(name))  # type: ignore[misc]
        counts = {"a": 2, "b": 1, "c": 1}
        found: dict[str, int] = {}
        for shard_counts in await runtime.read_all(lambda s: dict(s.counts)):
            assert not shard_counts.keys() & found.keys()
            found |= shard_counts
        assert found == counts
        await runtime.close()

        again = lead_all(broker, 3)
        with pytest.raises(KafkaError) as raised:
            await again.read("a", lambda s: s.counts)
        assert raised.value.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        await asyncio.sleep(1)
        for name, count in counts.items():
            assert (await again.read(name, lambda s: s.counts))[name] == count

    with_broker(test)


def test_what_this_broker_does_not_lead_is_not_its_business() -> None:
    async def test(broker: SimulatedBroker) -> None:
        runtime = await runtime_over(broker, 1)
        runtime.resign(0)
        with pytest.raises(KafkaError) as raised:
            await runtime.write("a", lambda s: s.add("a"))
        assert raised.value.code is ErrorCode.NOT_COORDINATOR
        nothing: Runtime[Counters] = Runtime(Counters, VirtualClock(broker.loop), TIMEOUT_MS)
        with pytest.raises(KafkaError) as raised:
            await nothing.write("a", lambda s: s.add("a"))
        assert raised.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE

    with_broker(test)


def test_a_shard_that_cannot_be_read_has_a_disk_that_failed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def test(broker: SimulatedBroker) -> None:
        runtime = await runtime_over(broker, 3)
        for name in ("a", "b", "c"):
            await runtime.write(name, lambda s, name=name: s.add(name))  # type: ignore[misc]
        await runtime.close()
        failing = runtime.partition_of("a")
        path = f"/data/state-{failing}/00000000000000000000.log"
        broker.machine.disk.fail(Fault("read_at", path, count=1))
        again = lead_all(broker, 3)
        await asyncio.sleep(1)
        for name in ("a", "b", "c"):
            # The disk of one is that of all.
            with pytest.raises(KafkaError) as raised:
                await again.write(name, lambda s, n=name: s.add(n))  # type: ignore[misc]
            assert raised.value.code is ErrorCode.NOT_COORDINATOR
        assert f"state-{failing} cannot be loaded" in caplog.text
        assert broker.machine.broker.logs.folders[0].failure is not None
        await again.close()
        broker.machine.kill()
        await broker.machine.start()

    with_broker(test)


def patch(broker: SimulatedBroker, path: str, position: int, content: bytes) -> None:
    file = broker.machine.disk.open(path)
    file.write_at(position, (content,))
    file.close()


@pytest.mark.parametrize(
    ("at", "content"),
    [
        pytest.param(MAGIC_AT, b"\x07", id="magic"),
        pytest.param(LENGTH_AT, b"\xff\xff\xff\xff", id="negative length"),
        pytest.param(LENGTH_AT, b"\x7f\xff\xff\xff", id="huge length"),
        pytest.param(LENGTH_AT, b"\x00\x00\x00\x01", id="tiny length"),
        pytest.param(ATTRIBUTES_AT + 2, b"\xff\xff\xff\xf0", id="negative offset delta"),
    ],
)
@pytest.mark.parametrize("batch", [0, 1])
def test_a_damaged_log_is_told_of_once_with_its_remedy(
    at: int, content: bytes, batch: int, caplog: pytest.LogCaptureFixture
) -> None:
    async def test(broker: SimulatedBroker) -> None:
        runtime = await runtime_over(broker, 1)
        for _ in range(3):
            await runtime.write("a", lambda s: s.add("a"))
        await runtime.close()
        path = "/data/state-0/00000000000000000000.log"
        size = broker.machine.disk.size(path) // 3
        patch(broker, path, batch * size + at, content)
        again = lead_all(broker, 1)
        await asyncio.sleep(600)
        with pytest.raises(KafkaError) as raised:
            await again.write("a", lambda s: s.add("a"))
        assert raised.value.code is ErrorCode.NOT_COORDINATOR
        assert not again.leads(0)
        await again.close()
        # The remedy:
        await broker.machine.stop()
        for name in broker.machine.disk.list_folder("/data/state-0"):
            if name.startswith("0"):
                broker.machine.disk.remove(f"/data/state-0/{name}")
        await broker.machine.start()
        mended = lead_all(broker, 1)
        await asyncio.sleep(1)
        assert await mended.write("a", lambda s: s.add("a")) == 1
        await mended.close()

    with_broker(test)
    (error,) = [each.getMessage() for each in caplog.records if each.levelname == "ERROR"]
    assert error.startswith("state-0 cannot be loaded, its log in /data/state-0 is damaged: ")
    assert "`ottla dump-log --check`" in error


def test_a_shard_that_is_lost_is_led_by_nobody_and_missed_in_lists() -> None:
    async def test(broker: SimulatedBroker) -> None:
        runtime = await runtime_over(broker, 3)
        number = runtime.partition_of("a")
        assert runtime.leads(number)
        broker.machine.disk.fail(Fault("write_at", f"/data/state-{number}", count=1))
        with pytest.raises(KafkaError):
            await runtime.write("a", lambda s: s.add("a"))
        assert not runtime.leads(number)
        assert runtime.leads((number + 1) % 3)
        with pytest.raises(KafkaError) as raised:
            await runtime.read_all(lambda s: s.counts)
        assert raised.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
        await runtime.close()

    with_broker(test)


def test_loading_that_fails_for_another_reason_is_tried_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Stumbling(Counters):
        stumbles = 2

        def loaded(self) -> None:
            if Stumbling.stumbles:
                Stumbling.stumbles -= 1
                raise ValueError("a bug of ours")

    async def test(broker: SimulatedBroker) -> None:
        runtime = await runtime_over(broker, 1)
        await runtime.write("a", lambda s: s.add("a"))
        await runtime.close()
        again: Runtime[Stumbling] = Runtime(Stumbling, VirtualClock(broker.loop), TIMEOUT_MS)
        again.partition_count = 1
        again.become_leader(broker.machine.broker.replicas.partition("state", 0).leader)
        await asyncio.sleep(5)
        assert await again.read("a", lambda s: s.counts) == {"a": 1}
        assert caplog.text.count("loading state-0 failed; trying again") == 1
        await again.close()

    with_broker(test)


def test_a_transaction_that_ends_is_told_to_the_shard_of_the_partition() -> None:
    async def test(broker: SimulatedBroker) -> None:
        runtime = await runtime_over(broker, 3)
        number = runtime.partition_of("a")
        partition = broker.machine.broker.replicas.partition("state", number)
        guard = partition.leader.begin_verification(*PRODUCER, -1, supports_epoch_bump=True)
        await runtime.write_transactional("a", PRODUCER, lambda s: s.add("a"), guard=guard)
        runtime.transaction_ended((number + 1) % 3, PRODUCER.producer_id, is_commit=True)
        assert await runtime.read("a", lambda s: s.counts) == {}
        runtime.transaction_ended(number, PRODUCER.producer_id, is_commit=True)
        assert await runtime.read("a", lambda s: s.counts) == {"a": 1}
        runtime.resign(number)
        runtime.transaction_ended(number, PRODUCER.producer_id, is_commit=True)

    with_broker(test)


def resigned(runtime: Runtime[Counters]) -> bool:
    return not runtime.leads(0)


def test_epochs_decide_who_leads() -> None:
    async def test(broker: SimulatedBroker) -> None:
        runtime = await runtime_over(broker, 1)
        led = broker.machine.broker.replicas.partition("state", 0)
        older = led.leader
        await runtime.write("a", lambda s: s.add("a"))
        newer = (await lead_two_replicas(led, broker, leader_epoch=5)).leader
        runtime.become_leader(newer)
        runtime.become_leader(older)
        await asyncio.sleep(1)
        for leader_epoch in (4, 5):
            runtime.resign(0, leader_epoch)  # Old news.
            assert await runtime.read("a", lambda s: s.counts) == {"a": 1}
        runtime.resign(0, 6)
        assert resigned(runtime)
        with pytest.raises(KafkaError) as raised:
            await runtime.read("a", lambda s: s.counts)
        assert raised.value.code is ErrorCode.NOT_COORDINATOR
        runtime.become_leader(newer)
        assert resigned(runtime), "in epoch 6 another broker leads"
        # A topic of the same name begins with epoch 0.
        runtime.resign(0)
        runtime.become_leader(newer)
        assert not resigned(runtime)
        await runtime.close()

    with_broker(test)


def test_all_who_wait_for_a_shard_that_moves_are_told() -> None:
    async def test(broker: SimulatedBroker) -> None:
        runtime = await runtime_over(broker, 1)
        led = broker.machine.broker.replicas.partition("state", 0)
        leader = (await lead_two_replicas(led, broker, isr=(1, 2), leader_epoch=5)).leader
        runtime.become_leader(leader)
        waiting = [
            asyncio.ensure_future(runtime.write("a", lambda s: s.add("a"))),
            asyncio.ensure_future(runtime.read("a", lambda s: s.counts)),
        ]
        await asyncio.sleep(1)
        assert not any(task.done() for task in waiting)
        runtime.resign(0, 6)
        for task in waiting:
            with pytest.raises(KafkaError) as raised:
                await task
            assert raised.value.code is ErrorCode.NOT_COORDINATOR
        await runtime.close()

    with_broker(test)


def test_a_shard_that_waits_for_its_followers_keeps_no_other_from_loading() -> None:
    async def test(broker: SimulatedBroker) -> None:
        runtime = await runtime_over(broker, 2)
        names = {runtime.partition_of(name): name for name in ("a", "b", "c", "d")}
        for name in names.values():
            await runtime.write(name, lambda s, name=name: s.add(name))  # type: ignore[misc]
        replicas = broker.machine.broker.replicas
        first = await lead_two_replicas(
            replicas.partition("state", 0), broker, isr=(1, 2), leader_epoch=1
        )
        runtime.become_leader(first.leader)
        fetched(first, 1)
        await asyncio.sleep(1)
        writing = asyncio.ensure_future(runtime.write(names[0], lambda s: s.add(names[0])))
        await asyncio.sleep(1)
        again = await lead_two_replicas(first, broker, isr=(1, 2), leader_epoch=2)
        runtime.become_leader(again.leader)
        second = await lead_two_replicas(replicas.partition("state", 1), broker, leader_epoch=1)
        runtime.become_leader(second.leader)
        await asyncio.sleep(1)
        with pytest.raises(KafkaError) as raised:
            await writing
        assert raised.value.code is ErrorCode.NOT_COORDINATOR
        assert await runtime.read(names[1], lambda s: s.counts) == {names[1]: 1}
        with pytest.raises(KafkaError) as raised:
            await runtime.read(names[0], lambda s: s.counts)
        assert raised.value.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        fetched(again, 2)
        await asyncio.sleep(1)
        assert await runtime.read(names[0], lambda s: s.counts) == {names[0]: 2}
        await runtime.close()

    with_broker(test)


def test_a_leadership_that_ends_while_its_shard_is_loaded_ends_the_loading(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def test(broker: SimulatedBroker) -> None:
        runtime = await runtime_over(broker, 1)
        led = broker.machine.broker.replicas.partition("state", 0)
        await runtime.write("a", lambda s: s.add("a"))
        led = await lead_two_replicas(led, broker, isr=(1, 2), leader_epoch=1)
        fetched(led, 1)
        runtime.become_leader(led.leader)
        await asyncio.sleep(1)
        asyncio.ensure_future(runtime.write("a", lambda s: s.add("a"))).cancel()
        await asyncio.sleep(0)
        led = await lead_two_replicas(led, broker, isr=(1, 2), leader_epoch=2)
        runtime.become_leader(led.leader)
        await asyncio.sleep(1)
        await led.end_role()
        await asyncio.sleep(60)
        runtime.resign(0, 3)
        await runtime.close()

    with_broker(test)
    assert [each for each in caplog.records if each.levelname == "ERROR"] == []


def test_a_read_as_leader_waits_until_its_followers_have_fetched() -> None:
    async def test(broker: SimulatedBroker) -> None:
        runtime = await runtime_over(broker, 1)
        await runtime.write("a", lambda s: s.add("a"))
        assert await runtime.read_as_leader("a", lambda s: s.counts) == {"a": 1}
        led = broker.machine.broker.replicas.partition("state", 0)
        led = await lead_two_replicas(led, broker, isr=(1, 2))
        fetched(led, 1)
        runtime.become_leader(led.leader)
        await asyncio.sleep(1)
        reading = asyncio.ensure_future(runtime.read_as_leader("a", lambda s: s.counts))
        assert await runtime.read("a", lambda s: s.counts) == {"a": 1}
        await asyncio.sleep(0.1)
        assert not reading.done()
        fetched(led, 1)
        fetched(led, 1)
        assert await reading == {"a": 1}
        with pytest.raises(KafkaError, match="another broker may lead it") as raised:
            await runtime.read_as_leader("a", lambda s: s.counts)
        assert raised.value.code is ErrorCode.NOT_COORDINATOR
        await runtime.close()

    with_broker(test)


def test_a_shard_that_moves_away_is_left_out_of_lists() -> None:
    async def test(broker: SimulatedBroker) -> None:
        runtime = await runtime_over(broker, 2)
        names = {runtime.partition_of(name): name for name in ("a", "b", "c", "d")}
        for name in names.values():
            await runtime.write(name, lambda s, name=name: s.add(name))  # type: ignore[misc]
        led = broker.machine.broker.replicas.partition("state", 0)
        led = await lead_two_replicas(led, broker, isr=(1, 2))
        fetched(led, 1)
        runtime.become_leader(led.leader)
        await asyncio.sleep(1)
        writing = asyncio.ensure_future(runtime.write(names[0], lambda s: s.add(names[0])))
        await asyncio.sleep(0.1)
        listing = asyncio.ensure_future(runtime.read_all(lambda s: dict(s.counts)))
        await asyncio.sleep(0.1)
        assert not listing.done()
        runtime.resign(0, 2)
        assert await listing == [{names[1]: 1}]
        with pytest.raises(KafkaError):
            await writing

        # The same in the moment before this is told of it.
        led = await lead_two_replicas(led, broker, leader_epoch=3)
        runtime.become_leader(led.leader)
        await asyncio.sleep(1)
        assert len(await runtime.read_all(lambda s: dict(s.counts))) == 2
        await led.end_role()
        assert await runtime.read_all(lambda s: dict(s.counts)) == [{names[1]: 1}]
        await runtime.close()

    with_broker(test)
