from __future__ import annotations

import logging

import pytest

from ottla.config.broker import BrokerConfig
from ottla.membership.live_config import LiveConfig
from ottla.metadata.image import ClusterImage


def image_with(configs: dict[int | None, dict[str, str]]) -> ClusterImage:
    image = ClusterImage()
    image.broker_configs.update(configs)
    return image


def test_what_is_stored_goes_over_what_was_given() -> None:
    live = LiveConfig(BrokerConfig({"broker.id": "7", "message.max.bytes": "500"}))
    image = ClusterImage()
    assert live.of_topic(image, "t").max_message_bytes == 500
    live.take_dynamic(image_with({None: {"message.max.bytes": "600"}}))
    assert live.current.message_max_bytes == 600
    live.take_dynamic(
        image_with(
            {
                None: {"message.max.bytes": "600"},
                7: {"message.max.bytes": "700"},
                8: {"message.max.bytes": "800"},
            }
        )
    )
    assert live.current.message_max_bytes == 700, "this broker's own goes over that of all"
    assert live.of_topic(image, "t").max_message_bytes == 700


def test_what_is_no_longer_stored_is_forgotten() -> None:
    live = LiveConfig(BrokerConfig({"message.max.bytes": "500"}))
    live.take_dynamic(image_with({None: {"message.max.bytes": "600"}}))
    live.take_dynamic(ClusterImage())
    assert live.current.message_max_bytes == 500


def test_what_cannot_be_used_is_passed_over_with_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    live = LiveConfig(BrokerConfig({}))
    stored = {"message.max.bytes": "many", "log.retention.ms": "60000"}
    with caplog.at_level(logging.WARNING):
        live.take_dynamic(image_with({None: stored}))
    assert live.current.log_retention_ms == 60_000
    assert live.current.message_max_bytes == BrokerConfig({}).message_max_bytes
    assert "message.max.bytes is ignored" in caplog.text


def test_a_topic_has_its_own_settings_over_the_brokers() -> None:
    live = LiveConfig(BrokerConfig({"message.max.bytes": "500"}))
    image = ClusterImage()
    image.topic_configs["t"] = {"max.message.bytes": "100"}
    assert live.of_topic(image, "t").max_message_bytes == 100
    assert live.of_topic(image, "other").max_message_bytes == 500
