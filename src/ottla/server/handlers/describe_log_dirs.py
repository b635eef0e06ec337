"""DescribeLogDirs: how much lies where. v3 brought an error for the whole, v4 the space of the
file system (KIP-827), v5 whether a folder takes new partitions (it always does here)."""

from __future__ import annotations

from ottla.kernel.errors import ErrorCode
from ottla.kernel.slices import Slices
from ottla.server.context import RequestContext
from ottla.server.services import Services
from ottla.storage.errors import StorageFailure
from ottla.storage.log import Log
from ottla.wire.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)


async def handle(
    services: Services, request: DescribeLogDirsRequest, context: RequestContext
) -> DescribeLogDirsResponse:
    slices = Slices(services.clock)
    wanted: set[tuple[str, int]] | None = None
    if request.topics is not None:
        wanted = {
            (topic.topic, index)
            async for topic in slices.of(request.topics)
            async for index in slices.of(topic.partitions)
        }
    results: list[DescribeLogDirsResult] = []
    for folder in services.logs.folders:
        try:
            folder.check_online()
            total_bytes, usable_bytes = folder.disk.total_and_free_bytes(folder.path)
        except (StorageFailure, OSError):
            results.append(
                DescribeLogDirsResult(error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=folder.path)
            )
            continue
        logs = [
            log
            async for log in slices.of(list(services.logs.logs.values()))
            if log.folder is folder and (wanted is None or log.topic_partition in wanted)
        ]
        results.append(
            DescribeLogDirsResult(
                log_dir=folder.path,
                topics=await _by_topic(logs, slices),
                total_bytes=total_bytes,
                usable_bytes=usable_bytes,
            )
        )
    return DescribeLogDirsResponse(results=results)


async def _by_topic(logs: list[Log], slices: Slices) -> list[DescribeLogDirsTopic]:
    topics: dict[str, DescribeLogDirsTopic] = {}
    async for log in slices.of(logs):
        name, index = log.topic_partition
        topic = topics.setdefault(name, DescribeLogDirsTopic(name=name))
        topic.partitions.append(
            DescribeLogDirsPartition(partition_index=index, partition_size=log.size_bytes)
        )
    return list(topics.values())
