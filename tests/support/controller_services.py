"""What handlers work with that only ask the controller: a real one, over scripted brokers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from ottla.server.context import RequestContext
from tests.unit.controller.brokers import SimulatedCluster


def services_of(cluster: SimulatedCluster, broker_id: int) -> Any:
    """Of this broker."""
    controller = cluster.brokers[broker_id].controller
    return SimpleNamespace(
        controller=controller,
        clock=cluster.clock,
        forwarding=SimpleNamespace(is_controller=controller.is_active),
    )


def asked_in(version: int, client_id: str | None = None) -> RequestContext:
    return RequestContext(version, client_id, "PLAINTEXT", "host")
