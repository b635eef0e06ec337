from __future__ import annotations

from typing import Any

from ottla.config.broker import BrokerConfig
from ottla.membership.live_config import LiveConfig
from ottla.server.services import Services


def test_handlers_see_settings_as_they_are_now() -> None:
    live_config = LiveConfig(BrokerConfig({"message.max.bytes": "1000"}))
    others: dict[str, Any] = {name: None for name in Services._fields if name != "live_config"}
    services = Services(live_config=live_config, **others)
    assert services.config.message_max_bytes == 1000
    live_config.current = BrokerConfig({"message.max.bytes": "2000"})
    assert services.config.message_max_bytes == 2000
