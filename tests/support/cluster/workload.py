"""What clients do to a cluster while faults happen to it, and the judgement at the end."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from ottla.kernel.ids import TopicPartition
from ottla.testing.history.checker import find_anomalies
from ottla.testing.history.history import History
from tests.support.cluster.broker_cluster import BrokerCluster
from tests.support.cluster.leader_watcher import LeaderWatcher
from tests.support.cluster.recorded_client import RecordedClient
from tests.support.cluster.recorded_consumer import Copier, GroupReader, WholeReader
from tests.support.cluster.recorded_producer import RecordedProducer, TransactionalWriter

PARTITION_COUNT = 3
PROGRESS_TIMEOUT_S = 60
_ANOMALIES_SHOWN = 20
_GIVE_UP_S = 2


class Workload:
    """Idempotent and transactional producers write to one topic, copiers copy it exactly once into
    another one, a group reads that, and a reader reads both. Its topics, groups and ids begin with
    `name`. Leaving it waits until the cluster has healed, and checks the history."""

    def __init__(self, cluster: BrokerCluster, name: str, folder: Path, seed: int) -> None:
        self.cluster = cluster
        self.history = History()
        self._history_path = folder / f"{name}.jsonl"
        self.source, self.target = f"{name}-source", f"{name}-target"
        self.copiers_group, self.readers_group = f"{name}-copiers", f"{name}-readers"
        self.topics = [self.source, self.target]
        self._name = name
        for topic in self.topics:
            cluster.create_topic(topic, PARTITION_COUNT)
        self.sources = [TopicPartition(self.source, n) for n in range(PARTITION_COUNT)]
        self.targets = [TopicPartition(self.target, n) for n in range(PARTITION_COUNT)]
        where = (cluster.bootstrap, self.history)
        self.producer = RecordedProducer(f"{name}-producer", *where, self.sources, seed)
        self.writers: list[RecordedProducer | TransactionalWriter] = [
            self.producer,
            TransactionalWriter(f"{name}-writer", *where, self.sources, seed + 1),
        ]
        self.copiers = [
            Copier(
                f"{name}-copier-{number}",
                *where,
                seed + 2 + number,
                group=self.copiers_group,
                source=self.source,
                targets=self.targets,
            )
            for number in (1, 2)
        ]
        self.group_reader = GroupReader(f"{name}-reader", *where, self.readers_group, self.target)
        self.whole_reader = WholeReader(f"{name}-whole", *where, [*self.sources, *self.targets])
        self.watcher = LeaderWatcher(cluster, self.history, self.topics)

    @property
    def clients(self) -> Sequence[RecordedClient]:
        return [*self.writers, *self.copiers, self.group_reader, self.whole_reader, self.watcher]

    def __enter__(self) -> Workload:
        for client in self.clients:
            client.start()
        try:
            self.wait_for_progress()
        except BaseException:
            self._give_up()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            if kind is None:
                self._finish()
        except BaseException:
            self._give_up()
            raise
        if kind is not None:
            self._give_up()

    def _give_up(self) -> None:
        """Whatever hangs ends with the run; what happened so far is kept."""
        self.cluster.resume()
        for client in self.clients:
            client.ask_to_stop()
        for client in self.clients:
            client.wait(_GIVE_UP_S)
        self._history_path.write_text(self.history.to_json_lines())

    def wait_for_progress(self, steps: int = 5, of: Sequence[RecordedClient] | None = None) -> None:
        """Until each client, or each of these, has got so much more done: none starves. Of the
        members of a group, one may have nothing to do, so they count together."""
        busy: list[Sequence[RecordedClient]] = [
            *([writer] for writer in self.writers),
            self.copiers,
            [self.group_reader],
            [self.whole_reader],
        ]
        if of is not None:
            busy = [[client] for client in of]
        goals = [sum(client.progress for client in some) + steps for some in busy]
        deadline_s = time.monotonic() + PROGRESS_TIMEOUT_S
        while True:
            late = [
                some
                for some, goal in zip(busy, goals, strict=True)
                if sum(client.progress for client in some) < goal
            ]
            for client in self.clients:
                if client.failure is not None:
                    client.join()
            if not late:
                return
            assert time.monotonic() < deadline_s, "\n".join(
                f"{client.name} makes no progress: {client.errors[-3:]}"
                for some in late
                for client in some
            )
            time.sleep(0.02)

    def _finish(self) -> None:
        self.wait_for_progress()
        self._stop(self.writers)
        self._stop(self.copiers)
        self._stop([self.group_reader])
        self.cluster.wait_until_healed(self.topics)
        self.whole_reader.finish()
        self._join([self.whole_reader])
        again = WholeReader(
            f"{self._name}-again",
            self.cluster.bootstrap,
            self.history,
            [*self.sources, *self.targets],
        )
        again.start()
        again.finish()
        self._join([again])
        self._stop([self.watcher])
        found = find_anomalies(self.history, self.cluster.replica_logs(self.topics))
        self._history_path.write_text(self.history.to_json_lines())
        shown = "\n".join(str(anomaly) for anomaly in found[:_ANOMALIES_SHOWN])
        assert not found, f"{len(found)} anomalies; history in {self._history_path}\n{shown}"

    def _stop(self, clients: Sequence[RecordedClient]) -> None:
        for client in clients:
            client.ask_to_stop()
        self._join(clients)

    def _join(self, clients: Sequence[RecordedClient]) -> None:
        for client in clients:
            client.join()
