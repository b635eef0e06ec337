"""Which partitions are read: all that were asked for, or those that a group's coordinator gives.

The loop asks either kind the same: what has no end yet, and tells it what was written out.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from itertools import groupby
from typing import Protocol

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, TopicPartition

from ottla.cli.client import message_of
from ottla.cli.command_line import command_line
from ottla.cli.consume.chosen_topics import ChosenTopics
from ottla.cli.consume.positions import Start, positions
from ottla.cli.errors import Failure, warn
from ottla.cli.offsets import Partition

_LOOK_PERIOD_S = 3.0
"""How often topics and partitions that are new are looked for."""
_COMMIT_PERIOD_S = 1.0
_COMMIT_PATIENCE_S = 1.5
"""Less than the grace that a signal leaves."""

Clock = Callable[[], float]


class Assignment(Protocol):
    unfinished: set[Partition] | None
    """Those whose end has not been seen. None: what there is to read is not known yet."""

    def begin(self) -> None:
        """Before the first poll."""

    def between_polls(self) -> None: ...

    def wrote(self, offsets: Mapping[Partition, int]) -> None:
        """Everything below these offsets has left for standard output."""

    def finish(self) -> None:
        """After the last poll, also when the reading was interrupted."""


class ManualAssignment:
    """No group: the partitions asked for, each from `start` on. Where the reading goes on without
    an end, partitions and topics that are made meanwhile are read too, from their beginning."""

    def __init__(
        self,
        consumer: Consumer,
        chosen: ChosenTopics,
        start: Start,
        *,
        is_endless: bool,
        clock: Clock = time.monotonic,
    ) -> None:
        self.unfinished: set[Partition] | None = None
        self._consumer = consumer
        self._chosen = chosen
        self._start = start
        self._is_endless = is_endless
        self._clock = clock
        self._assigned: set[Partition] = set()
        self._looked_s = 0.0

    def begin(self) -> None:
        found = _found(self._consumer, self._chosen, is_endless=self._is_endless)
        self._consumer.incremental_assign(positions(self._consumer, found, self._start))
        self._assigned = set(found)
        self.unfinished = set(found)
        self._looked_s = self._clock()

    def between_polls(self) -> None:
        now_s = self._clock()
        if not self._is_endless or now_s - self._looked_s < _LOOK_PERIOD_S:
            return
        self._looked_s = now_s
        try:
            found = self._chosen.find(self._consumer)
        except (Failure, KafkaException):
            return  # a broker that is away, or a topic that was deleted: the reading tells
        new = [partition for partition in found if partition not in self._assigned]
        if new:
            at_beginning = [TopicPartition(*partition, OFFSET_BEGINNING) for partition in new]
            self._consumer.incremental_assign(at_beginning)
            self._assigned.update(new)
            warn(f"new: {partitions_text(new)}")

    def wrote(self, offsets: Mapping[Partition, int]) -> None:
        pass  # nobody is told

    def finish(self) -> None:
        pass


class GroupAssignment:
    """A member of a group. What was written out is committed: once a second, before partitions go
    to another member, and at the end. A crash in between shows records again, and loses none.

    Its callbacks come from within `poll`, so in the command's own thread."""

    def __init__(
        self,
        consumer: Consumer,
        group: str,
        chosen: ChosenTopics,
        *,
        is_endless: bool,
        clock: Clock = time.monotonic,
    ) -> None:
        self.unfinished: set[Partition] | None = None
        self._consumer = consumer
        self._group = group
        self._chosen = chosen
        self._is_endless = is_endless
        self._clock = clock
        self._assigned: set[Partition] = set()
        self._written: dict[Partition, int] = {}
        """Of the partitions that it has: where to go on."""
        self._is_commit_due = False
        self._committed_s = clock()
        self._is_over = False

    def begin(self) -> None:
        _found(self._consumer, self._chosen, is_endless=self._is_endless)
        self._consumer.subscribe(
            list(self._chosen.texts),
            on_assign=self._on_assign,
            on_revoke=self._on_revoke,
            on_lost=self._on_lost,
        )

    def between_polls(self) -> None:
        now_s = self._clock()
        if not self._is_commit_due or now_s - self._committed_s < _COMMIT_PERIOD_S:
            return
        # One that fails is made up for by the next, and the last one is waited for.
        self._consumer.commit(offsets=_positions(self._written), asynchronous=True)
        self._is_commit_due = False
        self._committed_s = now_s

    def wrote(self, offsets: Mapping[Partition, int]) -> None:
        # A partition may have gone to another member since its records were polled: that one
        # commits for it now, and maybe a higher offset.
        own = {key: offset for key, offset in offsets.items() if key in self._assigned}
        self._is_commit_due = self._is_commit_due or not own.items() <= self._written.items()
        self._written.update(own)

    def finish(self) -> None:
        self._is_over = True
        # A broker that hangs may take longer than a command that was told to stop has: it is ended
        # then, and this is the last that its user hears.
        patience = threading.Timer(_COMMIT_PATIENCE_S, self._say_that_no_answer_comes)
        patience.start()
        try:
            self._commit(self._written)
        finally:
            patience.cancel()

    def _say_that_no_answer_comes(self) -> None:
        warn(
            f"group {self._group}: no answer to the commit of {partitions_text(self._written)} "
            "yet; without one the last records will be read again"
        )

    def _commit(self, offsets: Mapping[Partition, int]) -> None:
        if not offsets:
            return
        try:
            self._consumer.commit(offsets=_positions(offsets), asynchronous=False)
        except KafkaException as error:
            raise Failure(
                f"group {self._group}: could not commit {partitions_text(offsets)}: "
                f"{message_of(error)}; the last records will be read again"
            ) from error

    def _on_assign(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        new = _keys(partitions)
        self._assigned |= new
        self.unfinished = (self.unfinished or set()) | new
        if self._assigned:
            warn(f"group {self._group}: assigned {partitions_text(new) or 'nothing new'}")
        else:
            warn(f"group {self._group}: assigned nothing; other members have all partitions")

    def _on_revoke(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        gone = _keys(partitions)
        if not self._is_over:
            warn(f"group {self._group}: revoked {partitions_text(gone)}")
            try:
                self._commit({key: at for key, at in self._written.items() if key in gone})
            except Failure as failure:
                warn(str(failure))
        self._forget(gone)

    def _on_lost(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        gone = _keys(partitions)
        warn(
            f"group {self._group}: lost {partitions_text(gone)}, whose last records other members "
            "may read again"
        )
        self._forget(gone)

    def _forget(self, gone: set[Partition]) -> None:
        self._assigned -= gone
        # Without any it is in the middle of a rebalance: eager assignors take all partitions and
        # give them back, with records that were not read.
        self.unfinished = (self.unfinished or set()) - gone if self._assigned else None
        for key in gone:
            self._written.pop(key, None)


def _found(consumer: Consumer, chosen: ChosenTopics, *, is_endless: bool) -> list[Partition]:
    found = chosen.find(consumer)
    if not found and not is_endless:
        raise Failure(f"no topic matches {chosen}; see `{command_line('topics list')}`")
    if not found:
        warn(f"no topic matches {chosen} yet; waiting for one")
    return found


def partitions_text(partitions: Iterable[Partition]) -> str:
    """In short, as options of other commands take them.

    >>> partitions_text([("clicks", 0), ("clicks", 1), ("clicks", 2), ("clicks", 5), ("views", 0)])
    'clicks:0-2,5 views:0'
    """
    return " ".join(
        f"{topic}:{_runs([number for _, number in keys])}"
        for topic, keys in groupby(sorted(partitions), key=lambda key: key[0])
    )


def _runs(numbers: list[int]) -> str:
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1][1:] = [number]
        else:
            runs.append([number])
    return ",".join("-".join(map(str, run)) for run in runs)


def _keys(partitions: Iterable[TopicPartition]) -> set[Partition]:
    return {(partition.topic, partition.partition) for partition in partitions}


def _positions(offsets: Mapping[Partition, int]) -> list[TopicPartition]:
    return [TopicPartition(*key, offset) for key, offset in offsets.items()]
