"""What handlers work with. Put together once, by the broker."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from ottla.config.broker import BrokerConfig
from ottla.controller.configs import Configs
from ottla.controller.topics import Topics
from ottla.coordination.image import ClusterImage
from ottla.coordinators.groups.group_coordinator import GroupCoordinator
from ottla.coordinators.transactions.transaction_coordinator import TransactionCoordinator
from ottla.kernel.clock import Clock
from ottla.kernel.ids import BrokerId
from ottla.kernel.workers import Workers
from ottla.membership.live_config import LiveConfig
from ottla.replication.replica_manager import ReplicaManager
from ottla.server.fetch_sessions.session_cache import FetchSessionCache
from ottla.server.transaction_markers import TransactionMarkerWriter
from ottla.server.transactional_produce import TransactionalProduce
from ottla.storage.log_manager import LogManager


class Services(NamedTuple):
    broker_id: BrokerId
    live_config: LiveConfig
    image: ClusterImage
    topics: Topics
    configs: Configs
    groups: GroupCoordinator
    transactions: TransactionCoordinator
    markers: TransactionMarkerWriter
    transactional_produce: TransactionalProduce
    replicas: ReplicaManager
    logs: LogManager
    fetch_sessions: FetchSessionCache
    clock: Clock
    workers: Workers
    changes_applied: Callable[[], Awaitable[None]]
    """Waits until every change of the image so far is also one of this broker's logs."""
    topic_applied: Callable[[str], Awaitable[None]]
    """The same for the changes of one topic: it need not wait for those of others."""

    @property
    def config(self) -> BrokerConfig:
        """As it is now."""
        return self.live_config.current
