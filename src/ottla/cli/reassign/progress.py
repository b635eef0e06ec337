"""How far partitions are that move: how many are done, and how much of the others is copied."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

from ottla.cli.log_dirs import Replica
from ottla.cli.offsets import Partition
from ottla.cli.progress_lines import progress_lines
from ottla.cli.tables import size_text
from ottla.client.blocking_reassignments import Reassignment


class Copied(NamedTuple):
    """Of the replicas that are added to one partition."""

    copied_bytes: int
    size_bytes: int


class Progress(NamedTuple):
    done: int
    total: int
    left_bytes: int | None
    """None where the brokers could not be asked."""

    def __str__(self) -> str:
        left = ""
        if self.left_bytes is not None and self.done < self.total:
            left = f", {size_text(self.left_bytes)} left"
        return f"{self.done:,} of {self.total:,} partitions moved{left}"


def copied_of(
    moving: Mapping[Partition, Reassignment], on_disk: Collection[Replica] | None
) -> dict[Partition, Copied] | None:
    """What a new replica has is compared with the largest of the old ones."""
    if on_disk is None:
        return None
    sizes: dict[Partition, dict[int, int]] = {}
    for replica in on_disk:
        of_one = sizes.setdefault((replica.topic, replica.partition), {})
        of_one[replica.broker_id] = replica.size_bytes
    found = {}
    for key, one in moving.items():
        of_one = sizes.get(key, {})
        size_bytes = max((of_one.get(broker, 0) for broker in one.origin), default=0)
        copied = sum(min(of_one.get(broker, 0), size_bytes) for broker in one.adding_replicas)
        found[key] = Copied(copied, size_bytes * len(one.adding_replicas))
    return found


def progress_of(total: int, left: int, copied: Mapping[Partition, Copied] | None) -> Progress:
    left_bytes = None
    if copied is not None:
        left_bytes = sum(one.size_bytes - one.copied_bytes for one in copied.values())
    return Progress(total - left, total, left_bytes)


@contextmanager
def shown(clock: Callable[[], float] = time.monotonic) -> Iterator[Callable[[Progress], None]]:
    """A bar on a terminal; else a line on standard error every few seconds."""
    if sys.stderr.isatty():
        with _bar() as update:
            yield update
    else:
        yield progress_lines(clock)


@contextmanager
def _bar() -> Iterator[Callable[[Progress], None]]:
    """It grows with what is copied, since that is what takes the time."""
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn
    from rich.progress import Progress as Bar

    with Bar(
        BarColumn(20),
        TextColumn("{task.description}"),
        console=Console(stderr=True),
        transient=True,
    ) as bar:
        task = bar.add_task("", total=1.0)
        largest = 0

        def update(progress: Progress) -> None:
            nonlocal largest
            largest = max(largest, progress.left_bytes or 0)
            share = progress.done / progress.total
            if largest and progress.left_bytes is not None and progress.done < progress.total:
                share = max(share, 1 - progress.left_bytes / largest)
            bar.update(task, completed=share, description=str(progress))

        yield update
