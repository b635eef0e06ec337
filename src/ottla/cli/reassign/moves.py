"""Partitions that change their replicas: what is copied, and how a plan is shown."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from ottla.cli.log_dirs import Replica
from ottla.cli.offsets import Partition
from ottla.cli.reassign.balanced_assignment import Replicas
from ottla.cli.tables import Column, print_table, size_text

_COLUMNS = [
    Column("TOPIC"),
    Column("PARTITION", is_number=True),
    Column("REPLICAS", rank=1),
    Column("NEW"),
    Column("COPIED", is_number=True, rank=2),
]


class Move(NamedTuple):
    """One partition's part of a plan."""

    topic: str
    partition: int
    replicas: Replicas
    target: Replicas
    size_bytes: int | None
    """Of one replica; None where nobody could be asked."""

    @property
    def key(self) -> Partition:
        return self.topic, self.partition

    @property
    def added(self) -> Replicas:
        return tuple(each for each in self.target if each not in self.replicas)

    @property
    def copied_bytes(self) -> int | None:
        return None if self.size_bytes is None else self.size_bytes * len(self.added)


def moves_of(
    current: Mapping[Partition, Replicas],
    wanted: Mapping[Partition, Replicas],
    on_disk: Collection[Replica] | None,
) -> list[Move]:
    """Those that change. A partition is as large as the largest of its replicas."""
    sizes: dict[Partition, int] = {}
    for replica in on_disk or ():
        key = (replica.topic, replica.partition)
        sizes[key] = max(replica.size_bytes, sizes.get(key, 0))
    return [
        Move(*key, current[key], target, None if on_disk is None else sizes.get(key, 0))
        for key, target in sorted(wanted.items())
        if current[key] != target
    ]


def print_moves(moves: Sequence[Move]) -> None:
    print_table(
        _COLUMNS,
        [
            [
                move.topic,
                str(move.partition),
                ids_text(move.replicas),
                ids_text(move.target),
                _copied_text(move.copied_bytes) if move.added else "",
            ]
            for move in moves
        ],
    )
    print(f"\n{summary(moves)}")


def summary(moves: Sequence[Move]) -> str:
    """
    >>> summary([Move("clicks", 0, (1, 2), (3, 2), 5_000)])
    '1 partition changes; 1 replica is copied, 5.0 kB'
    """
    copied = sum(len(move.added) for move in moves)
    sizes = [move.copied_bytes for move in moves]
    changes = f"{counted(len(moves), 'partition')} {'changes' if len(moves) == 1 else 'change'}"
    if not copied:
        return f"{changes}; nothing is copied"
    known = [size for size in sizes if size is not None]
    size = f", {size_text(sum(known))}" if len(known) == len(sizes) else ""
    verb = "is" if copied == 1 else "are"
    return f"{changes}; {counted(copied, 'replica')} {verb} copied{size}"


def counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def ids_text(replicas: Sequence[int]) -> str:
    return ",".join(map(str, replicas))


def _copied_text(size_bytes: int | None) -> str:
    return "-" if size_bytes is None else size_text(size_bytes)
