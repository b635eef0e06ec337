from __future__ import annotations

from tests.support.consumer_groups import GROUP, ConsumerCoordinator


def test_the_settings_of_a_group_are_those_of_now() -> None:
    coordinator = ConsumerCoordinator(settings={"group.consumer.session.timeout.ms": "46000"})
    context = coordinator.context
    coordinator.overrides = {"consumer.heartbeat.interval.ms": "6000"}
    found = context.group_config(GROUP)
    assert found.consumer_session_timeout_ms == 46_000
    assert found.consumer_heartbeat_interval_ms == 6000
    assert context.group_config("another").consumer_heartbeat_interval_ms == 5000
    coordinator.overrides = {}
    assert context.group_config(GROUP).consumer_heartbeat_interval_ms == 5000
