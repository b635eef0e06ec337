"""Settings of a cluster, changed while it runs: of topics, brokers, groups and subscriptions to
metrics of clients. They are kept in `/config/...`; brokers hear of a change by a node in
`/config/changes`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Container, Mapping
from typing import TypeVar

from ottla.controller import broker_changes
from ottla.controller.active_controller import ActiveController
from ottla.controller.change_plan import MIN_ISR, ChangePlan
from ottla.controller.controller_context import Config, partitions_of
from ottla.controller.topic_names import check_topic_name
from ottla.controller.topics import RunEvent
from ottla.coordination import znodes
from ottla.kernel.errors import ErrorCode, KafkaError

K = TypeVar("K")

_SHOWN_TIMEOUT_S = 30.0

Plan = Callable[[Mapping[str, str]], dict[str, str]]
"""From what is set to what shall be. Raises KafkaError where that may not be (see
`config.alter`)."""

Changed = tuple[Mapping[str, str], list[str]]
"""All settings there are now, and the paths of the nodes that tell brokers of it."""


class Configs:
    """Owned by `ClusterController`. When a call returns, the controller's own broker goes by what
    was changed."""

    def __init__(self, run: RunEvent, shows: Callable[[str], Awaitable[None]]) -> None:
        """`shows` waits until this broker has read what a node in `/config/changes` tells of."""
        self._run = run
        self._shows = shows

    async def _change(
        self, event: Callable[[ActiveController], Awaitable[Changed]]
    ) -> Mapping[str, str]:
        config, notifications = await self._run(event)
        for each in notifications:
            await _until_shown(self._shows(each))
        return config

    async def change_topic(
        self, topic: str, plan: Plan, *, validate_only: bool = False
    ) -> Mapping[str, str]:
        """Returns all settings of the topic that are its own."""

        async def event(active: ActiveController) -> Changed:
            context = active.context
            _check_topic_is_known(topic, context.topics.keys() - context.topics_to_delete)
            config = plan(context.topic_configs.get(topic, {}))
            notifications: list[str] = []
            if not validate_only:
                path = znodes.topic_config_path(topic)
                changes = active.plan()
                before, after = context.topic_config(topic), context.resolve(config)
                if before.min_insync_replicas != after.min_insync_replicas:
                    await _forget_eligible(changes, [topic])
                changes.put_config(context.topic_configs, topic, path, config)
                notifications = await active.commit(changes)
                if after.unclean_leader_election_enable:
                    await elect_uncleanly(active, topic)
            return config, notifications

        return await self._change(event)

    async def change_broker(
        self, broker_id: int | None, plan: Plan, *, validate_only: bool = False
    ) -> Mapping[str, str]:
        """None: what holds for every broker. Returns all dynamic settings of the broker."""

        async def event(active: ActiveController) -> Changed:
            known = active.context.broker_configs
            before = known.get(broker_id, {})
            config = plan(before)
            notifications: list[str] = []
            if not validate_only:
                changes = active.plan()
                if before.get(MIN_ISR) != config.get(MIN_ISR):
                    await _forget_eligible(changes, active.context.topics)
                path = znodes.broker_config_path(broker_id)
                changes.put_config(known, broker_id, path, config)
                notifications = await active.commit(changes)
            return config, notifications

        return await self._change(event)

    async def change_group(
        self, group_id: str, plan: Plan, *, validate_only: bool = False
    ) -> Mapping[str, str]:
        """Returns all settings of the group that are its own."""

        async def event(active: ActiveController) -> Changed:
            path = znodes.group_config_path(group_id)
            known = active.context.group_configs
            return await _change_named(active, known, group_id, path, plan, validate_only)

        return await self._change(event)

    async def change_client_metrics(
        self, subscription: str, plan: Plan, *, validate_only: bool = False
    ) -> Mapping[str, str]:
        """Returns all settings of the subscription."""

        async def event(active: ActiveController) -> Changed:
            path = znodes.client_metrics_config_path(subscription)
            known = active.context.client_metrics_configs
            return await _change_named(active, known, subscription, path, plan, validate_only)

        return await self._change(event)


async def _change_named(
    active: ActiveController,
    known: dict[str, Config],
    name: str,
    path: str,
    plan: Plan,
    validate_only: bool,
) -> Changed:
    """What is there by its settings alone, or comes and goes while nobody deletes them: without
    any, nothing is kept of it."""
    config = plan(known.get(name, {}))
    if not validate_only and (config or name in known):
        changes = active.plan()
        changes.put_config(known, name, path, config or None)
        return config, await active.commit(changes)
    return config, []


async def _forget_eligible(plan: ChangePlan, topics: Mapping[str, object] | list[str]) -> None:
    """Eligible replicas have all that was committed under another `min.insync.replicas` than the
    leaders will go by (KIP-966). It is written before they can hear of that."""
    for name in topics:
        async for each, _ in plan.slices.of(partitions_of(plan.context.topics[name])):
            state = plan.state(each)
            if state is not None and state.eligible_leader_replicas:
                plan.set_state(
                    each,
                    state._replace(
                        controller_epoch=plan.context.controller_epoch,
                        eligible_leader_replicas=(),
                    ),
                )
                plan.tell_replicas(each)


async def elect_uncleanly(active: ActiveController, topic: str | None = None) -> None:
    """Unclean elections are allowed now: there may be partitions that waited for it."""
    plan = active.plan()
    await broker_changes.plan_elections(plan, topic)
    await active.commit(plan)


async def _until_shown(shown: Awaitable[None]) -> None:
    """Waits for it, and not for ever. Raises KafkaError."""
    try:
        async with asyncio.timeout(_SHOWN_TIMEOUT_S):
            await shown
    except TimeoutError as error:
        raise KafkaError(
            ErrorCode.REQUEST_TIMED_OUT,
            "The settings are stored, but this broker cannot read them back now: its log says why.",
        ) from error


def _check_topic_is_known(topic: str, topics: Container[str]) -> None:
    """For one whose settings are to be changed. Raises KafkaError."""
    if not topic:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            "No topic is named. What holds for all topics is set on the brokers.",
        )
    if topic not in topics:
        check_topic_name(topic)
        raise KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{topic}' does not exist."
        )
