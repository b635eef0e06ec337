from __future__ import annotations

from ottla.config.broker import BROKER_SETTINGS
from ottla.config.broker_settings.unused import unused_settings


def test_a_setting_is_used_or_not_but_never_both() -> None:
    assert not unused_settings().keys() & BROKER_SETTINGS.keys()


def test_settings_of_zookeepers_time_are_known() -> None:
    for name in ("zookeeper.clientCnxnSocket", "inter.broker.protocol.version"):
        assert unused_settings()[name].change == "read-only"


def test_how_kafka_lets_them_change_is_kept() -> None:
    assert unused_settings()["num.io.threads"].change == "cluster-wide"
    assert unused_settings()["ssl.keystore.location"].change == "per-broker"


def test_passwords_stay_secret() -> None:
    assert unused_settings()["ssl.key.password"].is_sensitive
