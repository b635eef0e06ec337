"""What AlterConfigs and IncrementalAlterConfigs share: each resource of a request is changed, or
refused, by itself, and answered in its place."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol, TypeVar

from ottla.config.alter import ConfigChange, RelevantChanges, checking
from ottla.config.client_metrics import CLIENT_METRICS_SETTINGS
from ottla.config.definition import Setting
from ottla.config.group import GROUP_SETTINGS
from ottla.config.topic import TOPIC_SETTINGS
from ottla.controller.configs import Plan
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.slices import Slices
from ottla.server.resources import (
    ResourceType,
    broker_of,
    check_group,
    check_subscription,
    check_topic,
    resource_type,
)
from ottla.server.services import Services


class _Settings(NamedTuple):
    names: Container[str]
    alterable: Mapping[str, Setting]
    """Those whose lists one may append to are among them."""


_SETTINGS = {
    ResourceType.TOPIC: _Settings(TOPIC_SETTINGS, TOPIC_SETTINGS),
    ResourceType.GROUP: _Settings(GROUP_SETTINGS, GROUP_SETTINGS),
    ResourceType.CLIENT_METRICS: _Settings(CLIENT_METRICS_SETTINGS, {}),
}


class Resource(Protocol):
    @property
    def resource_type(self) -> int: ...

    @property
    def resource_name(self) -> str: ...


class ResourceResponse(Protocol):
    error_code: int
    error_message: str | None


R = TypeVar("R", bound=Resource)
R_contra = TypeVar("R_contra", bound=Resource, contravariant=True)
A = TypeVar("A", bound=ResourceResponse)


class Planner(Protocol[R_contra]):
    """Says what is to become of one resource's settings."""

    def changes(self, resource: R_contra) -> Iterator[ConfigChange]: ...

    def plan_topic(self, changes: RelevantChanges) -> Plan: ...

    def plan_broker(self, resource: R_contra, *, per_broker: bool) -> Plan: ...

    def plan_group(self, changes: RelevantChanges) -> Plan: ...

    def plan_client_metrics(self, changes: RelevantChanges) -> Plan: ...


async def change_configs(
    services: Services,
    resources: Sequence[R],
    planner: Planner[R],
    respond: Callable[..., A],
    *,
    validate_only: bool,
) -> list[A]:
    """Answers when the changes hold on this broker."""
    slices = Slices(services.clock)
    counts: Counter[tuple[int, str]] = Counter()
    async for one in slices.of(resources):
        counts[one.resource_type, one.resource_name] += 1
    responses: list[A] = []
    async for resource in slices.of(resources):
        kind, name = resource.resource_type, resource.resource_name
        response = respond(resource_type=kind, resource_name=name, error_message=None)
        responses.append(response)
        try:
            if counts[kind, name] > 1:
                raise KafkaError(
                    ErrorCode.INVALID_REQUEST, "Each resource must appear at most once."
                )
            await _change(services, resource, planner, validate_only, slices)
        except KafkaError as error:
            response.error_code = error.code
            response.error_message = error.message
    await services.changes_applied()
    return responses


async def _change(
    services: Services, resource: R, planner: Planner[R], validate_only: bool, slices: Slices
) -> None:
    name = resource.resource_name
    kind = resource_type(resource.resource_type)
    changes = RelevantChanges()
    if (settings := _SETTINGS.get(kind)) is not None:
        async for _ in slices.of(checking(planner.changes(resource), settings.alterable)):
            pass
        async for change in slices.of(planner.changes(resource)):
            changes.take(change, settings.names)
    if kind is ResourceType.TOPIC:
        if not name:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "There are no settings of all topics.")
        plan = planner.plan_topic(changes)
        try:
            check_topic(services, name)
        except KafkaError as error:
            if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                plan({})  # A bad setting is said first, as in Kafka.
            raise
        await services.configs.change_topic(name, plan, validate_only=validate_only)
    elif kind is ResourceType.GROUP:
        check_group(name)
        plan = planner.plan_group(changes)
        await services.configs.change_group(name, plan, validate_only=validate_only)
    elif kind is ResourceType.CLIENT_METRICS:
        check_subscription(name)
        plan = planner.plan_client_metrics(changes)
        await services.configs.change_client_metrics(name, plan, validate_only=validate_only)
    else:
        broker_id = broker_of(services, name)
        plan = planner.plan_broker(resource, per_broker=broker_id is not None)
        await services.configs.change_broker(broker_id, plan, validate_only=validate_only)
