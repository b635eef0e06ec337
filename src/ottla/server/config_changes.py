"""What AlterConfigs and IncrementalAlterConfigs share: each resource of a request is changed, or
refused, by itself, and answered in its place."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Container, Iterator, Mapping, Sequence
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
    broker_to_change,
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
    resource_type: int
    resource_name: str
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
    forward: Callable[[list[R]], Awaitable[Sequence[A]]],
    *,
    validate_only: bool,
) -> list[A]:
    """Answers when the changes hold on this broker, also where another one is the controller, which
    makes them."""
    slices = Slices(services.clock)
    if services.forwarding.is_controller:
        responses = await _changed(
            services, resources, planner, respond, slices, validate_only=validate_only
        )
    else:
        responses = await _forwarded(services, resources, respond, forward, slices)
    if not validate_only:
        await services.settings_shown()
        await services.changes_applied()
    return responses


async def _changed(
    services: Services,
    resources: Sequence[R],
    planner: Planner[R],
    respond: Callable[..., A],
    slices: Slices,
    *,
    validate_only: bool,
) -> list[A]:
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
    return responses


async def _forwarded(
    services: Services,
    resources: Sequence[R],
    respond: Callable[..., A],
    forward: Callable[[list[R]], Awaitable[Sequence[A]]],
    slices: Slices,
) -> list[A]:
    """A broker's own settings are changed by asking that broker: what names another one is refused
    here, as the controller would not."""
    refused: dict[tuple[int, str], KafkaError] = {}
    asked: list[R] = []
    async for resource in slices.of(resources):
        kind, name = resource.resource_type, resource.resource_name
        try:
            if kind == ResourceType.BROKER:
                broker_of(services, name)
            asked.append(resource)
        except KafkaError as error:
            refused[kind, name] = error
    answers: dict[tuple[int, str], A] = {}
    try:
        async for answer in slices.of(await forward(asked) if asked else ()):
            answers[answer.resource_type, answer.resource_name] = answer
    except KafkaError as error:
        refused |= {(one.resource_type, one.resource_name): error for one in asked}
    silent = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "The controller has not answered for it.")
    return [
        answers.get((kind, name))
        or _refused(respond, kind, name, refused.get((kind, name), silent))
        async for resource in slices.of(resources)
        for kind, name in ((resource.resource_type, resource.resource_name),)
    ]


def _refused(respond: Callable[..., A], kind: int, name: str, error: KafkaError) -> A:
    return respond(
        resource_type=kind,
        resource_name=name,
        error_code=error.code,
        error_message=error.message,
    )


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
        broker_id = broker_to_change(services, name)
        plan = planner.plan_broker(resource, per_broker=broker_id is not None)
        await services.configs.change_broker(broker_id, plan, validate_only=validate_only)
