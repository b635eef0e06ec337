"""What an operator watches of a broker: who leads, how often that changed, and who is behind.

It is told as `ottla.counters`, a setting of the broker that cannot be set, with JSON for its value:
so every Kafka client can ask for it (DescribeConfigs), and there is no protocol of our own.
"""

from __future__ import annotations

from ottla.config.definition import ConfigSource, ConfigType
from ottla.config.describe import Described
from ottla.kernel.slices import Slices
from ottla.server.services import Services

NAME = "ottla.counters"


async def described_counters(services: Services, slices: Slices) -> Described:
    import json  # when somebody asks: a start does without it

    return Described(
        name=NAME,
        value=json.dumps(await _counters(services, slices)),
        read_only=True,
        source=ConfigSource.DEFAULT_CONFIG,
        is_sensitive=False,
        synonyms=[],
        type=ConfigType.STRING,
        documentation="What this broker counts, as JSON. It cannot be set.",
    )


async def _counters(services: Services, slices: Slices) -> dict[str, object]:
    changes = services.replicas.changes
    lag_max = 0
    async for leader in slices.of(services.replicas.leaders()):
        start = leader.log.log_start_offset
        for follower in leader.in_sync.followers.values():
            # One that was never heard of may have nothing.
            lag_max = max(lag_max, leader.end_offset - max(follower.log_end_offset, start))
    return {
        "active_controller": services.controller.is_active,
        "session": changes.session,
        "session_expirations": changes.session_expirations,
        "isr_shrinks": changes.isr_shrinks,
        "isr_expands": changes.isr_expands,
        "truncations": changes.truncations,
        "elections": changes.elections,
        "unclean_elections": changes.unclean_elections,
        "follower_lag_records_max": lag_max,
        "loop_lag_ms_max": round(services.loop_lag.max_s * 1000),
    }
