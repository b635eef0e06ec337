from __future__ import annotations

import asyncio
import weakref
from itertools import pairwise

from ottla.kernel.slices import let_others_run
from ottla.server.leftovers import Leftovers
from ottla.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from ottla.wire.messages.metadata import MetadataResponse, MetadataResponseTopic


class Key(str):
    """One that can be seen to go."""


def test_a_large_message_is_freed_a_little_at_a_time() -> None:
    async def main() -> None:
        keys: list[str] = [Key(number) for number in range(3000)]
        alive = [weakref.ref(key) for key in keys]
        resources = [DescribeConfigsResource(resource_name="t", configuration_keys=keys)]
        message = DescribeConfigsRequest(resources=resources)
        leftovers = Leftovers()
        await leftovers.take(message, let_others_run)
        del message, resources, keys
        counts = []
        while count := sum(reference() is not None for reference in alive):
            counts.append(count)
            await asyncio.sleep(0)
        assert counts[0] == 3000
        freed = [before - after for before, after in pairwise([*counts, 0])]
        assert max(freed) <= 1024

    asyncio.run(main())


def test_what_is_kept_elsewhere_stays() -> None:
    async def main() -> None:
        topics = [MetadataResponseTopic(name=str(number)) for number in range(2000)]
        kept = MetadataResponse(topics=topics)
        leftovers = Leftovers()
        await leftovers.take(kept, let_others_run)
        for _ in range(10):
            await asyncio.sleep(0)
        assert [topic.name for topic in kept.topics] == [str(number) for number in range(2000)]

    asyncio.run(main())
