from __future__ import annotations

import select
from pathlib import Path

from ottla.coordination.wakeup import Wakeup, remove_leftover


def test_a_peer_is_woken_and_then_quiet_again(tmp_path: Path) -> None:
    one, other = Wakeup(f"{tmp_path}/", 1), Wakeup(f"{tmp_path}/", 2)
    one.wake([2])
    assert select.select([other], [], [], 5)[0] == [other]
    other.drain()
    assert select.select([other], [], [], 0)[0] == []
    one.close()
    other.close()


def test_a_peer_that_is_gone_or_full_does_not_hinder(tmp_path: Path) -> None:
    one, other = Wakeup(f"{tmp_path}/", 1), Wakeup(f"{tmp_path}/", 2)
    for _ in range(5_000):
        one.wake([2, 3])
    other.drain()
    one.close()
    other.close()
    assert list(tmp_path.iterdir()) == []


def test_a_path_too_long_for_a_socket_leaves_it_unbound(tmp_path: Path) -> None:
    folder = tmp_path / ("x" * 120)
    folder.mkdir()
    one, other = Wakeup(f"{folder}/", 1), Wakeup(f"{tmp_path}/", 2)
    assert not one.is_bound
    other.wake([1])
    one.wake([2])
    one.close()
    other.close()


def test_what_a_crash_left_is_taken_over_or_removed(tmp_path: Path) -> None:
    crashed = Wakeup(f"{tmp_path}/", 1)
    crashed._socket.close()
    again = Wakeup(f"{tmp_path}/", 1)
    assert again.is_bound
    again._socket.close()
    remove_leftover(f"{tmp_path}/", 1)
    assert list(tmp_path.iterdir()) == []
