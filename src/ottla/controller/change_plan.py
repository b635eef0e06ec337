"""What one event is going to change: planned over the context, written, and only then applied.

Whoever plans reads the context through the plan, and so sees what is planned already. The order of
the writes is such that a controller that is cut off between two batches leaves something that its
successor goes on with: first topics, then states of partitions, and last what says that it is done.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import TypeVar

from ottla.controller.controller_context import (
    CommittedState,
    Config,
    ControllerContext,
    Replica,
    Topic,
    partitions_of,
)
from ottla.controller.partition_state_machine import PartitionState
from ottla.controller.replica_state_machine import ReplicaState
from ottla.controller.request_batch import RequestBatch
from ottla.coordination import znodes
from ottla.coordination.store import Create, Delete, Operation, Set
from ottla.coordination.znodes import LeaderAndIsr, ReplicaAssignment, TopicAssignment
from ottla.kernel.clock import Clock
from ottla.kernel.ids import NO_TOPIC_ID, BrokerId, TopicPartition
from ottla.kernel.slices import Slices

K = TypeVar("K")

MIN_ISR = "min.insync.replicas"

StateChanged = Callable[[TopicPartition, LeaderAndIsr | None, LeaderAndIsr], None]


class ChangePlan:
    """Made for one write of an event, and applied once that is done; else dropped."""

    def __init__(self, context: ControllerContext, clock: Clock) -> None:
        self.context = context
        self.slices = Slices(clock)
        self.requests = RequestBatch()
        self._topics: dict[str, Topic] = {}
        self._assignments: dict[TopicPartition, ReplicaAssignment] = {}
        self._deleted: list[Topic] = []
        self._states: dict[TopicPartition, LeaderAndIsr] = {}
        self._partition_states: dict[TopicPartition, PartitionState] = {}
        self._replica_states: dict[Replica, ReplicaState] = {}
        self._configs: dict[str, Mapping[str, str]] = {}
        self._config_changes: list[Callable[[], None]] = []
        self._accepted: dict[BrokerId, int] = {}
        self._marked: list[str] = []
        self._unmarked: list[str] = []
        self._others: list[Operation] = []

    # -- the context, with the plan over it ---------------------------------------------

    def _topic(self, name: str) -> Topic:
        return self._topics.get(name) or self.context.topics[name]

    def assignment(self, topic_partition: TopicPartition) -> ReplicaAssignment:
        planned = self._assignments.get(topic_partition)
        if planned is not None:
            return planned
        return self._topic(topic_partition.topic).partitions[topic_partition.partition]

    def state(self, topic_partition: TopicPartition) -> LeaderAndIsr | None:
        planned = self._states.get(topic_partition)
        if planned is not None:
            return planned
        committed = self.context.committed.get(topic_partition)
        return None if committed is None else committed.state

    def partition_state(self, topic_partition: TopicPartition) -> PartitionState:
        planned = self._partition_states.get(topic_partition)
        return planned or self.context.partition_states.get(
            topic_partition, PartitionState.NON_EXISTENT
        )

    def replica_state(self, replica: Replica) -> ReplicaState:
        planned = self._replica_states.get(replica)
        return planned or self.context.replica_states.get(replica, ReplicaState.NON_EXISTENT)

    def min_insync_replicas(self, topic_partition: TopicPartition) -> int:
        """As leaders judge it: never more than there are replicas."""
        configured = self.context.topic_config(topic_partition.topic).min_insync_replicas
        if MIN_ISR not in self.context.topic_configs.get(topic_partition.topic, {}):
            configured = min([configured, *self._default_min_insync_replicas()])
        return min(configured, len(self.assignment(topic_partition).replicas))

    def _default_min_insync_replicas(self) -> Iterator[int]:
        """What leaders may go by where a topic says nothing: a default that was lowered counts at
        once, though the controller's own broker may not know it yet; and without one, brokers have
        what is in their files, which is changed in one after another."""
        default = self.context.broker_configs.get(None, {}).get(MIN_ISR, "").strip()
        if default.isdecimal():  # Else nobody goes by it: a person has written that.
            yield int(default)
            return
        for broker in self.context.live_brokers.values():
            if broker.info.min_insync_replicas is not None:
                yield broker.info.min_insync_replicas

    def eligible(
        self, topic_partition: TopicPartition, state: LeaderAndIsr, isr: Collection[int]
    ) -> tuple[int, ...]:
        """Who has every committed record besides the next ISR. Below `min.insync.replicas` leaders
        commit nothing, so those who leave it then fall behind in nothing that counts (KIP-966)."""
        if len(isr) >= self.min_insync_replicas(topic_partition):
            return ()
        return tuple(sorted({*state.isr, *state.eligible_leader_replicas}.difference(isr)))

    # -- planning -----------------------------------------------------------------------

    def put_topic(self, topic: Topic, config: Mapping[str, str] | None = None) -> None:
        """A new one, with its settings, or one that has more partitions now."""
        self._topics[topic.name] = topic
        if config is not None:
            self._configs[topic.name] = config

    def assign(self, topic_partition: TopicPartition, assignment: ReplicaAssignment) -> None:
        """Other replicas than before."""
        self._assignments[topic_partition] = assignment

    def mark_for_deletion(self, topic: str) -> None:
        self._marked.append(topic)

    def forget_mark(self, topic: str) -> None:
        """There is no such topic."""
        self._unmarked.append(topic)

    def delete_topic(self, topic: Topic) -> None:
        self._deleted.append(topic)

    def set_state(self, topic_partition: TopicPartition, state: LeaderAndIsr) -> None:
        self._states[topic_partition] = state

    def set_partition_state(self, topic_partition: TopicPartition, state: PartitionState) -> None:
        self._partition_states[topic_partition] = state

    def set_replica_state(self, replica: Replica, state: ReplicaState) -> None:
        self._replica_states[replica] = state

    def accept(self, broker_id: BrokerId, epoch: int) -> None:
        """The registration is acted on by this plan."""
        self._accepted[broker_id] = epoch

    def put_config(self, known: dict[K, Config], key: K, path: str, config: Config | None) -> None:
        """Into one of the context's tables of settings; None takes it out. Brokers hear of it."""
        if config is None:
            self.write(Delete(path))
        else:
            data = znodes.encode_config(config)
            self.write(Set(path, data) if key in known else Create(path, data))
        change = znodes.encode_config_change(path)
        self.write(Create(znodes.CONFIG_CHANGE_PREFIX, change, sequential=True))

        def apply() -> None:
            if config is None:
                del known[key]
            else:
                known[key] = config

        self._config_changes.append(apply)

    def write(self, operation: Operation) -> None:
        """Something of which the context knows nothing."""
        self._others.append(operation)

    def tell_replicas(
        self,
        topic_partition: TopicPartition,
        *,
        is_new: bool = False,
        except_for: Collection[int] = (),
    ) -> None:
        """All replicas that are alive hear of the state; every broker of it in its metadata."""
        replicas = self.assignment(topic_partition).replicas
        brokers = [BrokerId(each) for each in replicas if each not in except_for]
        self.requests.lead_or_follow(brokers, topic_partition, is_new=is_new)

    # -- writing ------------------------------------------------------------------------

    async def operations(self) -> list[Operation]:
        """In the order in which they are to be written."""
        self._take_assignments()
        operations: list[Operation] = []
        for topic in self._topics.values():
            await self._add_topic(operations, topic)
        operations += [Create(znodes.delete_topic_path(name)) for name in self._marked]
        await self._add_states(operations)
        for topic in self._deleted:
            await self._add_deletion(operations, topic)
        operations += [Delete(znodes.delete_topic_path(name)) for name in self._unmarked]
        operations += self._others
        for broker_id, epoch in self._accepted.items():
            path, data = znodes.accepted_broker_path(broker_id), str(epoch).encode()
            is_known = broker_id in self.context.accepted_epochs
            operations.append(Set(path, data) if is_known else Create(path, data))
        return operations

    def _take_assignments(self) -> None:
        """Into their topics, each of which is one node."""
        changed: dict[str, list[ReplicaAssignment]] = {}
        for topic_partition, assignment in self._assignments.items():
            name, number = topic_partition
            if name not in changed:
                changed[name] = list(self._topic(name).partitions)
            changed[name][number] = assignment
        self._assignments.clear()
        for name, partitions in changed.items():
            self.put_topic(self._topic(name)._replace(partitions=tuple(partitions)))

    async def _add_topic(self, operations: list[Operation], topic: Topic) -> None:
        known = self.context.topics.get(topic.name)
        assignment = TopicAssignment(
            None if topic.id == NO_TOPIC_ID else topic.id,
            {number: each async for number, each in self.slices.of(enumerate(topic.partitions))},
        )
        path, data = znodes.topic_path(topic.name), znodes.encode_topic(assignment)
        if known is not None:
            operations.append(Set(path, data, known.version))
            return
        config_path = znodes.topic_config_path(topic.name)
        config = znodes.encode_config(self._configs[topic.name])
        # Kafka's tools may have left settings of a topic that never came to be.
        has_config = topic.name in self.context.topic_configs
        operations.append(Set(config_path, config) if has_config else Create(config_path, config))
        operations.append(Create(path, data))
        operations.append(Create(znodes.partitions_path(topic.name)))

    async def _add_states(self, operations: list[Operation]) -> None:
        made = set(self.context.half_made)
        async for topic_partition, state in self.slices.of(self._states.items()):
            path = znodes.partition_state_path(*topic_partition)
            data = znodes.encode_partition_state(state)
            committed = self.context.committed.get(topic_partition)
            if committed is not None:
                operations.append(Set(path, data, committed.partition_epoch))
                continue
            self._add_folders(operations, topic_partition, made)
            operations.append(Create(path, data))

    def _add_folders(
        self, operations: list[Operation], topic_partition: TopicPartition, made: set[str]
    ) -> None:
        folder = znodes.partitions_path(topic_partition.topic)
        is_cut_short = (
            topic_partition.topic in self.context.topics
            and TopicPartition(topic_partition.topic, 0) not in self.context.committed
        )
        wanted = [znodes.partition_path(*topic_partition)]
        for path in [folder, *wanted] if is_cut_short else wanted:
            if path not in made:
                made.add(path)
                operations.append(Create(path))

    async def _add_deletion(self, operations: list[Operation], topic: Topic) -> None:
        half_made = self.context.half_made
        async for topic_partition, _ in self.slices.of(partitions_of(topic)):
            path = znodes.partition_path(*topic_partition)
            if topic_partition in self.context.committed:
                operations.append(Delete(znodes.partition_state_path(*topic_partition)))
                operations.append(Delete(path))
            elif path in half_made:
                operations.append(Delete(path))
        has_states = TopicPartition(topic.name, 0) in self.context.committed
        if has_states or znodes.partitions_path(topic.name) in half_made:
            operations.append(Delete(znodes.partitions_path(topic.name)))
        if topic.name in self.context.topic_configs:
            operations.append(Delete(znodes.topic_config_path(topic.name)))
        operations.append(Delete(znodes.topic_path(topic.name)))
        operations.append(Delete(znodes.delete_topic_path(topic.name)))

    # -- applying -----------------------------------------------------------------------

    def apply(self, changed: StateChanged | None = None) -> None:
        """All of it is written. `changed` is told each partition's state, as it was and is."""
        self._take_assignments()
        context = self.context
        for topic in self._topics.values():
            known = context.topics.get(topic.name)
            context.put_topic(topic._replace(version=0 if known is None else known.version + 1))
        context.topic_configs.update(self._configs)
        for change in self._config_changes:
            change()
        context.topics_to_delete.update(self._marked)
        context.topics_to_delete.difference_update(self._unmarked)
        for topic_partition, state in self._states.items():
            old = context.committed.get(topic_partition)
            version = 0 if old is None else old.partition_epoch + 1
            context.committed[topic_partition] = CommittedState(state, version)
            if changed is not None:
                changed(topic_partition, None if old is None else old.state, state)
        context.partition_states.update(self._partition_states)
        for replica, replica_state in self._replica_states.items():
            if replica_state is ReplicaState.NON_EXISTENT:
                context.replica_states.pop(replica, None)
            else:
                context.replica_states[replica] = replica_state
        context.accepted_epochs.update(self._accepted)
        for topic in self._deleted:
            context.forget_topic(topic.name)
