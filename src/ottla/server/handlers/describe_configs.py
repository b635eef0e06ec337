"""DescribeConfigs: settings, their values, and where these come from.

v1 brought synonyms and sources, v3 documentation and types.
"""

from __future__ import annotations

from collections.abc import Hashable

from ottla import __version__
from ottla.config.definition import ConfigSource, ConfigType
from ottla.config.describe import (
    Described,
    describe_broker,
    describe_broker_defaults,
    describe_client_metrics,
    describe_group,
    describe_topic,
)
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.slices import Slices
from ottla.server.context import RequestContext
from ottla.server.counters import NAME as COUNTERS
from ottla.server.counters import described_counters
from ottla.server.resources import (
    ResourceType,
    broker_of,
    check_group,
    check_subscription,
    check_topic,
    resource_type,
)
from ottla.server.services import Services
from ottla.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

RESOURCE_COUNT_MAX = 10_000
"""That one request describes. A name takes a few bytes of it, and its settings 10 KB of memory; and
any name can be that of a group."""
REPEATED_COUNT_MAX = 100
"""What is named again is described again, as in Kafka; but one short name, half a million times,
must not be answered with gigabytes."""

_SOFTWARE = Described(
    name="ottla.version",
    value=__version__,
    read_only=True,
    source=ConfigSource.DEFAULT_CONFIG,
    is_sensitive=False,
    synonyms=[],
    type=ConfigType.STRING,
    documentation="What this broker runs. It cannot be set.",
)
"""Among a broker's settings, since Kafka's protocol has no request that asks for it."""


async def handle(
    services: Services, request: DescribeConfigsRequest, context: RequestContext
) -> DescribeConfigsResponse:
    slices = Slices(services.clock)
    try:
        async for resource in slices.of(request.resources):
            resource_type(resource.resource_type)
    except KafkaError as error:
        return await _refused(request, error, slices)
    results: list[DescribeConfigsResult] = []
    known: dict[Hashable, DescribeConfigsResult] = {}
    number = -1
    async for resource in slices.of(request.resources):
        number += 1
        again = known.get(_name_of(resource))
        if again is not None and len(results) - len(known) < REPEATED_COUNT_MAX:
            results.append(again)
            continue
        result = DescribeConfigsResult(
            resource_type=resource.resource_type, resource_name=resource.resource_name
        )
        results.append(result)
        known.setdefault(_name_of(resource), result)
        try:
            if again is not None:
                raise KafkaError(
                    ErrorCode.INVALID_REQUEST,
                    f"A request names what it has named before at most {REPEATED_COUNT_MAX} times.",
                )
            if number >= RESOURCE_COUNT_MAX:
                raise KafkaError(
                    ErrorCode.INVALID_REQUEST,
                    f"A request describes at most {RESOURCE_COUNT_MAX} resources.",
                )
            names = {name async for name in slices.of(resource.configuration_keys or ())}
            described = _describe(services, resource, names)
            if _wants_counters(resource, names):
                described.append(await described_counters(services, slices))
            result.configs = [_entry(each, request) for each in described]
        except KafkaError as error:
            result.error_code = error.code
            result.error_message = error.message
    await slices.empty(known)
    return DescribeConfigsResponse(results=results)


async def _refused(
    request: DescribeConfigsRequest, error: KafkaError, slices: Slices
) -> DescribeConfigsResponse:
    """All of it, as Kafka does where a type of resource is unknown."""
    return DescribeConfigsResponse(
        results=[
            DescribeConfigsResult(
                error_code=error.code,
                error_message=error.message,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
            async for resource in slices.of(request.resources)
        ]
    )


def _name_of(resource: DescribeConfigsResource) -> tuple[int, str, tuple[str, ...]]:
    return (
        resource.resource_type,
        resource.resource_name,
        tuple(resource.configuration_keys or ()),
    )


def _describe(
    services: Services, resource: DescribeConfigsResource, names: set[str]
) -> list[Described]:
    """Without names all of its settings."""
    kind = resource_type(resource.resource_type)
    if kind is ResourceType.TOPIC:
        check_topic(services, resource.resource_name)
        overrides = services.image.topic_configs.get(resource.resource_name, {})
        return describe_topic(overrides, services.config, names)
    if kind is ResourceType.GROUP:
        check_group(resource.resource_name)
        overrides = services.image.group_configs.get(resource.resource_name, {})
        return describe_group(overrides, services.config, names)
    if kind is ResourceType.CLIENT_METRICS:
        check_subscription(resource.resource_name)
        overrides = services.image.client_metrics_configs.get(resource.resource_name, {})
        return describe_client_metrics(overrides, names)
    if broker_of(services, resource.resource_name) is None:
        return describe_broker_defaults(services.config, names)
    described = describe_broker(services.config, names)
    if not names or _SOFTWARE.name in names:
        described.append(_SOFTWARE)
    return described


def _wants_counters(resource: DescribeConfigsResource, names: set[str]) -> bool:
    is_one_broker = resource.resource_type == ResourceType.BROKER and resource.resource_name != ""
    return is_one_broker and (not names or COUNTERS in names)


def _entry(described: Described, request: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    entry = DescribeConfigsResourceResult(
        name=described.name,
        value=described.value,
        read_only=described.read_only,
        config_source=described.source,
        is_sensitive=described.is_sensitive,
        config_type=described.type,
        documentation=described.documentation if request.include_documentation else None,
    )
    if request.include_synonyms:
        entry.synonyms = [
            DescribeConfigsSynonym(name=name, value=value, source=source)
            for name, value, source in described.synonyms
        ]
    return entry
