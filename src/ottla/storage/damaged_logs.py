"""Logs that could not be loaded, for what one of their files has in it.

One file that nobody can read costs one log: that is offline, and all else of its log dir is served.
Other brokers may have replicas of it. It is left as it is, for it may be mended.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import NamedTuple

from ottla.kernel.ids import TopicPartition
from ottla.storage.checkpoint import format_offset
from ottla.storage.errors import CorruptFile
from ottla.storage.folder import LogFolder

logger = logging.getLogger(__name__)


class DamagedLog(NamedTuple):
    folder: LogFolder
    path: str
    checkpoints: Mapping[str, int]
    """What each checkpoint says of it, by the checkpoint's name."""


class DamagedLogs(dict[TopicPartition, DamagedLog]):
    """Owned by the log manager, from its start to its stop. The next start looks at them again."""

    def note(self, topic_partition: TopicPartition, log: DamagedLog, error: CorruptFile) -> None:
        logger.error(
            "%s is offline, and all else is served: %s. Or move the folder away. Then start the"
            " broker again",
            log.path,
            error,
        )
        self[topic_partition] = log

    def checkpoint_lines(self, name: str) -> list[tuple[LogFolder, str]]:
        """What this checkpoint goes on to say of them: once mended, they are as they were."""
        return [
            (log.folder, format_offset(topic_partition, log.checkpoints[name]))
            for topic_partition, log in self.items()
            if name in log.checkpoints
        ]
