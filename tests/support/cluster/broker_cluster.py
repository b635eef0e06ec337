"""Several brokers as processes, on one coordination store."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from ottla.kernel.disk import SystemDisk
from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import TopicPartition
from ottla.kernel.internal_topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from ottla.kernel.java import abs_hash
from ottla.testing.history.replica_log import ReplicaLog, read_replica_logs
from ottla.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from ottla.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponsePartition,
)
from tests.support.cluster.broker_network import BrokerNetwork
from tests.support.ottla_process import OttlaProcess
from tests.support.raw_client import ConnectionClosed, RawClient

SESSION_TIMEOUT_MS = 3000
HEAL_TIMEOUT_S = 60
_METADATA_VERSION = 12
_CREATE_TOPICS_VERSION = 7
_COORDINATOR_PARTITIONS = 8

_SETTINGS = {
    "zookeeper.session.timeout.ms": str(SESSION_TIMEOUT_MS),
    "replica.lag.time.max.ms": "3000",
    "replica.high.watermark.checkpoint.interval.ms": "500",
    "replica.socket.timeout.ms": "3000",
    "controller.socket.timeout.ms": "3000",
    "offsets.topic.num.partitions": str(_COORDINATOR_PARTITIONS),
    "transaction.state.log.num.partitions": str(_COORDINATOR_PARTITIONS),
    "auto.create.topics.enable": "false",
    "controlled.shutdown.retry.backoff.ms": "500",
    "group.initial.rebalance.delay.ms": "0",
}

T = TypeVar("T")

PartitionMetadata = dict[TopicPartition, MetadataResponsePartition]


class BrokerCluster:
    """Brokers 1 to `broker_count`, which keep id, port and folder over their starts. Made and
    stopped by a fixture; tests kill, pause and start its brokers, and leave all of them running."""

    def __init__(
        self,
        folder: Path,
        *,
        broker_count: int = 3,
        settings: Mapping[str, str] | None = None,
        network: BrokerNetwork | None = None,
    ) -> None:
        """`settings` name the store, where it is not SQLite's. Without a `network` that can be
        cut, all are on the loopback interface."""
        store = {"ottla.coordination.file": str(folder / "coordination.db")}
        self.settings = {**_SETTINGS, **(settings if settings is not None else store)}
        self.replica_count = broker_count
        self.brokers = {
            broker_id: OttlaProcess(
                folder / f"broker-{broker_id}",
                settings=self.settings,
                args=["--broker-id", str(broker_id), "--log-level", "info"],
                **({} if network is None else network.place_of(broker_id)._asdict()),
            )
            for broker_id in range(1, broker_count + 1)
        }
        self._paused: set[int] = set()

    @property
    def bootstrap(self) -> str:
        return ",".join(broker.bootstrap for broker in self.brokers.values())

    # -- what may happen to brokers -----------------------------------------------------------

    def start(self, *broker_ids: int) -> None:
        """All that do not run, or these, at once."""
        wanted = broker_ids or [
            broker_id for broker_id, broker in self.brokers.items() if not broker.is_running
        ]
        with ThreadPoolExecutor(len(self.brokers)) as pool:
            list(pool.map(lambda broker_id: self.brokers[broker_id].start(), wanted))

    def kill(self, *broker_ids: int) -> None:
        """kill -9, of all at once: none has time to act on the death of another."""
        for broker_id in broker_ids:
            os.kill(self.brokers[broker_id].pid, signal.SIGKILL)
        for broker_id in broker_ids:
            self.brokers[broker_id].kill()

    def pause(self, *broker_ids: int) -> None:
        for broker_id in broker_ids:
            os.kill(self.brokers[broker_id].pid, signal.SIGSTOP)
            self._paused.add(broker_id)

    def resume(self) -> None:
        for broker_id in self._paused:
            os.kill(self.brokers[broker_id].pid, signal.SIGCONT)
        self._paused.clear()

    def stop(self) -> None:
        """Cleanly, all of them: one after another would wait for those that are left to lead."""
        self.resume()
        running = [broker for broker in self.brokers.values() if broker.is_running]
        with ThreadPoolExecutor(len(self.brokers)) as pool:
            list(pool.map(lambda broker: broker.stop(), running))

    # -- who is what --------------------------------------------------------------------------

    def controller(self) -> int:
        return self._wait_for(lambda: self._agreed_controller(), "one controller")

    def leader_of(self, partition: TopicPartition) -> int:
        def leader() -> int | None:
            found = self.partitions_at(self._any_alive(), [partition.topic])
            known = found.get(partition)
            return known.leader_id if known is not None and known.leader_id >= 0 else None

        return self._wait_for(leader, f"a leader of {partition}")

    def follower_of(self, partition: TopicPartition) -> int:
        leader = self.leader_of(partition)
        return next(broker_id for broker_id in self.alive if broker_id != leader)

    def group_coordinator(self, group: str) -> int:
        number = abs_hash(group) % _COORDINATOR_PARTITIONS
        return self.leader_of(TopicPartition(CONSUMER_OFFSETS, number))

    def transaction_coordinator(self, transactional_id: str) -> int:
        number = abs_hash(transactional_id) % _COORDINATOR_PARTITIONS
        return self.leader_of(TopicPartition(TRANSACTION_STATE, number))

    @property
    def alive(self) -> list[int]:
        """That run and are not paused."""
        return [
            broker_id
            for broker_id, broker in self.brokers.items()
            if broker.is_running and broker_id not in self._paused
        ]

    def _any_alive(self) -> int:
        return self.alive[0]

    def _agreed_controller(self) -> int | None:
        told = {
            metadata.controller_id for metadata in map(self.metadata_at, self.alive) if metadata
        }
        return told.pop() if len(told) == 1 and told <= set(self.alive) else None

    # -- topics -------------------------------------------------------------------------------

    def create_topic(self, topic: str, partition_count: int) -> None:
        """Replicated to all brokers, of which two must be in sync."""
        wanted = CreatableTopic(
            name=topic,
            num_partitions=partition_count,
            replication_factor=self.replica_count,
            configs=[
                CreatableTopicConfig(
                    name="min.insync.replicas", value=str(min(2, self.replica_count))
                ),
                # Small segments: faults meet rolling, indexes and producer snapshots.
                CreatableTopicConfig(name="internal.segment.bytes", value="50000"),
            ],
        )
        done = {ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS}

        def create() -> bool:
            request = CreateTopicsRequest(topics=[wanted], timeout_ms=10_000)
            with RawClient(self.brokers[self.controller()].bootstrap) as client:
                answer = client.ask(request, _CREATE_TOPICS_VERSION)
            return answer.topics[0].error_code in done

        self._wait_for(create, f"topic {topic}")

    def wait_until_healed(self, topics: Iterable[str]) -> None:
        """Until every broker says that every partition, internal ones too, has a leader and all
        its replicas in sync."""
        assert set(self.alive) == set(self.brokers), "start all of them first"
        wanted = [*topics, CONSUMER_OFFSETS, TRANSACTION_STATE]

        def is_healed() -> bool:
            unhealed[:] = self._unhealed(wanted)
            return not unhealed

        unhealed: list[str] = []
        try:
            self._wait_for(is_healed, "full ISRs")
        except TimeoutError as error:
            raise TimeoutError("\n".join([str(error), *unhealed])) from None

    def _unhealed(self, topics: Iterable[str]) -> list[str]:
        """What each broker says that is not yet as it should be."""
        found = []
        told = {broker_id: self.partitions_at(broker_id, topics) for broker_id in self.brokers}
        known = {partition for partitions in told.values() for partition in partitions}
        for broker_id, partitions in told.items():
            if missing := known - partitions.keys():
                found.append(f"broker {broker_id} does not know {sorted(missing)}")
            for partition, state in partitions.items():
                if state.leader_id < 0 or len(state.isr_nodes) != len(state.replica_nodes):
                    found.append(
                        f"broker {broker_id}: {partition} is led by {state.leader_id} in epoch"
                        f" {state.leader_epoch}, in sync are {state.isr_nodes}"
                    )
        if self._agreed_controller() is None:
            found.append("brokers do not agree on a controller")
        return found

    def replica_logs(self, topics: Iterable[str]) -> list[ReplicaLog]:
        """When nobody writes any more. Followers may be a moment behind with the last markers."""
        wanted = list(topics)
        found: list[ReplicaLog] = []

        def are_equally_long() -> bool:
            found[:] = [
                log
                for broker_id, broker in self.brokers.items()
                for folder in broker.data_dirs
                for topic in wanted
                for log in read_replica_logs(SystemDisk(), broker_id, str(folder), topic)
            ]
            ends = {(log.partition, log.end_offset) for log in found}
            return len(ends) == len({log.partition for log in found})

        try:
            self._wait_for(are_equally_long, "replicas of one length", timeout_s=10)
        except TimeoutError:
            pass  # The checker says more about it.
        return found

    def metadata_at(self, broker_id: int, topics: Iterable[str] = ()) -> MetadataResponse | None:
        """What this broker says; None when it does not answer."""
        request = MetadataRequest(
            topics=[MetadataRequestTopic(name=topic) for topic in topics],
            allow_auto_topic_creation=False,
        )
        try:
            with RawClient(self.brokers[broker_id].bootstrap, timeout_s=2) as client:
                answer: MetadataResponse = client.ask(request, _METADATA_VERSION)
                return answer
        except (OSError, ConnectionClosed):
            return None

    def partitions_at(self, broker_id: int, topics: Iterable[str]) -> PartitionMetadata:
        answer = self.metadata_at(broker_id, topics)
        if answer is None:
            return {}
        return {
            TopicPartition(topic.name or "", partition.partition_index): partition
            for topic in answer.topics
            for partition in topic.partitions
        }

    def _wait_for(
        self, ask: Callable[[], T | None], what: str, timeout_s: float = HEAL_TIMEOUT_S
    ) -> T:
        deadline_s = time.monotonic() + timeout_s
        while time.monotonic() < deadline_s:
            answer = ask()
            if answer is not None and answer is not False:
                return answer
            time.sleep(0.05)
        raise TimeoutError(f"{what}: not within {timeout_s} s. {self._described()}")

    def _described(self) -> str:
        lines = []
        for broker_id in self.alive:
            metadata = self.metadata_at(broker_id)
            controller = metadata.controller_id if metadata is not None else "does not answer"
            lines.append(f"broker {broker_id}: controller {controller}")
        return "\n".join(lines)
