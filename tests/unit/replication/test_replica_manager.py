from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from ottla.config.topic import TopicConfig
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import BrokerId, TopicId, TopicPartition
from ottla.metadata.image import ClusterImage, PartitionImage, TopicCreated, TopicImage
from ottla.replication.partition import Partition
from ottla.replication.replica_manager import ReplicaManager
from ottla.storage.partition_metadata import parse_partition_metadata
from ottla.testing.disk import Fault
from ottla.testing.loop import VirtualClock
from tests.support.replica_pair import make_pair
from tests.support.simulated_broker import SimulatedBroker, make_batch, with_broker

ONLY = (BrokerId(1),)
TOPIC_ID = TopicId(b"i" * 16)
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


async def lead(
    replicas: ReplicaManager,
    topic_partition: TopicPartition,
    config: TopicConfig | None = None,
    *,
    is_new: bool = True,
) -> Partition:
    return await replicas.become_leader(
        topic_partition,
        TOPIC_ID,
        config or TopicConfig(),
        leader_epoch=0,
        replicas=ONLY,
        isr=ONLY,
        partition_epoch=0,
        is_new=is_new,
    )


def append(partition: Partition, *values: bytes) -> None:
    partition.leader.append(memoryview(make_batch(*values)), acks=1, produce_version=12)


def test_partitions_are_found_by_name_and_by_id() -> None:
    async def test(broker: SimulatedBroker) -> None:
        replicas = broker.machine.broker.replicas
        partition = await lead(replicas, T1)
        assert replicas.partition("t", 1) is partition
        assert replicas.replica_by_id(TOPIC_ID, 1) is partition
        assert replicas.topic_name(TOPIC_ID) == "t"
        assert replicas.topic_partitions() == {T1}

    with_broker(test)


def test_a_log_without_a_topic_id_gets_that_of_its_topic() -> None:
    async def test(broker: SimulatedBroker) -> None:
        logs = broker.machine.broker.logs
        found = logs.create_log(T0, None, TopicConfig())
        partition = await lead(broker.machine.broker.replicas, T0)
        assert partition.log is found
        await found.folder.drain()
        written = broker.machine.disk.read_file("/data/t-0/partition.metadata")
        assert parse_partition_metadata(written) == TOPIC_ID

    with_broker(test)


def test_a_log_of_another_topic_is_set_aside_and_never_served() -> None:
    async def test(broker: SimulatedBroker) -> None:
        logs, replicas = broker.machine.broker.logs, broker.machine.broker.replicas
        logs.create_log(T0, TopicId(b"o" * 16), TopicConfig())
        append(await lead(replicas, T0), b"v")
        assert replicas.partition("t", 0).high_watermark == 1
        names = broker.machine.disk.list_folder("/data")
        assert [name for name in names if name.endswith("-stray")]

    with_broker(test)


def test_what_is_not_here_says_how_it_was_looked_for() -> None:
    async def test(broker: SimulatedBroker) -> None:
        replicas = broker.machine.broker.replicas
        await lead(replicas, T0)
        for name, index in (("t", 1), ("missing", 0)):
            with pytest.raises(KafkaError, match=f"{name}-{index}") as caught:
                replicas.partition(name, index)
            assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        unknown = TopicId(b"x" * 16)
        assert replicas.topic_name(unknown) is None
        for topic_id, index, code in (
            (unknown, 0, ErrorCode.UNKNOWN_TOPIC_ID),
            (TOPIC_ID, 1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ):
            with pytest.raises(KafkaError) as caught:
                replicas.replica_by_id(topic_id, index)
            assert caught.value.code is code

    with_broker(test)


def test_what_other_brokers_have_is_not_unknown() -> None:
    async def test(broker: SimulatedBroker) -> None:
        replicas = broker.machine.broker.replicas
        other = TopicImage("elsewhere", TopicId(b"e" * 16), (PartitionImage(0, (2,), leader=2),))
        broker.machine.broker.image.apply(TopicCreated(other, {}))
        finds: list[Callable[[], Partition]] = [
            lambda: replicas.partition("elsewhere", 0),
            lambda: replicas.replica("elsewhere", 0),
            lambda: replicas.replica_by_id(other.id, 0),
        ]
        for find in finds:
            with pytest.raises(KafkaError) as caught:
                find()
            assert caught.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
        for find in (
            lambda: replicas.partition("elsewhere", 1),
            lambda: replicas.replica_by_id(other.id, 1),
        ):
            with pytest.raises(KafkaError) as caught:
                find()
            assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert replicas.topic_name(other.id) == "elsewhere"

    with_broker(test)


def test_a_leader_again_goes_on_with_its_log() -> None:
    async def test(broker: SimulatedBroker) -> None:
        replicas = broker.machine.broker.replicas
        append(await lead(replicas, T0), b"a", b"b")
        again = await lead(replicas, T0, TopicConfig(max_message_bytes=5))
        assert (again.log.log_end_offset, again.high_watermark) == (2, 2)
        with pytest.raises(KafkaError) as caught:
            append(again, b"c")
        assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE

    with_broker(test)


def test_settings_reach_all_partitions_of_the_topic_and_no_other() -> None:
    async def test(broker: SimulatedBroker) -> None:
        replicas = broker.machine.broker.replicas
        partitions = [await lead(replicas, T0), await lead(replicas, T1)]
        other = await lead(replicas, TopicPartition("other", 0))
        replicas.set_configs({"t": TopicConfig(max_message_bytes=5)})
        for partition in partitions:
            with pytest.raises(KafkaError) as caught:
                append(partition, b"v")
            assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE
        append(other, b"v")
        assert other.high_watermark == 1

    with_broker(test)


def test_a_deleted_partition_is_gone_with_its_files() -> None:
    async def test(broker: SimulatedBroker) -> None:
        replicas = broker.machine.broker.replicas
        await lead(replicas, T0)
        assert broker.machine.disk.exists("/data/t-0")
        await replicas.delete(T0)
        assert replicas.topic_partitions() == set()
        assert replicas.topic_name(TOPIC_ID) is None
        assert not broker.machine.disk.exists("/data/t-0")
        await replicas.delete(T0)  # What is not there is deleted already.

    with_broker(test)


def test_a_failed_disk_takes_only_its_own_partitions() -> None:
    async def test(broker: SimulatedBroker) -> None:
        replicas = broker.machine.broker.replicas
        failed, fine = await lead(replicas, T0), await lead(replicas, T1)
        assert failed.log.folder is not fine.log.folder
        broker.machine.disk.fail(Fault("write_at", failed.log.folder.path))
        with pytest.raises(KafkaError):
            append(failed, b"v")
        append(fine, b"v")
        with pytest.raises(KafkaError) as caught:
            replicas.partition("t", 0)
        assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
        assert replicas.partition("t", 1) is fine
        await replicas.checkpoint_high_watermarks()
        await fine.log.folder.drain()
        assert broker.machine.broker.logs.read_high_watermarks() == {T1: 1}

    with_broker(test, log_dirs="/one,/two")


def test_a_partition_whose_log_cannot_be_opened_is_offline_until_it_is_deleted() -> None:
    async def test(broker: SimulatedBroker) -> None:
        replicas = broker.machine.broker.replicas
        broker.machine.broker.logs.folders[0].fail(OSError("gone"), "testing")
        with pytest.raises(KafkaError):
            await lead(replicas, T0, is_new=False)
        finds: list[Callable[[], object]] = [
            lambda: replicas.partition("t", 0),
            lambda: lead_by_id(replicas),
        ]
        for find in finds:
            with pytest.raises(KafkaError) as caught:
                find()
            assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
        await replicas.delete(T0)
        with pytest.raises(KafkaError) as caught:
            replicas.partition("t", 0)
        assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def lead_by_id(replicas: ReplicaManager) -> Partition:
        return replicas.replica_by_id(TOPIC_ID, 0)

    with_broker(test, log_dirs="/one,/two")


def test_high_watermarks_are_left_for_the_next_start() -> None:
    async def test(broker: SimulatedBroker) -> None:
        replicas = broker.machine.broker.replicas
        partition = await lead(replicas, T0)
        append(partition, b"a", b"b")
        assert replicas.high_watermark_of(partition.log) == 2
        await replicas.close()
        await partition.log.folder.drain()
        checkpoint = broker.machine.disk.read_file("/data/replication-offset-checkpoint")
        assert checkpoint.decode().splitlines() == ["0", "1", "t 0 2"]
        with pytest.raises(KafkaError):
            replicas.partition("t", 0)

    with_broker(test)


def test_a_partition_begins_with_the_high_watermark_of_the_last_run() -> None:
    async def test(broker: SimulatedBroker) -> None:
        topic_id = await broker.create_topic("t", 1)
        for _ in range(3):
            await broker.produce("t", b"v")
        replicas = broker.machine.broker.replicas
        config = replicas.partition("t", 0).log.config
        replicas.partition("t", 0).high_watermark = 2
        await replicas.checkpoint_high_watermarks()
        await replicas.partition("t", 0).log.folder.drain()
        logs, disk = broker.machine.broker.logs, broker.machine.disk

        again = ReplicaManager(
            logs,
            replicas._config,
            own_id=BrokerId(1),
            image=ClusterImage(),
            broker_epochs=lambda broker_id: 1,
            connect=replicas._connect,
            clock=VirtualClock(broker.loop),
            workers=replicas._workers,
        )
        assert again.high_watermark_of(logs.logs[T0]) == 2
        # Written down anew before this broker has heard what its role is.
        await again.checkpoint_high_watermarks()
        await logs.logs[T0].folder.drain()
        assert "t 0 2" in disk.read_file("/data/replication-offset-checkpoint").decode()
        followed = await again.become_follower(
            T0, topic_id, config, leader_id=BrokerId(2), leader_epoch=1, is_new=False
        )
        assert followed.high_watermark == 2

    with_broker(test)


def test_rates_of_throttles_change_while_the_broker_runs() -> None:
    async def test(broker: SimulatedBroker) -> None:
        replicas = broker.machine.broker.replicas
        assert replicas.leader_quota.bytes_per_second == 7
        assert not replicas._follower_quota.is_limited
        changed = broker.machine.broker._config.current.with_dynamic(
            {"follower.replication.throttled.rate": "5"}, {}
        )
        replicas.set_broker_config(changed)
        assert replicas._follower_quota.bytes_per_second == 5
        assert replicas.leader_quota.bytes_per_second == 7

    with_broker(test, leader_replication_throttled_rate="7")


@pytest.mark.parametrize("leads_next", [True, False])
def test_a_role_begins_with_what_is_synced_where_that_is_asked_for(leads_next: bool) -> None:
    """A follower's records may come with the fsync still under way. Its next fetch, to another
    leader, or its own high watermark, would count them."""

    async def test(broker: SimulatedBroker) -> None:
        pair = await make_pair(broker, flush_messages="1")
        log = pair.follows.log
        append(pair.leads, b"a")
        await pair.follow(1)
        fetching = asyncio.create_task(pair.fetch())
        while log.log_end_offset == 0:
            await asyncio.sleep(0)
        assert log.recovery_point == 0
        await (pair.lead(pair.follows, 2) if leads_next else pair.follow(2))
        assert log.recovery_point == log.log_end_offset == 1
        fetching.cancel()

    with_broker(test)
