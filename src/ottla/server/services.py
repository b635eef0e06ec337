"""What handlers work with. Put together once, by the broker."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from ottla.controller.configs import Configs
from ottla.controller.producer_ids import ProducerIds
from ottla.controller.topics import Topics
from ottla.coordination.image import ClusterImage
from ottla.kernel.clock import Clock
from ottla.kernel.config.broker import BrokerConfig
from ottla.kernel.ids import BrokerId
from ottla.kernel.workers import Workers
from ottla.replication.replica_manager import ReplicaManager
from ottla.server.fetch_session import FetchSessions
from ottla.storage.log_manager import LogManager


@dataclass(slots=True)
class Services:
    broker_id: BrokerId
    config: BrokerConfig
    """As it is now: replaced when a dynamic setting changes."""
    image: ClusterImage
    topics: Topics
    configs: Configs
    producer_ids: ProducerIds
    replicas: ReplicaManager
    logs: LogManager
    fetch_sessions: FetchSessions
    clock: Clock
    workers: Workers
    changes_applied: Callable[[], Awaitable[None]]
    """Waits until every change of the image so far is also one of this broker's logs."""
