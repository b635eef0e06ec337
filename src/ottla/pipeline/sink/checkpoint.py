"""What Spark remembers of a streaming query: which it is, and how far its input was read.

Spark writes the file of a batch in `offsets` before it runs the batch, and the one in `commits`
when it has run. A file appears under its number when it is whole: one that is being written has
another name, with a dot before it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pyarrow import fs

from ottla.kernel.ids import TopicId, TopicPartition
from ottla.pipeline.source.offsets import Position

_NO_OFFSET = "-"


class CheckpointError(Exception):
    """What is in the folder is not what Spark writes there."""


class Checkpoint:
    """Of one query, in a folder of this machine or at a URI that Arrow can open. Only read: it is
    Spark's, which writes it while the query runs."""

    def __init__(self, location: str) -> None:
        if "://" in location or location.startswith("file:"):
            self._files, self._folder = fs.FileSystem.from_uri(location)
        else:
            self._files, self._folder = fs.LocalFileSystem(), location

    def query_id(self) -> str:
        """Of the query as long as its checkpoint lives: a restart keeps it, a new folder does
        not."""
        found = json.loads(self._text("metadata"))
        return str(found["id"])

    def offsets(self, batch_id: int) -> Position:
        """Where the batch ends, in all its inputs that are topics. Where two inputs are the same
        partition it is as far as both have read."""
        offsets: dict[TopicPartition, int] = {}
        topic_ids: dict[str, TopicId] = {}
        for position in self._positions(batch_id):
            topic_ids |= position.topic_ids
            for where, offset in position.offsets.items():
                offsets[where] = min(offset, offsets.get(where, offset))
        return Position(offsets, topic_ids)

    def starts(self, batch_id: int) -> Position:
        """Where the batch begins. Of the first one only our own source writes that down."""
        if batch_id:
            return self.offsets(batch_id - 1)
        offsets: dict[TopicPartition, int] = {}
        topic_ids: dict[str, TopicId] = {}
        for position in self._positions(batch_id):
            offsets |= position.begun or {}
            topic_ids |= position.topic_ids
        return Position(offsets, topic_ids if offsets else {})

    def last_planned(self) -> int | None:
        """The batch that runs, or ran last. None where there was none yet."""
        return max(self._numbers("offsets"), default=None)

    def last_committed(self) -> int | None:
        return max(self._numbers("commits"), default=None)

    def _positions(self, batch_id: int) -> list[Position]:
        version, _, *lines = self._text(f"offsets/{batch_id}").splitlines()
        if version not in ("v1", "v2"):
            raise CheckpointError(f"{self._folder}/offsets/{batch_id} is of version {version}")
        if version == "v2":
            # Each source stands behind its name.
            lines = [line.partition(":")[2] for line in lines]
        found = [_parsed(line) for line in lines]
        return [Position.from_json(one) for one in found if one is not None]

    def _numbers(self, name: str) -> list[int]:
        wanted = fs.FileSelector(f"{self._folder}/{name}", allow_not_found=True)
        names = [info.base_name for info in self._files.get_file_info(wanted)]
        return [int(name) for name in names if name.isdecimal()]

    def _text(self, name: str) -> str:
        path = f"{self._folder}/{name}"
        try:
            with self._files.open_input_stream(path) as stream:
                content: bytes = stream.read()
        except FileNotFoundError:
            raise CheckpointError(f"there is no {path}: is it the checkpoint of a query?") from None
        return content.decode()


def _parsed(line: str) -> Mapping[str, Mapping[str, int | str]] | None:
    """The offsets of a source that reads topics, ours or Spark's own. None for other sources, and
    for one that has read nothing yet."""
    if line == _NO_OFFSET:
        return None
    try:
        found: Any = json.loads(line)
    except ValueError:
        return None
    if not isinstance(found, dict):
        return None
    is_topics = all(isinstance(one, dict) for one in found.values())
    return found if is_topics else None
