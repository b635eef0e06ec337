"""What handlers work with. Put together once, by the broker."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, NamedTuple

from ottla.config.broker import BrokerConfig
from ottla.controller.cluster_controller import ClusterController
from ottla.coordinators.groups.group_coordinator import GroupCoordinator
from ottla.coordinators.transactions.transaction_coordinator import TransactionCoordinator
from ottla.kernel.clock import Clock
from ottla.kernel.ids import BrokerId
from ottla.kernel.loop_lag import LoopLag
from ottla.kernel.workers import Workers
from ottla.membership.live_config import LiveConfig
from ottla.membership.log_ends import LogEnds
from ottla.membership.state_changes import StateChanges
from ottla.metadata.image import ClusterImage
from ottla.replication.replica_manager import ReplicaManager
from ottla.server.fetch_sessions.session_cache import FetchSessionCache
from ottla.server.forwarding import Forwarding
from ottla.server.missing_topics import MissingTopics
from ottla.server.transaction_markers import TransactionMarkerWriter
from ottla.server.transaction_verification import TransactionVerification
from ottla.server.transactional_produce import TransactionalProduce
from ottla.storage.log_manager import LogManager

if TYPE_CHECKING:
    from ottla.controller.configs import Configs
    from ottla.controller.topics import Topics


class Services(NamedTuple):
    broker_id: BrokerId
    live_config: LiveConfig
    image: ClusterImage
    controller: ClusterController
    """Of this broker: it works while the broker is the controller."""
    forwarding: Forwarding
    """To the controller, where that is another broker."""
    missing_topics: MissingTopics
    groups: GroupCoordinator
    transactions: TransactionCoordinator
    markers: TransactionMarkerWriter
    verification: TransactionVerification
    transactional_produce: TransactionalProduce
    replicas: ReplicaManager
    state_changes: StateChanges
    logs: LogManager
    log_ends: LogEnds
    fetch_sessions: FetchSessionCache
    clock: Clock
    loop_lag: LoopLag
    workers: Workers
    settings_shown: Callable[[], Awaitable[None]]
    """Waits until the image shows every change of settings so far, whichever broker made it."""
    changes_applied: Callable[[], Awaitable[None]]
    """Waits until this broker goes by every change of the image so far."""
    topic_applied: Callable[[str], Awaitable[None]]
    """The same for the changes of one topic: it need not wait for those of others."""
    topic_made: Callable[[str], Awaitable[None]]
    """The same for a topic that the controller has made, and the image may not show yet."""

    @property
    def topics(self) -> Topics:
        return self.controller.topics

    @property
    def configs(self) -> Configs:
        return self.controller.configs

    @property
    def config(self) -> BrokerConfig:
        """As it is now."""
        return self.live_config.current
