"""What is copied, and how a plan is shown."""

from __future__ import annotations

import pytest

from ottla.cli.log_dirs import Replica
from ottla.cli.reassign.moves import Move, moves_of, print_moves, summary


def test_only_what_changes() -> None:
    current = {("clicks", 0): (1,), ("clicks", 1): (1, 2)}
    on_disk = [Replica(1, "clicks", 1, 10), Replica(2, "clicks", 1, 30)]
    (move,) = moves_of(current, {("clicks", 0): (1,), ("clicks", 1): (3, 1)}, on_disk)
    assert (move.key, move.added, move.copied_bytes) == (("clicks", 1), (3,), 30)
    (move,) = moves_of(current, {("clicks", 1): (3, 1)}, None)
    assert move.copied_bytes is None


def test_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    print_moves([Move("clicks", 0, (1, 2), (3, 2), 5_000), Move("clicks", 1, (1, 2), (2, 1), 9)])
    assert capsys.readouterr().out == (
        "TOPIC   PARTITION  REPLICAS  NEW  COPIED\n"
        "clicks          0  1,2       3,2  5.0 kB\n"
        "clicks          1  1,2       2,1\n"
        "\n"
        "2 partitions change; 1 replica is copied, 5.0 kB\n"
    )


def test_in_words() -> None:
    swap = Move("clicks", 0, (1, 2), (2, 1), 5_000)
    assert summary([swap]) == "1 partition changes; nothing is copied"
    unknown = Move("clicks", 0, (1,), (2, 3), None)
    assert summary([swap, unknown]) == "2 partitions change; 2 replicas are copied"
